//! The operator.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::LoadError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, Literal, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt};

/// The condition over the columns of the rows alone, once the bounds are known.
type Bound = Shared<BoxFuture<'static, Result<Arc<dyn PhysicalExpr>, Arc<DataFusionError>>>>;

/// Keeps the rows for which a condition on them and on the bounds is true.
#[derive(Debug)]
pub struct BoundedExec {
    bounds: Arc<dyn ExecutionPlan>,
    rows: Arc<dyn ExecutionPlan>,
    /// Over the columns of the bounds, then those of the rows.
    condition: Arc<dyn PhysicalExpr>,
    /// What scans below know of the condition.
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// Started by whichever partition runs first.
    bound: Mutex<Option<Bound>>,
    metrics: ExecutionPlanMetricsSet,
}

impl BoundedExec {
    /// `condition` is over the columns of `bounds`, then those of `rows`.
    pub fn try_new(
        bounds: Arc<dyn ExecutionPlan>,
        rows: Arc<dyn ExecutionPlan>,
        condition: Arc<dyn PhysicalExpr>,
    ) -> Result<Self> {
        let width = bounds.schema().fields().len();
        let columns = collect_columns(&condition).into_iter();
        let of_rows = columns.filter_map(|c| Some(Column::new(c.name(), c.index().checked_sub(width)?)));
        let children = of_rows.map(|c| -> Arc<dyn PhysicalExpr> { Arc::new(c) }).collect();
        let filter = DynamicFilterPhysicalExpr::new(children, lit(true));
        Ok(Self::with_filter(bounds, rows, condition, Arc::new(filter)))
    }

    fn with_filter(
        bounds: Arc<dyn ExecutionPlan>,
        rows: Arc<dyn ExecutionPlan>,
        condition: Arc<dyn PhysicalExpr>,
        filter: Arc<DynamicFilterPhysicalExpr>,
    ) -> Self {
        Self {
            bounds,
            rows,
            condition,
            filter,
            bound: Mutex::new(None),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn bound(&self, context: &Arc<TaskContext>) -> Result<Bound> {
        let mut started = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = started.as_ref() {
            return Ok(bound.clone());
        }
        let bounds = self.bounds.execute(0, Arc::clone(context))?;
        let (condition, filter) = (Arc::clone(&self.condition), Arc::clone(&self.filter));
        let bound = async move { resolve(bounds, condition, &filter).await.map_err(Arc::new) };
        let bound = bound.boxed().shared();
        *started = Some(bound.clone());
        Ok(bound)
    }
}

/// Reads the bounds, puts them into the condition, and tells the scans.
async fn resolve(
    bounds: SendableRecordBatchStream,
    condition: Arc<dyn PhysicalExpr>,
    filter: &DynamicFilterPhysicalExpr,
) -> Result<Arc<dyn PhysicalExpr>> {
    let batches: Vec<RecordBatch> = bounds.try_collect().await?;
    let mut rows = batches.iter().filter(|batch| batch.num_rows() > 0);
    let bounds = match (rows.next(), rows.next()) {
        (Some(batch), None) if batch.num_rows() == 1 => batch.columns(),
        _ => return Err(LoadError::internal("bounds are not one row").into()),
    };
    let values = bounds.iter().map(|column| ScalarValue::try_from_array(column, 0));
    let values = values.collect::<Result<Vec<_>>>()?;
    let known = condition.transform(|e| {
        let Some(column) = e.downcast_ref::<Column>() else {
            return Ok(Transformed::no(e));
        };
        let replaced: Arc<dyn PhysicalExpr> = match values.get(column.index()) {
            Some(value) => Arc::new(Literal::new(value.clone())),
            None => Arc::new(Column::new(column.name(), column.index() - values.len())),
        };
        Ok(Transformed::yes(replaced))
    })?;
    filter.update(Arc::clone(&known.data))?;
    filter.mark_complete();
    Ok(known.data)
}

impl DisplayAs for BoundedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "BoundedExec: {}", self.condition),
            DisplayFormatType::TreeRender => writeln!(f, "{}", self.condition),
        }
    }
}

impl ExecutionPlan for BoundedExec {
    fn name(&self) -> &str {
        "BoundedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.rows.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.bounds, &self.rows]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::SinglePartition,
            Distribution::UnspecifiedDistribution,
        ])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, true]
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
        let [bounds, rows]: [Arc<dyn ExecutionPlan>; 2] = children
            .try_into()
            .map_err(|_| LoadError::internal("BoundedExec takes two inputs"))?;
        // The filter stays the one that the scans below know.
        let (condition, filter) = (Arc::clone(&self.condition), Arc::clone(&self.filter));
        Ok(Arc::new(Self::with_filter(bounds, rows, condition, filter)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (bounds, rows) = (Arc::clone(&self.bounds), Arc::clone(&self.rows));
        Ok(Arc::new(Self::try_new(bounds, rows, Arc::clone(&self.condition))?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let bound = self.bound(&context)?;
        let rows = self.rows.execute(partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let kept = async move {
            let condition = bound.await.map_err(DataFusionError::Shared)?;
            Ok::<_, DataFusionError>(rows.map(move |batch| {
                let batch = batch?;
                let _timer = metrics.elapsed_compute().timer();
                let kept = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
                let kept = filter_record_batch(&batch, as_boolean_array(&kept)?)?;
                metrics.record_output(kept.num_rows());
                Ok(kept)
            }))
        };
        let stream = kept.into_stream().try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::Skip, ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, input: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(match input.last() {
            Some(rows) => rows.as_ref().clone().to_inexact(),
            None => Statistics::new_unknown(&self.schema()),
        }))
    }

    /// Filters from above concern the rows; the own one is only known when the plan runs.
    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let bounds = ChildFilterDescription::all_unsupported(&parent_filters);
        let mut rows = ChildFilterDescription::from_child(&parent_filters, &self.rows)?;
        if phase == FilterPushdownPhase::Post {
            let own = Arc::clone(&self.filter);
            rows = rows.with_self_filter(own);
        }
        Ok(FilterDescription::new().with_child(bounds).with_child(rows))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_any(child_pushdown_result))
    }
}
