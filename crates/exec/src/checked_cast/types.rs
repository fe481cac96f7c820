//! Which types can be cast into which, and what they are called.

use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

/// Types that are cast alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Null,
    Boolean,
    Number,
    Text,
    Binary,
    Datetime,
    Time,
    Struct,
    List,
    Map,
    Other,
}

pub(super) fn family(data_type: &DataType) -> Family {
    match data_type {
        DataType::Null => Family::Null,
        DataType::Boolean => Family::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Family::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Family::Binary
        }
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, _) => Family::Datetime,
        DataType::Time32(_) | DataType::Time64(_) => Family::Time,
        DataType::Struct(_) => Family::Struct,
        DataType::Map(_, _) => Family::Map,
        other if other.is_numeric() => Family::Number,
        other if element(other).is_some() => Family::List,
        _ => Family::Other,
    }
}

/// The element of a list of any layout.
pub(super) fn element(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::FixedSizeList(f, _)
        | DataType::ListView(f)
        | DataType::LargeListView(f) => Some(f),
        _ => None,
    }
}

/// The type behind an encoding.
pub(super) fn decoded(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, value) => decoded(value),
        DataType::RunEndEncoded(_, value) => decoded(value.data_type()),
        plain => plain,
    }
}

/// Key and value of a map's entries.
pub(super) fn key_and_value(entries: &Field) -> Option<(&FieldRef, &FieldRef)> {
    match entries.data_type() {
        DataType::Struct(fields) => Some((fields.first()?, fields.get(1)?)),
        _ => None,
    }
}

/// Refuses, at planning, to cast `from` into column `column` of type `to` where no value could be cast.
pub fn check_castable(column: &str, from: &DataType, to: &DataType) -> Result<()> {
    let from = decoded(from);
    if from == to {
        return Ok(());
    }
    let castable = match (family(from), family(to)) {
        (Family::Null, _)
        | (Family::Number, Family::Number | Family::Text)
        | (Family::Boolean | Family::Datetime | Family::Time | Family::Binary, Family::Text)
        | (Family::Binary, Family::Binary)
        | (Family::Datetime, Family::Datetime)
        | (Family::Text, Family::Text | Family::Number | Family::Boolean | Family::Datetime | Family::Binary) => true,
        (Family::Struct, Family::Struct) => return check_struct(column, from, to),
        (Family::List, Family::List) => return check_list(column, from, to),
        (Family::Map, Family::Map) => return check_map(column, from, to),
        _ => false,
    };
    match castable {
        true => Ok(()),
        false => Err(mismatch(column, from, to)),
    }
}

fn mismatch(column: &str, from: &DataType, to: &DataType) -> LoadError {
    let message = format!(
        "column \"{column}\" is of type {} but the source has {}",
        sql_type_name(to),
        sql_type_name(from)
    );
    LoadError::new(SqlState::DatatypeMismatch, message).hint(format!(
        "Convert the value in the source, for example with CAST(.. AS {}).",
        sql_type_name(to)
    ))
}

fn check_struct(column: &str, from: &DataType, to: &DataType) -> Result<()> {
    let (DataType::Struct(source), DataType::Struct(target)) = (from, to) else {
        return Err(mismatch(column, from, to));
    };
    for field in target {
        let path = format!("{column}.{}", field.name());
        match find(source, field.name()) {
            Some((_, given)) => check_castable(&path, given.data_type(), field.data_type())?,
            None if field.is_nullable() => {}
            None => {
                let message = format!("field \"{path}\" must not be NULL and the source lacks it");
                return Err(LoadError::new(SqlState::DatatypeMismatch, message)
                    .hint("Add the field to the struct in the source, for example with named_struct()."));
            }
        }
    }
    Ok(())
}

fn check_list(column: &str, from: &DataType, to: &DataType) -> Result<()> {
    match (element(from), element(to)) {
        (Some(a), Some(b)) => check_castable(&format!("{column}.element"), a.data_type(), b.data_type()),
        _ => Err(mismatch(column, from, to)),
    }
}

fn check_map(column: &str, from: &DataType, to: &DataType) -> Result<()> {
    let (DataType::Map(a, _), DataType::Map(b, _)) = (from, to) else {
        return Err(mismatch(column, from, to));
    };
    match (key_and_value(a), key_and_value(b)) {
        (Some(a), Some(b)) => {
            check_castable(&format!("{column}.key"), a.0.data_type(), b.0.data_type())?;
            check_castable(&format!("{column}.value"), a.1.data_type(), b.1.data_type())
        }
        _ => Err(mismatch(column, from, to)),
    }
}

/// The field called `name`; if there is none, the only one that differs by case.
pub(super) fn find<'a>(fields: &'a Fields, name: &str) -> Option<(usize, &'a FieldRef)> {
    if let Some(exact) = fields.find(name) {
        return Some(exact);
    }
    let mut close = fields
        .iter()
        .enumerate()
        .filter(|(_, f)| f.name().eq_ignore_ascii_case(name));
    let first = close.next()?;
    close.next().is_none().then_some(first)
}

/// A type as SQL calls it, for messages.
pub fn sql_type_name(data_type: &DataType) -> String {
    let plain = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "BINARY",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => "TIMESTAMP(9)",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NTZ(9)",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ",
        _ => return compound_name(data_type),
    };
    plain.into()
}

fn compound_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) => sql_type_name(decoded(data_type)),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|f| format!("{}: {}", f.name(), sql_type_name(f.data_type())))
                .collect();
            format!("STRUCT<{}>", fields.join(", "))
        }
        DataType::Map(entries, _) => match key_and_value(entries) {
            Some((key, value)) => format!(
                "MAP<{}, {}>",
                sql_type_name(key.data_type()),
                sql_type_name(value.data_type())
            ),
            None => "MAP".into(),
        },
        other => match element(other) {
            Some(element) => format!("ARRAY<{}>", sql_type_name(element.data_type())),
            None => other.to_string(),
        },
    }
}
