//! The table a command is about, and what commands tell about it.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::DeltaTable;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::catalog;

/// The name as the session reads it, with catalog and schema.
pub(super) fn reference(state: &SessionState, name: &ObjectName) -> Result<TableReference> {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let reference = object_name_to_table_reference(name.clone(), normalize)?;
    Ok(catalog::resolve(state, &reference))
}

/// A column's name as the session reads it: in lower case unless quoted.
pub(super) fn column(state: &SessionState, ident: &Ident) -> String {
    match ident.quote_style.is_none() && state.config_options().sql_parser.enable_ident_normalization {
        true => ident.value.to_ascii_lowercase(),
        false => ident.value.clone(),
    }
}

/// How messages name a table: without catalog, and without the default schema.
pub(super) fn shown(state: &SessionState, name: &TableReference) -> String {
    match name.schema() {
        Some(schema) if schema != state.config_options().catalog.default_schema => {
            format!("{schema}.{}", name.table())
        }
        _ => name.table().to_owned(),
    }
}

/// The Delta table of this name.
pub(super) async fn delta_table(state: &SessionState, name: &TableReference, span: Span) -> Result<DeltaTable> {
    let table = shown(state, name);
    let found = catalog::find(state, name).await.map_err(|e| e.at_if_unset(span))?;
    let Some(provider) = found else {
        return Err(
            LoadError::new(SqlState::UndefinedTable, format!("table \"{table}\" does not exist"))
                .at(span)
                .hint("SHOW TABLES lists the tables of the session."),
        );
    };
    match provider.downcast_ref::<DeltaTable>() {
        Some(found) => Ok(found.clone()),
        None => Err(LoadError::unsupported(format!("\"{table}\" is not a Delta table")).at(span)),
    }
}

/// The columns of what `CREATE` and `DROP` answer.
pub(super) fn status_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("table", DataType::Utf8, false),
        Field::new("status", DataType::Utf8, false),
    ]))
}

/// What `CREATE` and `DROP` answer.
pub(super) fn status(table: &str, status: impl Into<String>) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![table])),
        Arc::new(StringArray::from(vec![status.into()])),
    ];
    Ok(RecordBatch::try_new(status_schema(), columns)?)
}
