//! The target: its columns after creation or evolution, and how source rows become its rows.

use super::{ErrorCode, NULL_VALUE};
use crate::values::{Column, Row, Table, Value};

/// The target as written: evolved by the landing columns it lacks (nullable, at the end), or created from them.
pub(crate) fn prepared(target: Option<&Table>, source: &Table, landing: &[String]) -> Table {
    let mut table = target.cloned().unwrap_or_default();
    for column in source.columns.iter().filter(|c| landing.contains(&c.name)) {
        if !table.has(&column.name) {
            add_column(
                &mut table,
                Column {
                    nullable: true,
                    ..column.clone()
                },
            );
        }
    }
    table
}

/// Adds a column that is NULL in all rows.
pub(crate) fn add_column(table: &mut Table, column: Column) {
    table.columns.push(column);
    table.rows.iter_mut().for_each(|row| row.push(Value::Null));
}

/// Sets one cell; a column that does not exist is ignored.
pub(crate) fn set(table_columns: &Table, row: &mut Row, name: &str, value: Value) {
    if let Some(cell) = table_columns.index(name).and_then(|i| row.get_mut(i)) {
        *cell = value;
    }
}

/// A new target row: the landing columns from the source, NULL elsewhere.
pub(crate) fn landed(table: &Table, source: &Table, row: &Row, landing: &[String]) -> Row {
    let cell = |column: &Column| {
        if landing.contains(&column.name) {
            source.get(row, &column.name)
        } else {
            Value::Null
        }
    };
    table.columns.iter().map(cell).collect()
}

/// NOT NULL columns hold in a row that is written.
pub(crate) fn check_written(table: &Table, row: &Row) -> Result<(), ErrorCode> {
    let broken = table
        .columns
        .iter()
        .zip(row)
        .any(|(column, value)| !column.nullable && value.is_null());
    if broken { Err(NULL_VALUE) } else { Ok(()) }
}
