//! Expressions of clauses: from syntax to DataFusion's expressions, over the columns a clause may see.

use std::ops::ControlFlow;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::checked_cast::sql_type_name;
use alluvium_exec::floats;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit, when};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, Spanned, visit_expressions};

/// Resolves `expr` against `schema`.
///
/// # Errors
///
/// 42703 for an unknown column, 0A000 for a subquery: it would have to be planned with every table of the session,
/// and must never silently mean "every row".
pub fn bind(state: &SessionState, expr: &SqlExpr, schema: &DFSchema) -> Result<Expr> {
    let span = expr.span();
    refuse_subqueries(expr)?;
    let with_alias = ExprWithAlias {
        expr: expr.clone(),
        alias: None,
    };
    let bound = state
        .create_logical_expr_from_sql_expr(with_alias, schema)
        .map_err(|e| LoadError::from(e).at_if_unset(span))?;
    refuse_unsupported(&bound).map_err(|e| e.at_if_unset(span))?;
    bound
        .get_type(schema)
        .map_err(|e| LoadError::from(e).at_if_unset(span))?;
    Ok(bound)
}

/// The same for a condition: NULL counts as false. A value that is not boolean is an error.
pub fn bind_condition(state: &SessionState, clause: &str, expr: &SqlExpr, schema: &DFSchema) -> Result<Expr> {
    let bound = bind(state, expr, schema)?;
    match bound.get_type(schema)? {
        DataType::Boolean | DataType::Null => Ok(is_true(bound)),
        other => Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!(
                "{clause} needs a condition, not a value of type {}",
                sql_type_name(&other)
            ),
        )
        .hint("Compare the value with something, for example with IS NOT NULL.")
        .at(expr.span())),
    }
}

/// Looks for subqueries in the syntax, before any of their tables is looked up.
fn refuse_subqueries(expr: &SqlExpr) -> Result<()> {
    let found = visit_expressions(expr, |e| match e {
        SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } => ControlFlow::Break(e.span()),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(span) => Err(LoadError::unsupported("a clause of a load cannot hold a subquery")
            .hint("Compute it in the source query as a column and use that column here.")
            .at_if_unset(if span.start.line > 0 { span } else { expr.span() })),
    }
}

fn refuse_unsupported(expr: &Expr) -> Result<()> {
    let mut other = None;
    expr.apply(|e| {
        match e {
            Expr::AggregateFunction(f) => other = Some(format!("aggregate function {}", f.func.name())),
            Expr::WindowFunction(f) => other = Some(format!("window function {}", f.fun.name())),
            _ => (),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match other {
        Some(what) => Err(
            LoadError::unsupported(format!("a clause of a load cannot hold the {what}"))
                .hint("Compute it in the source query as a column and use that column here."),
        ),
        None => Ok(()),
    }
}

/// The column `name` of `relation`, without parsing dots or case out of the name.
pub fn col(relation: &TableReference, name: &str) -> Expr {
    Expr::Column(Column::new(Some(relation.clone()), name))
}

/// The unqualified column `name`.
pub(crate) fn bare(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// TRUE where `condition` is, FALSE otherwise, never NULL.
pub(crate) fn is_true(condition: Expr) -> Expr {
    Expr::IsTrue(Box::new(condition))
}

/// A typed NULL.
pub fn null_of(data_type: &DataType) -> Result<Expr> {
    Ok(lit(ScalarValue::try_new_null(data_type).map_err(LoadError::from)?))
}

/// `CASE` over the branches in order; `otherwise` where none holds.
pub fn case(branches: Vec<(Expr, Expr)>, otherwise: Expr) -> Result<Expr> {
    let mut branches = branches.into_iter();
    let Some((condition, value)) = branches.next() else {
        return Ok(otherwise);
    };
    let mut builder = when(condition, value);
    for (condition, value) in branches {
        builder.when(condition, value);
    }
    Ok(builder.otherwise(otherwise)?)
}

/// `expr` as a value to join on: floats get one NaN and one zero.
pub(crate) fn join_key(expr: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => floats::normalize(expr),
        _ => expr,
    }
}

/// Whether tuple `left` is greater than `right`, part by part; a NULL part is lower than everything.
pub(crate) fn tuple_greater(left: &[Expr], right: &[Expr]) -> Expr {
    let mut result = lit(false);
    for (l, r) in left.iter().zip(right).rev() {
        let greater = is_true(l.clone().gt(r.clone())).or(l.clone().is_not_null().and(r.clone().is_null()));
        let equal = Expr::IsTrue(Box::new(datafusion::logical_expr::binary_expr(
            l.clone(),
            datafusion::logical_expr::Operator::IsNotDistinctFrom,
            r.clone(),
        )));
        result = greater.or(equal.and(result));
    }
    result
}

/// `expr` as `to` where the types differ by DataFusion's own rules (used for values that were computed, not loaded).
pub(crate) fn coerce(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    match from == to {
        true => expr,
        false => cast(expr, to.clone()),
    }
}
