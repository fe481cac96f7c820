//! From the logical nodes of this crate to their operators.

use std::sync::Arc;

use alluvium_core::LoadError;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use crate::bounded::{BoundedExec, BoundedNode};
use crate::intervals::IntervalsSpec;
use crate::matching::{MatchExec, MatchNode, MatchSpec};
use crate::node::{RowNode, RowSpec};
use crate::row_exec::{RowExec, RowOperator};
use crate::skip_unchanged::SkipUnchangedNode;
use crate::source_gate::GateSpec;
use crate::spool::{SpoolExec, SpoolSpec};
use crate::unique_keys::UniqueKeysSpec;
use crate::winner::WinnerSpec;

/// Plans every logical node of this crate.
#[derive(Debug, Default, Clone, Copy)]
pub struct ExecPlanner;

#[async_trait]
impl ExtensionPlanner for ExecPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let attempts = [
            plan_row::<GateSpec>,
            plan_row::<UniqueKeysSpec>,
            plan_row::<WinnerSpec>,
            plan_row::<IntervalsSpec>,
            plan_spool,
            plan_bounded,
            plan_match,
            plan_skip_unchanged,
        ];
        for attempt in attempts {
            if let Some(plan) = attempt(node, physical_inputs, session)? {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }
}

fn plan_row<S: RowOperator>(
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    session: &dyn Session,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = node.as_any().downcast_ref::<RowNode<S>>() else {
        return Ok(None);
    };
    let config = Arc::clone(session.config().options());
    let plan = RowExec::try_new(Arc::clone(node.spec()), one::<S>(inputs)?, config)?;
    Ok(Some(Arc::new(plan)))
}

fn plan_spool(
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    _session: &dyn Session,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = node.as_any().downcast_ref::<RowNode<SpoolSpec>>() else {
        return Ok(None);
    };
    let plan = SpoolExec::new(Arc::clone(node.spec()), one::<SpoolSpec>(inputs)?);
    Ok(Some(Arc::new(plan)))
}

fn plan_bounded(
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    session: &dyn Session,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = node.as_any().downcast_ref::<BoundedNode>() else {
        return Ok(None);
    };
    let [bounds, rows] = inputs else {
        return Err(LoadError::internal("Bounded takes two inputs").into());
    };
    let condition = session.create_physical_expr(node.condition().clone(), &node.joined_schema()?)?;
    let plan = BoundedExec::try_new(Arc::clone(bounds), Arc::clone(rows), condition)?;
    Ok(Some(Arc::new(plan)))
}

fn plan_match(
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    session: &dyn Session,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = node.as_any().downcast_ref::<MatchNode>() else {
        return Ok(None);
    };
    let [source, stored] = inputs else {
        return Err(LoadError::internal("Match takes two inputs").into());
    };
    let (source_key, stored_key) = node.key_indices()?;
    let (source, unique) = without_check(source, &source_key, node.nulls_equal());
    let spec = MatchSpec {
        keep: node.keep(),
        nulls_equal: node.nulls_equal(),
        source_key,
        stored_key,
        unique,
        settle: node.settle().cloned(),
        partitions: session.config().target_partitions(),
    };
    Ok(Some(Arc::new(MatchExec::new(spec, source, Arc::clone(stored)))))
}

fn plan_skip_unchanged(
    node: &dyn UserDefinedLogicalNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    session: &dyn Session,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = node.as_any().downcast_ref::<SkipUnchangedNode>() else {
        return Ok(None);
    };
    let [source, stored] = inputs else {
        return Err(LoadError::internal("SkipUnchanged takes two inputs").into());
    };
    node.physical(source, stored, session).map(Some)
}

/// The source without a check for duplicates of the same key: the match makes it, and needs no exchange for it.
fn without_check(
    source: &Arc<dyn ExecutionPlan>,
    key: &[usize],
    nulls_equal: bool,
) -> (Arc<dyn ExecutionPlan>, Option<Arc<UniqueKeysSpec>>) {
    if let Some(check) = source.downcast_ref::<RowExec<UniqueKeysSpec>>() {
        let (spec, schema) = (check.spec(), source.schema());
        let same = spec.keys.iter().eq(key.iter().map(|i| schema.field(*i).name()));
        let plain = spec.exempt.is_none() && !spec.sorted && spec.nulls_equal == nulls_equal;
        if let (true, [input]) = (same && plain, source.children().as_slice()) {
            return (Arc::clone(input), Some(Arc::clone(spec)));
        }
    }
    (Arc::clone(source), None)
}

fn one<S: RowSpec>(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(Arc::clone(input)),
        _ => Err(LoadError::internal(format!("{} takes one input", S::NAME)).into()),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::functions_aggregate::count::count;
    use datafusion::logical_expr::LogicalPlanBuilder;
    use datafusion::prelude::{col, lit};

    use super::*;
    use crate::testing::{batch, ints, rows, run, session, source};
    use crate::unique_keys::UniqueKeysNode;

    /// Three columns, checked by key `a`, with one key twice.
    fn checked(keys: [i64; 3]) -> LogicalPlanBuilder {
        let input = batch(vec![
            ("a", ints(keys.map(Some))),
            ("b", ints([4, 5, 6].map(Some))),
            ("c", ints([7, 8, 9].map(Some))),
        ]);
        let spec = UniqueKeysSpec::new("t", vec!["a".into()]);
        let plan = UniqueKeysNode::try_new(source(&input, 2), spec).unwrap().into_plan();
        LogicalPlanBuilder::from(plan)
    }

    #[tokio::test]
    async fn a_filter_above_does_not_hide_rows_from_a_check() {
        let plan = checked([1, 1, 2])
            .filter(col("a").gt(lit(1i64)))
            .unwrap()
            .build()
            .unwrap();
        assert_eq!(run(&session(2, 2), plan).await.unwrap_err().code(), "21000");
    }

    #[tokio::test]
    async fn counting_rows_does_not_skip_a_check() {
        let counted = |keys| {
            let plan = checked(keys).aggregate(Vec::<datafusion::prelude::Expr>::new(), vec![count(lit(1i64))]);
            plan.unwrap().build().unwrap()
        };
        assert_eq!(
            run(&session(2, 2), counted([1, 1, 2])).await.unwrap_err().code(),
            "21000"
        );
        assert_eq!(rows(&run(&session(2, 2), counted([1, 3, 2])).await.unwrap()), ["3"]);
    }

    #[tokio::test]
    async fn columns_that_nobody_needs_are_not_read() {
        let plan = checked([1, 3, 2]).project(vec![col("b")]).unwrap().build().unwrap();
        let text = session(2, 2)
            .state()
            .optimize(&plan)
            .unwrap()
            .display_indent()
            .to_string();
        assert!(text.contains("UniqueKeys: keys=[a]"), "{text}");
        assert!(text.contains("TableScan: s projection=[a, b]"), "{text}");
    }
}
