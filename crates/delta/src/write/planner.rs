//! From the logical node of a load to its physical plan.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use crate::compare::{CompareNode, CompareStoredExec};

use super::apply::ApplyPositionsExec;
use super::commit::{LoadCommitExec, Output};
use super::exec::LoadWriteExec;
use super::guard::guard;
use super::job::LoadJob;
use super::node::LoadNode;
use super::spec::LoadSpec;

/// Plans [`LoadNode`] and [`CompareNode`].
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadPlanner;

#[async_trait]
impl ExtensionPlanner for LoadPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let [input] = physical_inputs else {
            return Ok(None);
        };
        if let Some(node) = node.as_any().downcast_ref::<CompareNode>() {
            let exec = CompareStoredExec::new(Arc::clone(node.spec()), Arc::clone(input));
            return Ok(Some(Arc::new(exec)));
        }
        let Some(node) = node.as_any().downcast_ref::<LoadNode>() else {
            return Ok(None);
        };
        let plan = load_plan(Arc::clone(node.spec()), Arc::clone(input), Output::Result, session).await?;
        Ok(Some(plan))
    }
}

/// The operators of a load on top of its change stream. DataFusion adds the exchanges between them from what they
/// require: by partition column below the writers, by file above them, one partition at the end.
pub(super) async fn load_plan(
    spec: Arc<LoadSpec>,
    input: Arc<dyn ExecutionPlan>,
    output: Output,
    session: &dyn Session,
) -> alluvium_core::Result<Arc<dyn ExecutionPlan>> {
    let guarded = guard(&spec, input, session)?;
    let job = LoadJob::start(spec).await?;
    let written = Arc::new(LoadWriteExec::try_new(guarded.plan, Arc::clone(&job), guarded.checks)?);
    let applied = Arc::new(ApplyPositionsExec::new(written, Arc::clone(&job)));
    Ok(Arc::new(LoadCommitExec::new(applied, job, output)))
}
