//! `KEYS .. WITHIN (predicate)` over columns that are not keys: a stored row outside may have the key of a source row.
//! Inserting beside it would double the key, so such a row is an error.

use alluvium_core::{Result, SqlState};
use alluvium_exec::columns as internal;
use alluvium_exec::source_gate::{GateSpec, RowCheck, SourceGateNode};
use datafusion::common::{JoinType, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::columns::Columns;
use super::control::{PRESENT, extension};
use super::expr::{bare, col};
use super::keys::{KeyJoin, KeySet, requalified};
use super::source::SourceRows;
use super::target::TargetTable;

/// The relation of the stored rows outside `WITHIN`.
const OUTSIDE: &str = "__load_outside";
/// FALSE in rows whose key is stored outside `WITHIN`.
const NOT_OUTSIDE: &str = "__load_not_outside";

/// Looks up the keys that found no match inside (`unmatched`) among the stored rows outside; a hit is an error.
pub(crate) fn refuse_outside_matches(
    joined: LogicalPlan,
    keys: &KeySet,
    source: &SourceRows,
    table: &TargetTable,
    columns: &Columns,
    unmatched: Expr,
) -> Result<LogicalPlan> {
    let Some(within) = keys
        .within
        .as_ref()
        .filter(|within| !within.keys_only && table.base.is_some())
    else {
        return Ok(joined);
    };
    let kept: Vec<Expr> = joined.schema().columns().into_iter().map(Expr::Column).collect();
    let outside = outside_keys(keys, table, columns, &within.of_target)?;
    let relation = TableReference::bare(OUTSIDE);
    let join = KeyJoin {
        keys,
        columns,
        source: &source.alias,
        target: &relation,
        join_type: JoinType::Left,
        filter: Some(unmatched.and(bare(PRESENT).is_not_null())),
    };
    let looked_up = join.build(joined, outside)?;
    let flag = col(&relation, internal::ROW).is_null().alias(NOT_OUTSIDE);
    let flagged = looked_up
        .project(gate_columns(&kept, table).into_iter().chain([flag]))?
        .build()?;
    let spec = GateSpec {
        table: table.name.clone(),
        key_columns: Vec::new(),
        checks: vec![RowCheck::is_true(
            NOT_OUTSIDE,
            SqlState::OutsideWindow,
            format!("a source row's key is stored outside WITHIN ({})", within.text),
            "Widen WITHIN so that it covers every row of the keys you load.",
        )],
        ordinal: false,
        checks_only: true,
    };
    let gate = extension(SourceGateNode::try_new(flagged, spec)?);
    Ok(LogicalPlanBuilder::from(gate)
        .project(original_columns(&kept, table))?
        .build()?)
}

/// The columns under names that are unique without their relation, as the gate wants them: the target's get helper
/// names, so that a sample row in a message shows the source's.
fn gate_columns(columns: &[Expr], table: &TargetTable) -> Vec<Expr> {
    let renamed = |(i, column): (usize, &Expr)| match column {
        Expr::Column(c) if c.relation.as_ref() == Some(&table.alias) => column.clone().alias(helper(i)),
        _ => column.clone(),
    };
    columns.iter().enumerate().map(renamed).collect()
}

/// The same columns back under their relations.
fn original_columns(columns: &[Expr], table: &TargetTable) -> Vec<Expr> {
    let restored = |(i, column): (usize, &Expr)| match column {
        Expr::Column(c) if c.relation.as_ref() == Some(&table.alias) => {
            bare(&helper(i)).alias_qualified(Some(table.alias.clone()), &c.name)
        }
        _ => column.clone(),
    };
    columns.iter().enumerate().map(restored).collect()
}

fn helper(i: usize) -> String {
    format!("__load_o_{i}")
}

/// Key columns and position of the stored rows for which the predicate is not TRUE.
fn outside_keys(keys: &KeySet, table: &TargetTable, columns: &Columns, inside: &Expr) -> Result<LogicalPlan> {
    let scan = table
        .scan(&columns.schema)?
        .filter(inside.clone().eq(datafusion::logical_expr::lit(false)))?;
    let relation = TableReference::bare(OUTSIDE);
    let mut exprs = Vec::new();
    for name in keys.columns.iter().map(String::as_str).chain([internal::ROW]) {
        exprs.push(requalified(col(&table.alias, name), &table.alias)?.alias_qualified(Some(relation.clone()), name));
    }
    Ok(scan.project(exprs)?.build()?)
}
