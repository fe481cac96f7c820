//! What a load left behind: files by the log, rows by a reader that did not write them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::prelude::SessionContext;
use serde_json::Value;

use crate::Result;
use crate::tables::table_url;
use crate::workload::Base;

/// What commits did to the files of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Data files added.
    pub files_added: u64,
    /// Data files removed.
    pub files_removed: u64,
    /// Files that stay with another deletion vector.
    pub vectors: u64,
    /// Bytes of the files and vectors added.
    pub bytes_written: u64,
}

/// What the commits of a load did to the table in `directory`, summed over them: all but the first, which made it.
///
/// # Errors
///
/// When a commit cannot be read.
pub fn changes(directory: &Path) -> Result<Changes> {
    changes_from(directory, 1)
}

pub(crate) fn changes_from(directory: &Path, first: u64) -> Result<Changes> {
    let log = directory.join("_delta_log");
    let commit = |version: u64| log.join(format!("{version:020}.json"));
    let mut changes = Changes::default();
    for path in (first..).map(commit).take_while(|path| path.is_file()) {
        changes.add(&fs::read_to_string(path)?)?;
    }
    Ok(changes)
}

impl Changes {
    fn add(&mut self, entry: &str) -> Result {
        let actions: Vec<Value> = entry
            .lines()
            .map(serde_json::from_str)
            .collect::<std::result::Result<_, _>>()?;
        let mut removed: HashSet<&Value> = actions
            .iter()
            .filter_map(|action| action.pointer("/remove/path"))
            .collect();
        for add in actions.iter().filter_map(|action| action.get("add")) {
            let number = |pointer: &str| add.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
            if add.get("path").is_some_and(|path| removed.remove(path)) {
                self.vectors += 1;
                self.bytes_written += number("/deletionVector/sizeInBytes");
            } else {
                self.files_added += 1;
                self.bytes_written += number("/size");
            }
        }
        self.files_removed += u64::try_from(removed.len())?;
        Ok(())
    }
}

/// The rows of a table, in numbers that do not depend on their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Number of rows.
    pub rows: i64,
    /// The sum of the versions, or in a history the number of current rows.
    pub marked: i64,
    /// Sums and counts over all columns.
    pub checksums: Vec<Option<i64>>,
}

/// Reads the table in `directory` through the table format library.
///
/// # Errors
///
/// When it cannot be read.
pub async fn content(directory: &Path, base: Base) -> Result<Content> {
    let table = deltalake::open_table(table_url(directory)?).await?;
    let context = SessionContext::new();
    context.register_table("t", table.table_provider().await?)?;
    let marked = match base {
        Base::History => "sum(CAST(is_current AS BIGINT))",
        _ => "sum(CAST(ver AS BIGINT))",
    };
    let mut wanted = vec![
        "count(*)".to_owned(),
        format!("{marked} AS marked"),
        "count(DISTINCT id)".to_owned(),
    ];
    let frame = context.table("t").await?;
    for field in frame.schema().fields() {
        wanted.push(format!("count({})", field.name()));
        wanted.push(format!("sum({})", number_of(field)));
    }
    let query = format!("SELECT {} FROM t", wanted.join(", "));
    let batches = context.sql(&query).await?.collect().await?;
    let row: &RecordBatch = batches.first().ok_or("no row")?;
    let number = |column: usize| row.column(column).as_primitive::<Int64Type>().iter().next().flatten();
    Ok(Content {
        rows: number(0).unwrap_or(0),
        marked: number(1).unwrap_or(0),
        checksums: (2..row.num_columns()).map(number).collect(),
    })
}

/// A number for each value of a column, small enough to be summed. Times also tell to which key they belong.
fn number_of(field: &Field) -> String {
    let name = field.name();
    match field.data_type() {
        DataType::Int64 => format!("{name} % 1000003"),
        DataType::Float64 => format!("CAST(round({name} * 10000) AS BIGINT)"),
        DataType::Date32 => format!("CAST(CAST({name} AS INT) AS BIGINT)"),
        DataType::Timestamp(..) => format!("(id % 1009 + 1) * (CAST({name} AS BIGINT) % 1000003)"),
        DataType::Int32 | DataType::Boolean => format!("CAST({name} AS BIGINT)"),
        _ => format!("CAST(ascii(right({name}, 1)) + length({name}) AS BIGINT)"),
    }
}
