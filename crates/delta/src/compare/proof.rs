//! Differences that statistics of a file prove.

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Scalar};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::or_kleene;

use alluvium_core::Result;

use crate::table::stats::ColumnBounds;

/// Which of the `new` values cannot be stored in file `row`: they lie outside its bounds, or are NULL where no value is.
/// `None` where bounds prove nothing.
pub(super) fn outside(bounds: &ColumnBounds, row: usize, new: &ArrayRef) -> Result<Option<BooleanArray>> {
    let kind = new.data_type();
    // The bounds of floats say nothing about NaN.
    if kind.is_floating() || kind.is_nested() || bounds.min.data_type() != kind || row >= bounds.min.len() {
        return Ok(None);
    }
    let low = Scalar::new(bounds.min.slice(row, 1));
    let high = Scalar::new(bounds.max.slice(row, 1));
    let beyond = or_kleene(&cmp::lt(new, &low)?, &cmp::gt(new, &high)?)?;
    let without_nulls = bounds.nulls.is_valid(row) && bounds.nulls.value(row) == 0;
    let proven = (0..new.len()).map(|i| match new.is_null(i) {
        true => without_nulls,
        false => beyond.is_valid(i) && beyond.value(i),
    });
    Ok(Some(proven.map(Some).collect()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, Int64Array, StringArray, UInt64Array};

    use super::*;

    fn bounds(min: ArrayRef, max: ArrayRef, nulls: Option<u64>) -> ColumnBounds {
        ColumnBounds {
            min,
            max,
            nulls: UInt64Array::from(vec![nulls]),
        }
    }

    #[test]
    fn only_what_bounds_exclude_is_proven() {
        let int = |value: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
        let new: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(5), Some(6), None]));
        let proven = |bounds: &ColumnBounds| -> Vec<bool> {
            let proven = outside(bounds, 0, &new).unwrap().unwrap();
            proven.iter().map(Option::unwrap).collect()
        };
        let full = bounds(int(Some(2)), int(Some(5)), Some(0));
        assert_eq!(proven(&full), [true, false, false, true, true]);
        let open = bounds(int(Some(2)), int(None), None);
        assert_eq!(proven(&open), [true, false, false, false, false]);
        assert_eq!(proven(&bounds(int(None), int(None), Some(3))), [false; 5]);
    }

    #[test]
    fn floats_and_other_types_prove_nothing() {
        let float: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let same = bounds(Arc::clone(&float), Arc::clone(&float), Some(0));
        assert!(outside(&same, 0, &float).unwrap().is_none());
        assert!(outside(&same, 0, &text).unwrap().is_none());
    }
}
