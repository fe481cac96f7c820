//! Creating tables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use chrono::Utc;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use deltalake::DeltaTableError;
use deltalake::kernel::transaction::{CommitBuilder, CommitProperties};
use deltalake::kernel::{Action, CommitInfo, StructType};
use deltalake::protocol::DeltaOperation;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::keys::key_columns;
use crate::storable::storable_type;
use crate::table::{TableHandle, TableSnapshot, storage_error};

use super::delta_sql;
use super::schema::{can_partition, creation, kernel_schema};
use super::spec::LoadTarget;

/// Characters that a column's name must not hold while columns are stored under their names.
const NOT_IN_NAMES: [char; 10] = [' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// A table to be created.
#[derive(Debug, Clone)]
pub struct NewTable {
    /// Its name as the statement wrote it, for messages.
    pub name: String,
    /// The columns; see [`storable_schema`].
    pub schema: SchemaRef,
    /// The columns the table is partitioned by.
    pub partition_columns: Vec<String>,
    /// Table properties.
    pub properties: HashMap<String, String>,
    /// `CHECK` constraints: name and text.
    pub constraints: Vec<(String, String)>,
    /// The table's comment.
    pub comment: Option<String>,
}

/// Creates an empty table at the handle's location as version 0.
pub async fn create_table(
    handle: &Arc<TableHandle>,
    table: &NewTable,
    session: &dyn Session,
) -> Result<Arc<TableSnapshot>> {
    let properties = checked_properties(table, session)?;
    let target = LoadTarget {
        name: table.name.clone(),
        handle: Arc::clone(handle),
        base: None,
        schema: storable_schema(&table.schema)?,
        partition_columns: table.partition_columns.clone(),
        properties,
        evolved: false,
    };
    check_new_table(&target)?;
    if handle.snapshot().await?.is_some() {
        return Err(exists(&table.name));
    }
    let schema = kernel_schema(&target)?;
    let actions = create_actions(table, &target, &schema)?;
    let builder = CommitBuilder::from(CommitProperties::default().with_max_retries(0)).with_actions(actions);
    let done = builder.build(None, handle.log_store().await?, nothing_read()).await;
    match done {
        Ok(done) => handle.adopt(done.snapshot.snapshot().clone()).await,
        Err(DeltaTableError::Transaction { .. } | DeltaTableError::VersionAlreadyExists(_)) => Err(exists(&table.name)),
        Err(e) => Err(storage_error(&format!("creating table {:?}", table.name), e)),
    }
}

fn nothing_read() -> DeltaOperation {
    DeltaOperation::Merge {
        predicate: None,
        merge_predicate: None,
        matched_predicates: Vec::new(),
        not_matched_predicates: Vec::new(),
        not_matched_by_source_predicates: Vec::new(),
    }
}

fn create_actions(table: &NewTable, target: &LoadTarget, schema: &StructType) -> Result<Vec<Action>> {
    let comment = table.comment.as_deref();
    let (protocol, metadata) = creation(schema, &target.partition_columns, &target.properties, comment)?;
    let parameters = BTreeMap::from([
        ("partitionBy", json!(target.partition_columns).to_string()),
        ("isManaged", "false".to_owned()),
    ]);
    let info = CommitInfo {
        timestamp: Some(Utc::now().timestamp_millis()),
        operation: Some("CREATE TABLE".to_owned()),
        operation_parameters: Some(
            parameters
                .into_iter()
                .map(|(key, value)| (key.to_owned(), Value::from(value)))
                .collect(),
        ),
        is_blind_append: Some(true),
        engine_info: Some(format!("alluvium/{}", env!("CARGO_PKG_VERSION"))),
        info: HashMap::from([("txnId".to_owned(), Value::from(Uuid::new_v4().to_string()))]),
        ..CommitInfo::default()
    };
    Ok(vec![
        Action::CommitInfo(info),
        Action::Protocol(protocol),
        Action::Metadata(metadata),
    ])
}

fn exists(name: &str) -> LoadError {
    LoadError::new(
        SqlState::DuplicateTable,
        format!("table {:?} exists already", redact(name)),
    )
    .hint("CREATE TABLE IF NOT EXISTS keeps it.")
}

/// The table's properties with its constraints, which must be expressions over its columns.
fn checked_properties(table: &NewTable, session: &dyn Session) -> Result<HashMap<String, String>> {
    let columns = DFSchema::try_from(storable_schema(&table.schema)?.as_ref().clone())?;
    let mut properties = table.properties.clone();
    for (name, text) in &table.constraints {
        delta_sql::parse(&format!("check constraint {name:?}"), text, &columns, session)?;
        properties.insert(format!("delta.constraints.{}", name.to_ascii_lowercase()), text.clone());
    }
    Ok(properties)
}

/// Refuses what cannot be a table. Also for tables that a load creates.
pub fn check_new_table(target: &LoadTarget) -> Result<()> {
    let fields = target.schema.fields();
    if fields.is_empty() {
        return Err(LoadError::new(
            SqlState::Syntax,
            format!("table {:?} has no columns", target.name),
        ));
    }
    check_names(fields.iter())?;
    key_columns(&target.properties, &target.schema)?;
    let mut seen = HashSet::new();
    for name in &target.partition_columns {
        let field = target.schema.field_with_name(name).map_err(|_| {
            LoadError::new(
                SqlState::UndefinedColumn,
                format!("partition column {name:?} is not a column of the table"),
            )
        })?;
        if !seen.insert(name) {
            return Err(LoadError::new(
                SqlState::DuplicateColumn,
                format!("partition column {name:?} is named twice"),
            ));
        }
        let kernel = kernel_schema(target)?;
        if !kernel.field(name).is_some_and(|f| can_partition(f.data_type())) {
            return Err(LoadError::unsupported(format!(
                "partitioning by column {name:?} of type {}",
                field.data_type()
            )));
        }
    }
    if seen.len() == fields.len() {
        return Err(
            LoadError::new(SqlState::InvalidParameter, "every column is a partition column")
                .hint("At least one column must be stored in the files."),
        );
    }
    Ok(())
}

/// Names must be usable as they are, and distinct even where case does not count.
fn check_names<'a>(fields: impl Iterator<Item = &'a FieldRef>) -> Result<()> {
    let mut seen = HashSet::new();
    for field in fields {
        let name = field.name();
        if name.is_empty() || name.contains(NOT_IN_NAMES) {
            return Err(
                LoadError::new(SqlState::InvalidName, format!("column name {name:?} cannot be used"))
                    .hint("Names must not be empty or contain blanks, tabs, line ends or any of ,;{}()=."),
            );
        }
        if !seen.insert(name.to_lowercase()) {
            return Err(
                LoadError::new(SqlState::DuplicateColumn, format!("column {name:?} is there twice"))
                    .detail("Column names must differ by more than case."),
            );
        }
        if let DataType::Struct(children) = field.data_type() {
            check_names(children.iter())?;
        }
    }
    Ok(())
}

/// `schema` in types that a Delta table has: unsigned numbers become wider signed ones, times get microseconds.
pub fn storable_schema(schema: &Schema) -> Result<SchemaRef> {
    let fields = schema.fields().iter().map(|field| storable_field(field, field.name()));
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}

fn storable_field(field: &Field, column: &str) -> Result<FieldRef> {
    let data_type = storable_type(column, field.data_type())?;
    Ok(Arc::new(
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()),
    ))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    fn target(columns: &[&str], partition_columns: &[&str]) -> LoadTarget {
        let fields: Vec<_> = columns
            .iter()
            .map(|name| Field::new(*name, DataType::Int64, true))
            .collect();
        LoadTarget {
            name: "t".into(),
            handle: TableHandle::new(url::Url::parse("file:///nowhere/").unwrap(), HashMap::new()),
            base: None,
            schema: Arc::new(Schema::new(fields)),
            partition_columns: partition_columns.iter().map(|c| (*c).to_owned()).collect(),
            properties: HashMap::new(),
            evolved: false,
        }
    }

    #[test]
    fn what_cannot_be_a_table_is_refused() {
        let code = |columns: &[&str], parts: &[&str]| check_new_table(&target(columns, parts)).unwrap_err().code();
        assert_eq!(code(&[], &[]), "42601");
        assert_eq!(code(&["a b"], &[]), "42602");
        assert_eq!(code(&["a", "A"], &[]), "42701");
        assert_eq!(code(&["a", "b"], &["c"]), "42703");
        assert_eq!(code(&["a"], &["a"]), "22023");
        check_new_table(&target(&["a", "b"], &["b"])).unwrap();
    }

    #[test]
    fn types_become_those_of_the_format() {
        let schema = Schema::new(vec![
            Field::new("n", DataType::UInt64, false),
            Field::new(
                "t",
                DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
                true,
            ),
            Field::new(
                "s",
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View)),
                true,
            ),
        ]);
        let stored = storable_schema(&schema).unwrap();
        assert_eq!(stored.field(0).data_type(), &DataType::Decimal128(20, 0));
        assert_eq!(
            stored.field(1).data_type(),
            &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        );
        assert_eq!(stored.field(2).data_type(), &DataType::Utf8);
        let null = Schema::new(vec![Field::new("n", DataType::Null, true)]);
        assert_eq!(storable_schema(&null).unwrap_err().code(), "42804");
    }
}
