//! Random schemas.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::values::{Column, ColumnType};

/// Columns by their role. Names are fixed: keys `k1`, `k2`; values `v`, `n`, `f`, `b`, `d`, `t`; sequence `seq`, marker
/// `gone`.
#[derive(Debug, Clone)]
pub struct Schema {
    /// One or two key columns.
    pub keys: Vec<Column>,
    /// Value columns; `v` (text) and `n` (integer) are always there.
    pub values: Vec<Column>,
    /// An integer or a timestamp, never NULL.
    pub sequence: Column,
    /// A boolean or a timestamp.
    pub marker: Column,
}

impl Schema {
    /// The names of the key columns.
    pub fn key_names(&self) -> Vec<String> {
        self.keys.iter().map(|c| c.name.clone()).collect()
    }

    /// The names of the value columns.
    pub fn value_names(&self) -> Vec<String> {
        self.values.iter().map(|c| c.name.clone()).collect()
    }

    /// Keys, values, and on request sequence and marker.
    pub fn columns(&self, sequence: bool, marker: bool) -> Vec<Column> {
        let mut columns = [self.keys.clone(), self.values.clone()].concat();
        columns.extend(sequence.then(|| self.sequence.clone()));
        columns.extend(marker.then(|| self.marker.clone()));
        columns
    }
}

fn keys() -> impl Strategy<Value = Vec<Column>> {
    use ColumnType::{Date, Float, Int, Text};
    let key = |name: &str, ty| Column::new(name, ty);
    select(vec![
        vec![key("k1", Int)],
        vec![key("k1", Int)],
        vec![key("k1", Text)],
        vec![key("k1", Float)],
        vec![key("k1", Int), key("k2", Text)],
        vec![key("k1", Text), key("k2", Date)],
    ])
}

/// Any schema.
pub fn schema() -> impl Strategy<Value = Schema> {
    let more = vec![
        Column::new("f", ColumnType::Float),
        Column::new("b", ColumnType::Bool),
        Column::new("d", ColumnType::Date),
        Column::new("t", ColumnType::Ts),
    ];
    let sequence = select(vec![ColumnType::Int, ColumnType::Ts]);
    let marker = select(vec![ColumnType::Bool, ColumnType::Ts]);
    (keys(), subsequence(more, 0..=2), sequence, marker).prop_map(|(keys, more, sequence, marker)| {
        let mut values = vec![Column::new("v", ColumnType::Text), Column::new("n", ColumnType::Int)];
        values.extend(more);
        Schema {
            keys,
            values,
            sequence: Column::new("seq", sequence),
            marker: Column::new("gone", marker),
        }
    })
}
