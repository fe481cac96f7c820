//! `WHEN NOT MATCHED BY SOURCE WITHIN (cols)`: only groups that occur in the whole source are looked at.

use alluvium_core::Result;
use alluvium_exec::spool::Spool;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::Ident;

use super::columns::find;
use super::expr::col;
use super::keys::source_columns;
use super::source::SourceRows;
use super::target::TargetTable;

/// TRUE in target rows whose group occurs in the source.
pub(crate) const IN_GROUP: &str = "__load_in_group";

/// The relation of the source's groups.
const GROUPS: &str = "__load_groups";

/// Spools the source, so that its groups can be looked up before its rows are reduced to one per key. Returns the
/// source to go on with, and the target with [`IN_GROUP`].
pub(crate) fn with_present_groups(
    state: &SessionState,
    group: &[Ident],
    source: LogicalPlan,
    target: LogicalPlan,
    rows: &SourceRows,
    table: &TargetTable,
) -> Result<(LogicalPlan, LogicalPlan)> {
    let names = source_columns(state, group, rows)?;
    let stored: Vec<String> = table
        .stored_schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    if table.base.is_some() {
        for ident in group {
            find(state, ident, &stored, &format!("table \"{}\"", table.name))?;
        }
    }
    let spool = Spool::new(2);
    let groups = LogicalPlanBuilder::from(spool.reader(source.clone(), 1)?)
        .project(names.iter().map(|name| col(&rows.alias, name).alias(name)))?
        .distinct()?
        .alias(GROUPS)?
        .project(
            names
                .iter()
                .map(|name| Expr::Column(Column::new(Some(GROUPS), name)))
                .chain([lit(true).alias(IN_GROUP)]),
        )?
        .build()?;
    let keys = (
        names
            .iter()
            .map(|name| Column::new(Some(GROUPS), name))
            .collect::<Vec<_>>(),
        names
            .iter()
            .map(|name| Column::new(Some(table.alias.clone()), name))
            .collect::<Vec<_>>(),
    );
    let columns: Vec<Expr> = target.schema().columns().into_iter().map(Expr::Column).collect();
    // A group whose value is NULL is a group as well.
    let joined = LogicalPlanBuilder::from(groups)
        .join_detailed(target, JoinType::Right, keys, None, NullEquality::NullEqualsNull)?
        .project(
            columns
                .into_iter()
                .chain([Expr::Column(Column::new_unqualified(IN_GROUP))]),
        )?
        .build()?;
    Ok((spool.reader(source, 0)?, joined))
}
