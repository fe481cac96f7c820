//! Moving the tables of a plan to a snapshot: to the one a statement is pinned to, or to the newest one for a plan that
//! was made earlier.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, SqlState};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Extension, LogicalPlan, TableScan};
use url::Url;

use crate::compare::CompareNode;
use crate::provider::DeltaTable;
use crate::scan::TargetScan;
use crate::table::{TableHandle, TableSnapshot};
use crate::write::LoadNode;

/// Reads of the table of `snapshot` in `plan` happen at `snapshot`.
pub fn pin(plan: LogicalPlan, snapshot: &Arc<TableSnapshot>) -> Result<LogicalPlan> {
    let only = HashMap::from([(snapshot.location().clone(), Arc::clone(snapshot))]);
    replace(plan, &only)
}

/// Every table that `plan` reads or writes moves to its newest snapshot, each table to one.
///
/// # Errors
///
/// 42P01 when a table was dropped, 0A000 when its columns are no longer those the plan was made for: the plan will never
/// run again, so neither is a conflict that a second try could win.
pub async fn repin(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut newest = HashMap::new();
    for (handle, planned) in tables(&plan)? {
        let snapshot = handle
            .snapshot()
            .await?
            .ok_or_else(|| changed(SqlState::UndefinedTable, &planned, "it no longer exists"))?;
        if snapshot.schema() != planned.schema() || snapshot.partition_columns() != planned.partition_columns() {
            return Err(changed(SqlState::FeatureNotSupported, &planned, "its columns have changed").into());
        }
        newest.insert(snapshot.location().clone(), snapshot);
    }
    replace(plan, &newest)
}

fn changed(state: SqlState, planned: &TableSnapshot, how: &str) -> LoadError {
    LoadError::new(
        state,
        format!(
            "table \"{}\" is not what the statement was prepared for: {how}",
            planned.name()
        ),
    )
    .hint("PREPARE the statement again.")
}

/// The tables of `plan` with the snapshots they are pinned to.
fn tables(plan: &LogicalPlan) -> Result<Vec<(Arc<TableHandle>, Arc<TableSnapshot>)>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => found.extend(table_of(scan)),
            LogicalPlan::Extension(extension) => {
                let load = extension.node.as_any().downcast_ref::<LoadNode>();
                let target = load.map(|load| &load.spec().target);
                found.extend(target.and_then(|t| Some((Arc::clone(&t.handle), Arc::clone(t.base.as_ref()?)))));
            }
            _ => (),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn table_of(scan: &TableScan) -> Option<(Arc<TableHandle>, Arc<TableSnapshot>)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<DeltaTable>()?;
    Some((Arc::clone(table.handle()), Arc::clone(table.snapshot())))
}

fn replace(plan: LogicalPlan, snapshots: &HashMap<Url, Arc<TableSnapshot>>) -> Result<LogicalPlan> {
    let replaced = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) => Ok(replace_scan(scan, snapshots)),
        LogicalPlan::Extension(extension) => replace_load(extension, snapshots),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(replaced.data)
}

fn replace_scan(mut scan: TableScan, snapshots: &HashMap<Url, Arc<TableSnapshot>>) -> Transformed<LogicalPlan> {
    match source_as_provider(&scan.source)
        .ok()
        .and_then(|p| moved(p.as_ref(), snapshots))
    {
        Some(provider) => {
            scan.source = provider_as_source(provider);
            Transformed::yes(LogicalPlan::TableScan(scan))
        }
        None => Transformed::no(LogicalPlan::TableScan(scan)),
    }
}

fn moved(provider: &dyn TableProvider, snapshots: &HashMap<Url, Arc<TableSnapshot>>) -> Option<Arc<dyn TableProvider>> {
    if let Some(table) = provider.downcast_ref::<DeltaTable>() {
        let snapshot = snapshots.get(table.snapshot().location())?;
        return Some(Arc::new(table.repinned(Arc::clone(snapshot))));
    }
    let target = provider.downcast_ref::<TargetScan>()?;
    let snapshot = snapshots.get(target.snapshot().location())?;
    Some(Arc::new(target.repinned(Arc::clone(snapshot))))
}

fn replace_load(
    extension: Extension,
    snapshots: &HashMap<Url, Arc<TableSnapshot>>,
) -> Result<Transformed<LogicalPlan>> {
    if let Some(compare) = extension.node.as_any().downcast_ref::<CompareNode>() {
        let spec = compare.spec();
        let Some(snapshot) = snapshots.get(spec.snapshot().location()) else {
            return Ok(Transformed::no(LogicalPlan::Extension(extension)));
        };
        let node = CompareNode::try_new(compare.input().clone(), spec.repinned(Arc::clone(snapshot)))?;
        return Ok(Transformed::yes(node.into_plan()));
    }
    let load = extension.node.as_any().downcast_ref::<LoadNode>();
    let base = load.and_then(|load| load.spec().target.base.as_ref());
    let (Some(load), Some(snapshot)) = (load, base.and_then(|base| snapshots.get(base.location()))) else {
        return Ok(Transformed::no(LogicalPlan::Extension(extension)));
    };
    let mut spec = load.spec().as_ref().clone();
    spec.target.base = Some(Arc::clone(snapshot));
    let node = LoadNode::try_new(Arc::new(spec), load.input().clone())?;
    Ok(Transformed::yes(LogicalPlan::Extension(Extension {
        node: Arc::new(node),
    })))
}
