//! A session that can run loads, a table in a temporary folder, and change streams made by hand.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_core::LoadError;
use alluvium_core::syntax::OnEmpty;
use alluvium_delta::write::{LoadNode, LoadPlanner, LoadSpec, LoadTarget, NewTable, create_table};
use alluvium_delta::{TableHandle, TableSnapshot};
use alluvium_exec::action;
use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};
use deltalake::DeltaTableBuilder;
use deltalake::delta_datafusion::TableProviderBuilder;
use tempfile::TempDir;
use url::Url;

#[derive(Debug)]
struct LoadQueryPlanner;

#[async_trait]
impl QueryPlanner for LoadQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn datafusion::catalog::Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(LoadPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

pub fn session(partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(3);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_query_planner(Arc::new(LoadQueryPlanner))
        .build();
    SessionContext::new_with_state(state)
}

/// A row of a change stream over (id, name, qty).
#[derive(Clone, Debug)]
pub struct Row {
    pub id: Option<i64>,
    pub name: Option<&'static str>,
    pub qty: Option<i64>,
    pub action: u8,
    pub at: Option<(u32, i64)>,
    pub old: (Option<i64>, Option<&'static str>, Option<i64>),
}

pub fn insert(id: i64, name: &'static str, qty: i64) -> Row {
    Row {
        id: Some(id),
        name: Some(name),
        qty: Some(qty),
        action: action::INSERT,
        at: None,
        old: (None, None, None),
    }
}

pub fn update(id: i64, name: &'static str, qty: i64, at: (u32, i64)) -> Row {
    Row {
        action: action::UPDATE,
        at: Some(at),
        ..insert(id, name, qty)
    }
}

pub fn delete(at: (u32, i64)) -> Row {
    Row {
        id: None,
        name: None,
        qty: None,
        action: action::DELETE,
        at: Some(at),
        old: (None, None, None),
    }
}

pub fn id_name_qty() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("qty", DataType::Int64, true),
    ]))
}

/// A table in a folder of its own.
pub struct Table {
    folder: TempDir,
    pub handle: Arc<TableHandle>,
}

impl Table {
    /// A place without a table.
    pub fn nowhere() -> Self {
        let folder = TempDir::new().unwrap();
        let url = Url::from_directory_path(folder.path().canonicalize().unwrap()).unwrap();
        Self {
            folder,
            handle: TableHandle::new(url, HashMap::new()),
        }
    }

    /// An empty table.
    pub async fn create(schema: SchemaRef, partition_columns: &[&str], properties: &[(&str, &str)]) -> Self {
        let table = Self::nowhere();
        let new = NewTable {
            name: "t".into(),
            schema,
            partition_columns: partition_columns.iter().map(|c| (*c).to_owned()).collect(),
            properties: properties
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            constraints: Vec::new(),
            comment: None,
        };
        create_table(&table.handle, &new, &SessionContext::new().state())
            .await
            .unwrap();
        table
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The same table, opened again, where the only file that `version` has added has another size.
    pub fn with_size(self, version: u64, size: u64) -> Self {
        let mut entry = self.entry(version);
        for line in &mut entry {
            if let Some(add) = line.get_mut("add") {
                add["size"] = size.into();
            }
        }
        let lines: Vec<String> = entry.iter().map(ToString::to_string).collect();
        let log = self.path().join(format!("_delta_log/{version:020}.json"));
        std::fs::write(log, lines.join("\n")).unwrap();
        let handle = TableHandle::new(self.handle.location().clone(), HashMap::new());
        Self { handle, ..self }
    }

    pub async fn snapshot(&self) -> Arc<TableSnapshot> {
        self.handle.snapshot().await.unwrap().unwrap()
    }

    pub async fn target(&self) -> LoadTarget {
        let base = self.snapshot().await;
        LoadTarget {
            name: "t".into(),
            handle: Arc::clone(&self.handle),
            schema: Arc::clone(base.schema()),
            partition_columns: base.partition_columns().to_vec(),
            properties: HashMap::new(),
            evolved: false,
            base: Some(base),
        }
    }

    /// A spec that does not mind that hand-made streams have no source.
    pub async fn spec(&self) -> LoadSpec {
        spec_for(self.target().await)
    }

    /// The table as deltalake reads it.
    pub async fn rows(&self) -> String {
        self.query("SELECT * FROM t ORDER BY 1, 2").await
    }

    pub async fn query(&self, sql: &str) -> String {
        let table = DeltaTableBuilder::from_url(self.handle.location().clone())
            .unwrap()
            .load()
            .await
            .unwrap();
        let eager = table.snapshot().unwrap().snapshot().clone();
        let provider = TableProviderBuilder::default()
            .with_log_store(table.log_store())
            .with_eager_snapshot(eager)
            .await
            .unwrap();
        let context = SessionContext::new();
        context.register_table("t", provider).unwrap();
        show(&context.sql(sql).await.unwrap().collect().await.unwrap())
    }

    /// Every file below the table's folder, the log's and checksums left out.
    pub fn data_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries {
                let path = entry.unwrap().path();
                if path.is_dir() && path.file_name().unwrap() != "_delta_log" {
                    folders.push(path);
                } else if path.is_file() {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    /// The entry of `version` in the log.
    pub fn entry(&self, version: u64) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path().join(format!("_delta_log/{version:020}.json"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The actions named `kind` of an entry.
    pub fn actions(&self, version: u64, kind: &str) -> Vec<serde_json::Value> {
        self.entry(version)
            .into_iter()
            .filter_map(|mut line| line.get_mut(kind).map(serde_json::Value::take))
            .collect()
    }

    /// Ordinal and position of every row by id: what a scan of the target would say.
    pub async fn positions(&self) -> BTreeMap<i64, (u32, i64)> {
        let mut found = BTreeMap::new();
        for task in self.snapshot().await.files().await.unwrap().iter() {
            let file = std::fs::File::open(self.path().join(&task.path)).unwrap();
            let reader = datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file);
            let mut position = 0;
            for batch in reader.unwrap().build().unwrap() {
                let batch = batch.unwrap();
                let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
                for id in ids.values() {
                    found.insert(*id, (task.ordinal, position));
                    position += 1;
                }
            }
        }
        found
    }
}

pub fn spec_for(target: LoadTarget) -> LoadSpec {
    let mut spec = LoadSpec::new("Upsert", target);
    spec.on_empty = OnEmpty::Apply;
    spec
}

/// `rows` as a change stream, spread over `partitions`.
pub fn change_stream(rows: &[Row], partitions: usize, with_old: bool) -> MemTable {
    let chunk = rows.len().div_ceil(partitions).max(1);
    let batches: Vec<_> = rows
        .chunks(chunk)
        .map(|part| vec![change_batch(part, with_old)])
        .collect();
    let schema = change_batch(&[], with_old).schema();
    MemTable::try_new(schema, if batches.is_empty() { vec![vec![]] } else { batches }).unwrap()
}

fn change_batch(rows: &[Row], with_old: bool) -> RecordBatch {
    let ids: ArrayRef = Arc::new(rows.iter().map(|r| r.id).collect::<Int64Array>());
    let names: ArrayRef = Arc::new(rows.iter().map(|r| r.name).collect::<StringArray>());
    let qtys: ArrayRef = Arc::new(rows.iter().map(|r| r.qty).collect::<Int64Array>());
    let mut columns = vec![
        ("id".to_owned(), ids),
        ("name".to_owned(), names),
        ("qty".to_owned(), qtys),
        (
            "__action".to_owned(),
            Arc::new(rows.iter().map(|r| Some(r.action)).collect::<UInt8Array>()) as ArrayRef,
        ),
        (
            "__file".to_owned(),
            Arc::new(rows.iter().map(|r| r.at.map(|at| at.0)).collect::<UInt32Array>()),
        ),
        (
            "__row".to_owned(),
            Arc::new(rows.iter().map(|r| r.at.map(|at| at.1)).collect::<Int64Array>()),
        ),
    ];
    if with_old {
        columns.push((
            "__old_0".into(),
            Arc::new(rows.iter().map(|r| r.old.0).collect::<Int64Array>()),
        ));
        columns.push((
            "__old_1".into(),
            Arc::new(rows.iter().map(|r| r.old.1).collect::<StringArray>()),
        ));
        columns.push((
            "__old_2".into(),
            Arc::new(rows.iter().map(|r| r.old.2).collect::<Int64Array>()),
        ));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

/// Any batch as the rows to insert.
pub fn inserting(batch: &RecordBatch) -> MemTable {
    let rows = batch.num_rows();
    let mut columns: Vec<(String, ArrayRef)> = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| (field.name().clone(), Arc::clone(column)))
        .collect();
    columns.push((
        "__action".into(),
        Arc::new(UInt8Array::from(vec![action::INSERT; rows])),
    ));
    columns.push(("__file".into(), Arc::new(UInt32Array::from(vec![None; rows]))));
    columns.push(("__row".into(), Arc::new(Int64Array::from(vec![None; rows]))));
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap();
    MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap()
}

/// The plan of a load.
pub async fn plan(context: &SessionContext, spec: LoadSpec, changes: MemTable) -> Arc<dyn ExecutionPlan> {
    context
        .state()
        .create_physical_plan(&logical(context, spec, changes))
        .await
        .unwrap()
}

fn logical(context: &SessionContext, spec: LoadSpec, changes: MemTable) -> LogicalPlan {
    let input = context.read_table(Arc::new(changes)).unwrap().into_unoptimized_plan();
    let node = LoadNode::try_new(Arc::new(spec), input).unwrap();
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

pub async fn run_plan(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, LoadError> {
    datafusion::physical_plan::collect(plan, context.task_ctx())
        .await
        .map_err(LoadError::from)
}

/// Runs a load.
pub async fn load(context: &SessionContext, spec: LoadSpec, changes: MemTable) -> Result<Vec<RecordBatch>, LoadError> {
    let state: SessionState = context.state();
    let logical = logical(context, spec, changes);
    let plan = state.create_physical_plan(&logical).await.map_err(LoadError::from)?;
    run_plan(context, plan).await
}

/// The result row: the counters that are not zero, then the status.
pub fn outcome(batches: &[RecordBatch]) -> String {
    let [row] = batches else {
        panic!("{} batches", batches.len())
    };
    assert_eq!(row.num_rows(), 1);
    let mut parts = Vec::new();
    for (field, column) in row.schema().fields().iter().zip(row.columns()) {
        let name = field.name().trim_start_matches("num_");
        match field.data_type() {
            DataType::UInt64 => match column.as_primitive::<UInt64Type>().value(0) {
                0 => (),
                value => parts.push(format!("{name}={value}")),
            },
            DataType::Int64 if column.is_valid(0) => {
                parts.push(format!("version={}", column.as_primitive::<Int64Type>().value(0)));
            }
            DataType::Utf8 if field.name() == "status" => parts.push(column.as_string::<i32>().value(0).to_owned()),
            _ => (),
        }
    }
    parts.join(" ")
}

pub fn show(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

/// The data lines of a shown table, cells joined with commas.
pub fn lines(shown: &str) -> Vec<String> {
    let rows = shown.lines().filter(|line| line.starts_with('|')).skip(1);
    rows.map(|line| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(",")
    })
    .collect()
}
