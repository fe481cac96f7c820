//! One version of a table.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use alluvium_core::Result;
use alluvium_core::secrets::redact;
use datafusion::arrow::datatypes::SchemaRef;
use deltalake::kernel::EagerSnapshot;
use deltalake::logstore::LogStoreRef;

use url::Url;

use crate::table::files::{self, Files};
use crate::table::{ColumnBounds, FileTask, storage_error};

/// A table as it is at one version, read once and never changed.
pub struct TableSnapshot {
    location: Url,
    schema: SchemaRef,
    partition_columns: Vec<String>,
    eager: EagerSnapshot,
    log_store: LogStoreRef,
    files: OnceLock<Files>,
}

impl TableSnapshot {
    /// Wraps a loaded state.
    pub fn try_new(eager: EagerSnapshot, log_store: LogStoreRef) -> Result<Self> {
        Ok(Self {
            location: log_store.root_url().clone(),
            schema: eager.arrow_schema(),
            partition_columns: eager.metadata().partition_columns().to_vec(),
            eager,
            log_store,
            files: OnceLock::new(),
        })
    }

    /// Where the table is.
    pub fn location(&self) -> &Url {
        &self.location
    }

    /// How messages name the table: the last part of its location.
    pub fn name(&self) -> String {
        let path = self.location.path().trim_end_matches('/');
        redact(path.rsplit('/').next().unwrap_or(path))
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.eager.version()
    }

    /// The columns in declared order: plain strings, timestamps in microseconds.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The partition columns in declared order.
    pub fn partition_columns(&self) -> &[String] {
        &self.partition_columns
    }

    /// The table properties as they are in the log.
    pub fn properties(&self) -> &HashMap<String, String> {
        self.eager.metadata().configuration()
    }

    /// The state below.
    pub fn eager(&self) -> &EagerSnapshot {
        &self.eager
    }

    /// The store the table and its log are in.
    pub fn log_store(&self) -> LogStoreRef {
        Arc::clone(&self.log_store)
    }

    /// The data files, sorted by path; [`FileTask::ordinal`] is the index. Computed once.
    pub async fn files(&self) -> Result<Arc<Vec<FileTask>>> {
        Ok(Arc::clone(&self.loaded_files()?.tasks))
    }

    /// What is known about column `index` in each data file.
    pub(crate) fn bounds(&self, index: usize) -> Result<Option<&ColumnBounds>> {
        Ok(self.loaded_files()?.stats.column(index))
    }

    /// The data files with their statistics. The log is in memory, so this waits for nothing.
    pub(crate) fn loaded_files(&self) -> Result<&Files> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let loaded = files::load(self)?;
        Ok(self.files.get_or_init(|| loaded))
    }

    /// How many rows its data files hold, those of deletion vectors included. `None`: the log does not say it of all.
    pub fn stored_rows(&self) -> Option<u64> {
        let files = self.loaded_files().ok()?;
        let records = files.stats.records();
        records.iter().sum()
    }

    /// The highest version that application `app` recorded with `TRANSACTION`.
    pub async fn transaction_version(&self, app: &str) -> Result<Option<i64>> {
        self.eager
            .transaction_version(self.log_store.as_ref(), app)
            .await
            .map_err(|e| storage_error(&format!("reading the transactions of table {}", self.name()), e))
    }
}

impl fmt::Debug for TableSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSnapshot")
            .field("name", &self.name())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
