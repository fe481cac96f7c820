//! Partition values as the log spells them, and the folders of their files.

use alluvium_core::{LoadError, Result, SqlState};
use chrono::{DateTime, Datelike};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// The folder name of NULL, by convention.
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";
/// Folder names are cut here; the value itself is in the log.
const LONGEST_FOLDER: usize = 100;

/// Row `row` of partition column `name` as the log spells it.
pub(super) fn partition_value(name: &str, column: &dyn Array, row: usize) -> Result<Option<String>> {
    if column.is_null(row) {
        return Ok(None);
    }
    let text = match column.data_type() {
        DataType::Float32 => float(f64::from(column.as_primitive::<Float32Type>().value(row)), || {
            column.as_primitive::<Float32Type>().value(row).to_string()
        }),
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row), || {
            column.as_primitive::<Float64Type>().value(row).to_string()
        }),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
            timestamp(micros, zone.is_some()).ok_or_else(|| unusable(name, &micros.to_string()))?
        }
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => ArrayFormatter::try_new(column, &FormatOptions::default())?
            .value(row)
            .try_to_string()?,
        other => {
            return Err(
                LoadError::unsupported(format!("partition column {name:?} has type {other}"))
                    .hint("Partition by text, numbers, dates, timestamps or booleans."),
            );
        }
    };
    if text.is_empty() {
        return Err(LoadError::new(
            SqlState::InvalidParameter,
            format!("empty text in partition column {name:?}"),
        )
        .detail("The table format cannot tell an empty partition value from NULL.")
        .hint("Write NULL or another marker instead."));
    }
    Ok(Some(text))
}

fn float(value: f64, shown: impl Fn() -> String) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => shown(),
    }
}

/// Microseconds since 1970 as text: an instant carries its Z, so that no reader takes it for local time.
fn timestamp(micros: i64, instant: bool) -> Option<String> {
    let time = DateTime::from_timestamp_micros(micros)?;
    (0..=9999).contains(&time.year()).then(|| {
        let format = if instant {
            "%Y-%m-%dT%H:%M:%S%.6fZ"
        } else {
            "%Y-%m-%d %H:%M:%S%.6f"
        };
        time.format(format).to_string()
    })
}

fn unusable(name: &str, value: &str) -> LoadError {
    LoadError::new(
        SqlState::InvalidDatetime,
        format!("value {value} of partition column {name:?} is out of range"),
    )
    .hint("Partition values must lie between the years 0 and 9999.")
}

/// The folder of a partition value. Values are read from the log alone, so the folder only has to be legible and safe
/// everywhere: whatever is not plain becomes `_`, and two values may share a folder.
pub(super) fn folder(name: &str, value: Option<&str>) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .take(LONGEST_FOLDER)
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    format!(
        "{}={}",
        plain(name),
        value.map_or_else(|| NULL_FOLDER.to_owned(), plain)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Decimal128Array, Float64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn value(column: ArrayRef) -> Result<Option<String>> {
        partition_value("p", column.as_ref(), 0)
    }

    #[test]
    fn values_are_spelled_so_that_every_reader_understands_them() {
        let decimal = Decimal128Array::from(vec![150])
            .with_precision_and_scale(10, 2)
            .unwrap();
        assert_eq!(value(Arc::new(decimal)).unwrap().unwrap(), "1.50");
        let instant = TimestampMicrosecondArray::from(vec![1_704_103_200_123_456]).with_timezone("UTC");
        assert_eq!(
            value(Arc::new(instant)).unwrap().unwrap(),
            "2024-01-01T10:00:00.123456Z"
        );
        let infinite = Float64Array::from(vec![f64::NEG_INFINITY]);
        assert_eq!(value(Arc::new(infinite)).unwrap().unwrap(), "-Infinity");
        assert_eq!(value(Arc::new(StringArray::from(vec![None::<&str>]))).unwrap(), None);
    }

    #[test]
    fn empty_text_is_refused() {
        let error = value(Arc::new(StringArray::from(vec![""]))).unwrap_err();
        assert_eq!(error.code(), "22023");
    }

    #[test]
    fn folders_are_plain_whatever_the_value() {
        assert_eq!(folder("p", Some("../a/b%2F")), "p=.._a_b_2F");
        assert_eq!(folder("p", None), "p=__HIVE_DEFAULT_PARTITION__");
        assert_eq!(folder("p", Some(&"x".repeat(1000))).len(), 102);
    }
}
