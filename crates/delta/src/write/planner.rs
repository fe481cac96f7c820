//! From the logical node of a load to its physical plan.

use std::sync::Arc;

use alluvium_core::LoadError;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::node::LoadNode;

/// Plans [`LoadNode`].
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
        let (Some(node), [input]) = (node.as_any().downcast_ref::<LoadNode>(), physical_inputs) else {
            return Ok(None);
        };
        let _ = (node, input, session);
        Err(LoadError::internal("loads cannot be executed yet").into())
    }
}
