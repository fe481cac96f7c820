//! Equality of keys across two sets of columns, and what the columns of the source say about stored keys.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, DynComparator, make_comparator};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Int64Type, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, in_list, is_null, lit};

/// Up to this many keys a scan is told them one by one, so that files between them can be left out.
const MOST_LISTED: usize = 256;

/// Tells whether the key of a row of one side is that of a row of the other.
pub(super) enum KeyEq {
    /// One column of 64-bit integers without NULLs.
    Ints(ScalarBuffer<i64>, ScalarBuffer<i64>),
    /// Any columns; NULL equals NULL.
    Any(Vec<DynComparator>),
}

impl KeyEq {
    pub(super) fn try_new(left: &[ArrayRef], right: &[ArrayRef]) -> Result<Self> {
        if let ([left], [right]) = (left, right)
            && left.data_type() == &DataType::Int64
            && left.null_count() + right.null_count() == 0
        {
            let values = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().clone();
            return Ok(Self::Ints(values(left), values(right)));
        }
        let compare = |(left, right): (&ArrayRef, &ArrayRef)| make_comparator(left, right, SortOptions::default());
        let columns = left.iter().zip(right).map(compare);
        Ok(Self::Any(columns.collect::<std::result::Result<_, _>>()?))
    }

    pub(super) fn equal(&self, left: usize, right: usize) -> bool {
        match self {
            Self::Ints(a, b) => a.get(left) == b.get(right),
            Self::Any(columns) => columns.iter().all(|compare| compare(left, right).is_eq()),
        }
    }
}

/// Which rows have no NULL in their key; `None`: all.
pub(super) fn without_nulls(keys: &[ArrayRef]) -> Option<NullBuffer> {
    let nulls = keys.iter().fold(None, |nulls: Option<NullBuffer>, key| {
        NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref())
    });
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// What every stored row that has a match fulfils: its keys lie between the lowest and the highest of the source, and are
/// among them where those are few.
pub(super) fn filter_of(
    keys: &[ArrayRef],
    columns: &[Arc<dyn PhysicalExpr>],
    nulls_equal: bool,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    if keys.first().is_none_or(|key| key.is_empty()) {
        return Ok(lit(false));
    }
    let mut bounds = Vec::new();
    for (key, column) in keys.iter().zip(columns) {
        let Some(bound) = bound_of(key, column, schema)? else {
            continue;
        };
        bounds.push(match nulls_equal && key.null_count() > 0 {
            true => binary(bound, Operator::Or, is_null(Arc::clone(column))?),
            false => bound,
        });
    }
    let all = bounds.into_iter().reduce(|all, one| binary(all, Operator::And, one));
    Ok(all.unwrap_or_else(|| lit(true)))
}

fn bound_of(key: &ArrayRef, column: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let data_type = key.data_type();
    if data_type.is_nested() || data_type.is_floating() || key.null_count() == key.len() {
        return Ok(None);
    }
    if key.len() <= MOST_LISTED {
        let values = (0..key.len()).filter(|row| key.is_valid(*row));
        let values = values.map(|row| Ok(Arc::new(Literal::new(ScalarValue::try_from_array(key, row)?)) as _));
        let values: Vec<Arc<dyn PhysicalExpr>> = values.collect::<Result<_>>()?;
        return in_list(Arc::clone(column), values, &false, schema).map(Some);
    }
    let (Ok(mut low), Ok(mut high)) = (MinAccumulator::try_new(data_type), MaxAccumulator::try_new(data_type)) else {
        return Ok(None);
    };
    low.update_batch(std::slice::from_ref(key))?;
    high.update_batch(std::slice::from_ref(key))?;
    let from = binary(
        Arc::clone(column),
        Operator::GtEq,
        Arc::new(Literal::new(low.evaluate()?)),
    );
    let to = binary(
        Arc::clone(column),
        Operator::LtEq,
        Arc::new(Literal::new(high.evaluate()?)),
    );
    Ok(Some(binary(from, Operator::And, to)))
}

fn binary(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, op, right))
}
