//! Which files can hold a row that a filter lets through.

use std::sync::Arc;

use alluvium_core::Result;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Literal};
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::scalar::ScalarValue;

use crate::table::TableSnapshot;

/// Lists of values up to this length are compared with the bounds of each file value by value. Joins with few build
/// rows push such lists down.
const MAX_IN_LIST: usize = 256;

/// For each file of `snapshot`, in the order of [`TableSnapshot::files`], whether it can hold a row for which
/// `predicate` (over the table's columns) is true.
pub fn may_match(snapshot: &TableSnapshot, predicate: &Arc<dyn PhysicalExpr>) -> Result<Vec<bool>> {
    let files = snapshot.loaded_files()?;
    Ok(keep(Arc::clone(predicate), snapshot.schema(), files.stats.as_ref()))
}

/// For each container of `statistics`, whether it can hold a row for which `predicate` is true.
pub(super) fn keep(
    predicate: Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    statistics: &dyn PruningStatistics,
) -> Vec<bool> {
    if is_false(&predicate) {
        return vec![false; statistics.num_containers()];
    }
    let all = vec![true; statistics.num_containers()];
    let predicate = widen(&predicate);
    let pruning = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .with_max_in_list_size(MAX_IN_LIST)
        .build(predicate);
    match pruning.map(|p| p.prune(statistics)) {
        Some(Ok(keep)) => keep,
        Some(Err(e)) => {
            tracing::debug!("files are not pruned: {e}");
            all
        }
        None => all,
    }
}

/// `filters` as they stand now, in a shape that statistics can be compared with. Every row that passes `filters`
/// passes the result as well.
pub(super) fn prunable(filters: &[Arc<dyn PhysicalExpr>]) -> datafusion::common::Result<Arc<dyn PhysicalExpr>> {
    let current = filters
        .iter()
        .map(|f| snapshot_physical_expr(Arc::clone(f)).map(|f| widen(&f)));
    let current = current.collect::<datafusion::common::Result<Vec<_>>>()?;
    Ok(current.into_iter().reduce(and).unwrap_or_else(|| conjunction([])))
}

/// A partitioned join tells by `CASE hash(key) % n WHEN 0 THEN .. END` which partition's bounds apply. Nothing is
/// known about hashes of the values in a file, so any branch may apply.
fn widen(filter: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>() {
        match binary.op() {
            Operator::And => return and(widen(binary.left()), widen(binary.right())),
            Operator::Or => return or(widen(binary.left()), widen(binary.right())),
            // `x IS TRUE`: of a filter's answers only TRUE counts anyway.
            Operator::IsNotDistinctFrom if is_literal(binary.right(), true) => return widen(binary.left()),
            Operator::IsNotDistinctFrom if is_literal(binary.left(), true) => return widen(binary.right()),
            _ => return Arc::clone(filter),
        }
    }
    let Some(case) = filter.downcast_ref::<CaseExpr>() else {
        return Arc::clone(filter);
    };
    let branches = case
        .when_then_expr()
        .iter()
        .map(|(_, then)| then)
        .chain(case.else_expr());
    branches.map(widen).reduce(or).unwrap_or_else(never)
}

fn and(a: Arc<dyn PhysicalExpr>, b: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    match is_false(&a) || is_false(&b) {
        true => never(),
        false => Arc::new(BinaryExpr::new(a, Operator::And, b)),
    }
}

fn or(a: Arc<dyn PhysicalExpr>, b: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    match (is_false(&a), is_false(&b)) {
        (true, _) => b,
        (_, true) => a,
        _ => Arc::new(BinaryExpr::new(a, Operator::Or, b)),
    }
}

fn never() -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(ScalarValue::Boolean(Some(false))))
}

fn is_false(expr: &Arc<dyn PhysicalExpr>) -> bool {
    is_literal(expr, false)
}

fn is_literal(expr: &Arc<dyn PhysicalExpr>, value: bool) -> bool {
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|l| *l.value() == ScalarValue::Boolean(Some(value)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, UInt64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, in_list, lit};

    use super::*;
    use crate::table::stats::{ColumnBounds, FileStats};

    /// Three files of keys 0..10, 10..20 and 20..30.
    fn stats() -> (SchemaRef, FileStats) {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        let bounds = ColumnBounds {
            min: Arc::new(Int64Array::from(vec![0, 10, 20])),
            max: Arc::new(Int64Array::from(vec![9, 19, 29])),
            nulls: UInt64Array::from(vec![0, 0, 0]),
        };
        let stats = FileStats::new(
            Arc::clone(&schema),
            UInt64Array::from(vec![10, 10, 10]),
            vec![Some(bounds)],
        );
        (schema, stats)
    }

    fn between(schema: &SchemaRef, low: i64, high: i64) -> Arc<dyn PhysicalExpr> {
        let k = col("k", schema).unwrap();
        let from = binary(Arc::clone(&k), Operator::GtEq, lit(low), schema).unwrap();
        let to = binary(k, Operator::LtEq, lit(high), schema).unwrap();
        binary(from, Operator::And, to, schema).unwrap()
    }

    #[test]
    fn bounds_rule_files_out() {
        let (schema, stats) = stats();
        assert_eq!(keep(between(&schema, 12, 13), &schema, &stats), [false, true, false]);
    }

    #[test]
    fn a_condition_that_is_true_prunes_like_the_condition() {
        let (schema, stats) = stats();
        let is_true = |e| binary(e, Operator::IsNotDistinctFrom, lit(true), &schema).unwrap();
        assert_eq!(
            keep(is_true(between(&schema, 12, 13)), &schema, &stats),
            [false, true, false]
        );
        let nested = binary(
            is_true(between(&schema, 12, 13)),
            Operator::Or,
            is_true(between(&schema, 1, 2)),
            &schema,
        );
        assert_eq!(keep(nested.unwrap(), &schema, &stats), [true, true, false]);
        let is_false = binary(
            between(&schema, 12, 13),
            Operator::IsNotDistinctFrom,
            lit(false),
            &schema,
        );
        assert_eq!(keep(is_false.unwrap(), &schema, &stats), [true; 3]);
    }

    #[test]
    fn any_branch_of_a_partitioned_filter_may_apply() {
        let (schema, stats) = stats();
        let k = col("k", &schema).unwrap();
        let bucket = binary(k, Operator::Modulo, lit(2_i64), &schema).unwrap();
        let branches = vec![
            (lit(0_i64), between(&schema, 1, 2)),
            (lit(1_i64), between(&schema, 25, 26)),
        ];
        let case: Arc<dyn PhysicalExpr> =
            Arc::new(CaseExpr::try_new(Some(bucket), branches, Some(lit(false))).unwrap());
        assert_eq!(keep(prunable(&[case]).unwrap(), &schema, &stats), [true, false, true]);
    }

    #[test]
    fn long_lists_are_compared_value_by_value() {
        let (schema, stats) = stats();
        let values = (0..100_i64)
            .map(|i| lit(if i % 2 == 0 { i % 10 } else { 20 + i % 10 }))
            .collect();
        let list = in_list(col("k", &schema).unwrap(), values, &false, &schema).unwrap();
        assert_eq!(keep(list, &schema, &stats), [true, false, true]);
    }
}
