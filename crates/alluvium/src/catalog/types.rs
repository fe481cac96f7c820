//! SQL type names in a session of ours.
//!
//! Timestamps are microseconds, as in the tables: DataFusion's own default of nanoseconds ends in the year 2262.
//! `TIMESTAMP` without a time zone in a query, and so the literal `TIMESTAMP '9999-12-31 00:00:00'`, is a naive value; a
//! UTC column takes it as UTC. (In DDL the word `TIMESTAMP` means Delta's `timestamp`, which is UTC.)

use alluvium_core::Result;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, CastKind, DataType as SqlType, TimezoneInfo, Value};

/// Plans timestamps as microseconds and leaves every other type to DataFusion.
#[derive(Debug)]
pub(crate) struct LoadTypePlanner;

impl TypePlanner for LoadTypePlanner {
    fn plan_type_field(&self, sql_type: &SqlType) -> datafusion::common::Result<Option<FieldRef>> {
        let zone = match sql_type {
            SqlType::Timestamp(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
            | SqlType::TimestampNtz(None | Some(6))
            | SqlType::Datetime(None | Some(6)) => None,
            SqlType::Timestamp(None | Some(6), TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => Some("UTC".into()),
            _ => return Ok(None),
        };
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, zone);
        Ok(Some(Field::new("", data_type, true).into()))
    }
}

/// The Arrow type of a type name, as a `CAST` in this session would give it.
///
/// # Errors
///
/// 0A000 for a type that DataFusion does not have.
pub(crate) fn arrow_type(state: &SessionState, ty: &SqlType) -> Result<DataType> {
    let cast = ast::Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(ast::Expr::Value(Value::Null.into())),
        data_type: ty.clone(),
        array: false,
        format: None,
    };
    let schema = DFSchema::empty();
    let named = ast::ExprWithAlias {
        expr: cast,
        alias: None,
    };
    let expr = state.create_logical_expr_from_sql_expr(named, &schema)?;
    Ok(expr.get_type(&schema)?)
}
