//! The writers: new row versions become files, old ones are marked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::action;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::arrow::compute::{SortOptions, filter_record_batch, not};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties,
};
use futures::StreamExt;
use roaring::RoaringTreemap;
use tokio::sync::mpsc::Sender;

use super::actions::{ActionRow, Origin, TaskCounts, action_batch, action_schema, returning_batch};
use super::changes::{ChangeColumns, Changes, Choice};
use super::checks::{Check, require_checks, require_not_null};
use super::files::{FileLayout, WrittenFile, conform};
use super::job::LoadJob;
use super::pool::{PooledWriter, SmallWrites};
use super::positions::homes::add_to_files;
use super::spec::OperationKind;

/// Writes the rows of a change stream that are to be written, and collects the positions of the stored rows that are
/// to go.
///
/// ```text
/// change stream ──▶ rows with INSERT, UPDATE ──▶ checks ──▶ files           ──▶ add actions
///               └─▶ rows with UPDATE, DELETE ──▶ positions, one set per file ──▶ positions
/// ```
#[derive(Debug)]
pub(super) struct LoadWriteExec {
    input: Arc<dyn ExecutionPlan>,
    job: Arc<LoadJob>,
    checks: Arc<[Check]>,
    columns: Arc<ChangeColumns>,
    small: Arc<SmallWrites>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LoadWriteExec {
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, job: Arc<LoadJob>, checks: Arc<[Check]>) -> Result<Self> {
        let schema = action_schema(job.spec.returning.as_ref());
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Self {
            columns: Arc::new(ChangeColumns::find(&job.spec, checks.len(), &input.schema())?),
            small: SmallWrites::new(partitions),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            input,
            job,
            checks,
        })
    }

    /// The table's partition columns in the input.
    fn partition_exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let target = &self.job.spec.target;
        let places = target.schema.fields().iter().zip(&self.columns.table);
        target
            .partition_columns
            .iter()
            .filter_map(|name| places.clone().find(|(field, _)| field.name() == name))
            .map(|(field, place)| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(field.name(), *place)) })
            .collect()
    }

    /// The columns of the input in whose order files are written.
    fn order_exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let schema = &self.job.data.schema;
        let order = self.job.data.order().iter();
        order
            .filter_map(|column| Some((schema.field(*column).name(), *self.columns.table.get(*column)?)))
            .map(|(name, place)| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(name, place)) })
            .collect()
    }
}

impl DisplayAs for LoadWriteExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "LoadWriteExec: table={}", self.job.table())?;
                if !self.checks.is_empty() {
                    write!(f, ", checks={}", self.checks.len())?;
                }
                if self.job.change.is_some() {
                    write!(f, ", change_data=true")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => write!(f, "table={}", self.job.table()),
        }
    }
}

impl ExecutionPlan for LoadWriteExec {
    fn name(&self) -> &'static str {
        "LoadWriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let keys = self.partition_exprs();
        let alone = self.job.spec.operation.kind == OperationKind::Optimize;
        InputDistributionRequirements::new(vec![match keys.is_empty() {
            // Several writers would leave several files that are not full, for the next run to put together.
            true if alone => Distribution::SinglePartition,
            true => Distribution::UnspecifiedDistribution,
            false => Distribution::KeyPartitioned(keys),
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let options = SortOptions {
            descending: false,
            nulls_first: true,
        };
        let order = self.order_exprs().into_iter();
        let order = order.map(|expr| PhysicalSortRequirement::new(expr, Some(options)));
        vec![LexRequirement::new(order).map(OrderingRequirements::new)]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for expr in self.partition_exprs().into_iter().chain(self.order_exprs()) {
            if f(&expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let [input] = single(children)?;
        Ok(Arc::new(Self::try_new(
            input,
            Arc::clone(&self.job),
            Arc::clone(&self.checks),
        )?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), 2);
        let task = WriteTask::new(self, partition, &context, builder.tx());
        builder.spawn(async move { Ok(task.run(input).await?) });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The one child of a plan node.
pub(super) fn single(children: Vec<Arc<dyn ExecutionPlan>>) -> Result<[Arc<dyn ExecutionPlan>; 1]> {
    children
        .try_into()
        .map_err(|_| LoadError::internal("an operator of a load has exactly one input"))
}

/// The writer of one partition.
struct WriteTask {
    job: Arc<LoadJob>,
    columns: Arc<ChangeColumns>,
    checks: Arc<[Check]>,
    small: Arc<SmallWrites>,
    context: Arc<TaskContext>,
    schema: SchemaRef,
    origin: Origin,
    output: Sender<DfResult<RecordBatch>>,
    data: PooledWriter,
    change: Option<PooledWriter>,
    marks: BTreeMap<u32, Marks>,
    counts: TaskCounts,
    rows_written: Count,
    files_written: Count,
}

/// The positions marked in one file.
#[derive(Default)]
struct Marks {
    updated: RoaringTreemap,
    deleted: RoaringTreemap,
}

impl WriteTask {
    fn new(
        exec: &LoadWriteExec,
        partition: usize,
        context: &Arc<TaskContext>,
        output: Sender<DfResult<RecordBatch>>,
    ) -> Self {
        let job = &exec.job;
        let writer = |layout| PooledWriter::new(partition, layout, &job.files, context.memory_pool());
        Self {
            data: writer(&job.data),
            change: job.change.as_ref().map(writer),
            job: Arc::clone(job),
            columns: Arc::clone(&exec.columns),
            checks: Arc::clone(&exec.checks),
            small: Arc::clone(&exec.small),
            context: Arc::clone(context),
            schema: exec.schema(),
            origin: Origin::new(job.statement, "write", partition),
            output,
            marks: BTreeMap::new(),
            counts: TaskCounts::default(),
            rows_written: MetricBuilder::new(&exec.metrics).counter("rows_written", partition),
            files_written: MetricBuilder::new(&exec.metrics).counter("files_written", partition),
        }
    }

    async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<()> {
        while let Some(batch) = input.next().await {
            self.take(&batch?).await?;
        }
        drop(input);
        self.finish().await
    }

    async fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = Arc::clone(&self.columns);
        let changes = columns.read(batch)?;
        changes.count(&mut self.counts);
        let deleted = self.mark(&changes, batch.num_rows())?;
        self.write_rows(&changes).await?;
        self.write_change_data(&changes, deleted).await?;
        self.send_returning(&changes).await
    }

    /// Marks positions; which rows of the batch delete a row that was not marked before.
    fn mark(&mut self, changes: &Changes<'_>, rows: usize) -> Result<BooleanArray> {
        let mut deleted = vec![false; rows];
        for mark in changes.marks() {
            let mark = mark?;
            let marks = self.marks.entry(mark.file).or_default();
            if !mark.update {
                let new = marks.deleted.insert(mark.position);
                if let Some(deleted) = deleted.get_mut(mark.index) {
                    *deleted = new;
                }
            } else if !marks.updated.insert(mark.position) {
                return Err(twice_updated(self.job.table()));
            }
        }
        Ok(BooleanArray::from(deleted))
    }

    async fn write_rows(&mut self, changes: &Changes<'_>) -> Result<()> {
        let choice = changes.with(&[action::INSERT, action::UPDATE]);
        if choice.rows() == 0 {
            return Ok(());
        }
        let schema = &self.job.data.schema;
        let columns = changes.columns(&self.columns.table, &choice)?;
        require_not_null(self.job.table(), &columns, schema)?;
        let results = changes.columns(&self.columns.checks, &choice)?;
        require_checks(self.job.table(), &self.checks, &results, &columns, schema)?;
        self.rows_written.add(choice.rows());
        let rows = conform(columns, choice.rows(), schema)?;
        let rest = self.keep_versions(changes.places(&choice), rows)?;
        if rest.num_rows() == 0 {
            return Ok(());
        }
        self.data.write(rest).await
    }

    /// Keeps the rows that are new versions of stored ones, as long as there is room; the others are given back.
    fn keep_versions(&self, places: Vec<Option<(u32, u64)>>, rows: RecordBatch) -> Result<RecordBatch> {
        let Some(versions) = &self.job.versions else {
            return Ok(rows);
        };
        let kept: BooleanArray = places.iter().map(|place| Some(place.is_some())).collect();
        let places: Vec<(u32, u64)> = places.into_iter().flatten().collect();
        if places.is_empty() {
            return Ok(rows);
        }
        let new = filter_record_batch(&rows, &kept)?;
        match versions.keep(&new, &places, self.context.memory_pool()) {
            true => Ok(filter_record_batch(&rows, &not(&kept)?)?),
            false => Ok(rows),
        }
    }

    /// What the change data feed shows: new rows, rows that are gone, and updated rows before and after.
    async fn write_change_data(&mut self, changes: &Changes<'_>, deleted: BooleanArray) -> Result<()> {
        let (Some(writer), Some(layout)) = (&mut self.change, &self.job.change) else {
            return Ok(());
        };
        let (new, old) = (&self.columns.table, &self.columns.old);
        let updates = changes.with(&[action::UPDATE]);
        let parts = [
            ("insert", new, changes.with(&[action::INSERT])),
            ("update_preimage", old, changes.with(&[action::UPDATE])),
            ("update_postimage", new, updates),
            ("delete", old, Choice::of(deleted)),
        ];
        for (what, columns, choice) in parts {
            if choice.rows() > 0 {
                let batch = change_batch(layout, changes.columns(columns, &choice)?, what, choice.rows())?;
                writer.write(batch).await?;
            }
        }
        Ok(())
    }

    async fn send_returning(&mut self, changes: &Changes<'_>) -> Result<()> {
        let Some(returned) = &self.job.spec.returning else {
            return Ok(());
        };
        let choice = changes.with(&[action::INSERT, action::UPDATE, action::DELETE]);
        if choice.rows() == 0 {
            return Ok(());
        }
        let columns = changes.columns(&self.columns.returning, &choice)?;
        let columns = conform(columns, choice.rows(), returned)?.columns().to_vec();
        let batch = returning_batch(&self.schema, &self.origin, columns, choice.rows())?;
        // Nobody listens any more: the statement has failed elsewhere.
        let _ = self.output.send(Ok(batch)).await;
        Ok(())
    }

    /// Ends the files and reports. The last task to end writes what all have left over.
    async fn finish(self) -> Result<()> {
        let mut counts = self.counts;
        let mut data = self.data.close(&self.small).await?;
        let mut change = match self.change {
            Some(writer) => writer.close(&self.small).await?,
            None => Vec::new(),
        };
        if let Some(versions) = &self.job.versions {
            versions.mark(self.marks.keys().copied());
        }
        if self.small.leave() {
            let pool = self.context.memory_pool();
            self.small
                .reduce(&self.job.data, |rows| add_to_files(&self.job, rows, pool))?;
            data.extend(self.small.write_parked(&self.job.data, &self.job.files, pool).await?);
            if let Some(layout) = &self.job.change {
                change.extend(self.small.write_parked(layout, &self.job.files, pool).await?);
            }
        }
        self.files_written.add(data.len());
        counts.bytes = data.iter().map(|file| file.size).sum();
        let mut rows = Vec::new();
        for file in &data {
            rows.push(ActionRow::Add(file.add_action()?));
        }
        for file in &change {
            rows.push(ActionRow::Change(WrittenFile::change_action(file)?));
        }
        for (file, marks) in self.marks {
            if !marks.updated.is_empty() {
                rows.push(ActionRow::Updated(file, marks.updated));
            }
            if !marks.deleted.is_empty() {
                rows.push(ActionRow::Deleted(file, marks.deleted));
            }
        }
        rows.push(ActionRow::Counts(counts));
        let batch = action_batch(&self.schema, &self.origin, &rows)?;
        let _ = self.output.send(Ok(batch)).await;
        Ok(())
    }
}

/// Rows of the change data feed.
fn change_batch(layout: &FileLayout, mut columns: Vec<ArrayRef>, what: &str, rows: usize) -> Result<RecordBatch> {
    columns.push(Arc::new(StringArray::from(vec![what; rows])));
    conform(columns, rows, &layout.schema)
}

/// Two source rows want the same stored row to become theirs.
pub(super) fn twice_updated(table: &str) -> LoadError {
    LoadError::new(
        SqlState::CardinalityViolation,
        format!("a row of table {table:?} is updated by several source rows"),
    )
    .hint("Add SEQUENCE BY or DEDUPLICATE to keep one source row per key.")
}
