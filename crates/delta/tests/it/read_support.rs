//! Tables written by hand, commit by commit, and ways to read them.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_delta::{DeltaTable, TableHandle, TableSnapshot, TargetScan};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use deltalake::kernel::StructType;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

pub struct Lake {
    folder: TempDir,
    pub handle: Arc<TableHandle>,
    next: u64,
}

impl Lake {
    /// A folder without a table.
    pub fn empty() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("t/_delta_log")).unwrap();
        let url = Url::from_directory_path(folder.path().canonicalize().unwrap().join("t")).unwrap();
        Self {
            folder,
            handle: TableHandle::new(url, HashMap::new()),
            next: 0,
        }
    }

    /// A table without rows.
    pub fn create(schema: &SchemaRef, partition_columns: &[&str]) -> Self {
        Self::with(
            schema,
            partition_columns,
            json!({}),
            json!({"minReaderVersion": 1, "minWriterVersion": 2}),
        )
    }

    pub fn with(schema: &SchemaRef, partition_columns: &[&str], properties: Value, protocol: Value) -> Self {
        let mut lake = Self::empty();
        let metadata = metadata(schema, partition_columns, properties);
        lake.commit(&[json!({"protocol": protocol}), metadata]);
        lake
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("t").join(below)
    }

    pub fn commit(&mut self, actions: &[Value]) {
        let lines: Vec<String> = actions.iter().map(Value::to_string).collect();
        let file = self.path(&format!("_delta_log/{:020}.json", self.next));
        fs::write(file, lines.join("\n")).unwrap();
        self.next += 1;
    }

    /// Writes a data file and gives its add action.
    pub fn file(&self, path: &str, batch: &RecordBatch, stats: Value) -> Value {
        self.file_with(path, batch, stats, WriterProperties::new())
    }

    pub fn file_with(&self, path: &str, batch: &RecordBatch, stats: Value, properties: WriterProperties) -> Value {
        let full = self.path(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        let mut writer =
            ArrowWriter::try_new(fs::File::create(&full).unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        let size = fs::metadata(full).unwrap().len();
        add(path, size, json!({}), stats)
    }

    pub async fn snapshot(&self) -> Arc<TableSnapshot> {
        self.handle.snapshot().await.unwrap().unwrap()
    }

    /// A session in which `t` is the table and `target` the scan of it.
    pub async fn session(&self, config: SessionConfig) -> SessionContext {
        let context = SessionContext::new_with_config(config);
        let snapshot = self.snapshot().await;
        context
            .register_table("target", Arc::new(TargetScan::new(Arc::clone(&snapshot))))
            .unwrap();
        context
            .register_table("t", Arc::new(DeltaTable::new(Arc::clone(&self.handle), snapshot)))
            .unwrap();
        context
    }

    pub async fn query(&self, sql: &str) -> String {
        let context = self.session(SessionConfig::new().with_target_partitions(2)).await;
        show(&context.sql(sql).await.unwrap().collect().await.unwrap())
    }
}

pub fn metadata(schema: &SchemaRef, partition_columns: &[&str], properties: Value) -> Value {
    let kernel: StructType = schema.as_ref().try_into_kernel().unwrap();
    json!({"metaData": {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": serde_json::to_string(&kernel).unwrap(),
        "partitionColumns": partition_columns,
        "configuration": properties,
        "createdTime": 0,
    }})
}

pub fn add(path: &str, size: u64, partition_values: Value, stats: Value) -> Value {
    json!({"add": {
        "path": path, "size": size, "partitionValues": partition_values, "modificationTime": 0, "dataChange": true,
        "stats": if stats.is_null() { Value::Null } else { stats.to_string().into() },
    }})
}

/// The same action with partition values.
pub fn in_partition(mut add: Value, values: Value) -> Value {
    add["add"]["partitionValues"] = values;
    add
}

pub fn id_name() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

pub fn ids(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = values.into_iter().collect();
    let names: Vec<String> = ids.iter().map(|i| format!("n{i}")).collect();
    batch(vec![
        ("id", Arc::new(Int64Array::from(ids))),
        ("name", Arc::new(StringArray::from(names))),
    ])
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// Statistics of a file of ids `low..=high`.
pub fn id_stats(low: i64, high: i64) -> Value {
    json!({
        "numRecords": high - low + 1,
        "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0, "name": 0},
    })
}

pub fn show(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

/// Runs `sql` and gives its plan, with metrics, and its rows.
pub async fn run(context: &SessionContext, sql: &str) -> (Arc<dyn ExecutionPlan>, Vec<RecordBatch>) {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let rows = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    (plan, rows)
}

pub fn counter(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    alluvium_exec::metrics::sum(plan.as_ref(), name)
}

pub fn explain(plan: &Arc<dyn ExecutionPlan>) -> String {
    datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string()
}

/// Stores a deletion vector and gives its descriptor.
pub fn deletion_vector(lake: &Lake, positions: &[u64]) -> Value {
    use delta_kernel::actions::deletion_vector_writer::{KernelDeletionVector, StreamingDeletionVectorWriter};
    let mut vector = KernelDeletionVector::new();
    vector.add_deleted_row_indexes(positions.iter().copied());
    let mut bytes = Vec::new();
    let mut writer = StreamingDeletionVectorWriter::new(&mut bytes);
    let written = writer.write_deletion_vector(vector).unwrap();
    writer.finalize().unwrap();
    // Sixteen zero bytes, as z85 spells them.
    fs::write(
        lake.path("deletion_vector_00000000-0000-0000-0000-000000000000.bin"),
        bytes,
    )
    .unwrap();
    json!({
        "storageType": "u", "pathOrInlineDv": "00000000000000000000", "offset": written.offset,
        "sizeInBytes": written.size_in_bytes, "cardinality": written.cardinality,
    })
}
