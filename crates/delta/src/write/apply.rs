//! Marked rows leave the table: the step between the writers and the commit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use alluvium_core::{LoadError, Result};
use alluvium_exec::columns;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
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
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::scan::ScanDesc;
use crate::table::FileTask;

use super::actions::{ActionRow, Origin, TaskCounts, action_batch, split_positions};
use super::exec::single;
use super::files::WrittenFile;
use super::job::LoadJob;
use super::positions::rewrite::rewrite;
use super::positions::vector::{self, VectorWriter};
use super::positions::{Marked, collect};

/// Passes action rows on, but for positions: those it applies to their files once all have come. Its input is
/// distributed by file, so all positions of a file come to one partition.
#[derive(Debug)]
pub(super) struct ApplyPositionsExec {
    input: Arc<dyn ExecutionPlan>,
    job: Arc<LoadJob>,
    /// One for each file that may be written again at the same time: some more than there are threads, because each waits
    /// for the store in between. Files fall to partitions by hash, so one partition may have them all.
    permits: Arc<Semaphore>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ApplyPositionsExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, job: Arc<LoadJob>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            permits: Arc::new(Semaphore::new(ENCODED * properties.partitioning.partition_count())),
            input,
            job,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn strategy(&self) -> &'static str {
        match &self.job.spec.target.base {
            Some(base) if base.deletion_vectors_enabled() => "deletion_vector",
            _ => "rewrite",
        }
    }

    fn file_column(&self) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(columns::FILE, 1))
    }
}

impl DisplayAs for ApplyPositionsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "ApplyPositionsExec: table={}, strategy={}",
                    self.job.table(),
                    self.strategy()
                )
            }
            DisplayFormatType::TreeRender => write!(f, "strategy={}", self.strategy()),
        }
    }
}

impl ExecutionPlan for ApplyPositionsExec {
    fn name(&self) -> &'static str {
        "ApplyPositionsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::KeyPartitioned(vec![self.file_column()])])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        f(&self.file_column())
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let [input] = single(children)?;
        Ok(Arc::new(Self::new(input, Arc::clone(&self.job))))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), 2);
        let task = ApplyTask {
            job: Arc::clone(&self.job),
            permits: Arc::clone(&self.permits),
            origin: Origin::new(self.job.statement, "apply", partition),
            context,
            output: builder.tx(),
            files_rewritten: MetricBuilder::new(&self.metrics).counter("files_rewritten", partition),
            files_masked: MetricBuilder::new(&self.metrics).counter("files_masked", partition),
            rows_copied: MetricBuilder::new(&self.metrics).counter("rows_copied", partition),
        };
        builder.spawn(async move { Ok(task.run(input).await?) });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct ApplyTask {
    job: Arc<LoadJob>,
    permits: Arc<Semaphore>,
    origin: Origin,
    context: Arc<TaskContext>,
    output: Sender<DfResult<RecordBatch>>,
    files_rewritten: Count,
    files_masked: Count,
    rows_copied: Count,
}

impl ApplyTask {
    async fn run(self, mut input: SendableRecordBatchStream) -> Result<()> {
        let schema = input.schema();
        let mut marked = BTreeMap::new();
        while let Some(batch) = input.next().await {
            let (others, positions) = split_positions(&batch?)?;
            collect(&mut marked, positions, self.job.table())?;
            if others.num_rows() > 0 && self.output.send(Ok(others)).await.is_err() {
                return Ok(());
            }
        }
        drop(input);
        if marked.is_empty() {
            return Ok(());
        }
        let rows = self.apply(marked).await?;
        let _ = self.output.send(Ok(action_batch(&schema, &self.origin, &rows)?)).await;
        Ok(())
    }

    /// Masks the files with vectors one after the other, while the others are written again.
    async fn apply(&self, marked: BTreeMap<u32, Marked>) -> Result<Vec<ActionRow>> {
        let Some(base) = &self.job.spec.target.base else {
            return Err(LoadError::internal(
                "rows of a table that does not exist yet are marked",
            ));
        };
        let started = Instant::now();
        let desc = Arc::new(ScanDesc::of(base));
        let tasks = base.files().await?;
        let mut counts = TaskCounts::default();
        let mut rows = Vec::new();
        let mut vectors = VectorWriter::new(&self.job, base, &desc);
        let mut rewrites = JoinSet::new();
        for (file, marked) in marked {
            let task = usize::try_from(file).ok().and_then(|index| tasks.get(index));
            let task = task.ok_or_else(|| LoadError::internal(format!("there is no file {file}")))?;
            let (positions, deleted) = marked.into_all();
            counts.deleted += deleted;
            if vector::applies(base, task) {
                vectors.mask(task, positions, &self.context).await?;
                self.files_masked.add(1);
                continue;
            }
            rewrites.spawn(self.rewrite(file, task.clone(), positions, Arc::clone(&desc)));
        }
        rows.extend(vectors.finish().await?);
        for (file, (new, written)) in all(rewrites).await? {
            counts.copied += written
                .iter()
                .map(|written| written.rows)
                .sum::<u64>()
                .saturating_sub(new);
            for written in written {
                counts.bytes += written.size;
                rows.push(ActionRow::Add(written.add_action()?));
            }
            rows.push(ActionRow::Remove(file));
            self.files_rewritten.add(1);
        }
        self.rows_copied
            .add(usize::try_from(counts.copied).unwrap_or(usize::MAX));
        counts.rewrite_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        rows.push(ActionRow::Counts(counts));
        Ok(rows)
    }

    /// Writes one file again when its turn has come.
    fn rewrite(
        &self,
        file: u32,
        task: FileTask,
        positions: RoaringTreemap,
        desc: Arc<ScanDesc>,
    ) -> impl Future<Output = Result<Rewritten>> + Send + 'static {
        let (job, context, permits) = (
            Arc::clone(&self.job),
            Arc::clone(&self.context),
            Arc::clone(&self.permits),
        );
        async move {
            let new = job
                .versions
                .as_ref()
                .map(|versions| versions.of(file))
                .unwrap_or_default();
            let in_place = new.positions(&(0..u64::MAX)).count();
            let share = match usize::try_from(positions.len()) == Ok(in_place) {
                true => IN_PLACE,
                false => ENCODED,
            };
            let _turn = permits.acquire_many_owned(u32::try_from(share).unwrap_or(1)).await;
            let written = rewrite(&job, &desc, &task, &positions, &new, &context).await?;
            Ok((file, (u64::try_from(new.len()).unwrap_or(0), written)))
        }
    }
}

/// What a file whose rows are encoded takes of the work that is done at once: there are as many of them as partitions.
const ENCODED: usize = 3;
/// What a file takes that gets new versions in place, which waits for the store more, and holds less.
const IN_PLACE: usize = 2;

/// A file that was written again, how many new versions it was given, and what it has become.
type Rewritten = (u32, (u64, Vec<WrittenFile>));

/// What all tasks give back, in the order of the files. The first error ends the others.
async fn all(mut rewrites: JoinSet<Result<Rewritten>>) -> Result<Vec<Rewritten>> {
    let mut written = Vec::new();
    while let Some(done) = rewrites.join_next().await {
        let done = done.map_err(|e| LoadError::internal(format!("a file was not written again: {e}")))?;
        written.push(done?);
    }
    written.sort_by_key(|(file, _)| *file);
    Ok(written)
}
