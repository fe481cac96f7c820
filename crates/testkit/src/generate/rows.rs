//! Random rows.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::schema::Schema;
use crate::values::{Column, ColumnType, Row, Table, Value};

const DAY: i64 = 86_400_000_000;
/// 2025-03-01.
const MARCH: i32 = 20_148;

/// A value of a type, never NULL, from a domain of four or so.
pub fn value(ty: ColumnType) -> BoxedStrategy<Value> {
    match ty {
        ColumnType::Int => (0..4i64).prop_map(Value::Int).boxed(),
        ColumnType::Float => select(vec![0.0, -0.0, 1.5, f64::NAN]).prop_map(Value::Float).boxed(),
        ColumnType::Text => select(vec!["", "a", "b", "B"]).prop_map(Value::from).boxed(),
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Ts => (0..6i64).prop_map(|n| Value::Ts((i64::from(MARCH) + n) * DAY)).boxed(),
        ColumnType::Date => (0..3i32).prop_map(|n| Value::Date(MARCH + n)).boxed(),
    }
}

fn nullable(ty: ColumnType, nulls: f64) -> BoxedStrategy<Value> {
    if nulls == 0.0 {
        return value(ty);
    }
    option::weighted(1.0 - nulls, value(ty))
        .prop_map(|v| v.unwrap_or(Value::Null))
        .boxed()
}

/// What rows may look like.
#[derive(Debug, Clone, Copy)]
pub struct RowsOptions {
    /// At most so many.
    pub most: usize,
    /// Several rows of one key.
    pub duplicates: bool,
    /// NULLs in keys.
    pub null_keys: bool,
}

/// A table of these columns, which are the schema's or some of them.
pub fn rows(schema: &Schema, columns: Vec<Column>, options: RowsOptions) -> BoxedStrategy<Table> {
    let keys = schema.key_names();
    let cell = |column: &Column| match column.name.as_str() {
        name if keys.iter().any(|key| key == name) => nullable(column.ty, if options.null_keys { 0.15 } else { 0.0 }),
        "seq" => value(column.ty),
        "gone" => nullable(column.ty, 0.7),
        _ => nullable(column.ty, 0.2),
    };
    let cells: Vec<BoxedStrategy<Value>> = columns.iter().map(cell).collect();
    vec(cells, 0..=options.most)
        .prop_map(move |rows| {
            let mut table = Table::new(columns.clone(), rows);
            if !options.duplicates {
                one_per_key(&mut table, &keys);
            }
            table
        })
        .boxed()
}

fn one_per_key(table: &mut Table, keys: &[String]) {
    let key = |row: &Row| -> Vec<Value> { keys.iter().map(|k| table.get(row, k)).collect() };
    let mut seen = Vec::new();
    let first: Vec<bool> = table
        .rows
        .iter()
        .map(|row| {
            let new = !seen.contains(&key(row));
            seen.push(key(row));
            new
        })
        .collect();
    let mut first = first.into_iter();
    table.rows.retain(|_| first.next().unwrap_or(false));
}
