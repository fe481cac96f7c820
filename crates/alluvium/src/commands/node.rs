//! Commands as plans: what a command does happens when its plan is executed, so that EXPLAIN only shows it.
//!
//! ```text
//! CommandExec        1 partition: runs the task once, then emits its rows
//!   <input>          optional: executed to its end before the task runs
//! ```

use std::cmp::Ordering;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::exec::CommandExec;

/// What a command does.
#[async_trait]
pub(crate) trait CommandTask: Debug + Send + Sync {
    /// The name in EXPLAIN: `CreateTable`, ..
    fn name(&self) -> &'static str;

    /// The command's arguments in EXPLAIN, `key=value, key=value`; no paths and no credentials.
    fn describe(&self) -> String;

    /// The columns of the result.
    fn schema(&self) -> SchemaRef;

    /// Does it. `input` are the rows of the plan below, if there is one.
    async fn run(&self, input: Vec<RecordBatch>, context: Arc<TaskContext>) -> alluvium_core::Result<RecordBatch>;
}

/// The plan of a command.
#[derive(Debug, Clone)]
pub(crate) struct CommandNode {
    task: Arc<dyn CommandTask>,
    inputs: Vec<LogicalPlan>,
    schema: DFSchemaRef,
}

impl CommandNode {
    /// A plan that runs `task`, after `input` if there is one.
    pub(crate) fn plan(task: Arc<dyn CommandTask>, input: Option<LogicalPlan>) -> Result<LogicalPlan> {
        let schema = Arc::new(DFSchema::try_from(task.schema())?);
        let inputs = input.into_iter().collect();
        let node = Arc::new(Self { task, inputs, schema });
        Ok(LogicalPlan::Extension(Extension { node }))
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.task).addr()
    }
}

impl PartialEq for CommandNode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.task, &other.task) && self.inputs == other.inputs
    }
}

impl Eq for CommandNode {}

impl PartialOrd for CommandNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.identity().cmp(&other.identity()) {
            Ordering::Equal => self.inputs.partial_cmp(&other.inputs),
            unequal => Some(unequal),
        }
    }
}

impl Hash for CommandNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
        self.inputs.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for CommandNode {
    fn name(&self) -> &str {
        self.task.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.task.name(), self.task.describe())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        if inputs.len() != self.inputs.len() {
            return plan_err!("{} has {} inputs", self.task.name(), self.inputs.len());
        }
        Ok(Self { inputs, ..self.clone() })
    }
}

/// Plans [`CommandNode`]s.
#[derive(Debug)]
pub(crate) struct CommandPlanner;

#[async_trait]
impl ExtensionPlanner for CommandPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<CommandNode>() else {
            return Ok(None);
        };
        let input = physical_inputs.first().map(Arc::clone);
        Ok(Some(Arc::new(CommandExec::new(Arc::clone(&node.task), input))))
    }
}
