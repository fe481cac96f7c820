//! What travels with a scan, and the layout of its columns.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::columns;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::parquet::arrow::RowNumber;
use datafusion_datasource::TableSchema;
use object_store::ObjectStoreScheme;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use url::{Position, Url};

use crate::table::TableSnapshot;

/// What a scan needs to know about its table; no handles, so that it can travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanDesc {
    /// How EXPLAIN names the table.
    pub table: String,
    /// Where the table is, with a slash at the end.
    pub location: Url,
    /// The version.
    pub version: u64,
    /// The table's columns.
    pub schema: SchemaRef,
    /// The partition columns.
    pub partition_columns: Vec<String>,
}

impl ScanDesc {
    /// The description of `snapshot`.
    pub fn of(snapshot: &TableSnapshot) -> Self {
        Self {
            table: snapshot.name(),
            location: snapshot.location().clone(),
            version: snapshot.version(),
            schema: Arc::clone(snapshot.schema()),
            partition_columns: snapshot.partition_columns().to_vec(),
        }
    }

    /// The table's columns in declared order, then `__file` and `__row`.
    pub fn output_schema(&self) -> SchemaRef {
        let mut fields = self.schema.fields().to_vec();
        fields.push(file_field());
        fields.push(Arc::new(Field::new(columns::ROW, DataType::Int64, false)));
        Arc::new(Schema::new(fields))
    }

    /// The same columns in the order a Parquet source has them: those in the files, those of the partition with
    /// `__file`, and `__row`, which the reader makes.
    pub(super) fn file_layout(&self) -> TableSchema {
        let in_files = self
            .schema
            .fields()
            .iter()
            .filter(|f| !self.partition_columns.contains(f.name()));
        let file_schema = Arc::new(Schema::new(in_files.cloned().collect::<Vec<_>>()));
        let named = |name: &String| self.schema.field_with_name(name).ok().cloned().map(Arc::new);
        let mut partition: Vec<FieldRef> = self.partition_columns.iter().filter_map(named).collect();
        partition.push(file_field());
        let row = Field::new(columns::ROW, DataType::Int64, false).with_extension_type(RowNumber);
        TableSchema::builder(file_schema)
            .with_table_partition_cols(partition)
            .with_virtual_columns(vec![Arc::new(row)])
            .build()
    }

    /// Under which key a session holds the store of the table: scheme and host, as deltalake has it.
    pub(super) fn store_url(&self) -> Result<ObjectStoreUrl> {
        let (scheme, host) = (
            self.location.scheme(),
            &self.location[Position::BeforeHost..Position::AfterPort],
        );
        ObjectStoreUrl::parse(format!("{scheme}://{host}")).map_err(|e| self.unusable().caused_by(e))
    }

    /// Where `path` below the table's root is in the store.
    pub(super) fn path_of(&self, path: &str) -> Result<Path> {
        let root = match ObjectStoreScheme::parse(&self.location) {
            Ok((_, root)) => root,
            Err(_) => Path::from_url_path(self.location.path()).map_err(|e| self.unusable().caused_by(e))?,
        };
        let full = match root.as_ref() {
            "" => path.to_owned(),
            root => format!("{root}/{path}"),
        };
        Ok(Path::parse(&full).unwrap_or_else(|_| Path::from(full)))
    }

    fn unusable(&self) -> LoadError {
        LoadError::new(
            SqlState::Storage,
            format!("the location of table \"{}\" cannot be used", self.table),
        )
    }
}

fn file_field() -> FieldRef {
    Arc::new(Field::new(columns::FILE, DataType::UInt32, false))
}
