//! `KEYS .. WITHIN (predicate)` over columns that are not keys: a stored row outside may have the key of a source row.
//! Inserting beside it would double the key, so such a row is an error.

use alluvium_core::{Result, SqlState};
use alluvium_exec::columns as internal;
use datafusion::common::{JoinType, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::columns::Columns;
use super::control::PRESENT;
use super::expr::{bare, col};
use super::keys::{KeyJoin, KeySet, requalified};
use super::require::{Requirement, require_keeping};
use super::source::SourceRows;
use super::target::TargetTable;

/// The relation of the stored rows outside `WITHIN`.
const OUTSIDE: &str = "__load_outside";

/// Looks up the keys that found no match inside (`unmatched`) among the stored rows outside; a hit is an error.
pub fn refuse_outside_matches(
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
    let looked_up = join.build(joined, outside)?.build()?;
    let requirement = Requirement {
        state: SqlState::OutsideWindow,
        message: format!("a source row's key is stored outside WITHIN ({})", within.text),
        hint: "Widen WITHIN so that it covers every row of the keys you load.".to_owned(),
    };
    let inside = col(&relation, internal::ROW).is_null();
    require_keeping(&kept, looked_up, table, keys, inside, requirement)
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
