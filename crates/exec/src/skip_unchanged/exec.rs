//! The operator.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::LoadError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryStreamExt};

use super::open::{Layout, OpenVersions};
use super::place::place;
use super::stream::{Busy, telling};
use super::tells::{Known, Tells};

/// Done when the open versions are known.
type Reading = Shared<BoxFuture<'static, Result<(), Arc<DataFusionError>>>>;

/// The rows of a source but for those that an open version agrees with.
pub struct SkipUnchangedExec {
    source: Arc<dyn ExecutionPlan>,
    stored: Arc<dyn ExecutionPlan>,
    tells: Arc<Tells>,
    /// Whether the scan below evaluates the condition.
    placed: bool,
    layout: Layout,
    known: Arc<Known>,
    reading: Mutex<Option<Reading>>,
    /// How many partitions have not ended.
    busy: Arc<AtomicUsize>,
}

impl SkipUnchangedExec {
    /// `columns`, over the source, are what its rows are compared by with the columns of `stored`.
    pub(super) fn new(
        source: Arc<dyn ExecutionPlan>,
        stored: Arc<dyn ExecutionPlan>,
        columns: Vec<Arc<dyn PhysicalExpr>>,
        layout: Layout,
    ) -> Result<Self> {
        let known = Arc::new(Known::new());
        let tells = Arc::new(Tells::new(columns, Arc::clone(&known)));
        let condition: Arc<dyn PhysicalExpr> = Arc::<Tells>::clone(&tells);
        let (source, placed) = match place(&source, &condition)? {
            Some(source) => (source, true),
            None => (source, false),
        };
        Ok(Self {
            busy: Arc::new(AtomicUsize::new(source.output_partitioning().partition_count())),
            source,
            stored,
            tells,
            placed,
            layout,
            known,
            reading: Mutex::new(None),
        })
    }

    /// Whoever runs first has the open versions read.
    fn reading(&self, context: &Arc<TaskContext>) -> Reading {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || {
            let (stored, known) = (Arc::clone(&self.stored), Arc::clone(&self.known));
            let (layout, context) = (self.layout, Arc::clone(context));
            // More threads than partitions may run take their lists when they come.
            let partitions = self.source.output_partitioning().partition_count();
            let threads = partitions.min(context.session_config().target_partitions());
            let read = async move {
                let versions = OpenVersions::read(&stored, layout, threads, &context).await?;
                known.set(versions.map(Arc::new));
                Ok(())
            };
            read.map(|done: Result<()>| done.map_err(Arc::new)).boxed().shared()
        };
        reading.get_or_insert_with(start).clone()
    }
}

impl fmt::Debug for SkipUnchangedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkipUnchangedExec")
            .field("tells", &self.tells)
            .field("placed", &self.placed)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SkipUnchangedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let place = if self.placed { "scan" } else { "here" };
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "SkipUnchangedExec: {}, evaluated={place}", self.tells)
            }
            DisplayFormatType::TreeRender => writeln!(f, "{}", self.tells),
        }
    }
}

impl ExecutionPlan for SkipUnchangedExec {
    fn name(&self) -> &str {
        "SkipUnchangedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.source.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.source, &self.stored]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

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
            .map_err(|_| LoadError::internal("SkipUnchangedExec takes two inputs"))?;
        // What is known stays what the scan below knows.
        Ok(Arc::new(Self {
            busy: Arc::new(AtomicUsize::new(source.output_partitioning().partition_count())),
            source,
            stored,
            tells: Arc::clone(&self.tells),
            placed: self.placed,
            layout: self.layout,
            known: Arc::clone(&self.known),
            reading: Mutex::new(None),
        }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = vec![Arc::clone(&self.source), Arc::clone(&self.stored)];
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = self.reading(&context);
        let source = Arc::clone(&self.source);
        let tells = (!self.placed).then(|| Arc::clone(&self.tells));
        let busy = Busy::new(&self.known, &self.busy);
        let started = async move {
            reading.await.map_err(DataFusionError::Shared)?;
            let rows = source.execute(partition, context)?;
            Ok::<_, DataFusionError>(telling(rows, tells, busy))
        };
        let rows = started.into_stream().try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.known.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition), ChildStats::Skip]
    }

    fn statistics_from_inputs(&self, input: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(match input.first() {
            Some(rows) => rows.as_ref().clone().to_inexact(),
            None => Statistics::new_unknown(&self.schema()),
        }))
    }
}
