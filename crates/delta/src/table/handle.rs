//! The one place of a session where a table's newest state is kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result};
use deltalake::kernel::EagerSnapshot;
use deltalake::logstore::LogStoreRef;
use deltalake::table::state::DeltaTableState;
use deltalake::{DeltaTableBuilder, DeltaTableError};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use tokio::sync::Mutex;
use url::Url;

use crate::table::{TableSnapshot, storage_error};

/// A table's location and the newest snapshot seen there. Nothing is read before it is asked for.
pub struct TableHandle {
    location: Url,
    options: HashMap<String, String>,
    /// Held while the log is read, so that statements that start together read it once.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log_store: Option<LogStoreRef>,
    snapshot: Option<Arc<TableSnapshot>>,
    /// The log entry of the snapshot's version, once it was looked at.
    entry: Option<Entry>,
}

/// What tells one log entry from another of the same version.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    size: u64,
    modified: i64,
    tag: Option<String>,
}

impl State {
    fn take_over(&mut self, snapshot: TableSnapshot, entry: Option<Entry>) -> Arc<TableSnapshot> {
        let snapshot = Arc::new(snapshot);
        self.snapshot = Some(Arc::clone(&snapshot));
        self.entry = entry;
        snapshot
    }
}

impl TableHandle {
    /// A handle for the table at `location`; `options` are those of its store. No IO.
    pub fn new(location: Url, options: HashMap<String, String>) -> Arc<Self> {
        Arc::new(Self {
            location,
            options,
            state: Mutex::default(),
        })
    }

    /// Where the table is.
    pub fn location(&self) -> &Url {
        &self.location
    }

    /// The options of the table's store. They may hold credentials: never show them.
    pub fn options(&self) -> &HashMap<String, String> {
        &self.options
    }

    /// The log store of the location, whether a table exists there or not.
    pub async fn log_store(&self) -> Result<LogStoreRef> {
        self.open(&mut *self.state.lock().await)
    }

    /// The newest snapshot, or `None` where no table is. While the version stays the same, so does the `Arc`.
    pub async fn snapshot(&self) -> Result<Option<Arc<TableSnapshot>>> {
        let mut state = self.state.lock().await;
        let log_store = self.open(&mut state)?;
        let Some(known) = state.snapshot.clone() else {
            return self.load(&mut state, log_store).await;
        };
        // The table may have been dropped since, or dropped and made anew: then the entry of the known version is gone
        // or another one, and reading on from it would give rows of a table that no longer is.
        let entry = self.entry(&log_store, known.version()).await?;
        if entry.is_none() || state.entry.as_ref().is_some_and(|seen| Some(seen) != entry.as_ref()) {
            state.snapshot = None;
            return self.load(&mut state, log_store).await;
        }
        state.entry = entry;
        let mut newest = DeltaTableState::new(known.eager().clone());
        newest
            .update(log_store.as_ref(), None)
            .await
            .map_err(|e| self.reading(e))?;
        if newest.version() == known.version() {
            return Ok(Some(known));
        }
        let entry = self.entry(&log_store, newest.version()).await?;
        let snapshot = TableSnapshot::try_new(newest.snapshot().clone(), log_store)?;
        Ok(Some(state.take_over(snapshot, entry)))
    }

    /// Reads the whole log.
    async fn load(&self, state: &mut State, log_store: LogStoreRef) -> Result<Option<Arc<TableSnapshot>>> {
        if !log_store.is_delta_table_location().await.map_err(|e| self.reading(e))? {
            return Ok(None);
        }
        let loaded = DeltaTableState::try_new(log_store.as_ref(), None)
            .await
            .map_err(|e| self.reading(e))?;
        let entry = self.entry(&log_store, loaded.version()).await?;
        let snapshot = TableSnapshot::try_new(loaded.snapshot().clone(), log_store)?;
        Ok(Some(state.take_over(snapshot, entry)))
    }

    /// The log entry of `version`, if it is there.
    async fn entry(&self, log_store: &LogStoreRef, version: u64) -> Result<Option<Entry>> {
        let path = Path::from(format!("_delta_log/{version:020}.json"));
        match log_store.object_store(None).head(&path).await {
            Ok(meta) => Ok(Some(Entry {
                size: meta.size,
                modified: meta.last_modified.timestamp_micros(),
                tag: meta.e_tag,
            })),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.reading(e.into())),
        }
    }

    fn reading(&self, cause: DeltaTableError) -> LoadError {
        storage_error(&format!("reading the log of table {}", self.shown()), cause)
    }

    /// Takes over the state after an own commit, so that the next statement has less of the log to read. An older
    /// state than the one held is ignored.
    pub async fn adopt(&self, committed: EagerSnapshot) -> Result<Arc<TableSnapshot>> {
        let mut state = self.state.lock().await;
        if let Some(known) = state.snapshot.as_ref().filter(|s| s.version() >= committed.version()) {
            return Ok(Arc::clone(known));
        }
        let log_store = self.open(&mut state)?;
        // The commit has succeeded: that its entry cannot be looked at now must not make it look failed.
        let entry = self.entry(&log_store, committed.version()).await.ok().flatten();
        Ok(state.take_over(TableSnapshot::try_new(committed, log_store)?, entry))
    }

    /// Forgets what was read, for a table that was dropped or replaced.
    pub async fn forget(&self) {
        self.state.lock().await.snapshot = None;
    }

    fn open(&self, state: &mut State) -> Result<LogStoreRef> {
        if let Some(log_store) = &state.log_store {
            return Ok(Arc::clone(log_store));
        }
        let opened = DeltaTableBuilder::from_url(self.location.clone())
            .and_then(|b| b.with_storage_options(self.options.clone()).build_storage())
            .map_err(|e| storage_error(&format!("opening the location {}", self.shown()), e))?;
        state.log_store = Some(Arc::clone(&opened));
        Ok(opened)
    }

    fn shown(&self) -> String {
        redact(self.location.as_str())
    }
}

impl fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableHandle")
            .field("location", &self.shown())
            .finish_non_exhaustive()
    }
}
