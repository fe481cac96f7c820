//! The result row that every load ends with (unless it returns rows).

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;

/// The counters of the result row, in column order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Rows written for the first time.
    pub inserted: u64,
    /// Rows written anew.
    pub updated: u64,
    /// Rows removed.
    pub deleted: u64,
    /// Rows that were equal already.
    pub unchanged: u64,
    /// Source rows held back.
    pub skipped: u64,
    /// Rows the source delivered.
    pub source: u64,
    /// Data files added.
    pub files_added: u64,
    /// Data files removed.
    pub files_removed: u64,
    /// Data files never opened.
    pub files_skipped: u64,
    /// Deletion vectors written.
    pub deletion_vectors: u64,
}

impl LoadCounts {
    /// Rows that are different afterwards.
    pub fn affected(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }
}

/// How a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadStatus {
    /// A version was written.
    Committed,
    /// Nothing had to change.
    NoChanges,
    /// The statement was not carried out: empty source, or transaction known already.
    Skipped,
    /// Everything was done but the commit.
    DryRun,
}

impl LoadStatus {
    /// The text in the result row.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "COMMITTED",
            Self::NoChanges => "NO CHANGES",
            Self::Skipped => "SKIPPED",
            Self::DryRun => "DRY RUN",
        }
    }
}

const COUNTERS: [&str; 11] = [
    "num_affected_rows",
    "num_inserted_rows",
    "num_updated_rows",
    "num_deleted_rows",
    "num_unchanged_rows",
    "num_skipped_rows",
    "num_source_rows",
    "num_files_added",
    "num_files_removed",
    "num_files_skipped",
    "num_deletion_vectors",
];

/// The schema of the result row, the same for every statement.
pub fn result_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let counters = COUNTERS.map(|name| Field::new(name, DataType::UInt64, false));
        let rest = [
            Field::new("table_version", DataType::Int64, true),
            Field::new("status", DataType::Utf8, false),
            Field::new("notice", DataType::Utf8, true),
        ];
        Arc::new(Schema::new(counters.into_iter().chain(rest).collect::<Vec<_>>()))
    });
    Arc::clone(&SCHEMA)
}

/// The result row.
pub(super) fn result_batch(
    counts: &LoadCounts,
    version: Option<i64>,
    status: LoadStatus,
    notice: Option<&str>,
) -> Result<RecordBatch> {
    let values = [
        counts.affected(),
        counts.inserted,
        counts.updated,
        counts.deleted,
        counts.unchanged,
        counts.skipped,
        counts.source,
        counts.files_added,
        counts.files_removed,
        counts.files_skipped,
        counts.deletion_vectors,
    ];
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(COUNTERS.len() + 3);
    for value in values {
        columns.push(Arc::new(UInt64Array::from(vec![value])));
    }
    columns.push(Arc::new(Int64Array::from(vec![version])));
    columns.push(Arc::new(StringArray::from(vec![status.as_str()])));
    columns.push(Arc::new(StringArray::from(vec![notice])));
    Ok(RecordBatch::try_new(result_schema(), columns)?)
}

/// The schema of what a plain `INSERT` gives back.
pub(super) fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

/// What a plain `INSERT` gives back.
pub(super) fn count_batch(rows: u64) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(
        count_schema(),
        vec![Arc::new(UInt64Array::from(vec![rows]))],
    )?)
}
