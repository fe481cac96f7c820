//! Which Delta type a column gets that comes from a query.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};

/// The type under which values of `data_type` are stored: unsigned integers one size up, every kind of string as
/// `STRING`, every timestamp in microseconds.
///
/// # Errors
///
/// 42804 naming the column for a type that Delta Lake cannot store, an untyped NULL included.
pub fn storable_type(column: &str, data_type: &DataType) -> Result<DataType> {
    Ok(match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Decimal128(_, 0..) => data_type.clone(),
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Decimal32(p, s @ 0..) | DataType::Decimal64(p, s @ 0..) => DataType::Decimal128(*p, *s),
        DataType::Decimal256(p @ ..=38, s @ 0..) => DataType::Decimal128(*p, *s),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Dictionary(_, value) => storable_type(column, value)?,
        DataType::RunEndEncoded(_, value) => storable_type(column, value.data_type())?,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(element(column, item)?),
        DataType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|f| nested(&format!("{column}.{}", f.name()), f, f.is_nullable()));
            DataType::Struct(fields.collect::<Result<Vec<_>>>()?.into())
        }
        DataType::Map(entries, sorted) => DataType::Map(map_entries(column, entries)?, *sorted),
        other => return Err(not_storable(column, other)),
    })
}

fn element(column: &str, item: &FieldRef) -> Result<FieldRef> {
    let data_type = storable_type(&format!("{column}.element"), item.data_type())?;
    Ok(Arc::new(Field::new("element", data_type, true)))
}

fn nested(path: &str, field: &FieldRef, nullable: bool) -> Result<FieldRef> {
    Ok(Arc::new(Field::new(
        field.name(),
        storable_type(path, field.data_type())?,
        nullable,
    )))
}

fn map_entries(column: &str, entries: &FieldRef) -> Result<FieldRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(not_storable(column, entries.data_type()));
    };
    let [key, value] = fields.as_ref() else {
        return Err(not_storable(column, entries.data_type()));
    };
    let key = Field::new("key", storable_type(&format!("{column}.key"), key.data_type())?, false);
    let value = Field::new(
        "value",
        storable_type(&format!("{column}.value"), value.data_type())?,
        true,
    );
    let entries = DataType::Struct(vec![Arc::new(key), Arc::new(value)].into());
    Ok(Arc::new(Field::new("key_value", entries, false)))
}

fn not_storable(column: &str, data_type: &DataType) -> LoadError {
    let error = LoadError::new(
        SqlState::DatatypeMismatch,
        match data_type {
            DataType::Null => format!("column \"{column}\" has no type: all its values are untyped NULL"),
            other => format!("column \"{column}\" has type {other}, which a Delta table cannot store"),
        },
    );
    match data_type {
        DataType::Null => error.hint(format!(
            "Give it one in the source query, for example CAST(NULL AS STRING) AS \"{column}\"."
        )),
        _ => error.hint("Convert it to a storable type with CAST in the source query."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_queries_become_types_of_delta() {
        let cases = [
            (DataType::UInt8, DataType::Int16),
            (DataType::UInt64, DataType::Decimal128(20, 0)),
            (DataType::Utf8View, DataType::Utf8),
            (
                DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ),
            (
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
                DataType::Utf8,
            ),
        ];
        for (from, to) in cases {
            assert_eq!(storable_type("c", &from).unwrap(), to, "{from}");
        }
    }

    #[test]
    fn what_cannot_be_stored_is_refused_by_name() {
        let inner = DataType::Struct(vec![Field::new("b", DataType::Null, true)].into());
        let error = storable_type("a", &inner).unwrap_err();
        assert_eq!(error.code(), "42804");
        assert!(error.message().contains("\"a.b\""), "{error}");
    }
}
