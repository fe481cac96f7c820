//! The data files of a snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::common::{ScalarValue, Statistics};
use deltalake::kernel::{DeletionVectorDescriptor, Remove};

use crate::table::TableSnapshot;

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
    /// What the log says about each table column; partition columns exact, bounds of the others inexact.
    pub statistics: Arc<Statistics>,
    /// Physical rows, deleted ones included, where the log says so.
    pub num_records: Option<u64>,
    /// The rows that are deleted.
    pub deletion_vector: Option<DeletionVectorDescriptor>,
    /// Whether a remove action spells the path as the log does. Where it does not, the file cannot be removed safely.
    pub removable: bool,
}

impl FileTask {
    /// The action that takes the file out of the table at `deletion_timestamp` (milliseconds).
    pub fn remove_action(&self, deletion_timestamp: i64) -> Remove {
        Remove {
            path: self.path.clone(),
            data_change: true,
            deletion_timestamp: Some(deletion_timestamp),
            extended_file_metadata: Some(true),
            size: i64::try_from(self.size).ok(),
            partition_values: Some(self.raw_partition_values.clone()),
            deletion_vector: self.deletion_vector.clone(),
            tags: None,
            base_row_id: None,
            default_row_commit_version: None,
        }
    }
}

pub(super) async fn load(_snapshot: &TableSnapshot) -> Result<Vec<FileTask>> {
    Err(LoadError::unsupported("reading the file list"))
}
