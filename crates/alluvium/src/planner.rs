//! The query planner: ours in front of the one the session had.

use std::fmt::Debug;
use std::sync::Arc;

use alluvium_delta::write::LoadPlanner;
use alluvium_exec::planner::ExecPlanner;
use alluvium_exec::source_gate::{SourceGateNode, keep_source_order};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Extension, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use deltalake::delta_datafusion::planner::DeltaExtensionPlanner;

use crate::commands::CommandPlanner;

/// Plans our nodes and deltalake's, and leaves everything else to the planner that was there before.
#[derive(Debug)]
pub(crate) struct LoadQueryPlanner {
    previous: Arc<dyn QueryPlanner + Send + Sync>,
}

impl LoadQueryPlanner {
    pub(crate) fn new(previous: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { previous }
    }
}

#[async_trait]
impl QueryPlanner for LoadQueryPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_extension(logical_plan)? {
            return self.previous.create_physical_plan(logical_plan, session).await;
        }
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(ExecPlanner),
            Arc::new(LoadPlanner),
            Arc::new(CommandPlanner),
            DeltaExtensionPlanner::new(),
            Arc::new(PreviousPlanner(Arc::clone(&self.previous))),
        ]);
        match ordered(logical_plan, session)? {
            Some(state) => planner.create_physical_plan(logical_plan, &state).await,
            None => planner.create_physical_plan(logical_plan, session).await,
        }
    }
}

/// A session that keeps the source's rows in order, when the plan asks for source order.
fn ordered(plan: &LogicalPlan, session: &dyn Session) -> Result<Option<SessionState>> {
    let mut wanted = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(extension) = node {
            let gate = extension.node.as_any().downcast_ref::<SourceGateNode>();
            wanted |= gate.is_some_and(|gate| gate.spec().ordinal);
        }
        Ok(if wanted {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    let Some(state) = session.as_any().downcast_ref::<SessionState>().filter(|_| wanted) else {
        return Ok(None);
    };
    let mut state = state.clone();
    keep_source_order(state.config_mut().options_mut());
    Ok(Some(state))
}

fn has_extension(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Extension(_));
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Plans extension nodes that are neither ours nor deltalake's: the session's earlier planner gets the whole subtree.
struct PreviousPlanner(Arc<dyn QueryPlanner + Send + Sync>);

#[async_trait]
impl ExtensionPlanner for PreviousPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        _physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let inputs = logical_inputs.iter().map(|&plan| plan.clone()).collect();
        let node = node.with_exprs_and_inputs(node.expressions(), inputs)?;
        let subtree = LogicalPlan::Extension(Extension { node });
        self.0.create_physical_plan(&subtree, session).await.map(Some)
    }
}
