//! Prepared statements: a plan is made once and run on the newest snapshot each time.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_delta::repin::repin;
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::DataType as SqlType;

/// The parameters of `PREPARE name (types)`.
pub(crate) fn parameter_fields(state: &SessionState, types: &[SqlType]) -> Result<Vec<FieldRef>> {
    types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let data_type = crate::catalog::types::arrow_type(state, ty)?;
            Ok(Arc::new(Field::new(format!("${}", i + 1), data_type, true)))
        })
        .collect()
}

/// `plan`, with every table it reads or writes moved to its newest snapshot.
///
/// # Errors
///
/// 0A000 when a table's columns are no longer those the plan was made for, 42P01 when it was dropped.
pub(crate) async fn refreshed(plan: LogicalPlan) -> Result<LogicalPlan> {
    repin(plan).await.map_err(LoadError::from)
}
