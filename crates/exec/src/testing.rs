//! What the operators' tests share: a session that plans this crate's nodes, sources cut into batches, rows as text.

use std::sync::Arc;

use alluvium_core::LoadError;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::planner::ExecPlanner;
use crate::source_gate::keep_source_order;

/// Input batch sizes that every operator is tried with.
pub(crate) const SIZES: [usize; 5] = [1, 2, 3, 7, 8192];

#[derive(Debug)]
struct TestPlanner;

#[async_trait]
impl QueryPlanner for TestPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ExecPlanner)])
            .create_physical_plan(plan, session)
            .await
    }
}

/// A session with `partitions` partitions and batches of `size` rows.
pub(crate) fn session(partitions: usize, size: usize) -> SessionContext {
    build(partitions, size, Arc::new(RuntimeEnv::default()), 0)
}

/// A session with `bytes` bytes of memory.
pub(crate) fn small_session(bytes: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc();
    // What a sort keeps for merging has to hold the sort keys of all runs.
    build(1, 1024, runtime.unwrap(), bytes / 2)
}

fn build(partitions: usize, size: usize, runtime: Arc<RuntimeEnv>, merging: usize) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(size)
        .set_usize("datafusion.execution.sort_spill_reservation_bytes", merging);
    keep_source_order(config.options_mut());
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_query_planner(Arc::new(TestPlanner))
        .build();
    SessionContext::new_with_state(state)
}

/// A scan of `batch` in one partition, cut into batches of `size` rows.
pub(crate) fn source(batch: &RecordBatch, size: usize) -> LogicalPlan {
    source_of(vec![cut(batch, size)])
}

/// A scan of `partitions`.
pub(crate) fn source_of(partitions: Vec<Vec<RecordBatch>>) -> LogicalPlan {
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).unwrap();
    let scan = LogicalPlanBuilder::scan("s", provider_as_source(Arc::new(table)), None);
    scan.unwrap().build().unwrap()
}

/// Copies, because a slice counts as the whole array it is cut from.
pub(crate) fn cut(batch: &RecordBatch, size: usize) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(size);
    starts
        .map(|start| {
            let end = batch.num_rows().min(start + size);
            let rows = UInt64Array::from_iter_values((start..end).map(|row| u64::try_from(row).unwrap()));
            take_record_batch(batch, &rows).unwrap()
        })
        .collect()
}

/// A batch of nullable columns.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

pub(crate) fn ints(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

pub(crate) fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

/// Optimizes, plans and runs `plan`.
pub(crate) async fn run(session: &SessionContext, plan: LogicalPlan) -> Result<Vec<RecordBatch>, LoadError> {
    Ok(run_plan(session, plan).await?.1)
}

/// The same, with the physical plan that ran.
pub(crate) async fn run_plan(
    session: &SessionContext,
    plan: LogicalPlan,
) -> Result<(Arc<dyn ExecutionPlan>, Vec<RecordBatch>), LoadError> {
    let plan = session.state().create_physical_plan(&plan).await?;
    let batches = collect(Arc::clone(&plan), session.task_ctx()).await?;
    Ok((plan, batches))
}

/// All rows as `a|b|c`, in the order in which they came.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            rows.push(values.join("|"));
        }
    }
    rows
}

/// The same, sorted.
pub(crate) fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = rows(batches);
    rows.sort();
    rows
}

/// Code, primary line, detail and hint.
pub(crate) fn shown(error: &LoadError) -> String {
    let mut text = format!("{} {}", error.code(), error.message());
    for part in [error.detail_text(), error.hint_text()].into_iter().flatten() {
        text.push('\n');
        text.push_str(part);
    }
    text
}
