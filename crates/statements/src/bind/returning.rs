//! `RETURNING`: the affected rows instead of the result row.
//!
//! Target columns are those of the row as it is after the load (before it, for a deleted row); a bare name means the
//! target's column where it has one.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::action;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, SelectItem, SelectItemQualifiedWildcardKind, visit_expressions_mut,
};

use super::expr::{bind, case, col};
use super::source::ident_name;

/// The column behind `merge_action`.
pub(crate) const MERGE_ACTION: &str = "merge_action";

/// Resolved `RETURNING` items.
pub(crate) struct Returning {
    /// The output's columns.
    pub schema: SchemaRef,
    /// One expression per output column.
    pub exprs: Vec<Expr>,
}

/// `merge_action` as text, from the action code.
pub(crate) fn merge_action(code: Expr) -> Result<Expr> {
    let branch = |value: u8, text: &str| (code.clone().eq(lit(value)), lit(text));
    case(
        vec![
            branch(action::INSERT, "INSERT"),
            branch(action::UPDATE, "UPDATE"),
            branch(action::DELETE, "DELETE"),
        ],
        lit(datafusion::common::ScalarValue::Utf8(None)),
    )
}

impl Returning {
    /// Resolves `items` against rows that carry target columns under `target`, source columns under `source`, and
    /// [`MERGE_ACTION`].
    pub fn resolve(
        state: &SessionState,
        items: &[SelectItem],
        schema: &DFSchema,
        target: &TableReference,
        source: &TableReference,
    ) -> Result<Self> {
        let mut exprs = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    exprs.push((output_name(state, expr), value(state, expr, schema, target)?))
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    exprs.push((ident_name(state, alias), value(state, expr, schema, target)?));
                }
                SelectItem::Wildcard(_) => exprs.extend(all_of(schema, target)),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    exprs.extend(qualified(name.to_string().trim_matches('"'), schema, target, source)?);
                }
                other => {
                    return Err(LoadError::unsupported(format!("RETURNING cannot hold {other}"))
                        .hint("Return columns and expressions of source and target."));
                }
            }
        }
        let mut fields = Vec::with_capacity(exprs.len());
        for (name, expr) in &exprs {
            fields.push(Field::new(name, expr.get_type(schema)?, true));
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            exprs: exprs.into_iter().map(|(_, expr)| expr).collect(),
        })
    }
}

fn all_of(schema: &DFSchema, relation: &TableReference) -> Vec<(String, Expr)> {
    let own = schema.iter().filter(|(qualifier, _)| *qualifier == Some(relation));
    own.map(|(_, field)| (field.name().clone(), col(relation, field.name())))
        .collect()
}

fn qualified(
    name: &str,
    schema: &DFSchema,
    target: &TableReference,
    source: &TableReference,
) -> Result<Vec<(String, Expr)>> {
    for relation in [target, source] {
        if relation.table().eq_ignore_ascii_case(name) {
            return Ok(all_of(schema, relation));
        }
    }
    Err(LoadError::new(
        SqlState::UndefinedTable,
        format!("RETURNING knows no relation \"{name}\""),
    )
    .hint(format!("It knows \"{target}\" and \"{source}\".")))
}

fn output_name(state: &SessionState, expr: &SqlExpr) -> String {
    match super::keys::plain_column(state, expr) {
        Some(name) => name,
        None if is_merge_action(expr) => MERGE_ACTION.to_owned(),
        None => expr.to_string(),
    }
}

fn is_merge_action(expr: &SqlExpr) -> bool {
    matches!(expr, SqlExpr::Function(f) if f.name.to_string().eq_ignore_ascii_case(MERGE_ACTION))
}

fn value(state: &SessionState, expr: &SqlExpr, schema: &DFSchema, target: &TableReference) -> Result<Expr> {
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |e| {
        if is_merge_action(e) {
            *e = SqlExpr::Identifier(Ident::new(MERGE_ACTION));
        } else if let SqlExpr::Identifier(ident) = e {
            let name = ident_name(state, ident);
            if schema.has_column_with_qualified_name(target, &name) {
                let relation = Ident::with_quote('"', target.table());
                *e = SqlExpr::CompoundIdentifier(vec![relation, ident.clone()]);
            }
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    bind(state, &expr, schema)
}

/// The rows that `RETURNING` sees, as a projection on top of a change stream's parts.
pub(crate) fn visible(
    values: &[(String, Expr)],
    target: &TableReference,
    source_columns: Vec<Expr>,
    code: Expr,
) -> Result<Vec<Expr>> {
    let mut exprs: Vec<Expr> = values
        .iter()
        .map(|(name, value)| value.clone().alias_qualified(Some(target.clone()), name))
        .collect();
    exprs.extend(source_columns);
    exprs.push(merge_action(code)?.alias(MERGE_ACTION));
    Ok(exprs)
}
