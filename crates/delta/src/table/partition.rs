//! Partition values: text in the log, typed in a plan.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};

/// The value that the log spells `raw`. No text and empty text are both NULL.
pub(super) fn parse(raw: Option<&str>, data_type: &DataType) -> Result<ScalarValue> {
    let Some(text) = raw.filter(|text| !text.is_empty()) else {
        return ScalarValue::try_from(data_type);
    };
    match data_type {
        DataType::Utf8 => Ok(ScalarValue::Utf8(Some(text.to_owned()))),
        DataType::Binary => Ok(ScalarValue::Binary(Some(bytes(text)))),
        // Arrow reads `2024-01-02 10:00:00` and `2024-01-01T10:00:00.123456Z` alike, without an offset as UTC.
        _ => ScalarValue::try_from_string(text.to_owned(), data_type),
    }
}

/// Binary values are written as `\u0001\u00ff`; text of any other shape is taken as it is.
fn bytes(text: &str) -> Vec<u8> {
    let escaped: Option<Vec<u8>> = text.strip_prefix("\\u").and_then(|rest| {
        rest.split("\\u")
            .map(|code| u8::from_str_radix(code, 16).ok())
            .collect()
    });
    escaped.unwrap_or_else(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    fn micros(text: &str) -> Option<i64> {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        match parse(Some(text), &utc).unwrap() {
            ScalarValue::TimestampMicrosecond(value, Some(zone)) if zone.as_ref() == "UTC" => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_spellings_of_a_timestamp_are_read() {
        assert_eq!(micros("2024-01-01T10:00:00.123456Z"), Some(1_704_103_200_123_456));
        assert_eq!(micros("2024-01-01 10:00:00"), Some(1_704_103_200_000_000));
        assert_eq!(micros("2024-01-01 10:00:00.123456"), Some(1_704_103_200_123_456));
        assert_eq!(micros("1969-12-31 23:59:59"), Some(-1_000_000));
    }

    #[test]
    fn nothing_and_empty_text_are_null() {
        for raw in [None, Some("")] {
            assert!(parse(raw, &DataType::Utf8).unwrap().is_null());
            assert!(parse(raw, &DataType::Date32).unwrap().is_null());
        }
    }

    #[test]
    fn other_types_are_read_exactly() {
        let decimal = DataType::Decimal128(38, 2);
        let value = parse(Some("123456789012345678901234567890123456.78"), &decimal).unwrap();
        assert_eq!(
            value,
            ScalarValue::Decimal128(Some(12345678901234567890123456789012345678), 38, 2)
        );
        assert_eq!(
            parse(Some("true"), &DataType::Boolean).unwrap(),
            ScalarValue::Boolean(Some(true))
        );
        assert_eq!(parse(Some("-5"), &DataType::Int8).unwrap(), ScalarValue::Int8(Some(-5)));
        assert_eq!(
            parse(Some("\\u0001\\u00ff"), &DataType::Binary).unwrap(),
            ScalarValue::Binary(Some(vec![1, 255]))
        );
        assert!(parse(Some("x"), &DataType::Int64).is_err());
    }
}
