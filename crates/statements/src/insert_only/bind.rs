//! From `INSERT ONLY`'s clauses to a plan.
//!
//! ```text
//! InsertOnly
//!   Projection: the source's columns, __action
//!     Match on the key: does the target hold it?      LeftMark Join without the memory for it
//!       <source: cast, control columns, gate, winner or key check>
//!       TargetScan: key columns only
//! ```

use alluvium_core::syntax::Load;
use alluvium_core::{LoadError, Result};
use alluvium_delta::write::OperationKind;
use alluvium_exec::action;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::syntax::InsertClauses;
use crate::bind::columns::{Columns, ColumnsRequest};
use crate::bind::control::{ControlRequest, controlled, guard_columns, marked, one_per_key, source_column};
use crate::bind::expr::{bare, case, null_of};
use crate::bind::finish::{Changes, Finish};
use crate::bind::keys::{KeyJoin, KeySet, plain_column};
use crate::bind::outside::refuse_outside_matches;
use crate::bind::source::SourceRows;
use crate::bind::target::TargetTable;

/// TRUE in source rows whose key is stored.
const KNOWN: &str = "__load_known";

/// Binds `INSERT ONLY`.
pub(super) async fn plan(state: &SessionState, load: &Load<InsertClauses>) -> Result<LogicalPlan> {
    let table = TargetTable::resolve(state, &load.target, load.common.create.as_ref()).await?;
    let source = SourceRows::resolve(state, &load.source, &load.target, &table).await?;
    let ignore = load.clauses.ignore_deletes.as_ref();
    let marker = ignore.and_then(|d| plain_column(state, &d.expr));
    let request = ColumnsRequest {
        set: load.common.columns.as_ref(),
        evolve: load.common.evolve,
        marker: marker.as_deref(),
        own: Vec::new(),
    };
    let columns = Columns::resolve(state, &table, &source, &request)?;
    let keys = load.common.keys.as_ref();
    let keys = keys.ok_or_else(|| LoadError::internal("INSERT ONLY without KEYS passed the parser"))?;
    let keys = KeySet::resolve(state, keys, &source, &table, &columns)?;

    let request = ControlRequest {
        common: &load.common,
        delete_when: ignore,
        keys: std::slice::from_ref(&keys),
        extra: Vec::new(),
    };
    let rows = controlled(state, &source, &table, &columns, request)?;
    let has_marker = rows.marked;
    let unique = one_per_key(state, rows, &load.common, &source, &table, &keys, &columns)?;
    let joined = looked_up(state, unique, &table, &source, &columns, &keys)?;
    let changes = changes(&source, &columns, has_marker)?;
    let notice = guard_columns(state, &load.common, &table, &columns).err().flatten();
    let finish = Finish {
        statement: "InsertOnly",
        kind: OperationKind::Merge,
        common: &load.common,
        dry_run: load.dry_run,
        returning: &load.returning,
        source: &source,
        table: &table,
        columns: &columns,
        read_predicate: keys.read_predicate(),
        parameters: ignore
            .map(|d| ("ignoreDeletesWhen", d.expr.to_string()))
            .into_iter()
            .collect(),
        notice,
        changes_rows: false,
        keys: keys.columns.clone(),
        removed_files: Vec::new(),
    };
    finish.build(state, joined, changes)
}

/// Marks the source rows whose key the target holds. Each source row comes out once, however often its key is stored.
fn looked_up(
    state: &SessionState,
    unique: LogicalPlan,
    table: &TargetTable,
    source: &SourceRows,
    columns: &Columns,
    keys: &KeySet,
) -> Result<LogicalPlan> {
    let mut target = table.scan(&columns.schema)?;
    if let Some(within) = &keys.within {
        target = target.filter(within.of_target.clone())?;
    }
    let kept: Vec<Expr> = unique.schema().columns().into_iter().map(Expr::Column).collect();
    let join = KeyJoin {
        keys,
        columns,
        source: &source.alias,
        target: &table.alias,
        join_type: JoinType::LeftMark,
        filter: None,
    };
    let joined = join.matched(state, unique, target.build()?)?;
    // The mark is the last column; its name and qualifier are DataFusion's choice.
    let mark = joined
        .schema()
        .columns()
        .pop()
        .ok_or_else(|| LoadError::internal("a mark join without a mark"))?;
    let joined = LogicalPlanBuilder::from(joined)
        .project(kept.into_iter().chain([Expr::Column(mark).alias(KNOWN)]))?
        .build()?;
    refuse_outside_matches(joined, keys, source, table, columns, bare(KNOWN).eq(lit(false)))
}

fn changes(source: &SourceRows, columns: &Columns, has_marker: bool) -> Result<Changes> {
    let mut values = Vec::new();
    for field in columns.schema.fields() {
        values.push(match columns.lands(field.name()) {
            true => source_column(source, field.name()),
            false => null_of(field.data_type())?,
        });
    }
    let skipped = marked(has_marker).or(bare(KNOWN));
    let action = case(vec![(skipped, lit(action::SKIPPED))], lit(action::INSERT))?;
    let position = (null_of(&DataType::UInt32)?, null_of(&DataType::Int64)?);
    Ok(Changes {
        values,
        shown: None,
        action,
        position,
        old: Vec::new(),
    })
}
