//! What a load left behind: files by the log, rows by a reader that did not write them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use serde_json::Value;

use crate::Result;
use crate::lab::table_url;

/// What one commit did to the files of a table.
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

/// Reads commit `version` of the table in `directory`.
///
/// # Errors
///
/// When there is no such commit.
pub fn changes(directory: &Path, version: u64) -> Result<Changes> {
    let log = directory.join("_delta_log").join(format!("{version:020}.json"));
    let mut changes = Changes::default();
    let entry = fs::read_to_string(log)?;
    let actions: Vec<Value> = entry
        .lines()
        .map(serde_json::from_str)
        .collect::<std::result::Result<_, _>>()?;
    let removed: HashSet<&Value> = actions
        .iter()
        .filter_map(|action| action.pointer("/remove/path"))
        .collect();
    for add in actions.iter().filter_map(|action| action.get("add")) {
        let number = |pointer: &str| add.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        if add.get("path").is_some_and(|path| removed.contains(path)) {
            changes.vectors += 1;
            changes.bytes_written += number("/deletionVector/sizeInBytes");
        } else {
            changes.files_added += 1;
            changes.bytes_written += number("/size");
        }
    }
    changes.files_removed = u64::try_from(removed.len())?.saturating_sub(changes.vectors);
    Ok(changes)
}

/// The rows of a table, in numbers that do not depend on their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Number of rows.
    pub rows: i64,
    /// Sum of the versions: how many rows come from the source.
    pub versions: i64,
    /// Sums and counts over the other columns.
    pub checksums: Vec<i64>,
}

const CONTENT: &str = "SELECT count(*), sum(CAST(ver AS BIGINT)), sum(id), count(DISTINCT id),
    sum(CAST(updated_at AS BIGINT) % 1000003), sum(CAST(round(amount * 100) AS BIGINT)),
    sum(CAST(round(score * 1000000) AS BIGINT)), sum(CAST(qty AS BIGINT)), count(qty), count(note),
    sum(CAST(ascii(right(sk, 1)) AS BIGINT)), sum(CAST(ascii(right(note, 1)) AS BIGINT)),
    sum(CAST(length(region) + length(status) AS BIGINT)), sum(CAST(CAST(day AS INT) AS BIGINT))
    FROM t";

/// Reads the table in `directory` through the table format library.
///
/// # Errors
///
/// When it cannot be read.
pub async fn content(directory: &Path) -> Result<Content> {
    let table = deltalake::open_table(table_url(directory)?).await?;
    let context = SessionContext::new();
    context.register_table("t", table.table_provider().await?)?;
    let batches = context.sql(CONTENT).await?.collect().await?;
    let row: &RecordBatch = batches.first().ok_or("no row")?;
    let number = |column: usize| row.column(column).as_primitive::<Int64Type>().value(0);
    Ok(Content {
        rows: number(0),
        versions: number(1),
        checksums: (2..row.num_columns()).map(number).collect(),
    })
}
