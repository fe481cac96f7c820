//! How rows lie in files.

use proptest::prelude::*;

use super::schema::Schema;
use crate::values::{ColumnType, Table};

/// Files and partitions of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Into how many inserts the rows are divided.
    pub files: usize,
    /// Partition columns; none or one.
    pub partitioned_by: Vec<String>,
}

impl Layout {
    /// The rows dealt out to the files in turn. Files without rows are left out.
    pub fn parts(&self, table: &Table) -> Vec<Table> {
        let part = |file: usize| {
            let rows = table
                .rows
                .iter()
                .skip(file)
                .step_by(self.files.max(1))
                .cloned()
                .collect();
            Table::new(table.columns.clone(), rows)
        };
        (0..self.files.max(1))
            .map(part)
            .filter(|part| !part.rows.is_empty())
            .collect()
    }
}

/// One to four files, sometimes partitioned by an integer or a date (an empty string is no partition value in Delta).
pub fn layout(schema: &Schema) -> impl Strategy<Value = Layout> + use<> {
    let fits = |ty| matches!(ty, ColumnType::Int | ColumnType::Date);
    let columns = schema
        .keys
        .iter()
        .chain(&schema.values)
        .filter(|c| fits(c.ty))
        .map(|c| c.name.clone());
    let columns: Vec<String> = columns.collect();
    let partition = proptest::option::weighted(0.3, proptest::sample::select(columns));
    (1..=4usize, partition).prop_map(|(files, column)| Layout {
        files,
        partitioned_by: column.into_iter().collect(),
    })
}
