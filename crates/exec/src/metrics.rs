//! Row counts that travel as plan metrics, under the names that EXPLAIN ANALYZE and the result row use.

use datafusion::physical_plan::ExecutionPlan;

/// Rows that the source delivered.
pub const SOURCE_ROWS: &str = "source_rows";
/// Rows that were checked but are not the source's own.
pub const CHECKED_ROWS: &str = "checked_rows";
/// Source rows held back below the writer: losers of deduplication, ignored deletes, ignored rows outside a window.
pub const SKIPPED_ROWS: &str = "skipped_rows";

/// Source rows held back below the writer because they change nothing.
pub const UNCHANGED_ROWS: &str = "unchanged_rows";

/// The sum of counter `name` over all operators of `plan`.
pub fn sum(plan: &dyn ExecutionPlan, name: &str) -> usize {
    let own = plan
        .metrics()
        .and_then(|m| m.sum_by_name(name))
        .map_or(0, |v| v.as_usize());
    own + plan
        .children()
        .into_iter()
        .map(|child| sum(child.as_ref(), name))
        .sum::<usize>()
}
