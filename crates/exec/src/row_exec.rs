//! The shape all row operators share in physical plans: one input, partition by partition, a step per batch.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use alluvium_core::LoadError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexRequirement, OrderingRequirements, Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

use crate::node::{RowSpec, appended_schema, fmt_arguments};

/// What an operator asks of its input.
#[derive(Debug, Clone)]
pub struct Requirements {
    /// Which rows have to meet in one partition.
    pub distribution: Distribution,
    /// In which order rows have to come.
    pub ordering: Option<LexRequirement>,
}

/// What a step is given at its start.
#[derive(Debug)]
pub struct StepContext<'a> {
    /// The schema of incoming batches.
    pub input_schema: SchemaRef,
    /// The schema of outgoing batches.
    pub schema: SchemaRef,
    /// The partition.
    pub partition: usize,
    /// How many partitions there are.
    pub partitions: usize,
    /// Where counters are registered.
    pub metrics: &'a ExecutionPlanMetricsSet,
    /// Where memory is accounted.
    pub pool: &'a Arc<dyn MemoryPool>,
}

/// The physical side of a row operator.
pub trait RowOperator: RowSpec {
    /// Whether rows come out unchanged and in the order in which they came in, though some may be left out.
    fn passes_through(&self) -> bool {
        true
    }

    /// What is asked of an input with `schema`.
    fn requirements(&self, schema: &Schema, config: &Arc<ConfigOptions>) -> Result<Requirements>;

    /// The work on one partition.
    fn start(&self, context: StepContext<'_>) -> Result<Box<dyn RowStep>>;
}

/// The work on one partition: batches go in, batches come out.
pub trait RowStep: Send {
    /// Takes a batch of at least one row.
    fn push(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()>;

    /// The input has ended.
    fn finish(&mut self, _out: &mut VecDeque<RecordBatch>) -> Result<()> {
        Ok(())
    }
}

/// The physical node of a row operator.
#[derive(Debug)]
pub struct RowExec<S: RowOperator> {
    spec: Arc<S>,
    input: Arc<dyn ExecutionPlan>,
    config: Arc<ConfigOptions>,
    requirements: Requirements,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl<S: RowOperator> RowExec<S> {
    /// The operator over `input`.
    pub fn try_new(spec: Arc<S>, input: Arc<dyn ExecutionPlan>, config: Arc<ConfigOptions>) -> Result<Self> {
        let requirements = spec.requirements(&input.schema(), &config)?;
        let properties = Arc::new(properties(spec.as_ref(), &input)?);
        Ok(Self {
            spec,
            input,
            config,
            requirements,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// What the operator does.
    pub fn spec(&self) -> &Arc<S> {
        &self.spec
    }
}

fn properties<S: RowOperator>(spec: &S, input: &Arc<dyn ExecutionPlan>) -> Result<PlanProperties> {
    let input_schema = input.schema();
    let appended = spec.appended();
    let schema = Arc::new(appended_schema(&input_schema, appended.clone()));
    let partitions = input.output_partitioning().partition_count();
    let (equivalences, partitioning) = match (spec.passes_through(), appended.is_empty()) {
        (true, true) => (
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
        ),
        (true, false) => {
            let all: Vec<usize> = (0..input_schema.fields().len()).collect();
            let mapping = ProjectionExprs::from_indices(&all, &input_schema).projection_mapping(&input_schema)?;
            let equivalences = input.equivalence_properties().project(&mapping, schema);
            (equivalences, input.output_partitioning().clone())
        }
        (false, _) => (
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
        ),
    };
    Ok(PlanProperties::new(
        equivalences,
        partitioning,
        input.pipeline_behavior(),
        input.boundedness(),
    ))
}

impl<S: RowOperator> DisplayAs for RowExec<S> {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                f.write_str(S::EXEC_NAME)?;
                fmt_arguments(self.spec.as_ref(), f)
            }
            DisplayFormatType::TreeRender => {
                let arguments = self.spec.arguments();
                arguments
                    .iter()
                    .try_for_each(|(name, value)| writeln!(f, "{name}={value}"))
            }
        }
    }
}

impl<S: RowOperator> ExecutionPlan for RowExec<S> {
    fn name(&self) -> &str {
        S::EXEC_NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![self.requirements.distribution.clone()])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.requirements.ordering.clone().map(OrderingRequirements::new)]
    }

    /// Not where an order is asked for: the optimizer would move a sort from above to below, in place of that order.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.spec.passes_through() && self.requirements.ordering.is_none()]
    }

    /// More partitions than asked for would only mix up the order of the source.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![matches!(
            self.requirements.distribution,
            Distribution::KeyPartitioned(_)
        )]
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
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(S::EXEC_NAME, children)?;
        let (spec, config) = (Arc::clone(&self.spec), Arc::clone(&self.config));
        Ok(Arc::new(match options.children_properties {
            ChildrenPropertiesMode::Keep => Self {
                spec,
                input,
                config,
                requirements: self.requirements.clone(),
                properties: Arc::clone(&self.properties),
                metrics: ExecutionPlanMetricsSet::new(),
            },
            ChildrenPropertiesMode::Recompute => Self::try_new(spec, input, config)?,
        }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let step = self.spec.start(StepContext {
            input_schema: self.input.schema(),
            schema: self.schema(),
            partition,
            partitions: self.properties.partitioning.partition_count(),
            metrics: &self.metrics,
            pool: context.memory_pool(),
        })?;
        Ok(Box::pin(RowStream {
            schema: self.schema(),
            input: self.input.execute(partition, context)?,
            step: Some(step),
            ready: VecDeque::new(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    /// The input's, but never exact: an exact row count would let the optimizer answer without running the operator.
    fn statistics_from_inputs(&self, input: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let schema = self.schema();
        let Some(input) = input.first() else {
            return Ok(Arc::new(Statistics::new_unknown(&schema)));
        };
        let mut statistics = input.as_ref().clone().to_inexact();
        statistics
            .column_statistics
            .resize_with(schema.fields().len(), ColumnStatistics::new_unknown);
        Ok(Arc::new(statistics))
    }
}

/// The child of a node that has exactly one.
pub(crate) fn only_child(name: &str, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    match (children.pop(), children.is_empty()) {
        (Some(child), true) => Ok(child),
        _ => Err(LoadError::internal(format!("{name} takes one input")).into()),
    }
}

struct RowStream {
    schema: SchemaRef,
    input: SendableRecordBatchStream,
    /// Gone once the input has ended or an error was returned.
    step: Option<Box<dyn RowStep>>,
    ready: VecDeque<RecordBatch>,
    metrics: BaselineMetrics,
}

impl RowStream {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(batch)));
            }
            let Some(step) = self.step.as_mut() else {
                return Poll::Ready(None);
            };
            let input = ready!(self.input.poll_next_unpin(cx));
            let _timer = self.metrics.elapsed_compute().timer();
            let done = match input {
                Some(Ok(batch)) if batch.num_rows() == 0 => Ok(false),
                Some(Ok(batch)) => step.push(batch, &mut self.ready).map(|()| false),
                Some(Err(e)) => Err(e),
                None => step.finish(&mut self.ready).map(|()| true),
            };
            match done {
                Ok(false) => {}
                Ok(true) => self.step = None,
                Err(e) => {
                    self.step = None;
                    self.ready.clear();
                    return Poll::Ready(Some(Err(e)));
                }
            }
        }
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let poll = this.poll_step(cx);
        this.metrics.record_poll(poll)
    }
}

impl RecordBatchStream for RowStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
