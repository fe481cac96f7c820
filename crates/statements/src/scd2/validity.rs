//! The validity columns: their names and types, and the times that clauses give.

use std::sync::Arc;

use alluvium_core::syntax::Load;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::syntax::{RetireAction, Scd2Clauses};
use crate::bind::columns::{Columns, find};
use crate::bind::expr::{bind, case, null_of};
use crate::bind::source::{SourceRows, ident_name};
use crate::bind::target::TargetTable;
use crate::merge_overwrite::window::{evaluate, has_parameter};
use crate::preparing::is_preparing;

const MICROS_OF_DAY: i64 = 86_400_000_000;

/// The names of the validity columns.
#[derive(Debug, Clone)]
pub(super) struct Validity {
    pub from: String,
    pub to: String,
    pub is_current: Option<String>,
    pub is_deleted: Option<String>,
    /// Where they are named, or the statement's target.
    span: Span,
}

impl Validity {
    /// The names of the clause, or the defaults.
    pub fn named(state: &SessionState, load: &Load<Scd2Clauses>) -> Self {
        let Some(clause) = &load.clauses.validity else {
            return Self {
                from: "__valid_from".to_owned(),
                to: "__valid_to".to_owned(),
                is_current: Some("__is_current".to_owned()),
                is_deleted: records_deletions(load).then(|| "__is_deleted".to_owned()),
                span: load.target.span,
            };
        };
        let name = |ident| ident_name(state, ident);
        Self {
            from: name(&clause.from),
            to: name(&clause.to),
            is_current: clause.is_current.as_ref().map(name),
            is_deleted: clause.is_deleted.as_ref().map(name),
            span: clause.span,
        }
    }

    /// All of them, in order.
    pub fn names(&self) -> Vec<String> {
        let flags = self.is_current.iter().chain(&self.is_deleted);
        [&self.from, &self.to].into_iter().chain(flags).cloned().collect()
    }

    /// Whether this is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.names().iter().any(|own| own == name)
    }

    /// The columns of a table that the statement creates.
    pub fn fields(&self) -> Vec<FieldRef> {
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let flags = self.is_current.iter().chain(&self.is_deleted).map(|name| (name, DataType::Boolean));
        let times = [&self.from, &self.to].into_iter().map(|name| (name, time.clone()));
        times.chain(flags).map(|(name, data_type)| Arc::new(Field::new(name, data_type, true))).collect()
    }

    /// No source column is called like one of them.
    pub fn check_source(&self, source: &SourceRows) -> Result<()> {
        let own = self.names();
        let is_own = |name: &String| own.iter().any(|own| own.eq_ignore_ascii_case(name));
        match source.names().into_iter().find(|name| is_own(name)) {
            None => Ok(()),
            Some(name) => Err(LoadError::new(
                SqlState::DuplicateColumn,
                format!("source column \"{name}\" is named like a validity column"),
            )
            .hint("Leave it out of the source query or rename it, or name other columns in VALIDITY COLUMNS.")
            .at(source.span)),
        }
    }

    /// A stored table has all of them, with types that can hold what they mean.
    pub fn check_target(&self, state: &SessionState, table: &TargetTable) -> Result<()> {
        let schema = table.stored_schema();
        let stored: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        for name in self.names() {
            let ident = datafusion::sql::sqlparser::ast::Ident::with_quote('"', &name);
            find(state, &ident, &stored, &format!("table \"{}\"", table.name)).map_err(|_| self.missing(&name, table))?;
            let data_type = schema.field_with_name(&name).map_err(|_| self.missing(&name, table))?.data_type().clone();
            let is_time = name == self.from || name == self.to;
            let fits = match is_time {
                true => matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Date32),
                false => data_type == DataType::Boolean,
            };
            if !fits {
                let wanted = if is_time { "a timestamp or a date" } else { "a boolean" };
                return Err(LoadError::new(
                    SqlState::DatatypeMismatch,
                    format!("validity column \"{name}\" of table \"{}\" has type {data_type}", table.name),
                )
                .hint(format!("It must be {wanted}; name the right columns with VALIDITY COLUMNS (from, to, ..)."))
                .at(self.span));
            }
        }
        Ok(())
    }

    fn missing(&self, name: &str, table: &TargetTable) -> LoadError {
        LoadError::new(
            SqlState::UndefinedColumn,
            format!("validity column \"{name}\" does not exist in table \"{}\"", table.name),
        )
        .hint("Name the table's own columns with VALIDITY COLUMNS (from, to [, is_current [, is_deleted]]).")
        .at(self.span)
    }

    /// The type of one of the two times.
    pub fn time_type(&self, columns: &Columns, name: &str) -> Result<DataType> {
        let found = columns.target_type(name).cloned();
        found.ok_or_else(|| LoadError::internal(format!("validity column {name} without a type")))
    }
}

/// Whether versions are flagged as deleted.
pub(super) fn records_deletions(load: &Load<Scd2Clauses>) -> bool {
    let clauses = &load.clauses;
    let marked = clauses.delete_when.is_some() && clauses.delete_then == RetireAction::NewRecord;
    marked || clauses.absent.as_ref().is_some_and(|absent| absent.action == RetireAction::NewRecord)
}

/// `EFFECTIVE AT`, or the statement's start, in microseconds. It stays an expression where its value is only known when
/// the statement runs.
pub(super) fn boundary(state: &SessionState, load: &Load<Scd2Clauses>, from_type: &DataType) -> Result<Expr> {
    let (value, span) = match &load.clauses.effective_at {
        Some(at) => (constant(state, &at.expr, "EFFECTIVE AT")?, at.expr.span()),
        None => (now(state)?, load.target.span),
    };
    if is_preparing(state) || has_parameter(&value)? {
        return Ok(cast(cast(value, instant()), DataType::Int64));
    }
    let micros = micros_of(evaluate(state, value).map_err(|e| e.at_if_unset(span))?, "EFFECTIVE AT")
        .map_err(|e| e.at_if_unset(span))?;
    let micros = micros.ok_or_else(|| {
        LoadError::new(SqlState::InvalidParameter, "the boundary of the load is NULL")
            .hint("Give EFFECTIVE AT a time.")
            .at(span)
    })?;
    match from_type {
        DataType::Date32 if load.clauses.effective_at.is_none() => Ok(lit(micros - micros.rem_euclid(MICROS_OF_DAY))),
        DataType::Date32 if micros.rem_euclid(MICROS_OF_DAY) != 0 => Err(LoadError::new(
            SqlState::InvalidParameter,
            "EFFECTIVE AT has a time of day, but the validity columns are dates",
        )
        .hint("Give a date.")
        .at(span)),
        _ => Ok(lit(micros)),
    }
}

/// `ACTIVE UNTIL`, in microseconds; `None`: NULL.
pub(super) fn open_until(state: &SessionState, load: &Load<Scd2Clauses>, to_type: &DataType) -> Result<Option<i64>> {
    let Some(value) = load.clauses.active_until.as_ref().and_then(|until| until.value.as_ref()) else {
        return Ok(None);
    };
    let bound = constant(state, value, "ACTIVE UNTIL")?;
    let micros = evaluate(state, bound).and_then(|value| micros_of(value, "ACTIVE UNTIL"));
    let micros = micros.map_err(|e| e.at_if_unset(value.span()))?;
    match micros {
        Some(micros) if to_type == &DataType::Date32 && micros.rem_euclid(MICROS_OF_DAY) != 0 => Err(LoadError::new(
            SqlState::InvalidParameter,
            "ACTIVE UNTIL has a time of day, but the validity columns are dates",
        )
        .hint("Give a date.")
        .at(value.span())),
        micros => Ok(micros),
    }
}

fn constant(state: &SessionState, expr: &SqlExpr, clause: &str) -> Result<Expr> {
    bind(state, expr, &DFSchema::empty()).map_err(|e| match e.state() {
        SqlState::UndefinedColumn => LoadError::new(SqlState::InvalidParameter, format!("{clause} must be constant"))
            .detail(format!("{}.", e.message()))
            .hint("Use a literal, now(), date arithmetic or a parameter.")
            .at(expr.span()),
        _ => e.at_if_unset(expr.span()),
    })
}

fn now(state: &SessionState) -> Result<Expr> {
    let now = state.scalar_functions().get("now");
    let now = now.ok_or_else(|| LoadError::internal("the session has no function now()"))?;
    Ok(now.call(Vec::new()))
}

fn micros_of(value: ScalarValue, clause: &str) -> Result<Option<i64>> {
    let from = value.data_type();
    let temporal = matches!(
        from,
        DataType::Timestamp(_, _)
            | DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::LargeUtf8
            | DataType::Null
    );
    if !temporal {
        return Err(LoadError::new(SqlState::DatatypeMismatch, format!("{clause} needs a time, not a value of type {from}"))
            .hint("For example TIMESTAMP '2026-01-31 00:00:00'."));
    }
    match value.cast_to(&instant()) {
        Ok(ScalarValue::TimestampMicrosecond(micros, _)) => Ok(micros),
        Ok(other) => Err(LoadError::internal(format!("{clause} became {other}"))),
        Err(cause) => Err(LoadError::new(SqlState::InvalidDatetime, format!("{clause} cannot be read as a time"))
            .detail(format!("The value is '{value}'."))
            .hint("For example TIMESTAMP '2026-01-31 00:00:00'.")
            .caused_by(cause)),
    }
}

/// The type all times go through: microseconds in UTC.
fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A time of a validity column's type, as microseconds.
pub(super) fn to_micros(time: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Date32 => cast(cast(time, DataType::Timestamp(TimeUnit::Microsecond, None)), DataType::Int64),
        _ => cast(time, DataType::Int64),
    }
}

/// Microseconds as a time of a validity column's type.
pub(super) fn from_micros(micros: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Date32 => cast(cast(micros, DataType::Timestamp(TimeUnit::Microsecond, None)), DataType::Date32),
        other => cast(micros, other.clone()),
    }
}

/// The end of a version: NULL microseconds mean open, and open has its marker.
pub(super) fn end_of(micros: Expr, open_until: Option<i64>, data_type: &DataType) -> Result<Expr> {
    let open = match open_until {
        Some(until) => from_micros(lit(until), data_type),
        None => null_of(data_type)?,
    };
    case(vec![(micros.clone().is_null(), open)], from_micros(micros, data_type))
}

/// The time of a source row: the first part of the sequence, cast without loss to the type of the start column.
pub(super) fn row_time(
    state: &SessionState,
    written: &SqlExpr,
    schema: &DFSchema,
    from_type: &DataType,
) -> Result<Expr> {
    let bound = bind(state, written, schema)?;
    let given = bound.get_type(schema)?;
    if !matches!(given, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Null) {
        return Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!("SEQUENCE BY begins with {written} of type {given}, which is no time"),
        )
        .hint("Its first expression dates the versions: put a timestamp first, further ones break ties.")
        .at(written.span()));
    }
    let name = written.to_string();
    alluvium_exec::checked_cast::check_castable(&name, &given, from_type).map_err(|e| e.at_if_unset(written.span()))?;
    let time = alluvium_exec::checked_cast::checked_cast(bound, &name, &given, from_type);
    Ok(to_micros(time, from_type))
}
