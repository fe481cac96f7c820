//! The operator that runs a command.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alluvium_core::LoadError;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    common::collect,
};
use futures::stream;

use super::node::CommandTask;

/// Runs its input to the end, then the task, once.
#[derive(Debug)]
pub(super) struct CommandExec {
    task: Arc<dyn CommandTask>,
    input: Option<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    started: AtomicBool,
}

impl CommandExec {
    pub(super) fn new(task: Arc<dyn CommandTask>, input: Option<Arc<dyn ExecutionPlan>>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(task.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            task,
            input,
            properties: Arc::new(properties),
            started: AtomicBool::new(false),
        }
    }
}

impl DisplayAs for CommandExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "CommandExec: {}, {}", self.task.name(), self.task.describe())
            }
            DisplayFormatType::TreeRender => writeln!(f, "command={}", self.task.name()),
        }
    }
}

impl ExecutionPlan for CommandExec {
    fn name(&self) -> &str {
        "CommandExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let one = self.input.iter().map(|_| Distribution::SinglePartition).collect();
        InputDistributionRequirements::new(one)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.task), children.pop())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.started.swap(true, Ordering::SeqCst) {
            return Err(LoadError::internal("a command's plan was executed twice").into());
        }
        let input = match &self.input {
            Some(input) => Some(input.execute(0, Arc::clone(&context))?),
            None => None,
        };
        let task = Arc::clone(&self.task);
        let work = async move {
            let rows = match input {
                Some(rows) => collect(rows).await?,
                None => Vec::new(),
            };
            Ok(task.run(rows, context).await?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.task.schema(),
            stream::once(work),
        )))
    }
}
