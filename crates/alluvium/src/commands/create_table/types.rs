//! Column types of `CREATE TABLE .. USING DELTA`.
//!
//! Read here and not by sqlparser, because it knows no `MAP<K, V>` and closes nested types only one way. `TIMESTAMP` is
//! Delta's `timestamp`, an instant in UTC; `TIMESTAMP_NTZ` is the naive one.

use std::fmt;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::sql::sqlparser::ast::{DataType as SqlType, ExactNumberInfo, Ident, TimezoneInfo};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use crate::commands::words;

/// A type as written.
#[derive(Debug, Clone)]
pub(super) enum ColumnType {
    Scalar(SqlType, Span),
    Array(Box<ColumnType>),
    Map(Box<ColumnType>, Box<ColumnType>),
    Struct(Vec<StructField>),
}

/// `name [:] type [NOT NULL]` inside a struct.
#[derive(Debug, Clone)]
pub(super) struct StructField {
    name: Ident,
    data_type: ColumnType,
    not_null: bool,
}

impl ColumnType {
    /// Reads a type.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self> {
        let mut reader = Reader {
            parser,
            half_closed: false,
        };
        let data_type = reader.data_type()?;
        match reader.half_closed {
            true => Err(words::expected(reader.parser, "one > less")),
            false => Ok(data_type),
        }
    }

    /// The Arrow type of the column. `name` turns a struct field's identifier into its name.
    ///
    /// # Errors
    ///
    /// 0A000 for a type that Delta Lake does not have.
    pub(super) fn to_arrow(&self, name: &dyn Fn(&Ident) -> String) -> Result<DataType> {
        Ok(match self {
            Self::Scalar(sql, span) => scalar(sql).map_err(|e| e.at(*span))?,
            Self::Array(item) => list(item.to_arrow(name)?),
            Self::Map(key, value) => {
                let key = Field::new("key", key.to_arrow(name)?, false);
                let value = Field::new("value", value.to_arrow(name)?, true);
                let entries = DataType::Struct(vec![key, value].into());
                DataType::Map(Arc::new(Field::new("key_value", entries, false)), false)
            }
            Self::Struct(fields) => {
                let fields = fields
                    .iter()
                    .map(|f| Ok(Field::new(name(&f.name), f.data_type.to_arrow(name)?, !f.not_null)));
                DataType::Struct(fields.collect::<Result<Vec<_>>>()?.into())
            }
        })
    }
}

/// Reads nested types; `>>` closes two of them.
struct Reader<'a, 'b> {
    parser: &'a mut Parser<'b>,
    half_closed: bool,
}

impl Reader<'_, '_> {
    fn data_type(&mut self) -> Result<ColumnType> {
        let nested = self.parser.peek_nth_token_ref(1).token == Token::Lt;
        let mut data_type = if nested && words::eat(self.parser, &["ARRAY"]) {
            self.open()?;
            let item = self.data_type()?;
            self.close()?;
            ColumnType::Array(Box::new(item))
        } else if nested && words::eat(self.parser, &["MAP"]) {
            self.open()?;
            let key = self.data_type()?;
            words::expect_token(self.parser, &Token::Comma)?;
            let value = self.data_type()?;
            self.close()?;
            ColumnType::Map(Box::new(key), Box::new(value))
        } else if nested && words::eat(self.parser, &["STRUCT"]) {
            self.structure()?
        } else {
            self.scalar()?
        };
        while !self.half_closed && self.parser.consume_token(&Token::LBracket) {
            words::expect_token(self.parser, &Token::RBracket)?;
            data_type = ColumnType::Array(Box::new(data_type));
        }
        Ok(data_type)
    }

    fn structure(&mut self) -> Result<ColumnType> {
        self.open()?;
        let mut fields = Vec::new();
        loop {
            let name = self.parser.parse_identifier()?;
            let _ = self.parser.consume_token(&Token::Colon);
            let data_type = self.data_type()?;
            let not_null = !self.half_closed && words::eat(self.parser, &["NOT", "NULL"]);
            fields.push(StructField {
                name,
                data_type,
                not_null,
            });
            if self.half_closed || !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.close()?;
        Ok(ColumnType::Struct(fields))
    }

    fn scalar(&mut self) -> Result<ColumnType> {
        let first = self.parser.peek_token_ref().span;
        let sql = self.parser.parse_data_type()?;
        Ok(ColumnType::Scalar(
            sql,
            first.union(&self.parser.get_current_token().span),
        ))
    }

    fn open(&mut self) -> Result<()> {
        words::expect_token(self.parser, &Token::Lt)
    }

    fn close(&mut self) -> Result<()> {
        if std::mem::take(&mut self.half_closed) || self.parser.consume_token(&Token::Gt) {
            return Ok(());
        }
        match self.parser.consume_token(&Token::ShiftRight) {
            true => {
                self.half_closed = true;
                Ok(())
            }
            false => Err(words::expected(self.parser, ">")),
        }
    }
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", item, true)))
}

fn scalar(sql: &SqlType) -> Result<DataType> {
    Ok(match sql {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(None) => DataType::Int8,
        SqlType::SmallInt(None) | SqlType::Int2(None) | SqlType::Int16 => DataType::Int16,
        SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None) | SqlType::Int32 => DataType::Int32,
        SqlType::BigInt(None) | SqlType::Int8(None) | SqlType::Int64 => DataType::Int64,
        SqlType::Real | SqlType::Float4 | SqlType::Float32 | SqlType::Float(ExactNumberInfo::None) => DataType::Float32,
        SqlType::Double(ExactNumberInfo::None) | SqlType::DoublePrecision | SqlType::Float8 | SqlType::Float64 => {
            DataType::Float64
        }
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(sql, info)?,
        SqlType::String(None) | SqlType::Text | SqlType::Varchar(None) => DataType::Utf8,
        SqlType::Binary(None) | SqlType::Varbinary(None) | SqlType::Blob(None) | SqlType::Bytea => DataType::Binary,
        SqlType::Date => DataType::Date32,
        SqlType::Timestamp(None | Some(6), TimezoneInfo::WithoutTimeZone)
        | SqlType::TimestampNtz(None | Some(6))
        | SqlType::Datetime(None | Some(6)) => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::Timestamp(None | Some(6), _) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        SqlType::Array(inner) => list(scalar(element(sql, inner)?)?),
        SqlType::Custom(name, arguments) if arguments.is_empty() => match name.to_string().to_uppercase().as_str() {
            "LONG" => DataType::Int64,
            "SHORT" => DataType::Int16,
            "BYTE" => DataType::Int8,
            _ => return Err(unknown(sql)),
        },
        _ => return Err(unknown(sql)),
    })
}

fn element<'a>(sql: &SqlType, inner: &'a datafusion::sql::sqlparser::ast::ArrayElemTypeDef) -> Result<&'a SqlType> {
    use datafusion::sql::sqlparser::ast::ArrayElemTypeDef;
    match inner {
        ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, None) => Ok(item),
        _ => Err(unknown(sql)),
    }
}

fn decimal(sql: &SqlType, info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if s >= 0 && i16::from(s) <= i16::from(p) => Ok(DataType::Decimal128(p, s)),
        _ => Err(LoadError::unsupported(format!("type {sql} is not possible"))
            .hint("A decimal has 1 to 38 digits, and no more of them behind the point than in all.")),
    }
}

fn unknown(sql: &SqlType) -> LoadError {
    let hint = match sql {
        SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Character(_) | SqlType::CharacterVarying(_) => {
            "Use STRING, and a CHECK constraint on its length where that matters."
        }
        SqlType::Timestamp(..) | SqlType::TimestampNtz(_) => "Timestamps are microseconds: leave the precision out.",
        SqlType::Uuid | SqlType::JSON | SqlType::JSONB | SqlType::Time(..) => "Use STRING.",
        _ => {
            "Types: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BINARY, DATE, TIMESTAMP, \
             TIMESTAMP_NTZ, ARRAY<T>, MAP<K, V>, STRUCT<name T, ..>."
        }
    };
    LoadError::unsupported(format!("a Delta table has no type {sql}")).hint(hint)
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(sql, _) => write!(f, "{sql}"),
            Self::Array(item) => write!(f, "ARRAY<{item}>"),
            Self::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
            Self::Struct(fields) => {
                f.write_str("STRUCT<")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    let not_null = if field.not_null { " NOT NULL" } else { "" };
                    write!(f, "{comma}{} {}{not_null}", field.name, field.data_type)?;
                }
                f.write_str(">")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn read(text: &str) -> Result<DataType> {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap();
        let data_type = ColumnType::parse(&mut parser)?;
        words::expect_end(&parser)?;
        let again = data_type.to_string();
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&again).unwrap();
        assert_eq!(ColumnType::parse(&mut parser)?.to_string(), again);
        data_type.to_arrow(&|ident| ident.value.to_lowercase())
    }

    #[test]
    fn nested_types_close_with_any_number_of_brackets() {
        let inner = DataType::Struct(vec![Field::new("a", list(DataType::Int32), true)].into());
        assert_eq!(read("ARRAY<STRUCT<A: ARRAY<INT>>>").unwrap(), list(inner.clone()));
        assert_eq!(read("STRUCT<a INT[]>[]").unwrap(), list(inner.clone()));
        assert_eq!(read("array < struct < a array < int > > >").unwrap(), list(inner));
        let DataType::Map(entries, _) = read("MAP<STRING, DECIMAL(10,2)>").unwrap() else {
            panic!()
        };
        assert!(entries.data_type().to_string().contains("Decimal128(10, 2)"));
        for wrong in ["ARRAY<INT", "ARRAY<INT>>", "MAP<INT>", "STRUCT<>"] {
            assert_eq!(read(wrong).unwrap_err().code(), "42601", "{wrong}");
        }
    }

    #[test]
    fn timestamps_are_utc_unless_said_otherwise() {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let naive = DataType::Timestamp(TimeUnit::Microsecond, None);
        for text in ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"] {
            assert_eq!(read(text).unwrap(), utc, "{text}");
        }
        for text in ["TIMESTAMP_NTZ", "TIMESTAMP WITHOUT TIME ZONE", "DATETIME"] {
            assert_eq!(read(text).unwrap(), naive, "{text}");
        }
    }

    #[test]
    fn types_that_delta_lacks_are_refused_with_a_way_out() {
        for text in [
            "VARCHAR(20)",
            "UUID",
            "TIME",
            "INT UNSIGNED",
            "DECIMAL(39, 2)",
            "DECIMAL(3, 4)",
            "TIMESTAMP(9)",
            "nope",
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.code(), error.hint_text().is_some()), ("0A000", true), "{text}");
        }
    }
}
