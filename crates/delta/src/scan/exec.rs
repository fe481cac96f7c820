//! The scan's operator.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, DynamicFilterTracking};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, ReplaceChildrenOptions, apply_expression_roots,
};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::scan::reader::Reader;
use crate::scan::run::Run;
use crate::scan::{FILES_PRUNED_STATIC, FILES_SKIPPED, FILES_TOTAL, ScanDesc};

/// What a [`LoadDeltaScanExec`] is made from, beside its filters and its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPlan {
    /// The table.
    pub table: Arc<ScanDesc>,
    /// The columns, as indices into [`ScanDesc::output_schema`].
    pub projection: Vec<usize>,
    /// How many files are left to read.
    pub files: usize,
    /// How many were left out in planning.
    pub pruned: usize,
    /// The table column that the filters are a range of, when rows are wanted for their positions alone: those of files
    /// that the range covers then come unread, with some value of the range for theirs.
    pub range_of: Option<usize>,
}

/// Turns file tasks into the rows of the files.
#[derive(Debug)]
pub struct LoadDeltaScanExec {
    plan: Arc<ScanPlan>,
    /// Over the output columns. They may only leave out rows that some operator above leaves out again.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    input: Arc<dyn ExecutionPlan>,
    reader: Reader,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LoadDeltaScanExec {
    /// Reads the tasks that `input` delivers.
    pub fn try_new(plan: ScanPlan, filters: Vec<Arc<dyn PhysicalExpr>>, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::build(Arc::new(plan), filters, input)
    }

    fn build(plan: Arc<ScanPlan>, filters: Vec<Arc<dyn PhysicalExpr>>, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let reader = Reader::try_new(Arc::clone(&plan.table), &plan.projection)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(reader.output())),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Ok(Self {
            plan,
            filters,
            input,
            reader,
            properties,
            metrics,
        })
    }

    /// What it was made from.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// The filters that were pushed down.
    pub fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    fn count(&self, name: &'static str, partition: usize, by: usize) {
        MetricBuilder::new(&self.metrics).counter(name, partition).add(by);
    }
}

impl DisplayAs for LoadDeltaScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (dynamic, fixed): (Vec<_>, Vec<_>) = self.filters.iter().partition(|filter| is_dynamic(filter));
        let columns: Vec<_> = self.reader.output().fields().iter().map(|c| c.name().clone()).collect();
        let mut shown = vec![
            format!("table={}", self.plan.table.table),
            format!("columns=[{}]", columns.join(", ")),
            format!("files={}", self.plan.files),
            format!("pruned={}", self.plan.pruned),
        ];
        if !fixed.is_empty() {
            let fixed: Vec<_> = fixed.iter().map(ToString::to_string).collect();
            shown.push(format!("filter={}", fixed.join(" AND ")));
        }
        if !dynamic.is_empty() {
            let mut on: Vec<_> = dynamic
                .iter()
                .flat_map(|d| collect_columns(d))
                .map(|c| c.name().to_owned())
                .collect();
            on.sort();
            on.dedup();
            shown.push(format!("dynamic_filter=[{}]", on.join(", ")));
        }
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "LoadDeltaScanExec: {}", shown.join(", "))
            }
            DisplayFormatType::TreeRender => write!(f, "{}", shown.join("\n")),
        }
    }
}

impl ExecutionPlan for LoadDeltaScanExec {
    fn name(&self) -> &str {
        "LoadDeltaScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// The tasks were dealt by size; spreading them again would cost more than it gives.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    /// A join fills its filter only if somebody below says here that it uses it.
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(&self.filters, f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::build(
                Arc::clone(&self.plan),
                self.filters.clone(),
                input,
            )?)),
            _ => internal_err!("LoadDeltaScanExec has one child"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition == 0 {
            self.count(FILES_TOTAL, 0, self.plan.files + self.plan.pruned);
            self.count(FILES_PRUNED_STATIC, 0, self.plan.pruned);
            self.count(FILES_SKIPPED, 0, self.plan.pruned);
        }
        let run = Run {
            plan: Arc::clone(&self.plan),
            filters: self.filters.clone(),
            reader: self.reader.clone(),
            metrics: self.metrics.clone(),
            partition,
        };
        let tasks = self.input.execute(partition, Arc::clone(&context))?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::once(async move { run.start(tasks, &context).await })
            .try_flatten()
            .map(move |batch| batch.inspect(|batch| baseline.record_output(batch.num_rows())));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(self.reader.output()),
            rows,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        let counted_above = |value: &MetricValue| {
            matches!(
                value,
                MetricValue::OutputRows(_)
                    | MetricValue::OutputBytes(_)
                    | MetricValue::OutputBatches(_)
                    | MetricValue::ElapsedCompute(_)
                    | MetricValue::StartTimestamp(_)
                    | MetricValue::EndTimestamp(_)
            )
        };
        let own = self.reader.metrics();
        own.iter()
            .filter(|m| !counted_above(m.value()))
            .for_each(|m| all.push(Arc::clone(m)));
        Some(all)
    }

    /// Keeps every filter, for leaving out files, row groups, pages and rows, and promises nothing.
    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let offered: Vec<_> = child_pushdown_result
            .parent_filters
            .into_iter()
            .map(|f| f.filter)
            .collect();
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; offered.len()]);
        let fresh: Vec<_> = offered
            .into_iter()
            .filter(|filter| !self.filters.contains(filter))
            .collect();
        if fresh.is_empty() {
            return Ok(answer);
        }
        let filters = self.filters.iter().cloned().chain(fresh).collect();
        let updated = Self::build(Arc::clone(&self.plan), filters, Arc::clone(&self.input))?;
        Ok(answer.with_updated_node(Arc::new(updated)))
    }
}

fn is_dynamic(filter: &Arc<dyn PhysicalExpr>) -> bool {
    filter.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
        || DynamicFilterTracking::classify(filter).contains_dynamic_filter()
}
