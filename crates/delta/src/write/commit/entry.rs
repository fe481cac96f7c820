//! When the log entry is on its way: before that, whatever happens, no reader can ever see the statement's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use delta_kernel::Engine;
use deltalake::DeltaResult;
use deltalake::kernel::transaction::TransactionError;
use deltalake::logstore::{CommitOrBytes, LogStore, LogStoreConfig, LogStoreRef, ObjectStoreRef};
use object_store::path::Path;
use url::Url;
use uuid::Uuid;

/// Whether a log entry of a statement has been sent.
#[derive(Debug, Clone, Default)]
pub(super) struct EntrySent(Arc<AtomicBool>);

impl EntrySent {
    pub(super) fn is_sent(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// A log store that tells here before it writes an entry. A commit looks at the log first, and may look again and
    /// again, so that the caller cannot tell.
    pub(super) fn told_by(&self, inner: LogStoreRef) -> LogStoreRef {
        Arc::new(TellingLogStore {
            inner,
            sent: self.clone(),
        })
    }
}

struct TellingLogStore {
    inner: LogStoreRef,
    sent: EntrySent,
}

#[async_trait]
impl LogStore for TellingLogStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    async fn refresh(&self) -> DeltaResult<()> {
        self.inner.refresh().await
    }

    async fn read_commit_entry(&self, version: u64) -> DeltaResult<Option<Bytes>> {
        self.inner.read_commit_entry(version).await
    }

    async fn write_commit_entry(
        &self,
        version: u64,
        commit_or_bytes: CommitOrBytes,
        operation_id: Uuid,
    ) -> Result<(), TransactionError> {
        self.sent.0.store(true, Ordering::SeqCst);
        self.inner
            .write_commit_entry(version, commit_or_bytes, operation_id)
            .await
    }

    async fn abort_commit_entry(
        &self,
        version: u64,
        commit_or_bytes: CommitOrBytes,
        operation_id: Uuid,
    ) -> Result<(), TransactionError> {
        self.inner
            .abort_commit_entry(version, commit_or_bytes, operation_id)
            .await
    }

    async fn get_latest_version(&self, start_version: u64) -> DeltaResult<u64> {
        self.inner.get_latest_version(start_version).await
    }

    fn object_store(&self, operation_id: Option<Uuid>) -> ObjectStoreRef {
        self.inner.object_store(operation_id)
    }

    fn root_object_store(&self, operation_id: Option<Uuid>) -> ObjectStoreRef {
        self.inner.root_object_store(operation_id)
    }

    fn config(&self) -> &LogStoreConfig {
        self.inner.config()
    }

    // The trait has its own words for what follows, but a store may have others.

    fn engine(&self, operation_id: Option<Uuid>) -> Arc<dyn Engine> {
        self.inner.engine(operation_id)
    }

    fn to_uri(&self, location: &Path) -> String {
        self.inner.to_uri(location)
    }

    fn root_url(&self) -> &Url {
        self.inner.root_url()
    }

    fn log_path(&self) -> &Path {
        self.inner.log_path()
    }

    fn transaction_url(&self, operation_id: Option<Uuid>) -> DeltaResult<Url> {
        self.inner.transaction_url(operation_id)
    }

    async fn is_delta_table_location(&self) -> DeltaResult<bool> {
        self.inner.is_delta_table_location().await
    }
}
