//! Equality of keys across two sets of columns.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, DynComparator, make_comparator};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;

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
