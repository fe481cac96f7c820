//! The data files of a snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use datafusion::common::{ScalarValue, Statistics};
use deltalake::kernel::{Add, DeletionVectorDescriptor, LogicalFileView, Remove, StorageType};
use object_store::path::Path;

use crate::table::stats::FileStats;
use crate::table::{TableSnapshot, partition, storage_error};

/// One data file of a table.
#[derive(Debug, Clone)]
pub struct FileTask {
    /// Its number in the snapshot: the value of `__file`.
    pub ordinal: u32,
    /// The path below the table's root, decoded.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970.
    pub modification_time: i64,
    /// The values of the partition columns, in the order of [`TableSnapshot::partition_columns`].
    pub partition_values: Vec<ScalarValue>,
    /// The same as the log spells them, for the remove action.
    pub raw_partition_values: HashMap<String, Option<String>>,
    /// Physical rows, deleted ones included, where the log says so.
    pub num_records: Option<u64>,
    /// The rows that are deleted.
    pub deletion_vector: Option<DeletionVectorDescriptor>,
    /// Whether a remove action spells the path as the log does. Where it does not, the file cannot be removed safely.
    pub removable: bool,
    /// Where it is in the loaded log.
    log_row: u32,
    stats: Arc<FileStats>,
}

impl FileTask {
    /// What the log says about each table column: the row count exact, bounds inexact, unknown things absent.
    pub fn statistics(&self) -> Statistics {
        usize::try_from(self.ordinal).map_or_else(|_| Statistics::default(), |row| self.stats.statistics(row))
    }

    /// Where it is in the table's store.
    pub(crate) fn store_path(&self) -> Path {
        Path::parse(&self.path).unwrap_or_else(|_| Path::from(self.path.as_str()))
    }

    /// The action that takes the file out of the table at `deletion_timestamp` (milliseconds).
    pub fn remove_action(&self, deletion_timestamp: i64) -> Remove {
        remove(
            self.path.clone(),
            Some(deletion_timestamp),
            i64::try_from(self.size).ok(),
            Some(self.raw_partition_values.clone()),
            self.deletion_vector.clone(),
        )
    }
}

fn remove(
    path: String,
    deletion_timestamp: Option<i64>,
    size: Option<i64>,
    partition_values: Option<HashMap<String, Option<String>>>,
    deletion_vector: Option<DeletionVectorDescriptor>,
) -> Remove {
    Remove {
        path,
        data_change: true,
        deletion_timestamp,
        extended_file_metadata: Some(true),
        size,
        partition_values,
        deletion_vector,
        tags: None,
        base_row_id: None,
        default_row_commit_version: None,
    }
}

/// The files of a snapshot and what is known about their values, in the same order.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) tasks: Arc<Vec<FileTask>>,
    pub(crate) stats: Arc<FileStats>,
}

/// Reads the files out of the loaded log.
pub(super) fn load(snapshot: &TableSnapshot) -> Result<Files> {
    let reading = |e| storage_error(&format!("reading the file list of table \"{}\"", snapshot.name()), e);
    let views: Vec<LogicalFileView> = snapshot.eager().try_log_data().map_err(reading)?.into_iter().collect();
    let actions = snapshot.eager().add_actions_batches(false).map_err(reading)?;
    let raw_paths = raw_paths(&actions);
    let mut found = Vec::with_capacity(views.len());
    for (row, view) in views.iter().enumerate() {
        let raw = raw_paths.get(row).copied().unwrap_or_default();
        found.push(entry(snapshot, view, raw).map_err(|e| e.detail(format!("The file is {}.", redact(raw))))?);
    }
    if raw_paths.len() != views.len() {
        return Err(LoadError::internal("the file list and its statistics differ in length"));
    }
    assemble(snapshot, found, &actions)
}

impl TableSnapshot {
    /// The action that put `file` into the table, as a new one would spell it.
    pub(crate) fn add_action(&self, file: &FileTask) -> Result<Add> {
        let reading = |e| storage_error(&format!("reading the file list of table \"{}\"", self.name()), e);
        let row = usize::try_from(file.log_row).unwrap_or(usize::MAX);
        let view = self.eager().try_log_data().map_err(reading)?.into_iter().nth(row);
        let view = view.filter(|view| view.path() == file.path.as_str());
        let view = view.ok_or_else(|| LoadError::internal(format!("file {} is not in the log", file.ordinal)))?;
        // Nothing else of the library keeps tags.
        #[expect(deprecated)]
        Ok(view.add_action())
    }
}

/// Numbers the files in the order of their paths.
fn assemble(snapshot: &TableSnapshot, found: Vec<Entry>, actions: &[RecordBatch]) -> Result<Files> {
    let count = u32::try_from(found.len()).map_err(|_| LoadError::internal("more than 2^32 files"))?;
    let partitions: Vec<_> = found.iter().map(|entry| entry.partition_values.clone()).collect();
    let partition_indices = snapshot
        .partition_columns()
        .iter()
        .map(|name| snapshot.schema().index_of(name))
        .collect::<Result<Vec<_>, _>>()?;
    let stats = FileStats::from_actions(Arc::clone(snapshot.schema()), actions, &partition_indices, &partitions)?;

    let mut order: Vec<(u32, Entry)> = (0..count).zip(found).collect();
    order.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
    let indices: UInt32Array = order.iter().map(|(row, _)| Some(*row)).collect();
    let stats = Arc::new(stats.take(&indices)?);
    let tasks = (0..count)
        .zip(order)
        .enumerate()
        .map(|(row, (ordinal, (log_row, entry)))| FileTask {
            ordinal,
            log_row,
            path: entry.path,
            size: entry.size,
            modification_time: entry.modification_time,
            partition_values: entry.partition_values,
            raw_partition_values: entry.raw_partition_values,
            num_records: stats.records().is_valid(row).then(|| stats.records().value(row)),
            deletion_vector: entry.deletion_vector,
            removable: entry.removable,
            stats: Arc::clone(&stats),
        });
    Ok(Files {
        tasks: Arc::new(tasks.collect()),
        stats,
    })
}

/// A file before it has its number.
struct Entry {
    path: String,
    size: u64,
    modification_time: i64,
    partition_values: Vec<ScalarValue>,
    raw_partition_values: HashMap<String, Option<String>>,
    deletion_vector: Option<DeletionVectorDescriptor>,
    removable: bool,
}

fn entry(snapshot: &TableSnapshot, view: &LogicalFileView, raw: &str) -> Result<Entry> {
    let path = view.path().into_owned();
    check_contained(&snapshot.name(), &path)?;
    let deletion_vector = view.deletion_vector_descriptor();
    if deletion_vector
        .as_ref()
        .is_some_and(|v| v.storage_type == StorageType::AbsolutePath)
    {
        return Err(outside(&snapshot.name()));
    }
    let raw_partition_values = view.partition_values_map();
    let mut partition_values = Vec::with_capacity(snapshot.partition_columns().len());
    for name in snapshot.partition_columns() {
        let text = raw_partition_values.get(name).and_then(Option::as_deref);
        let data_type = snapshot.schema().field_with_name(name)?.data_type();
        partition_values.push(partition::parse(text, data_type).map_err(|_| {
            LoadError::new(
                SqlState::Storage,
                format!(
                    "the log of table \"{}\" holds a value of partition column \"{name}\" that is no {data_type}",
                    snapshot.name()
                ),
            )
        })?);
    }
    Ok(Entry {
        size: u64::try_from(view.size()).map_err(|_| {
            LoadError::new(
                SqlState::Storage,
                format!("the log of table \"{}\" holds a negative file size", snapshot.name()),
            )
        })?,
        modification_time: view.modification_time(),
        removable: is_removable(&path, raw),
        path,
        partition_values,
        raw_partition_values,
        deletion_vector,
    })
}

/// Refuses a path that does not stay below the table's root.
fn check_contained(table: &str, path: &str) -> Result<()> {
    let scheme = path.split_once(":/").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    if scheme || path.starts_with('/') {
        return Err(outside(table));
    }
    if path.is_empty() || path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(LoadError::new(
            SqlState::Storage,
            format!("the log of table \"{table}\" names a file outside the table"),
        )
        .hint("The log is damaged or was tampered with: nothing was read or written."));
    }
    Ok(())
}

fn outside(table: &str) -> LoadError {
    LoadError::unsupported(format!(
        "table \"{table}\" is a shallow clone: its log names files by absolute path"
    ))
    .hint("Make a deep copy of the table and load into that.")
}

/// Log entries are matched by their text, so a remove action must spell the path exactly as the add action did.
fn is_removable(path: &str, raw: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '=');
    if raw.chars().all(plain) {
        return true;
    }
    let written = serde_json::to_value(remove(path.to_owned(), None, None, None, None));
    written.is_ok_and(|json| json.get("path").and_then(|p| p.as_str()) == Some(raw))
}

fn raw_paths(actions: &[RecordBatch]) -> Vec<&str> {
    let columns = actions.iter().filter_map(|batch| batch.column_by_name("path"));
    columns
        .filter_map(|column| column.as_string_opt::<i32>())
        .flat_map(|paths| paths.iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_table() {
        for good in [
            "part-1.parquet",
            "d=2024-01-01 10:00:00/p.parquet",
            "a%20b/p.parquet",
            "ts=10:/x",
        ] {
            check_contained("t", good).unwrap();
        }
        for (bad, code) in [
            ("/etc/passwd", "0A000"),
            ("file:/a/b.parquet", "0A000"),
            ("s3://other/b.parquet", "0A000"),
            ("../x.parquet", "58030"),
            ("a/../../x.parquet", "58030"),
            ("a//x.parquet", "58030"),
            ("./x.parquet", "58030"),
            ("", "58030"),
        ] {
            assert_eq!(check_contained("t", bad).unwrap_err().code(), code, "{bad}");
        }
    }

    #[test]
    fn a_path_is_removable_when_it_is_written_as_it_was_read() {
        assert!(is_removable("d=1/p.parquet", "d=1/p.parquet"));
        assert!(is_removable("d=a b/p.parquet", "d=a%20b/p.parquet"));
        assert!(is_removable("d=a%20b/p.parquet", "d=a%2520b/p.parquet"));
        assert!(!is_removable("d=a b/p.parquet", "d=a b/p.parquet"));
        assert!(!is_removable("d=ab/p.parquet", "d=%61b/p.parquet"));
    }
}
