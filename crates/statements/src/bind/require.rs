//! Conditions that rows have to meet after the join with the stored ones, before anything is written.

use alluvium_core::{Result, SqlState};
use alluvium_exec::source_gate::{GateSpec, RowCheck, SourceGateNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::control::extension;
use super::expr::bare;
use super::keys::KeySet;
use super::target::TargetTable;

/// TRUE in rows that meet the condition.
const MET: &str = "__load_met";

/// The error of a row that does not meet a condition.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// The code of the error.
    pub state: SqlState,
    /// Its primary line.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Fails the statement at a row for which `condition` is not TRUE; the message shows its key and other columns of the
/// source. The rows come out as they were.
pub fn require(
    joined: LogicalPlan,
    table: &TargetTable,
    keys: &KeySet,
    condition: Expr,
    requirement: Requirement,
) -> Result<LogicalPlan> {
    let kept: Vec<Expr> = joined.schema().columns().into_iter().map(Expr::Column).collect();
    require_keeping(&kept, joined, table, keys, condition, requirement)
}

/// The same, with only the columns `kept` coming out.
pub(crate) fn require_keeping(
    kept: &[Expr],
    joined: LogicalPlan,
    table: &TargetTable,
    keys: &KeySet,
    condition: Expr,
    requirement: Requirement,
) -> Result<LogicalPlan> {
    let flagged = LogicalPlanBuilder::from(joined)
        .project(gate_columns(kept, table).into_iter().chain([condition.alias(MET)]))?
        .build()?;
    let Requirement { state, message, hint } = requirement;
    let spec = GateSpec {
        table: table.name.clone(),
        key_columns: keys.columns.clone(),
        checks: vec![RowCheck::is_true(MET, state, message, hint)],
        ordinal: false,
        checks_only: true,
    };
    let gate = extension(SourceGateNode::try_new(flagged, spec)?);
    Ok(LogicalPlanBuilder::from(gate)
        .project(original_columns(kept, table))?
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
