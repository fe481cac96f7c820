//! `WHEN NOT MATCHED BY SOURCE WITHIN (cols)`: only groups that occur in the whole source are looked at.

use alluvium_core::Result;
use alluvium_exec::spool::Spool;
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::Ident;

use super::columns::find;
use super::expr::col;
use super::keys::{in_key_order, matched_as, source_columns};
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
    let sorted = in_key_order(state);
    let value = |relation: &TableReference, name: &String, schema: &DFSchema| -> Result<Expr> {
        let value = col(relation, name);
        let data_type = value.get_type(schema)?;
        Ok(matched_as(&value, &data_type, sorted).unwrap_or(value))
    };
    let reader = spool.reader(source.clone(), 1)?;
    let ours = names.iter().enumerate();
    let ours = ours.map(|(i, name)| Ok(value(&rows.alias, name, reader.schema())?.alias(group_helper(i))));
    let ours = ours.collect::<Result<Vec<_>>>()?;
    let group_columns = |relation: TableReference| {
        let column = move |i| Column::new(Some(relation.clone()), group_helper(i));
        (0..names.len()).map(column).collect::<Vec<_>>()
    };
    let in_groups = group_columns(TableReference::bare(GROUPS))
        .into_iter()
        .map(Expr::Column);
    let groups = LogicalPlanBuilder::from(reader)
        .project(ours)?
        .distinct()?
        .alias(GROUPS)?
        .project(in_groups.chain([lit(true).alias(IN_GROUP)]))?
        .build()?;
    let columns: Vec<Expr> = target.schema().columns().into_iter().map(Expr::Column).collect();
    let theirs = names.iter().enumerate().map(|(i, name)| {
        let value = value(&table.alias, name, target.schema())?;
        Ok(value.alias_qualified(Some(table.alias.clone()), group_helper(i)))
    });
    let theirs = theirs.collect::<Result<Vec<_>>>()?;
    let target = LogicalPlanBuilder::from(target)
        .project(columns.clone().into_iter().chain(theirs))?
        .build()?;
    let keys = (
        group_columns(TableReference::bare(GROUPS)),
        group_columns(table.alias.clone()),
    );
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

/// The helper that carries the value of group column `i`, as it is matched.
fn group_helper(i: usize) -> String {
    format!("__load_group_{i}")
}
