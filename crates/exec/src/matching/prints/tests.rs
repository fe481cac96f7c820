use std::sync::Arc;

use datafusion::arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float16Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, TimestampMicrosecondArray, UInt8Array, UInt32Array, UInt64Array, UInt64Builder,
    new_null_array,
};
use datafusion::arrow::compute::{cast, concat, take};

use super::*;
use crate::changed::distinct;
use crate::testing::{batch, ints};

/// Every value beside every value: fingerprints are equal where [`distinct`] finds no difference. Both sides lie at an
/// offset in longer arrays, and the stored rows are a choice of those of their batch.
fn check(values: &[ArrayRef]) {
    let count = values.first().unwrap().len();
    let named: Vec<String> = (0..values.len()).map(|i| format!("c{i}")).collect();
    let rows = |order: &[usize]| {
        let order: UInt64Array = order.iter().map(|i| u64::try_from(*i).ok()).collect();
        let column = |(name, values): (&String, &ArrayRef)| {
            let padding = values.slice(0, 1);
            let column = concat(&[&padding, &take(values, &order, None).unwrap(), &padding]).unwrap();
            (name.as_str().to_owned(), column.slice(1, order.len()))
        };
        let columns: Vec<(String, ArrayRef)> = named.iter().zip(values).map(column).collect();
        batch(columns.iter().map(|(name, c)| (name.as_str(), Arc::clone(c))).collect())
    };
    let printer = Printer::new((0..values.len()).map(|i| (i, i)));
    let all: Vec<usize> = (0..count).collect();
    let ours = printer.of_source(&rows(&all)).unwrap();
    for shift in 0..count {
        let order: Vec<usize> = all.iter().map(|row| (row + shift) % count).collect();
        let odd: Vec<usize> = all.iter().copied().filter(|row| row % 2 == shift % 2).collect();
        let theirs = rows(&order);
        let prints = printer.of_stored(theirs.columns(), &odd).unwrap();
        assert_eq!(prints.len(), odd.len());
        let source = rows(&all);
        let differ = theirs.columns().iter().zip(source.columns());
        let differ: Vec<BooleanArray> = differ.map(|(old, new)| distinct(old, new).unwrap()).collect();
        for (row, print) in odd.into_iter().zip(prints) {
            let equal = differ.iter().all(|differs| !differs.value(row));
            assert_eq!(ours[row] == print, equal, "row {row}, shift {shift} of {values:?}");
        }
    }
}

fn one(values: impl Array + 'static) {
    let values: ArrayRef = Arc::new(values);
    assert!(Printer::knows(values.data_type()), "{}", values.data_type());
    check(&[values]);
}

#[test]
fn numbers_of_all_widths() {
    one(Int8Array::from(vec![
        Some(1),
        None,
        Some(-1),
        Some(0),
        None,
        Some(i8::MIN),
    ]));
    one(Int16Array::from(vec![Some(1), None, Some(-1), Some(0), Some(1)]));
    one(Int32Array::from(vec![Some(1), None, Some(-1), Some(0), Some(i32::MAX)]));
    one(Int64Array::from(vec![Some(1), None, Some(-1), Some(0), Some(i64::MIN)]));
    one(UInt8Array::from(vec![Some(1), None, Some(255), Some(0), Some(1)]));
    one(UInt32Array::from(vec![1, 2, 1, u32::MAX]));
    one(UInt64Array::from(vec![1, 2, 0, u64::MAX, u64::MAX - 1]));
    one(Date32Array::from(vec![Some(1), None, Some(2), Some(1)]));
    one(TimestampMicrosecondArray::from(vec![Some(1), None, Some(2)]).with_timezone("UTC"));
    let wide = [0, 1, -1, 1 << 64, (1 << 64) + 1, i128::MAX, i128::MIN, 0];
    one(Decimal128Array::from(wide.map(Some).to_vec()));
    one(BooleanArray::from(vec![
        Some(true),
        Some(false),
        None,
        Some(true),
        None,
    ]));
}

#[test]
fn one_zero_and_one_nan() {
    let nan = f64::from_bits(0xfff8_0000_0000_0001);
    one(Float64Array::from(vec![
        Some(0.0),
        Some(-0.0),
        Some(f64::NAN),
        Some(nan),
        None,
        Some(1.5),
    ]));
    let nan = f32::from_bits(0x7fc0_0001);
    one(Float32Array::from(vec![
        Some(0.0),
        Some(-0.0),
        Some(f32::NAN),
        Some(nan),
        None,
        Some(1.5),
    ]));
    let single: ArrayRef = Arc::new(Float32Array::from(vec![
        Some(0.0),
        Some(-0.0),
        Some(nan),
        None,
        Some(1.5),
    ]));
    let half = cast(&single, &DataType::Float16).unwrap();
    one(half.as_any().downcast_ref::<Float16Array>().unwrap().clone());
}

/// Texts around the lengths of a piece and of the loads it is made with, with zero bytes, which must count.
#[test]
fn texts_of_all_lengths_and_kinds() {
    let mut texts = vec![None, Some(String::new())];
    for length in (1..=17).chain([29, 30, 31, 45, 100]) {
        let text: String = "abcdefghijklmnopqrstuvwxyz".chars().cycle().take(length).collect();
        texts.push(Some("\0".repeat(length)));
        for change in [0, length / 2, length - 1] {
            let mut changed = text.clone();
            changed.replace_range(change..=change, "é");
            texts.push(Some(changed));
        }
        texts.push(Some(text));
    }
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    for kind in [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
    ] {
        let values = cast(&texts, &kind).unwrap();
        assert!(Printer::knows(values.data_type()));
        check(&[values]);
    }
    let fixed = [Some([1, 2, 3]), None, Some([1, 2, 4]), Some([1, 2, 3])];
    one(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed.into_iter(), 3).unwrap());
}

/// Kinds of text that say the same have the same fingerprint.
#[test]
fn every_kind_of_text_hashes_by_value() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a"),
        None,
        Some("longer than any view holds"),
    ]));
    let kinds = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::BinaryView,
    ];
    let columns = kinds.iter().map(|kind| cast(&texts, kind).unwrap());
    let columns: Vec<(String, ArrayRef)> = columns.enumerate().map(|(i, c)| (format!("c{i}"), c)).collect();
    let rows = batch(columns.iter().map(|(name, c)| (name.as_str(), Arc::clone(c))).collect());
    for place in 1..kinds.len() {
        let printer = Printer::new([(0, place)]);
        let theirs = printer.of_stored(rows.columns(), &[0, 1, 2]).unwrap();
        assert_eq!(printer.of_source(&rows).unwrap(), theirs);
    }
}

/// Rows of several columns, whose values move from one column into another, and of which any may be NULL.
#[test]
fn rows_are_equal_where_all_columns_are() {
    let mut next = 7_u64;
    let mut random = |below: u64| {
        next = next.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (next >> 33) % below
    };
    for _ in 0..20 {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for kind in [
            DataType::Int64,
            DataType::Utf8,
            DataType::Float64,
            DataType::Utf8,
            DataType::Int64,
        ] {
            let mut values = UInt64Builder::new();
            for _ in 0..24 {
                values.append_option(Some(random(3)).filter(|value| *value < 2));
            }
            let values: ArrayRef = Arc::new(values.finish());
            columns.push(cast(&values, &kind).unwrap());
        }
        check(&columns);
    }
}

#[test]
fn secrets_are_drawn_anew() {
    let rows = batch(vec![("a", ints([Some(5), Some(6)]))]);
    let print = || Printer::new([(0, 0)]).of_source(&rows).unwrap();
    let (first, second) = (print(), print());
    assert!(first != second && first[0] != first[1] && second[0] != second[1]);
    assert!(first.iter().chain(&second).all(|print| *print < PRIME));
}

#[test]
fn other_types_are_left_to_a_comparison() {
    let item = Arc::new(datafusion::arrow::datatypes::Field::new("item", DataType::Int32, true));
    let wide = Decimal256Array::from(vec![None]);
    for kind in [DataType::List(item), DataType::Null, wide.data_type().clone()] {
        assert!(!Printer::knows(&kind), "{kind}");
        let rows = batch(vec![("a", new_null_array(&kind, 1))]);
        assert!(kind == DataType::Null || Printer::new([(0, 0)]).of_source(&rows).is_err());
    }
}
