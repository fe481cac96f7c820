//! The window itself: a condition on stored rows, the same on source rows, and bounds that are checked before any work.

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::checked_cast::sql_type_name;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bind::Overwrite;
use super::syntax::{Window, WindowBound, WindowKind};
use crate::bind::columns::find;
use crate::bind::expr::{bind, bind_condition, col, is_true};
use crate::bind::keys::{columns_of, requalified};
use crate::bind::reads::{read_predicate, sql_literal, sql_name};

/// A window whose names and bounds are resolved.
pub(super) struct ResolvedWindow {
    shape: Shape,
    text: String,
    span: Span,
}

enum Shape {
    /// A condition over columns of the target.
    Predicate(Expr),
    /// A range of one column; `None` is the source's own end.
    Range {
        column: String,
        from: Option<Expr>,
        to: Option<Expr>,
        closed: bool,
    },
}

impl ResolvedWindow {
    /// Resolves names, evaluates bounds and checks them.
    ///
    /// # Errors
    ///
    /// 22023 for a NULL bound, a lower bound above the upper one, an offset against a column without time zone; 42804
    /// or 22007 where a bound does not compare with the column; 42703 for an unknown column.
    pub fn resolve(overwrite: &Overwrite<'_>, window: &Window) -> Result<Self> {
        let shape = match &window.kind {
            WindowKind::Predicate(predicate) => predicate_shape(overwrite, predicate)?,
            WindowKind::Range {
                column,
                from,
                to,
                closed,
            } => range_shape(overwrite, column, from, to, *closed)?,
        };
        let written = window.to_string();
        Ok(Self {
            shape,
            text: written.strip_prefix("WINDOW ").unwrap_or(&written).to_owned(),
            span: window.span,
        })
    }

    /// The window as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a bound is the source's.
    pub fn needs_source(&self) -> bool {
        matches!(
            &self.shape,
            Shape::Range { from: None, .. } | Shape::Range { to: None, .. }
        )
    }

    /// The column of a range, empty for a predicate.
    pub fn column(&self) -> &str {
        match &self.shape {
            Shape::Predicate(_) => "",
            Shape::Range { column, .. } => column,
        }
    }

    /// TRUE for stored rows inside; never NULL.
    pub fn of_target(&self, relation: &TableReference) -> Expr {
        is_true(self.condition(relation))
    }

    /// TRUE for stored rows inside, FALSE or NULL for the others.
    pub fn condition(&self, relation: &TableReference) -> Expr {
        match &self.shape {
            Shape::Predicate(Expr::IsTrue(predicate)) => predicate.as_ref().clone(),
            Shape::Predicate(predicate) => predicate.clone(),
            Shape::Range {
                column,
                from,
                to,
                closed,
            } => range(col(relation, column), from.clone(), to.clone(), *closed),
        }
    }

    /// The same for source rows. An end that is the source's own holds for every row with a value.
    pub fn of_source(&self, overwrite: &Overwrite<'_>) -> Result<Expr> {
        let names = overwrite.source.names();
        let condition = self.of_target(&overwrite.table.alias);
        let used = match self.column() {
            "" => columns_of(&condition)?,
            column => vec![column.to_owned()],
        };
        if let Some(missing) = used.iter().find(|name| !names.contains(name)) {
            return Err(LoadError::new(
                SqlState::UndefinedColumn,
                format!("window column \"{missing}\" does not exist in the source"),
            )
            .hint("Every source row is checked against the window, so the source needs its columns.")
            .at(self.span));
        }
        requalified(condition, &overwrite.source.alias)
    }

    /// TRUE for stored rows between the written bounds and the source's `low` and `high`, FALSE or NULL for the others.
    pub fn between_source(&self, relation: &TableReference, low: Expr, high: Expr) -> Expr {
        match &self.shape {
            Shape::Predicate(predicate) => predicate.clone(),
            Shape::Range {
                column,
                from,
                to,
                closed,
            } => {
                let (from, to) = (from.clone().unwrap_or(low), to.clone().unwrap_or(high));
                range(col(relation, column), Some(from), Some(to), *closed)
            }
        }
    }

    /// The rows looked at, as SQL over bare names, when they are known before the source is read.
    pub fn read_predicate(&self) -> Option<String> {
        match &self.shape {
            Shape::Predicate(predicate) => read_predicate(predicate),
            Shape::Range {
                column,
                from: Some(from),
                to: Some(to),
                closed,
            } => {
                let upper = if *closed { "<=" } else { "<" };
                let name = sql_name(column);
                let (from, to) = (sql_literal(from)?, sql_literal(to)?);
                Some(format!("{name} >= {from} AND {name} {upper} {to}"))
            }
            Shape::Range { .. } => None,
        }
    }

    /// The window for the history, with its bounds evaluated, so that a rerun can be exact.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("window", self.text.clone())];
        if let Shape::Range { from, to, .. } = &self.shape {
            parameters.extend(from.as_ref().and_then(literal_text).map(|text| ("windowFrom", text)));
            parameters.extend(to.as_ref().and_then(literal_text).map(|text| ("windowTo", text)));
        }
        parameters
    }
}

/// `from <= value < to`, or `<= to` when closed.
fn range(value: Expr, from: Option<Expr>, to: Option<Expr>, closed: bool) -> Expr {
    let mut inside = value.clone().is_not_null();
    if let Some(from) = from {
        inside = inside.and(value.clone().gt_eq(from));
    }
    if let Some(to) = to {
        inside = inside.and(match closed {
            true => value.lt_eq(to),
            false => value.lt(to),
        });
    }
    inside
}

fn predicate_shape(overwrite: &Overwrite<'_>, predicate: &SqlExpr) -> Result<Shape> {
    let scan = overwrite.table.scan(&overwrite.columns.schema)?;
    let bound = bind_condition(overwrite.state, "WINDOW", predicate, scan.schema())?;
    match bound.is_volatile() {
        false => Ok(Shape::Predicate(bound)),
        true => Err(LoadError::new(SqlState::Syntax, "a window cannot be volatile")
            .hint("It says which rows are replaced: use columns, literals and now().")
            .at(predicate.span())),
    }
}

fn range_shape(
    overwrite: &Overwrite<'_>,
    column: &Ident,
    from: &WindowBound,
    to: &WindowBound,
    closed: bool,
) -> Result<Shape> {
    let names: Vec<String> = overwrite
        .columns
        .schema
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let name = find(
        overwrite.state,
        column,
        &names,
        &format!("table \"{}\"", overwrite.table.name),
    )?;
    let data_type = overwrite
        .columns
        .target_type(&name)
        .cloned()
        .ok_or_else(|| LoadError::internal(format!("window column {name} without a type")))?;
    let from = bound(overwrite.state, from, &name, &data_type)?;
    let to = bound(overwrite.state, to, &name, &data_type)?;
    if let (Some(from), Some(to)) = (&from, &to) {
        check_order(from, to, column.span)?;
    }
    Ok(Shape::Range {
        column: name,
        from,
        to,
        closed,
    })
}

/// One bound as a literal of the column's kind; parameters stay as they are until the statement is executed.
fn bound(state: &SessionState, bound: &WindowBound, column: &str, data_type: &DataType) -> Result<Option<Expr>> {
    let WindowBound::Expr(written) = bound else {
        return Ok(None);
    };
    let span = written.span();
    let empty = DFSchema::empty();
    let expr = bind(state, written, &empty).map_err(|e| constant_hint(e).at_if_unset(span))?;
    if expr.get_type(&empty).is_ok_and(|t| t == DataType::Null) && !has_parameter(&expr)? {
        return Err(null_bound(written));
    }
    if has_parameter(&expr)? {
        return Ok(Some(expr));
    }
    let value = evaluate(state, expr).map_err(|e| e.at_if_unset(span))?;
    if value.is_null() {
        return Err(null_bound(written));
    }
    comparable(value, column, data_type)
        .map(|value| Some(lit(value)))
        .map_err(|e| e.at_if_unset(span))
}

fn constant_hint(error: LoadError) -> LoadError {
    match error.state() {
        SqlState::UndefinedColumn => LoadError::new(SqlState::InvalidParameter, "a window bound must be constant")
            .detail(format!("{}.", error.message()))
            .hint(
                "Use literals, now(), date arithmetic or parameters; for a condition over columns write WINDOW (..).",
            ),
        _ => error,
    }
}

fn null_bound(written: &SqlExpr) -> LoadError {
    LoadError::new(SqlState::InvalidParameter, "a window bound is NULL")
        .hint("Give both bounds: a window without an end would replace rows nobody named.")
        .at(written.span())
}

pub(crate) fn has_parameter(expr: &Expr) -> Result<bool> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = false;
    expr.apply(|e| {
        found |= matches!(e, Expr::Placeholder(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The value of a constant expression, with the statement's one `now()`.
pub(crate) fn evaluate(state: &SessionState, expr: Expr) -> Result<ScalarValue> {
    let schema = std::sync::Arc::new(DFSchema::empty());
    let context = SimplifyContext::builder()
        .with_schema(std::sync::Arc::clone(&schema))
        .with_config_options(std::sync::Arc::clone(state.config_options()))
        .with_current_time()
        .build();
    let simplifier = ExprSimplifier::new(context);
    let coerced = simplifier.coerce(expr, &schema)?;
    match simplifier.simplify(coerced)? {
        Expr::Literal(value, _) => Ok(value),
        other => Err(LoadError::new(SqlState::InvalidParameter, "a bound must be constant")
            .detail(format!("{other} has no single value."))
            .hint("Use literals, now(), date arithmetic or parameters.")),
    }
}

/// `value` as something that compares with the column.
fn comparable(value: ScalarValue, column: &str, data_type: &DataType) -> Result<ScalarValue> {
    let from = value.data_type();
    let naive_column = matches!(data_type, DataType::Timestamp(_, None) | DataType::Date32);
    let offset = match &value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
            has_offset(text)
        }
        _ => matches!(&from, DataType::Timestamp(_, Some(_))),
    };
    if naive_column && offset && data_type != &DataType::Date32 {
        return Err(LoadError::new(
            SqlState::InvalidParameter,
            format!("a window bound has a time zone, column \"{column}\" has none"),
        )
        .hint("Write the bound without offset, in the column's own time."));
    }
    if !can_compare(&from, data_type) {
        return Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!(
                "a window bound of type {} does not compare with column \"{column}\" of type {}",
                sql_type_name(&from),
                sql_type_name(data_type)
            ),
        )
        .hint("Write the bound in the column's type."));
    }
    match (&from, data_type) {
        (DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8, to) if !is_text(to) => parsed(&value, column, to),
        _ => Ok(value),
    }
}

fn parsed(value: &ScalarValue, column: &str, to: &DataType) -> Result<ScalarValue> {
    value.cast_to(to).map_err(|e| {
        LoadError::new(
            SqlState::InvalidDatetime,
            format!(
                "a window bound cannot be read as {}, the type of column \"{column}\"",
                sql_type_name(to)
            ),
        )
        .detail(format!("The bound is '{value}'."))
        .hint("Write it in the column's type.")
        .caused_by(e)
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

fn can_compare(bound: &DataType, column: &DataType) -> bool {
    let temporal = |t: &DataType| matches!(t, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, _));
    bound == column
        || is_text(bound)
        || (bound.is_numeric() && column.is_numeric())
        || (temporal(bound) && temporal(column))
}

/// Whether a timestamp text ends in `Z` or an offset.
fn has_offset(text: &str) -> bool {
    let text = text.trim();
    let Some(time) = text.find(':').and_then(|colon| text.get(colon..)) else {
        return false;
    };
    text.ends_with(['Z', 'z']) || time.contains(['+', '-'])
}

fn check_order(from: &Expr, to: &Expr, span: Span) -> Result<()> {
    let (Expr::Literal(from, _), Expr::Literal(to, _)) = (from, to) else {
        return Ok(());
    };
    let ordering = match from.data_type() == to.data_type() {
        true => from.partial_cmp(to),
        false => to.cast_to(&from.data_type()).ok().and_then(|to| from.partial_cmp(&to)),
    };
    match ordering {
        Some(std::cmp::Ordering::Greater) => Err(LoadError::new(
            SqlState::InvalidParameter,
            "the lower bound of the window lies above the upper bound",
        )
        .detail(format!("The bounds are {from} and {to}."))
        .hint("Write the lower bound first.")
        .at(span)),
        _ => Ok(()),
    }
}

fn literal_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(value, _) => value.cast_to(&DataType::Utf8).ok().map(|text| text.to_string()),
        other => Some(other.to_string()),
    }
}
