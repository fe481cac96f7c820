//! Reading the target of a load: as few files, row groups, pages and columns as possible, each row with its position.

use std::sync::Arc;

use alluvium_core::LoadError;
use alluvium_exec::columns;
use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use crate::table::{FileTask, TableSnapshot};

/// Counter of [`LoadDeltaScanExec`]: files that were not opened, for their statistics rule out every row asked for.
pub const FILES_SKIPPED: &str = "files_skipped";

/// What a scan needs to know about its table; no handles, so that it can travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanDesc {
    /// How EXPLAIN names the table.
    pub table: String,
    /// Where the table is, with a slash at the end and without credentials.
    pub location: String,
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
            location: snapshot.location().to_string(),
            version: snapshot.version(),
            schema: Arc::clone(snapshot.schema()),
            partition_columns: snapshot.partition_columns().to_vec(),
        }
    }
}

/// Streams one file for a copy-on-write rewrite: the table's columns in declared order, partition columns included,
/// then `__row`, in file order and without the rows of its deletion vector.
pub fn rewrite_scan(
    _desc: &ScanDesc,
    _task: &FileTask,
    _ctx: &Arc<TaskContext>,
) -> alluvium_core::Result<SendableRecordBatchStream> {
    Err(LoadError::unsupported("rewriting a file"))
}

/// The target of a load as a table: its columns, then `__file` and `__row`.
#[derive(Debug, Clone)]
pub struct TargetScan {
    snapshot: Arc<TableSnapshot>,
    schema: SchemaRef,
}

impl TargetScan {
    /// The target at `snapshot`.
    pub fn new(snapshot: Arc<TableSnapshot>) -> Self {
        let mut fields = snapshot.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(columns::FILE, DataType::UInt32, false)));
        fields.push(Arc::new(Field::new(columns::ROW, DataType::Int64, false)));
        Self { snapshot, schema: Arc::new(Schema::new(fields)) }
    }

    /// The snapshot that is read.
    pub fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }
}

#[async_trait]
impl TableProvider for TargetScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(LoadError::unsupported("reading the target").into())
    }
}
