//! Values of stored rows beside those of source rows, compared where they are: nothing is gathered but what has no simple
//! type.

use datafusion::arrow::array::types::{Float16Type, Float32Type, Float64Type};
use datafusion::arrow::array::{
    Array, ArrayAccessor, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, LargeBinaryArray, LargeStringArray,
    PrimitiveArray, StringArray, StringViewArray, downcast_primitive,
};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::changed::distinct;

/// A stored version and the only source row of its key: batch and row of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Couple {
    pub(super) stored: (usize, usize),
    pub(super) source: (usize, usize),
}

/// Keeps the couples whose values are equal as [`distinct`] sees it. `source` and `stored` are the same column of all
/// batches of a side.
pub(super) fn retain_equal(source: &[&ArrayRef], stored: &[&ArrayRef], couples: &mut Vec<Couple>) -> Result<()> {
    let Some(data_type) = stored.first().map(|part| part.data_type()) else {
        return Ok(());
    };
    let done = match data_type {
        DataType::Float16 => {
            typed::<PrimitiveArray<Float16Type>>(source, stored, couples, |a, b| a == b || (a.is_nan() && b.is_nan()))
        }
        DataType::Float32 => {
            typed::<PrimitiveArray<Float32Type>>(source, stored, couples, |a, b| a == b || (a.is_nan() && b.is_nan()))
        }
        DataType::Float64 => {
            typed::<PrimitiveArray<Float64Type>>(source, stored, couples, |a, b| a == b || (a.is_nan() && b.is_nan()))
        }
        other => plain(other, source, stored, couples),
    };
    match done {
        true => Ok(()),
        false => gathered(source, stored, couples),
    }
}

/// Columns whose values are equal where their bits are.
fn plain(data_type: &DataType, source: &[&ArrayRef], stored: &[&ArrayRef], couples: &mut Vec<Couple>) -> bool {
    macro_rules! primitive {
        ($t:ty) => {
            typed::<PrimitiveArray<$t>>(source, stored, couples, |a, b| a == b)
        };
    }
    downcast_primitive! {
        data_type => (primitive),
        DataType::Boolean => typed::<BooleanArray>(source, stored, couples, |a, b| a == b),
        DataType::Utf8 => typed::<StringArray>(source, stored, couples, |a, b| a == b),
        DataType::LargeUtf8 => typed::<LargeStringArray>(source, stored, couples, |a, b| a == b),
        DataType::Utf8View => typed::<StringViewArray>(source, stored, couples, |a, b| a == b),
        DataType::Binary => typed::<BinaryArray>(source, stored, couples, |a, b| a == b),
        DataType::LargeBinary => typed::<LargeBinaryArray>(source, stored, couples, |a, b| a == b),
        DataType::BinaryView => typed::<BinaryViewArray>(source, stored, couples, |a, b| a == b),
        _ => false,
    }
}

/// Compares columns of one type; false, and nothing done, where they are of another.
fn typed<'a, A>(
    source: &[&'a ArrayRef],
    stored: &[&'a ArrayRef],
    couples: &mut Vec<Couple>,
    same: impl Fn(<&'a A as ArrayAccessor>::Item, <&'a A as ArrayAccessor>::Item) -> bool,
) -> bool
where
    A: Array + 'static,
    &'a A: ArrayAccessor,
{
    let of_type = |parts: &[&'a ArrayRef]| -> Option<Vec<&'a A>> {
        let parts = parts.iter().copied();
        parts.map(|part| part.as_any().downcast_ref()).collect()
    };
    let (Some(source), Some(stored)) = (of_type(source), of_type(stored)) else {
        return false;
    };
    couples.retain(|couple| {
        let (Some(new), Some(old)) = (source.get(couple.source.0), stored.get(couple.stored.0)) else {
            return false;
        };
        let (new_row, old_row) = (couple.source.1, couple.stored.1);
        match (old.is_valid(old_row), new.is_valid(new_row)) {
            (true, true) => same(ArrayAccessor::value(old, old_row), ArrayAccessor::value(new, new_row)),
            (a, b) => a == b,
        }
    });
    true
}

fn gathered(source: &[&ArrayRef], stored: &[&ArrayRef], couples: &mut Vec<Couple>) -> Result<()> {
    let gather = |parts: &[&ArrayRef], place: fn(&Couple) -> (usize, usize)| {
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        interleave(&parts, &couples.iter().map(place).collect::<Vec<_>>())
    };
    let old: ArrayRef = gather(stored, |couple| couple.stored)?;
    let new: ArrayRef = gather(source, |couple| couple.source)?;
    let differs = distinct(&old, &new)?;
    let mut differs = differs.values().iter();
    couples.retain(|_| differs.next() == Some(false));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::types::Int32Type;
    use datafusion::arrow::array::{Float64Array, Int32Array, ListArray, TimestampMicrosecondArray};

    use super::*;

    /// Every value beside every value, both sides in two batches.
    fn check(values: ArrayRef) {
        let parts = [values.slice(0, 2), values.slice(2, values.len() - 2)];
        let parts: Vec<&ArrayRef> = parts.iter().collect();
        let place = |row: usize| if row < 2 { (0, row) } else { (1, row - 2) };
        let mut couples = Vec::new();
        for stored in 0..values.len() {
            let beside = |source| Couple {
                stored: place(stored),
                source: place(source),
            };
            couples.extend((0..values.len()).map(beside));
        }
        let mut expected = couples.clone();
        gathered(&parts, &parts, &mut expected).unwrap();
        retain_equal(&parts, &parts, &mut couples).unwrap();
        assert_eq!(couples, expected, "{}", values.data_type());
        assert!(couples.len() >= values.len() && couples.len() < values.len() * values.len());
    }

    #[test]
    fn values_are_equal_as_where_they_are_gathered() {
        check(Arc::new(Int32Array::from(vec![Some(1), None, Some(2), Some(1), None])));
        check(Arc::new(
            TimestampMicrosecondArray::from(vec![Some(1), None, Some(2)]).with_timezone("UTC"),
        ));
        let nan = f64::from_bits(0x7ff8_0000_0000_0001);
        check(Arc::new(Float64Array::from(vec![
            Some(0.0),
            Some(-0.0),
            Some(f64::NAN),
            Some(nan),
            None,
        ])));
        check(Arc::new(BooleanArray::from(vec![
            Some(true),
            Some(false),
            None,
            Some(true),
        ])));
        check(Arc::new(StringArray::from(vec![
            Some("a"),
            Some(""),
            None,
            Some("a"),
            Some("é"),
        ])));
        check(Arc::new(StringViewArray::from(vec![
            Some("longer than a view"),
            Some("a"),
            None,
        ])));
        check(Arc::new(BinaryArray::from(vec![
            Some(b"a".as_slice()),
            None,
            Some(b""),
        ])));
        let lists = vec![Some(vec![Some(1)]), None, Some(vec![None]), Some(vec![])];
        check(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)));
    }
}
