//! Rows as SQL text, as Arrow batches and back, and the comparison tests report with.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use datafusion::arrow::error::ArrowError;

use crate::values::{Column, ColumnType, Row, Table, Value};

const DAY_MICROS: i64 = 86_400_000_000;

/// A quoted identifier.
pub fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quoted identifiers, separated by commas.
pub fn ident_list<S: AsRef<str>>(names: &[S]) -> String {
    names
        .iter()
        .map(|name| ident(name.as_ref()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The type's name in DDL.
pub fn sql_type(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE",
        ColumnType::Text => "STRING",
        ColumnType::Bool => "BOOLEAN",
        ColumnType::Ts => "TIMESTAMP",
        ColumnType::Date => "DATE",
    }
}

/// A literal that is a value of exactly this type.
pub fn literal(value: &Value, ty: ColumnType) -> String {
    match value {
        Value::Null => format!("CAST(NULL AS {})", sql_type(ty)),
        Value::Int(v) if *v == i64::MIN => format!("CAST('{v}' AS BIGINT)"),
        Value::Int(v) => v.to_string(),
        Value::Float(v) if v.is_finite() => format!("CAST('{v:?}' AS DOUBLE)"),
        Value::Float(v) if v.is_nan() => "CAST('NaN' AS DOUBLE)".to_owned(),
        Value::Float(v) => format!("CAST('{}' AS DOUBLE)", if *v > 0.0 { "Infinity" } else { "-Infinity" }),
        Value::Text(v) => format!("'{}'", v.replace('\'', "''")),
        Value::Bool(v) => if *v { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Ts(v) => format!("TIMESTAMP '{}'", timestamp(*v)),
        Value::Date(v) => format!("DATE '{}'", date(i64::from(*v))),
    }
}

/// `2025-01-02 03:04:05[.000006]`.
pub fn timestamp(micros: i64) -> String {
    let (days, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let mut text = format!(
        "{} {:02}:{:02}:{:02}",
        date(days),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if fraction != 0 {
        text += &format!(".{fraction:06}");
    }
    text
}

/// `2025-01-02` from days since 1970, in the proleptic Gregorian calendar.
pub fn date(days: i64) -> String {
    // Counted from 1 March of the year 0, so that a leap day ends its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

/// `SELECT * FROM (VALUES ..) AS v(columns)` with every cell of its column's type; works for no rows, too.
pub fn values_query(table: &Table) -> String {
    let names = ident_list(&table.names());
    let cells = |row: &Row| -> String {
        let cells = table
            .columns
            .iter()
            .zip(row)
            .map(|(column, value)| typed(value, column.ty));
        format!("({})", cells.collect::<Vec<_>>().join(", "))
    };
    if table.rows.is_empty() {
        let nulls: Row = table.columns.iter().map(|_| Value::Null).collect();
        return format!("SELECT * FROM (VALUES {}) AS v({names}) WHERE FALSE", cells(&nulls));
    }
    let rows = table.rows.iter().map(cells).collect::<Vec<_>>().join(", ");
    format!("SELECT * FROM (VALUES {rows}) AS v({names})")
}

fn typed(value: &Value, ty: ColumnType) -> String {
    if value.is_null() {
        literal(value, ty)
    } else {
        format!("CAST({} AS {})", literal(value, ty), sql_type(ty))
    }
}

/// `CREATE TABLE name (..) USING DELTA [PARTITIONED BY (..)]`.
pub fn create_table(name: &str, columns: &[Column], partitioned_by: &[String]) -> String {
    let column = |c: &Column| {
        let not_null = if c.nullable { "" } else { " NOT NULL" };
        format!("{} {}{not_null}", ident(&c.name), sql_type(c.ty))
    };
    let columns = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    let partitions = match partitioned_by {
        [] => String::new(),
        by => format!(" PARTITIONED BY ({})", ident_list(by)),
    };
    format!("CREATE TABLE {name} ({columns}) USING DELTA{partitions}")
}

/// The Arrow type of a column; what a Delta table reads back.
pub fn arrow_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Int => DataType::Int64,
        ColumnType::Float => DataType::Float64,
        ColumnType::Text => DataType::Utf8,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Ts => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnType::Date => DataType::Date32,
    }
}

/// The Arrow schema of columns.
pub fn arrow_schema(columns: &[Column]) -> SchemaRef {
    let fields: Vec<Field> = columns
        .iter()
        .map(|c| Field::new(&c.name, arrow_type(c.ty), c.nullable))
        .collect();
    Arc::new(Schema::new(fields))
}

/// All rows of a table as one batch.
pub fn to_batch(table: &Table) -> Result<RecordBatch, ArrowError> {
    let arrays: Vec<ArrayRef> = table
        .columns
        .iter()
        .enumerate()
        .map(|(i, c)| to_array(table, i, c.ty))
        .collect();
    RecordBatch::try_new(arrow_schema(&table.columns), arrays)
}

fn to_array(table: &Table, index: usize, ty: ColumnType) -> ArrayRef {
    macro_rules! collect {
        ($array:ty, $variant:ident) => {
            table
                .rows
                .iter()
                .map(|row| match row.get(index) {
                    Some(Value::$variant(v)) => Some(v.to_owned()),
                    _ => None,
                })
                .collect::<$array>()
        };
    }
    match ty {
        ColumnType::Int => Arc::new(collect!(Int64Array, Int)),
        ColumnType::Float => Arc::new(collect!(Float64Array, Float)),
        ColumnType::Text => Arc::new(collect!(StringArray, Text)),
        ColumnType::Bool => Arc::new(collect!(BooleanArray, Bool)),
        ColumnType::Ts => Arc::new(collect!(TimestampMicrosecondArray, Ts).with_timezone("UTC")),
        ColumnType::Date => Arc::new(collect!(Date32Array, Date)),
    }
}

/// A table from query results. Types the model lacks (other integers, string views, other time units) are cast to the
/// nearest one it has; a type without such is an error.
pub fn from_batches(schema: &Schema, batches: &[RecordBatch]) -> Result<Table, ArrowError> {
    let columns: Vec<Column> = schema
        .fields()
        .iter()
        .map(|f| from_field(f))
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for batch in batches {
        let mut cells: Vec<std::vec::IntoIter<Value>> = Vec::new();
        for (column, array) in columns.iter().zip(batch.columns()) {
            cells.push(from_array(&cast(array, &arrow_type(column.ty))?, column.ty).into_iter());
        }
        for _ in 0..batch.num_rows() {
            rows.push(cells.iter_mut().filter_map(Iterator::next).collect());
        }
    }
    Ok(Table { columns, rows })
}

fn from_field(field: &Field) -> Result<Column, ArrowError> {
    let data_type = field.data_type();
    let ty = match data_type {
        t if t.is_integer() => ColumnType::Int,
        t if t.is_floating() => ColumnType::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => ColumnType::Text,
        DataType::Boolean => ColumnType::Bool,
        DataType::Timestamp(..) => ColumnType::Ts,
        DataType::Date32 | DataType::Date64 => ColumnType::Date,
        other => return Err(ArrowError::CastError(format!("the model has no type for {other}"))),
    };
    Ok(Column {
        name: field.name().clone(),
        ty,
        nullable: field.is_nullable(),
    })
}

fn from_array(array: &ArrayRef, ty: ColumnType) -> Vec<Value> {
    let value = |i: usize| match ty {
        _ if array.is_null(i) => Value::Null,
        ColumnType::Int => Value::Int(array.as_primitive::<Int64Type>().value(i)),
        ColumnType::Float => Value::Float(array.as_primitive::<Float64Type>().value(i)),
        ColumnType::Text => Value::Text(array.as_string::<i32>().value(i).to_owned()),
        ColumnType::Bool => Value::Bool(array.as_boolean().value(i)),
        ColumnType::Ts => Value::Ts(array.as_primitive::<TimestampMicrosecondType>().value(i)),
        ColumnType::Date => Value::Date(array.as_primitive::<Date32Type>().value(i)),
    };
    (0..array.len()).map(value).collect()
}

/// A value for people.
pub fn show(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(v) => format!("'{v}'"),
        Value::Int(v) => v.to_string(),
        Value::Float(v) => format!("{v:?}"),
        Value::Bool(v) => v.to_string(),
        Value::Ts(v) => timestamp(*v),
        Value::Date(v) => date(i64::from(*v)),
    }
}

/// A row for people.
pub fn show_row(row: &Row) -> String {
    format!("({})", row.iter().map(show).collect::<Vec<_>>().join(", "))
}

/// `None` if both tables have the same column names and the same rows in any order; else what differs, row by row:
/// `-` is expected and missing, `+` is there and unexpected.
pub fn diff(expected: &Table, actual: &Table) -> Option<String> {
    if expected.names() != actual.names() {
        return Some(format!(
            "columns differ\n- {:?}\n+ {:?}\n",
            expected.names(),
            actual.names()
        ));
    }
    let mut missing = Vec::new();
    let mut unexpected = actual.sorted_rows();
    for row in expected.sorted_rows() {
        match unexpected.iter().position(|other| *other == row) {
            Some(position) => drop(unexpected.remove(position)),
            None => missing.push(row),
        }
    }
    if missing.is_empty() && unexpected.is_empty() {
        return None;
    }
    let mut text = format!("rows differ; columns {:?}\n", expected.names());
    for (sign, rows) in [('-', missing), ('+', unexpected)] {
        for row in rows {
            let _ = writeln!(text, "{sign} {}", show_row(&row));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_types() -> Table {
        use ColumnType::{Bool, Date, Float, Int, Text, Ts};
        let types = [
            ("i", Int),
            ("f", Float),
            ("s", Text),
            ("b", Bool),
            ("t", Ts),
            ("d", Date),
        ];
        let columns = types.iter().map(|(name, ty)| Column::new(name, *ty)).collect();
        let values = vec![
            Value::Int(-7),
            Value::Float(f64::NAN),
            Value::from("it's"),
            Value::Bool(true),
            Value::Ts(1_740_873_600_000_001),
            Value::Date(-1),
        ];
        let nulls = values.iter().map(|_| Value::Null).collect();
        Table::new(columns, vec![values, nulls])
    }

    #[test]
    fn values_print_as_literals_of_their_type() {
        let table = all_types();
        let row = table.columns.iter().zip(&table.rows[0]);
        let literals: Vec<String> = row.map(|(column, value)| literal(value, column.ty)).collect();
        assert_eq!(
            literals.join(", "),
            "-7, CAST('NaN' AS DOUBLE), 'it''s', TRUE, TIMESTAMP '2025-03-02 00:00:00.000001', DATE '1969-12-31'"
        );
        assert_eq!(date(2_932_896), "9999-12-31");
        assert_eq!(date(11_016), "2000-02-29");
    }

    #[test]
    fn a_table_survives_arrow() {
        let table = all_types();
        let batch = to_batch(&table).unwrap();
        let back = from_batches(&batch.schema(), &[batch.slice(1, 1), batch.slice(0, 1)]).unwrap();
        assert_eq!(diff(&table, &back), None);
        assert_eq!(back.columns, table.columns);
    }

    #[test]
    fn a_diff_names_the_rows() {
        let table = |rows: &[i64]| {
            let rows = rows.iter().map(|&v| vec![Value::Int(v)]).collect();
            Table::new(vec![Column::new("a", ColumnType::Int)], rows)
        };
        assert_eq!(diff(&table(&[1, 1, 2]), &table(&[2, 1, 1])), None);
        let text = diff(&table(&[1, 1, 2]), &table(&[1, 3])).unwrap();
        assert_eq!(text, "rows differ; columns [\"a\"]\n- (1)\n- (2)\n+ (3)\n");
    }

    #[test]
    fn an_empty_table_still_has_columns() {
        let empty = Table::empty(vec![Column::new("a", ColumnType::Int)]);
        assert_eq!(
            values_query(&empty),
            "SELECT * FROM (VALUES (CAST(NULL AS BIGINT))) AS v(\"a\") WHERE FALSE"
        );
    }
}
