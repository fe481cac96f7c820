#![expect(clippy::as_conversions, reason = "tests build arrays of many types")]

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType::*, Field, Fields, Int32Type, IntervalUnit, TimeUnit, i256};
use datafusion::prelude::col;

use super::*;
use crate::testing::{batch, rows, run, session, shown, source};

const US: TimeUnit = TimeUnit::Microsecond;

fn cast(array: impl Array + 'static, to: DataType) -> Result<String, String> {
    cast_ref(&(Arc::new(array) as ArrayRef), to)
}

/// The values, or the error's code and primary line.
fn cast_ref(array: &ArrayRef, to: DataType) -> Result<String, String> {
    match cast_array(array, "n", &to) {
        Ok(result) => {
            assert_eq!(result.data_type(), &to);
            assert_eq!(result.len(), array.len());
            Ok(rows(&[batch(vec![("n", result)])]).join(" "))
        }
        Err(e) => {
            let e = LoadError::from(e);
            assert!(e.hint_text().is_some());
            Err(format!("{} {}", e.code(), e.message()))
        }
    }
}

fn unfit(code: &str, value: &str, to: &str) -> Result<String, String> {
    Err(format!("{code} value {value} does not fit column \"n\" of type {to}"))
}

fn ok(values: &str) -> Result<String, String> {
    Ok(values.to_owned())
}

#[test]
fn integers_fit_or_overflow() {
    assert_eq!(
        cast(Int64Array::from(vec![Some(1), None, Some(-5)]), Int32),
        ok("1 NULL -5")
    );
    assert_eq!(
        cast(Int64Array::from(vec![Some(1), None, Some(3_000_000_000)]), Int32),
        unfit("22003", "3000000000", "INT")
    );
    assert_eq!(
        cast(Int64Array::from(vec![-1]), UInt64),
        unfit("22003", "-1", "BIGINT UNSIGNED")
    );
    assert_eq!(
        cast(UInt64Array::from(vec![u64::MAX]), Int64),
        unfit("22003", "18446744073709551615", "BIGINT")
    );
    assert_eq!(
        cast(UInt64Array::from(vec![u64::MAX]), Decimal128(20, 0)),
        ok("18446744073709551615")
    );
}

#[test]
fn integers_into_floats_keep_every_digit() {
    let exact = 1i64 << 53;
    assert_eq!(
        cast(Int64Array::from(vec![exact, 0, -7]), Float64),
        ok("9007199254740992.0 0.0 -7.0")
    );
    assert_eq!(
        cast(Int64Array::from(vec![exact + 1]), Float64),
        unfit("22003", "9007199254740993", "DOUBLE")
    );
    assert_eq!(
        cast(Int64Array::from(vec![i64::MAX]), Float64),
        unfit("22003", "9223372036854775807", "DOUBLE")
    );
    assert_eq!(
        cast(Int32Array::from(vec![16_777_217]), Float32),
        unfit("22003", "16777217", "FLOAT")
    );
}

#[test]
fn floats_into_integers_need_whole_numbers_in_range() {
    assert_eq!(
        cast(Float64Array::from(vec![Some(2.0), None, Some(-0.0)]), Int32),
        ok("2 NULL 0")
    );
    assert_eq!(cast(Float64Array::from(vec![2.5]), Int32), unfit("22003", "2.5", "INT"));
    assert_eq!(
        cast(Float64Array::from(vec![3e9]), Int32),
        unfit("22003", "3000000000.0", "INT")
    );
    assert_eq!(
        cast(Float64Array::from(vec![f64::NAN]), Int32),
        unfit("22003", "NaN", "INT")
    );
}

#[test]
fn doubles_into_floats_may_not_lose_digits_that_show() {
    let values = vec![0.1, 1.5, f64::NAN, f64::INFINITY, -0.0];
    assert_eq!(cast(Float64Array::from(values), Float32), ok("0.1 1.5 NaN inf -0.0"));
    assert_eq!(
        cast(Float64Array::from(vec![0.123456789012]), Float32),
        unfit("22003", "0.123456789012", "FLOAT")
    );
    assert_eq!(
        cast(Float64Array::from(vec![1e300]), Float32),
        unfit("22003", "1e300", "FLOAT")
    );
    assert_eq!(cast(Float32Array::from(vec![0.5]), Float64), ok("0.5"));
}

#[test]
fn floats_into_decimals_are_read_by_their_digits() {
    assert_eq!(
        cast(Float64Array::from(vec![0.1, -12.5, 0.0]), Decimal128(38, 20)),
        ok("0.10000000000000000000 -12.50000000000000000000 0.00000000000000000000")
    );
    assert_eq!(
        cast(Float64Array::from(vec![1.239]), Decimal128(10, 2)),
        unfit("22003", "1.239", "DECIMAL(10,2)")
    );
    assert_eq!(
        cast(Float64Array::from(vec![1e9]), Decimal128(5, 2)),
        unfit("22003", "1000000000.0", "DECIMAL(5,2)")
    );
    assert_eq!(
        cast(Float64Array::from(vec![f64::INFINITY]), Decimal128(5, 2)),
        unfit("22003", "inf", "DECIMAL(5,2)")
    );
}

fn decimal(values: Vec<i128>, precision: u8, scale: i8) -> Decimal128Array {
    Decimal128Array::from(values)
        .with_precision_and_scale(precision, scale)
        .unwrap()
}

#[test]
fn decimals_change_scale_only_without_loss() {
    assert_eq!(cast(decimal(vec![1250], 10, 2), Decimal128(10, 1)), ok("12.5"));
    assert_eq!(
        cast(decimal(vec![1255], 10, 2), Decimal128(10, 1)),
        unfit("22003", "12.55", "DECIMAL(10,1)")
    );
    assert_eq!(
        cast(decimal(vec![999], 3, 2), Decimal128(2, 0)),
        unfit("22003", "9.99", "DECIMAL(2,0)")
    );
    assert_eq!(
        cast(decimal(vec![12345], 5, 0), Decimal128(5, 2)),
        unfit("22003", "12345", "DECIMAL(5,2)")
    );
    assert_eq!(cast(decimal(vec![12345], 5, 2), Decimal256(50, 4)), ok("123.4500"));
}

#[test]
fn zero_fits_every_decimal() {
    for (precision, scale) in [(38, 0), (38, 38), (1, 0), (10, 2)] {
        for to in [
            Decimal128(38, 38),
            Decimal128(1, 0),
            Decimal128(38, 0),
            Decimal256(76, 76),
            Decimal32(9, 9),
        ] {
            let result = cast(decimal(vec![0], precision, scale), to.clone()).unwrap();
            assert!(result.chars().all(|c| "0.".contains(c)), "{to} {result}");
        }
        assert_eq!(cast(decimal(vec![0], precision, scale), Int32), ok("0"));
        assert_eq!(cast(decimal(vec![0], precision, scale), Float64), ok("0.0"));
    }
    assert_eq!(
        cast(Int64Array::from(vec![0]), Decimal128(38, 38)),
        ok(&format!("0.{}", "0".repeat(38)))
    );
}

#[test]
fn decimals_into_integers_and_floats_keep_every_digit() {
    assert_eq!(cast(decimal(vec![500, -200], 10, 2), Int32), ok("5 -2"));
    assert_eq!(
        cast(decimal(vec![500, 501], 10, 2), Int32),
        unfit("22003", "5.01", "INT")
    );
    assert_eq!(
        cast(decimal(vec![3_000_000_000], 38, 0), Int32),
        unfit("22003", "3000000000", "INT")
    );
    assert_eq!(cast(decimal(vec![123_456, 1], 10, 3), Float64), ok("123.456 0.001"));
    assert_eq!(cast(decimal(vec![1], 38, 30), Float64), ok("1e-30"));
    let wide = 12_345_678_901_234_567_890_123_456_789i128;
    assert_eq!(
        cast(decimal(vec![wide], 38, 0), Float64),
        unfit("22003", &wide.to_string(), "DOUBLE")
    );
    assert_eq!(
        cast(decimal(vec![123_456_789], 10, 3), Float32),
        unfit("22003", "123456.789", "FLOAT")
    );
    let wide = Decimal256Array::from(vec![i256::from_i128(7)])
        .with_precision_and_scale(60, 0)
        .unwrap();
    assert_eq!(cast(wide, Int16), ok("7"));
}

#[test]
fn texts_into_numbers() {
    assert_eq!(
        cast(StringArray::from(vec![Some(" 12 "), None, Some("-3")]), Int32),
        ok("12 NULL -3")
    );
    assert_eq!(
        cast(StringArray::from(vec!["abc"]), Int32),
        unfit("22P02", "'abc'", "INT")
    );
    assert_eq!(cast(StringArray::from(vec![""]), Int32), unfit("22P02", "''", "INT"));
    assert_eq!(
        cast(StringArray::from(vec!["3000000000"]), Int32),
        unfit("22003", "'3000000000'", "INT")
    );
    assert_eq!(
        cast(LargeStringArray::from(vec!["1e3", "NaN"]), Float64),
        ok("1000.0 NaN")
    );
    assert_eq!(
        cast(StringArray::from(vec!["1e999"]), Float64),
        unfit("22003", "'1e999'", "DOUBLE")
    );
    assert_eq!(
        cast(StringViewArray::from(vec!["1.20", "-0.5"]), Decimal128(10, 2)),
        ok("1.20 -0.50")
    );
    assert_eq!(
        cast(StringArray::from(vec!["1.239"]), Decimal128(10, 2)),
        unfit("22003", "'1.239'", "DECIMAL(10,2)")
    );
    assert_eq!(
        cast(StringArray::from(vec!["1,2"]), Decimal128(10, 2)),
        unfit("22P02", "'1,2'", "DECIMAL(10,2)")
    );
    assert_eq!(cast(StringArray::from(vec!["true", "F"]), Boolean), ok("true false"));
    assert_eq!(
        cast(StringArray::from(vec!["maybe"]), Boolean),
        unfit("22P02", "'maybe'", "BOOLEAN")
    );
}

#[test]
fn texts_into_dates_and_timestamps() {
    let utc = || Timestamp(US, Some("UTC".into()));
    assert_eq!(
        cast(StringArray::from(vec!["2026-01-02", "2026-01-02 00:00:00"]), Date32),
        ok("2026-01-02 2026-01-02")
    );
    assert_eq!(
        cast(StringArray::from(vec!["2026-01-02 10:00:00"]), Date32),
        unfit("22007", "'2026-01-02 10:00:00'", "DATE")
    );
    assert_eq!(
        cast(StringArray::from(vec!["2026-02-30"]), Date32),
        unfit("22007", "'2026-02-30'", "DATE")
    );
    assert_eq!(
        cast(
            StringArray::from(vec![
                "2026-01-02 03:04:05.123456",
                "2026-01-02T03:04:05+02:00",
                "9999-12-31"
            ]),
            utc()
        ),
        ok("2026-01-02T03:04:05.123456Z 2026-01-02T01:04:05Z 9999-12-31T00:00:00Z")
    );
    for lost in ["2026-01-02 03:04:05.1234567", "2026-01-02 03:04:05.0000000001"] {
        assert_eq!(
            cast(StringArray::from(vec![lost]), utc()),
            unfit("22007", &format!("'{lost}'"), "TIMESTAMP")
        );
    }
    assert_eq!(
        cast(StringArray::from(vec!["soon"]), utc()),
        unfit("22007", "'soon'", "TIMESTAMP")
    );
}

#[test]
fn timestamps_change_unit_only_without_loss() {
    let utc = || Timestamp(US, Some("UTC".into()));
    assert_eq!(
        cast(TimestampNanosecondArray::from(vec![1_500]), utc()),
        unfit("22007", "1970-01-01T00:00:00.000001500", "TIMESTAMP")
    );
    assert_eq!(
        cast(TimestampNanosecondArray::from(vec![Some(-2_000), None]), utc()),
        ok("1969-12-31T23:59:59.999998Z NULL")
    );
    assert_eq!(
        cast(TimestampSecondArray::from(vec![1]), utc()),
        ok("1970-01-01T00:00:01Z")
    );
    assert_eq!(
        cast(
            TimestampMicrosecondArray::from(vec![i64::MAX]),
            Timestamp(TimeUnit::Nanosecond, None)
        )
        .unwrap_err()[..5],
        *"22007"
    );
}

#[test]
fn timestamps_without_time_zone_are_utc() {
    let utc = || Timestamp(US, Some("UTC".into()));
    let berlin = TimestampMicrosecondArray::from(vec![0]).with_timezone("+02:00");
    assert_eq!(cast(berlin.clone(), utc()), ok("1970-01-01T00:00:00Z"));
    assert_eq!(cast(berlin, Timestamp(US, None)), ok("1970-01-01T00:00:00"));
    assert_eq!(
        cast(TimestampMicrosecondArray::from(vec![0]), utc()),
        ok("1970-01-01T00:00:00Z")
    );
}

#[test]
fn dates_and_timestamps_into_each_other() {
    let utc = || Timestamp(US, Some("UTC".into()));
    assert_eq!(
        cast(Date32Array::from(vec![1, -1]), utc()),
        ok("1970-01-02T00:00:00Z 1969-12-31T00:00:00Z")
    );
    assert_eq!(
        cast(TimestampMicrosecondArray::from(vec![86_400_000_000]), Date32),
        ok("1970-01-02")
    );
    assert_eq!(
        cast(TimestampMicrosecondArray::from(vec![1]), Date32),
        unfit("22007", "1970-01-01T00:00:00.000001", "DATE")
    );
    assert_eq!(cast(Date64Array::from(vec![86_400_000]), Date32), ok("1970-01-02"));
    assert_eq!(cast(Date64Array::from(vec![1]), Date32).unwrap_err()[..5], *"22007");
}

#[test]
fn texts_and_binaries_of_all_layouts_are_one_type() {
    assert_eq!(cast(StringViewArray::from(vec!["a"]), Utf8), ok("a"));
    assert_eq!(cast(StringArray::from(vec!["a"]), LargeUtf8), ok("a"));
    assert_eq!(cast(BinaryViewArray::from(vec![b"a" as &[u8]]), Binary), ok("61"));
    assert_eq!(cast(StringArray::from(vec!["a"]), Binary), ok("61"));
    assert_eq!(cast(BinaryArray::from(vec![b"a" as &[u8]]), Utf8), ok("a"));
    assert_eq!(
        cast(BinaryArray::from(vec![b"\xff" as &[u8]]), Utf8),
        unfit("22P02", "ff", "STRING")
    );
    assert_eq!(cast(Int64Array::from(vec![7]), Utf8), ok("7"));
    assert_eq!(cast(BooleanArray::from(vec![true]), Utf8), ok("true"));
}

#[test]
fn null_and_encoded_values_are_cast() {
    assert_eq!(cast(NullArray::new(2), Int32), ok("NULL NULL"));
    let struct_type = Struct(Fields::from(vec![Field::new("a", Int32, false)]));
    assert_eq!(cast(NullArray::new(1), struct_type), ok("NULL"));
    let dictionary: DictionaryArray<Int32Type> = vec!["1", "2", "1"].into_iter().collect();
    assert_eq!(cast(dictionary, Int64), ok("1 2 1"));
}

fn pair(a: ArrayRef, b: ArrayRef, nulls: Option<NullBuffer>) -> ArrayRef {
    let fields = vec![
        Field::new("a", a.data_type().clone(), true),
        Field::new("b", b.data_type().clone(), true),
    ];
    Arc::new(StructArray::new(Fields::from(fields), vec![a, b], nulls))
}

#[test]
fn structs_are_matched_by_field_name() {
    let source = pair(
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec!["x", "y"])),
        None,
    );
    let to = |fields: Vec<Field>| Struct(Fields::from(fields));
    let wanted = to(vec![
        Field::new("b", Utf8, true),
        Field::new("c", Date32, true),
        Field::new("A", Int32, true),
    ]);
    assert_eq!(
        cast_ref(&source, wanted),
        ok("{b: x, c: NULL, A: 1} {b: y, c: NULL, A: 2}")
    );
    let narrow = to(vec![Field::new("a", Int8, true)]);
    let wide = pair(
        Arc::new(Int64Array::from(vec![1000])),
        Arc::new(Int64Array::from(vec![1])),
        None,
    );
    assert_eq!(
        cast_ref(&wide, narrow.clone()),
        Err("22003 value 1000 does not fit column \"n.a\" of type TINYINT".into())
    );
    let hidden = pair(
        Arc::new(Int64Array::from(vec![1000])),
        Arc::new(Int64Array::from(vec![1])),
        Some(NullBuffer::from(vec![false])),
    );
    assert_eq!(cast_ref(&hidden, narrow), ok("NULL"));
}

#[test]
fn null_in_a_field_that_must_not_be_null_is_an_error() {
    let source = pair(
        Arc::new(Int64Array::from(vec![None])),
        Arc::new(Int64Array::from(vec![1])),
        None,
    );
    let wanted = Struct(Fields::from(vec![Field::new("a", Int64, false)]));
    assert_eq!(
        cast_ref(&source, wanted),
        Err("23502 NULL in column \"n.a\", which must not be NULL".into())
    );
}

fn list_of(to: DataType) -> DataType {
    List(Arc::new(Field::new("element", to, true)))
}

#[test]
fn lists_of_all_layouts_are_cast() {
    let values = || vec![Some(vec![Some(1i32), None]), None, Some(vec![]), Some(vec![Some(300)])];
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(values());
    assert_eq!(cast(list.clone(), list_of(Int64)), ok("[1, NULL] NULL [] [300]"));
    assert_eq!(
        cast(list.clone(), list_of(Int8)),
        Err("22003 value 300 does not fit column \"n.element\" of type TINYINT".into())
    );
    assert_eq!(cast(list.slice(0, 3), list_of(Int8)), ok("[1, NULL] NULL []"));
    let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>(values());
    assert_eq!(cast(large, list_of(Int64)), ok("[1, NULL] NULL [] [300]"));
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), Some(2)]), None], 2);
    assert_eq!(cast(fixed, list_of(Int64)), ok("[1, 2] NULL"));
    let views = datafusion::arrow::compute::cast(&list, &ListView(Arc::new(Field::new("item", Int32, true)))).unwrap();
    assert_eq!(cast_ref(&views, list_of(Int64)), ok("[1, NULL] NULL [] [300]"));
}

#[test]
fn maps_are_cast() {
    let pairs = |value: DataType| Fields::from(vec![Field::new("key", Utf8, false), Field::new("value", value, true)]);
    let entries = StructArray::new(
        pairs(Int64),
        vec![
            Arc::new(StringArray::from(vec!["a", "b"])),
            Arc::new(Int64Array::from(vec![1, 300])),
        ],
        None,
    );
    let field = |value| Arc::new(Field::new("entries", Struct(pairs(value)), false));
    let map = MapArray::new(field(Int64), OffsetBuffer::from_lengths([1, 1]), entries, None, false);
    assert_eq!(cast(map.clone(), Map(field(Int32), false)), ok("{a: 1} {b: 300}"));
    assert_eq!(
        cast(map, Map(field(Int8), false)),
        Err("22003 value 300 does not fit column \"n.value\" of type TINYINT".into())
    );
}

#[test]
fn types_without_a_cast_are_refused_at_planning() {
    let refused = |from: DataType, to: DataType| shown(&check_castable("n", &from, &to).unwrap_err());
    assert_eq!(
        refused(Boolean, Int32),
        "42804 column \"n\" is of type INT but the source has BOOLEAN\n\
         Convert the value in the source, for example with CAST(.. AS INT)."
    );
    for (from, to) in [
        (Int32, Boolean),
        (Int64, Timestamp(US, None)),
        (Date32, Int32),
        (Utf8, list_of(Utf8)),
        (list_of(Utf8), Utf8),
        (Interval(IntervalUnit::DayTime), Utf8),
        (list_of(Boolean), list_of(Int32)),
    ] {
        assert!(refused(from.clone(), to.clone()).starts_with("42804"));
        let array = new_null_array(&from, 1);
        assert!(cast_ref(&array, to).unwrap_err().starts_with("42804"));
    }
    let strict = Struct(Fields::from(vec![Field::new("x", Int32, false)]));
    let given = Struct(Fields::from(vec![Field::new("y", Int32, false)]));
    assert!(refused(given, strict).contains("field \"n.x\""));
    assert!(check_castable("n", &Null, &Date32).is_ok());
    assert!(check_castable("n", &Utf8, &Decimal128(10, 2)).is_ok());
}

#[test]
fn types_are_named_as_in_sql() {
    for (data_type, name) in [
        (Int64, "BIGINT"),
        (Decimal128(10, 2), "DECIMAL(10,2)"),
        (Timestamp(US, Some("UTC".into())), "TIMESTAMP"),
        (Timestamp(US, None), "TIMESTAMP_NTZ"),
        (list_of(Utf8View), "ARRAY<STRING>"),
        (
            Struct(Fields::from(vec![Field::new("a", Date32, true)])),
            "STRUCT<a: DATE>",
        ),
    ] {
        assert_eq!(sql_type_name(&data_type), name);
    }
}

#[test]
fn equal_types_need_no_function() {
    assert_eq!(checked_cast(col("a"), "n", &Int32, &Int32), col("a"));
    assert_ne!(
        checked_cast(col("a"), "n", &Int64, &Int32),
        checked_cast(col("a"), "m", &Int64, &Int32)
    );
}

#[tokio::test]
async fn the_function_works_in_plans_and_fails_at_execution() {
    let input = batch(vec![(
        "a",
        Arc::new(Int64Array::from(vec![1, 3_000_000_000])) as ArrayRef,
    )]);
    let plan = |expr| {
        datafusion::logical_expr::LogicalPlanBuilder::from(source(&input, 1))
            .project(vec![checked_cast(expr, "n", &Int64, &Int32).alias("n")])
            .unwrap()
            .build()
            .unwrap()
    };
    let error = run(&session(1, 8192), plan(col("a"))).await.unwrap_err();
    assert_eq!(
        error.message(),
        "value 3000000000 does not fit column \"n\" of type INT"
    );
    let literal = plan(datafusion::prelude::lit(3_000_000_000i64));
    let session = session(1, 8192);
    session.state().create_physical_plan(&literal).await.unwrap();
    assert_eq!(run(&session, literal).await.unwrap_err().code(), "22003");
}
