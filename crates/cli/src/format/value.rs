//! One value as text: as JSON, and as plain text for people and CSV.
//!
//! Arrow's own JSON writer drops NULLs and turns NaN into NULL, so the conversion is ours. All formats agree on how a
//! value looks: nested values are JSON everywhere, and plain text is the JSON value without its quotes.

use std::fmt::{Display, Write};

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// Appends the value as JSON.
///
/// Numbers and booleans are bare; decimals, dates, timestamps, binary values (as hexadecimal digits) and the three
/// floats that JSON lacks are strings; structs and maps are objects, lists are arrays.
pub(crate) fn write_json(out: &mut String, array: &dyn Array, row: usize) {
    match resolve(array, row) {
        None => out.push_str("null"),
        Some((array, row)) => write_resolved(out, array, row),
    }
}

/// Appends the value as plain text; `false`, and nothing appended, for NULL.
pub(crate) fn write_text(out: &mut String, array: &dyn Array, row: usize) -> bool {
    let Some((array, row)) = resolve(array, row) else {
        return false;
    };
    match (text_of(array, row), is_nested(array.data_type())) {
        (Some(text), _) => out.push_str(text),
        (None, true) => write_resolved(out, array, row),
        (None, false) => write_scalar(out, array, row),
    }
    true
}

/// Appends `text` as a JSON string.
pub(crate) fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => push(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether a column of this type is aligned to the right.
pub(crate) fn is_numeric(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_numeric(value),
        DataType::RunEndEncoded(_, value) => is_numeric(value.data_type()),
        other => other.is_numeric(),
    }
}

fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested() && !matches!(data_type, DataType::Union(..))
}

/// Looks through encodings; `None` for NULL.
fn resolve(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Null => None,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary_opt()?;
            let key = key_at(dictionary.keys(), row)?;
            resolve(dictionary.values().as_ref(), key)
        }
        _ => Some((array, row)),
    }
}

/// One key of a dictionary, whose keys are integers of any width.
fn key_at(keys: &dyn Array, row: usize) -> Option<usize> {
    match keys.data_type() {
        DataType::Int8 => keys.as_primitive::<Int8Type>().value(row).try_into().ok(),
        DataType::Int16 => keys.as_primitive::<Int16Type>().value(row).try_into().ok(),
        DataType::Int32 => keys.as_primitive::<Int32Type>().value(row).try_into().ok(),
        DataType::Int64 => keys.as_primitive::<Int64Type>().value(row).try_into().ok(),
        DataType::UInt8 => Some(keys.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Some(keys.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => keys.as_primitive::<UInt32Type>().value(row).try_into().ok(),
        DataType::UInt64 => keys.as_primitive::<UInt64Type>().value(row).try_into().ok(),
        _ => None,
    }
}

fn write_resolved(out: &mut String, array: &dyn Array, row: usize) {
    if let Some(text) = text_of(array, row) {
        return write_quoted(out, text);
    }
    match array.data_type() {
        DataType::Struct(_) => write_struct(out, array.as_struct(), row),
        DataType::Map(..) => write_map(out, array.as_map(), row),
        DataType::List(_) => write_list(out, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => write_list(out, &array.as_list::<i64>().value(row)),
        DataType::ListView(_) => write_list(out, &array.as_list_view::<i32>().value(row)),
        DataType::LargeListView(_) => write_list(out, &array.as_list_view::<i64>().value(row)),
        DataType::FixedSizeList(..) => write_list(out, &array.as_fixed_size_list().value(row)),
        data_type => {
            let start = out.len();
            write_scalar(out, array, row);
            if !is_bare(data_type, &out[start..]) {
                let text = out.split_off(start);
                write_quoted(out, &text);
            }
        }
    }
}

/// Whether the text of a value of this type is JSON as it stands.
fn is_bare(data_type: &DataType, text: &str) -> bool {
    match data_type {
        DataType::Boolean => true,
        // Only `NaN`, `Infinity` and `-Infinity` end in a letter.
        _ if data_type.is_floating() => text.ends_with(|c: char| c.is_ascii_digit()),
        _ => data_type.is_integer(),
    }
}

fn write_list(out: &mut String, items: &ArrayRef) {
    out.push('[');
    for i in 0..items.len() {
        if i > 0 {
            out.push(',');
        }
        write_json(out, items.as_ref(), i);
    }
    out.push(']');
}

fn write_struct(out: &mut String, array: &StructArray, row: usize) {
    out.push('{');
    for (i, (field, column)) in array.fields().iter().zip(array.columns()).enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_quoted(out, field.name());
        out.push(':');
        write_json(out, column.as_ref(), row);
    }
    out.push('}');
}

/// JSON knows text keys only, so a key of another type is written as its plain text.
fn write_map(out: &mut String, array: &MapArray, row: usize) {
    let entries = array.value(row);
    let (Some(keys), Some(values)) = (entries.columns().first(), entries.columns().get(1)) else {
        return out.push_str("{}");
    };
    let mut key = String::new();
    out.push('{');
    for i in 0..entries.len() {
        if i > 0 {
            out.push(',');
        }
        key.clear();
        write_text(&mut key, keys.as_ref(), i);
        write_quoted(out, &key);
        out.push(':');
        write_json(out, values.as_ref(), i);
    }
    out.push('}');
}

fn text_of(array: &dyn Array, row: usize) -> Option<&str> {
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        _ => None,
    }
}

fn bytes_of(array: &dyn Array, row: usize) -> Option<&[u8]> {
    match array.data_type() {
        DataType::Binary => Some(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Some(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => Some(array.as_fixed_size_binary().value(row)),
        _ => None,
    }
}

/// Appends a value that is neither NULL, text, nor nested, without quotes.
fn write_scalar(out: &mut String, array: &dyn Array, row: usize) {
    if let Some(bytes) = bytes_of(array, row) {
        return bytes.iter().for_each(|byte| push(out, format_args!("{byte:02x}")));
    }
    match array.data_type() {
        DataType::Boolean => push(out, array.as_boolean().value(row)),
        DataType::Int8 => push(out, array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => push(out, array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => push(out, array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => push(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => push(out, array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => push(out, array.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => push(out, array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => push(out, array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float16 => push_float(out, array.as_primitive::<Float16Type>().value(row).to_f32()),
        DataType::Float32 => push_float(out, array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => push_float(out, array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal32(..) => push(out, array.as_primitive::<Decimal32Type>().value_as_string(row)),
        DataType::Decimal64(..) => push(out, array.as_primitive::<Decimal64Type>().value_as_string(row)),
        DataType::Decimal128(..) => push(out, array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Decimal256(..) => push(out, array.as_primitive::<Decimal256Type>().value_as_string(row)),
        data_type if data_type.is_temporal() => write_temporal(out, array, row),
        _ => write_by_arrow(out, array, row),
    }
}

fn write_temporal(out: &mut String, array: &dyn Array, row: usize) {
    let written = match array.data_type() {
        DataType::Date32 => push_date(out, array.as_primitive::<Date32Type>().value_as_date(row)),
        DataType::Date64 => match array.as_primitive::<Date64Type>().value_as_datetime(row) {
            Some(instant) if instant.time() != NaiveTime::MIN => push_instant(out, Some(instant), false),
            instant => push_date(out, instant.map(|i| i.date())),
        },
        DataType::Timestamp(unit, zone) => push_instant(out, instant_of(array, *unit, row), zone.is_some()),
        DataType::Time32(_) | DataType::Time64(_) => push_time(out, time_of(array, row)),
        _ => false,
    };
    if !written {
        write_by_arrow(out, array, row);
    }
}

/// Timestamps with a zone are instants: the zone says how to show them, and we show all of them in UTC.
fn instant_of(array: &dyn Array, unit: TimeUnit, row: usize) -> Option<NaiveDateTime> {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value_as_datetime(row),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value_as_datetime(row),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value_as_datetime(row),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value_as_datetime(row),
    }
}

fn time_of(array: &dyn Array, row: usize) -> Option<NaiveTime> {
    match array.data_type() {
        DataType::Time32(TimeUnit::Second) => array.as_primitive::<Time32SecondType>().value_as_time(row),
        DataType::Time32(_) => array.as_primitive::<Time32MillisecondType>().value_as_time(row),
        DataType::Time64(TimeUnit::Nanosecond) => array.as_primitive::<Time64NanosecondType>().value_as_time(row),
        _ => array.as_primitive::<Time64MicrosecondType>().value_as_time(row),
    }
}

fn push_date(out: &mut String, date: Option<NaiveDate>) -> bool {
    date.map(|date| push(out, date.format("%Y-%m-%d"))).is_some()
}

fn push_instant(out: &mut String, instant: Option<NaiveDateTime>, utc: bool) -> bool {
    let Some(instant) = instant else { return false };
    push(out, instant.format("%Y-%m-%dT%H:%M:%S%.f"));
    if utc {
        out.push('Z');
    }
    true
}

fn push_time(out: &mut String, time: Option<NaiveTime>) -> bool {
    time.map(|time| push(out, time.format("%H:%M:%S%.f"))).is_some()
}

/// The shortest digits that read back as the same number; `f32` keeps its own, shorter ones.
fn push_float<F: Into<f64> + std::fmt::Debug + Copy>(out: &mut String, value: F) {
    let wide: f64 = value.into();
    match wide {
        _ if wide.is_nan() => out.push_str("NaN"),
        _ if wide.is_infinite() => out.push_str(if wide > 0.0 { "Infinity" } else { "-Infinity" }),
        _ => push(out, format_args!("{value:?}")),
    }
}

/// Durations, intervals, unions, run-end encoded values, and dates beyond the calendar.
fn write_by_arrow(out: &mut String, array: &dyn Array, row: usize) {
    let options = FormatOptions::default().with_display_error(true);
    if let Ok(formatter) = ArrayFormatter::try_new(array, &options) {
        push(out, formatter.value(row));
    }
}

fn push(out: &mut String, value: impl Display) {
    // Writing to a String cannot fail; a value's own `Display` can, and then shows what it has so far.
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::*;
    use datafusion::arrow::datatypes::{Field, Fields, Int32Type, IntervalDayTime};

    use super::*;

    fn json(array: &dyn Array) -> String {
        let mut out = String::new();
        (0..array.len()).for_each(|row| {
            write_json(&mut out, array, row);
            out.push(' ');
        });
        out.trim_end().to_owned()
    }

    fn text(array: &dyn Array) -> Vec<Option<String>> {
        (0..array.len())
            .map(|row| {
                let mut out = String::new();
                write_text(&mut out, array, row).then_some(out)
            })
            .collect()
    }

    #[test]
    fn numbers_are_bare_and_null_is_null() {
        assert_eq!(
            json(&Int64Array::from(vec![Some(i64::MIN), None])),
            "-9223372036854775808 null"
        );
        assert_eq!(json(&UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
        assert_eq!(
            json(&BooleanArray::from(vec![Some(true), Some(false), None])),
            "true false null"
        );
        assert_eq!(json(&NullArray::new(2)), "null null");
    }

    #[test]
    fn floats_keep_their_shortest_digits_and_the_special_ones_are_strings() {
        let doubles = Float64Array::from(vec![
            0.1,
            1.0,
            -0.0,
            1e300,
            5e-324,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ]);
        assert_eq!(
            json(&doubles),
            r#"0.1 1.0 -0.0 1e300 5e-324 "NaN" "Infinity" "-Infinity""#
        );
        assert_eq!(json(&Float32Array::from(vec![0.1])), "0.1");
        for part in json(&doubles).split(' ') {
            serde_json::from_str::<serde_json::Value>(part).unwrap();
        }
    }

    #[test]
    fn decimals_are_strings_with_all_digits() {
        let array = Decimal128Array::from(vec![Some(150), Some(-5), None]);
        let array = array.with_precision_and_scale(38, 2).unwrap();
        assert_eq!(json(&array), r#""1.50" "-0.05" null"#);
        assert_eq!(text(&array), [Some("1.50".into()), Some("-0.05".into()), None]);
    }

    #[test]
    fn instants_are_iso_8601_with_z_only_when_they_have_a_zone() {
        let micros = TimestampMicrosecondArray::from(vec![0, 1_500_000, 253_402_214_400_000_001]);
        assert_eq!(
            json(&micros),
            r#""1970-01-01T00:00:00" "1970-01-01T00:00:01.500" "9999-12-31T00:00:00.000001""#
        );
        let zoned = TimestampMicrosecondArray::from(vec![1_500_000]);
        assert_eq!(
            json(&zoned.clone().with_timezone("UTC")),
            r#""1970-01-01T00:00:01.500Z""#
        );
        assert_eq!(json(&zoned.with_timezone("+02:00")), r#""1970-01-01T00:00:01.500Z""#);
        assert_eq!(
            json(&Date32Array::from(vec![0, -719_162])),
            r#""1970-01-01" "0001-01-01""#
        );
        assert_eq!(
            json(&Date64Array::from(vec![86_400_000, 1_000])),
            r#""1970-01-02" "1970-01-01T00:00:01""#
        );
        assert_eq!(
            json(&Time64MicrosecondArray::from(vec![3_600_000_001])),
            r#""01:00:00.000001""#
        );
    }

    #[test]
    fn values_outside_the_calendar_do_not_become_null() {
        assert_ne!(json(&TimestampSecondArray::from(vec![i64::MAX])), "null");
        assert_ne!(json(&Date32Array::from(vec![i32::MAX])), "null");
    }

    #[test]
    fn text_is_escaped_and_binary_is_hexadecimal() {
        let array = StringArray::from(vec!["a\"b\\c\nd\u{1}é"]);
        assert_eq!(json(&array), "\"a\\\"b\\\\c\\nd\\u0001é\"");
        assert_eq!(text(&array), [Some("a\"b\\c\nd\u{1}é".into())]);
        assert_eq!(json(&StringViewArray::from(vec![Some(""), None])), "\"\" null");
        assert_eq!(json(&BinaryArray::from_vec(vec![b"\x00\xff", b""])), r#""00ff" """#);
        let interval = IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 0)]);
        assert_eq!(json(&interval), r#""1 days""#);
    }

    #[test]
    fn dictionaries_show_their_values() {
        let array: DictionaryArray<Int32Type> = [Some("a"), None, Some("b")].into_iter().collect();
        assert_eq!(json(&array), r#""a" null "b""#);
        assert!(!is_numeric(array.data_type()));
    }

    #[test]
    fn nested_values_are_json_and_keep_their_nulls() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
        assert_eq!(json(&list), "[1,null] null []");
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
        let fields = Fields::from(vec![Field::new("n", DataType::Utf8, true)]);
        let array = StructArray::new(fields, vec![names], Some(vec![true, false].into()));
        assert_eq!(json(&array), r#"{"n":"x"} null"#);
        assert_eq!(text(&array), [Some(r#"{"n":"x"}"#.into()), None]);
    }

    #[test]
    fn maps_are_objects_whatever_their_keys() {
        let mut builder = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
        builder.keys().append_value(7);
        builder.values().append_value("seven");
        builder.append(true).unwrap();
        builder.append(false).unwrap();
        assert_eq!(json(&builder.finish()), r#"{"7":"seven"} null"#);
    }
}
