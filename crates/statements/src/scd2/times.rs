//! The times that clauses and rows give. All of them are microseconds on the way; only what is stored has the type of
//! its column.

use alluvium_core::syntax::Load;
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::checked_cast::sql_type_name;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Spanned};

use super::syntax::Scd2Clauses;
use crate::bind::expr::{bind, case, null_of};
use crate::merge_overwrite::window::{evaluate, has_parameter};
use crate::preparing::is_preparing;

const MICROS_OF_DAY: i64 = 86_400_000_000;

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
    let Some(value) = load
        .clauses
        .active_until
        .as_ref()
        .and_then(|until| until.value.as_ref())
    else {
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
        return Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!("{clause} needs a time, not a value of type {}", sql_type_name(&from)),
        )
        .hint("For example TIMESTAMP '2026-01-31 00:00:00'."));
    }
    match value.cast_to(&instant()) {
        Ok(ScalarValue::TimestampMicrosecond(micros, _)) => Ok(micros),
        Ok(other) => Err(LoadError::internal(format!("{clause} became {other}"))),
        Err(cause) => Err(
            LoadError::new(SqlState::InvalidDatetime, format!("{clause} cannot be read as a time"))
                .detail(format!("The value is '{value}'."))
                .hint("For example TIMESTAMP '2026-01-31 00:00:00'.")
                .caused_by(cause),
        ),
    }
}

/// The type all times go through: microseconds in UTC.
fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A time of a validity column's type, as microseconds.
pub(super) fn to_micros(time: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Date32 => cast(
            cast(time, DataType::Timestamp(TimeUnit::Microsecond, None)),
            DataType::Int64,
        ),
        _ => cast(time, DataType::Int64),
    }
}

/// Microseconds as a time of a validity column's type.
pub(super) fn from_micros(micros: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Date32 => cast(
            cast(micros, DataType::Timestamp(TimeUnit::Microsecond, None)),
            DataType::Date32,
        ),
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
    if !matches!(
        given,
        DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Null
    ) {
        return Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!(
                "SEQUENCE BY begins with {written} of type {}, which is no time",
                sql_type_name(&given)
            ),
        )
        .hint("Its first expression dates the versions: put a timestamp first, further ones break ties.")
        .at(written.span()));
    }
    let name = written.to_string();
    alluvium_exec::checked_cast::check_castable(&name, &given, from_type).map_err(|e| e.at_if_unset(written.span()))?;
    let time = alluvium_exec::checked_cast::checked_cast(bound, &name, &given, from_type);
    Ok(to_micros(time, from_type))
}
