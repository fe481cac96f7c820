use std::sync::Arc;

use datafusion::functions_aggregate::min_max::{max, min};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{col, lit};

use super::*;
use crate::testing::{SIZES, batch, ints, run, run_plan, session, sorted_rows, source, source_of};

/// The lowest and highest of `values`, as `low` and `high`.
fn spanned(values: impl IntoIterator<Item = Option<i64>>) -> LogicalPlan {
    let input = batch(vec![("v", ints(values))]);
    let none: Vec<Expr> = Vec::new();
    let spans = vec![min(col("v")).alias("low"), max(col("v")).alias("high")];
    let bounds = LogicalPlanBuilder::from(source(&input, 2)).aggregate(none, spans);
    bounds.unwrap().alias("b").unwrap().build().unwrap()
}

/// Rows numbered in `n`, with an end in `e`.
fn ends() -> LogicalPlan {
    let part = |numbers: [i64; 3], ends: [Option<i64>; 3]| {
        vec![batch(vec![("n", ints(numbers.map(Some))), ("e", ints(ends))])]
    };
    source_of(vec![
        part([1, 2, 3], [Some(5), Some(10), None]),
        part([4, 5, 6], [Some(11), Some(30), Some(9)]),
    ])
}

fn within(bounds: LogicalPlan, condition: Expr) -> LogicalPlan {
    BoundedNode::new(bounds, ends(), condition).into_plan()
}

fn open_or_since() -> Expr {
    col("e").is_null().or(col("e").gt_eq(col("low")))
}

#[tokio::test]
async fn rows_are_kept_by_what_the_bounds_say() {
    for size in SIZES {
        for partitions in [1, 2, 5] {
            let plan = within(spanned([Some(20), Some(10), None]), open_or_since());
            let kept = run(&session(partitions, size), plan).await.unwrap();
            assert_eq!(sorted_rows(&kept), ["2|10", "3|NULL", "4|11", "5|30"]);
        }
    }
}

#[tokio::test]
async fn both_bounds_and_literals_count() {
    let between = col("e").gt_eq(col("low")).and(col("e").lt_eq(col("high")));
    let plan = within(spanned([Some(10), Some(11)]), between.and(col("n").gt(lit(2_i64))));
    let kept = run(&session(2, 2), plan).await.unwrap();
    assert_eq!(sorted_rows(&kept), ["4|11"]);
}

#[tokio::test]
async fn without_bounds_a_comparison_keeps_nothing() {
    let plan = within(spanned([None]), open_or_since());
    assert_eq!(sorted_rows(&run(&session(2, 2), plan).await.unwrap()), ["3|NULL"]);
}

#[tokio::test]
async fn columns_that_nobody_needs_are_not_read() {
    let plan = LogicalPlanBuilder::from(within(spanned([Some(10)]), open_or_since()));
    let plan = plan.project(vec![col("n")]).unwrap().build().unwrap();
    let (_, kept) = run_plan(&session(2, 2), plan).await.unwrap();
    assert_eq!(sorted_rows(&kept), ["2", "3", "4", "5"]);
}

#[tokio::test]
async fn several_rows_of_bounds_are_refused() {
    let rows = batch(vec![("low", ints([1, 2].map(Some)))]);
    let plan = within(source(&rows, 1), open_or_since());
    let error = run(&session(1, 2), plan).await.unwrap_err();
    assert!(error.message().contains("bounds are not one row"), "{error}");
}

#[tokio::test]
async fn a_failing_source_of_bounds_is_the_error_of_every_partition() {
    let input = batch(vec![("v", ints([Some(0)]))]);
    let none: Vec<Expr> = Vec::new();
    let failing = LogicalPlanBuilder::from(source(&input, 1))
        .aggregate(none, vec![min(lit(1_i64) / col("v")).alias("low")])
        .unwrap()
        .build()
        .unwrap();
    let error = run(&session(2, 2), within(failing, open_or_since())).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("division by zero"), "{error}");
}

#[tokio::test]
async fn a_plan_that_is_reset_runs_again() {
    let session = session(2, 2);
    let plan = within(spanned([Some(10)]), open_or_since());
    let (plan, first) = run_plan(&session, plan).await.unwrap();
    let again = datafusion::physical_plan::execution_plan::reset_plan_states(plan).unwrap();
    let second = datafusion::physical_plan::collect(Arc::clone(&again), session.task_ctx()).await;
    assert_eq!(sorted_rows(&first), sorted_rows(&second.unwrap()));
    assert!(again.schema().index_of("low").is_err());
}
