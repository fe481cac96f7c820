//! The operator.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::LoadError;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::build::Built;
use super::filter::filter_of;
use super::output::{Known, Meeting, Side, Work};
use super::settle::{AbsentVersions, Compared, Settle, SettleSpec};
use super::{Keep, MARK};
use crate::metrics::UNCHANGED_ROWS;
use crate::row_exec::{RowOperator, StepContext};
use crate::unique_keys::UniqueKeysSpec;

/// What a [`MatchExec`] does.
#[derive(Debug, Clone)]
pub(crate) struct MatchSpec {
    pub(crate) keep: Keep,
    pub(crate) nulls_equal: bool,
    /// Where the key is in the source and in the stored rows.
    pub(crate) source_key: Vec<usize>,
    pub(crate) stored_key: Vec<usize>,
    /// The check for duplicate keys that the table of keys makes on the way.
    pub(crate) unique: Option<Arc<UniqueKeysSpec>>,
    /// What [`Keep::Unsettled`] leaves out.
    pub(crate) settle: Option<Arc<SettleSpec>>,
    /// At least so many partitions come out.
    pub(crate) partitions: usize,
}

type Source = Shared<BoxFuture<'static, Result<Arc<Known>, Arc<DataFusionError>>>>;

/// What the partitions of one execution share.
#[derive(Clone)]
struct Run {
    source: Source,
    meeting: Arc<Meeting>,
    /// How many partitions have not ended.
    busy: Arc<AtomicUsize>,
}

/// The current execution, if there is one.
type CurrentRun = Arc<Mutex<Option<Run>>>;

/// Held by a partition while it works: the last to end lets the source go.
struct Busy {
    current: CurrentRun,
    busy: Arc<AtomicUsize>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Source rows beside the stored rows of the same key.
pub struct MatchExec {
    spec: Arc<MatchSpec>,
    source: Arc<dyn ExecutionPlan>,
    stored: Arc<dyn ExecutionPlan>,
    /// What scans below know of the source's keys.
    filter: Arc<DynamicFilterPhysicalExpr>,
    run: CurrentRun,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MatchExec {
    pub(crate) fn new(spec: MatchSpec, source: Arc<dyn ExecutionPlan>, stored: Arc<dyn ExecutionPlan>) -> Self {
        let columns = key_columns(&spec, &stored.schema());
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(columns, lit(true)));
        Self::with_filter(Arc::new(spec), source, stored, filter)
    }

    fn with_filter(
        spec: Arc<MatchSpec>,
        source: Arc<dyn ExecutionPlan>,
        stored: Arc<dyn ExecutionPlan>,
        filter: Arc<DynamicFilterPhysicalExpr>,
    ) -> Self {
        let schema = output_schema(&source.schema(), &stored.schema(), spec.keep);
        let partitions = spec.partitions.max(stored.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Self {
            spec,
            source,
            stored,
            filter,
            run: CurrentRun::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn run(&self, context: &Arc<TaskContext>) -> Run {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.get_or_insert_with(|| self.start(Arc::clone(context))).clone()
    }

    fn start(&self, context: Arc<TaskContext>) -> Run {
        let (spec, source, filter) = (
            Arc::clone(&self.spec),
            Arc::clone(&self.source),
            Arc::clone(&self.filter),
        );
        let schema = self.stored.schema();
        let time = MetricBuilder::new(&self.metrics).subset_time("build_time", 0);
        let metrics = self.metrics.clone();
        let built = async move {
            let _timer = time.timer();
            let settle = spec.settle.as_deref();
            let compared = settle.map(|settle| Compared::try_new(settle, &schema)).transpose()?;
            let compared = compared.map(Arc::new);
            let built = Built::read(&source, &spec.source_key, spec.nulls_equal, compared.as_ref(), &context).await?;
            if let Some(unique) = spec.unique.as_ref().filter(|_| built.repeated()) {
                report_duplicates(unique, &built, &source.schema(), &metrics, &context)?;
            }
            if only_known_keys(&spec) {
                let columns = key_columns(&spec, &schema);
                filter.update(filter_of(&built, &columns, spec.nulls_equal, &schema)?)?;
            }
            filter.mark_complete();
            let settle = settle.zip(compared);
            let settle = settle.map(|(settle, compared)| Settle::try_new(settle, &schema, compared, &built));
            let settle = settle.transpose()?;
            Ok(Arc::new(Known { built, settle }))
        };
        let built = async move { built.await.map_err(Arc::new) };
        let partitions = self.properties.partitioning.partition_count();
        Run {
            source: built.boxed().shared(),
            meeting: Arc::new(Meeting::of(partitions)),
            busy: Arc::new(AtomicUsize::new(partitions)),
        }
    }
}

/// Whether stored rows of other keys than the source's are of no use.
fn only_known_keys(spec: &MatchSpec) -> bool {
    spec.settle
        .as_ref()
        .is_none_or(|settle| settle.absent == AbsentVersions::Dropped)
}

fn key_columns(spec: &MatchSpec, stored: &SchemaRef) -> Vec<Arc<dyn PhysicalExpr>> {
    let column = |i: &usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(stored.field(*i).name(), *i)) };
    spec.stored_key.iter().map(column).collect()
}

fn output_schema(source: &SchemaRef, stored: &SchemaRef, keep: Keep) -> SchemaRef {
    let mut fields = source.fields().to_vec();
    match keep {
        Keep::Mark => fields.push(Arc::new(Field::new(MARK, DataType::Boolean, false))),
        Keep::Unsettled => {
            let nullable = |(f, s): (&mut FieldRef, &FieldRef)| {
                *f = Arc::new(f.as_ref().clone().with_nullable(f.is_nullable() || s.is_nullable()));
            };
            fields.iter_mut().zip(stored.fields()).for_each(nullable);
        }
        Keep::Pairs => {
            let nullable = stored.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
            fields.extend(nullable.map(Arc::new));
        }
    }
    Arc::new(Schema::new_with_metadata(fields, source.metadata().clone()))
}

/// The error of the duplicate check, with its counts: it goes through the rows again.
fn report_duplicates(
    unique: &UniqueKeysSpec,
    built: &Built,
    schema: &SchemaRef,
    metrics: &ExecutionPlanMetricsSet,
    context: &Arc<TaskContext>,
) -> Result<()> {
    let mut check = unique.start(StepContext {
        input_schema: Arc::clone(schema),
        schema: Arc::clone(schema),
        partition: 0,
        partitions: 1,
        metrics,
        pool: context.memory_pool(),
    })?;
    let mut passed = VecDeque::new();
    for batch in &built.batches {
        check.push(batch.clone(), &mut passed)?;
        passed.clear();
    }
    check.finish(&mut passed)
}

impl fmt::Debug for MatchExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatchExec")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for MatchExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (source, stored) = (self.source.schema(), self.stored.schema());
        let on = self.spec.source_key.iter().zip(&self.spec.stored_key);
        let on = on.map(|(ours, theirs)| format!("{} = {}", source.field(*ours).name(), stored.field(*theirs).name()));
        let on: Vec<String> = on.collect();
        let unique = if self.spec.unique.is_some() {
            ", unique=true"
        } else {
            ""
        };
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "MatchExec: keep={}, on=[{}]{unique}", self.spec.keep, on.join(", "))
            }
            DisplayFormatType::TreeRender => writeln!(f, "on=[{}]", on.join(", ")),
        }
    }
}

impl ExecutionPlan for MatchExec {
    fn name(&self) -> &str {
        "MatchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.source, &self.stored]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    /// The scan below deals its files out itself, and the source's order is worth more than its partitions.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
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
        let [source, stored]: [Arc<dyn ExecutionPlan>; 2] = children
            .try_into()
            .map_err(|_| LoadError::internal("MatchExec takes two inputs"))?;
        // The filter stays the one that the scans below know.
        let (spec, filter) = (Arc::clone(&self.spec), Arc::clone(&self.filter));
        Ok(Arc::new(Self::with_filter(spec, source, stored, filter)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (source, stored) = (Arc::clone(&self.source), Arc::clone(&self.stored));
        Ok(Arc::new(Self::new(self.spec.as_ref().clone(), source, stored)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = self.run(&context);
        let batch_size = context.session_config().batch_size();
        let pool = Arc::clone(context.memory_pool());
        let stored = match partition < self.stored.output_partitioning().partition_count() {
            true => Some(self.stored.execute(partition, context)?),
            false => None,
        };
        let (spec, schema, stored_schema) = (Arc::clone(&self.spec), self.schema(), self.stored.schema());
        let partitions = self.properties.partitioning.partition_count();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let unchanged = MetricBuilder::new(&self.metrics).counter(UNCHANGED_ROWS, partition);
        let busy = Busy {
            current: Arc::clone(&self.run),
            busy: Arc::clone(&run.busy),
        };
        let work = async move {
            let side = Side {
                known: run.source.await.map_err(DataFusionError::Shared)?,
                meeting: run.meeting,
                keep: spec.keep,
                key: spec.stored_key.clone(),
                stored_schema,
                schema,
                partition,
                partitions,
                batch_size,
                pool,
                unchanged,
            };
            let rows = stream::try_unfold((Work::new(side, stored), busy), |(mut work, busy)| async move {
                Ok(work.next().await?.map(|batch| (batch, (work, busy))))
            });
            Ok::<_, DataFusionError>(rows)
        };
        let rows = work.into_stream().try_flatten();
        let rows = rows.inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input: &[Arc<Statistics>],
        _args: &datafusion::physical_plan::statistics::StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }

    /// Nothing from above: every source row has to come out. The own filter is only known when the plan runs.
    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let source = ChildFilterDescription::all_unsupported(&parent_filters);
        let mut stored = ChildFilterDescription::all_unsupported(&parent_filters);
        if phase == FilterPushdownPhase::Post {
            let own = Arc::clone(&self.filter);
            stored = stored.with_self_filter(own);
        }
        Ok(FilterDescription::new().with_child(source).with_child(stored))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::all_unsupported(child_pushdown_result))
    }
}
