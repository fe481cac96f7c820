//! The physical node of one reader.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions, SpillManager,
};
use futures::{StreamExt, stream};

use super::SpoolSpec;
use super::buffer::{Buffer, Held};
use super::state::{Partition, Seat};
use crate::node::RowSpec;
use crate::row_exec::only_child;

/// The physical node of one reader. It keeps partitions, but promises no order, so that no sort of one branch is ever
/// pushed into its copy of the source.
#[derive(Debug)]
pub struct SpoolExec {
    spec: Arc<SpoolSpec>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpoolExec {
    /// A reader over `input`, the same plan for every reader.
    pub fn new(spec: Arc<SpoolSpec>, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            spec,
            input,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn spill_manager(&self, partition: usize, context: &TaskContext) -> SpillManager {
        let metrics = SpillMetrics::new(&self.metrics, partition);
        SpillManager::new(context.runtime_env(), metrics, self.schema())
            .with_compression_type(context.session_config().spill_compression())
    }
}

impl DisplayAs for SpoolExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "SpoolExec: reader={}", self.spec),
            DisplayFormatType::TreeRender => writeln!(f, "reader={}", self.spec),
        }
    }
}

impl ExecutionPlan for SpoolExec {
    fn name(&self) -> &str {
        SpoolSpec::EXEC_NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(self.name(), children)?;
        Ok(Arc::new(Self::new(Arc::clone(&self.spec), input)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let spill = self.spill_manager(partition, &context);
        let shared = &self.spec.shared;
        let seat = Seat {
            reader: self.spec.reader,
            readers: shared.readers,
            partition,
            partitions: self.properties.partitioning.partition_count(),
        };
        let state = shared.executions.join(&context, seat, || {
            let memory = MemoryConsumer::new(format!("Spool[{partition}]"))
                .with_can_spill(true)
                .register(context.memory_pool());
            let moving = shared.executions.moving(&context, &self.input);
            let source = moving.execute(partition, Arc::clone(&context))?;
            Ok(Partition::new(
                source,
                Buffer::new(shared.readers, memory, spill.clone()),
            ))
        })?;
        let reader = Reader {
            state,
            reader: self.spec.reader,
            spill,
            run: None,
        };
        Ok(reader.into_stream(self.schema(), BaselineMetrics::new(&self.metrics, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, input: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(match input.first() {
            Some(input) => input.as_ref().clone().to_inexact(),
            None => Statistics::new_unknown(&self.schema()),
        }))
    }
}

/// One reader on one partition.
struct Reader {
    state: Arc<Partition>,
    reader: usize,
    spill: SpillManager,
    /// The spilled run that is being read.
    run: Option<Run>,
}

struct Run {
    file: Arc<dyn SpillFile>,
    next: usize,
    batches: SendableRecordBatchStream,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.state.leave(self.reader);
    }
}

impl Reader {
    fn into_stream(self, schema: SchemaRef, metrics: BaselineMetrics) -> SendableRecordBatchStream {
        let batches = stream::try_unfold(self, |mut reader| async move {
            let next = match reader.state.next(reader.reader).await? {
                Some(Held::Memory(batch)) => Some(batch),
                Some(Held::Spilled { file, index }) => reader.read(file, index).await?,
                None => None,
            };
            Ok(next.map(|batch| (batch, reader)))
        });
        let batches = batches.inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.output_rows().add(batch.num_rows());
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    async fn read(
        &mut self,
        file: Arc<dyn SpillFile>,
        index: usize,
    ) -> Result<Option<datafusion::arrow::array::RecordBatch>> {
        let mut run = match self.run.take() {
            Some(run) if Arc::ptr_eq(&run.file, &file) && run.next <= index => run,
            _ => Run {
                batches: self.spill.read_spill_as_stream(Arc::clone(&file), None)?,
                next: 0,
                file,
            },
        };
        while run.next < index {
            run.batches.next().await.transpose()?;
            run.next += 1;
        }
        let batch = run.batches.next().await.transpose()?;
        run.next += 1;
        self.run = Some(run);
        match batch {
            Some(batch) => Ok(Some(batch)),
            None => Err(alluvium_core::LoadError::internal("a spilled run ended early").into()),
        }
    }
}
