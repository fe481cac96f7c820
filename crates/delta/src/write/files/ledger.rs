//! Which files a statement has created, so that a statement that does not commit leaves none behind.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::sync::Notify;
use uuid::Uuid;

/// How long cleaning up waits for writers that are being cancelled.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files of one run of a statement.
pub(in crate::write) struct StatementFiles {
    store: Arc<dyn ObjectStore>,
    statement: Uuid,
    attempt: String,
    sequence: AtomicU64,
    created: Mutex<Vec<Path>>,
    discarded: AtomicBool,
    open: AtomicU64,
    closed: Notify,
}

/// Held while a file is written: cleaning up waits for it.
pub(in crate::write) struct OpenFile {
    files: Arc<StatementFiles>,
}

impl StatementFiles {
    pub(in crate::write) fn new(store: Arc<dyn ObjectStore>, statement: Uuid) -> Arc<Self> {
        let attempt = Uuid::new_v4().simple().to_string();
        Arc::new(Self {
            store,
            statement,
            attempt: attempt.chars().take(8).collect(),
            sequence: AtomicU64::new(0),
            created: Mutex::default(),
            discarded: AtomicBool::new(false),
            open: AtomicU64::new(0),
            closed: Notify::new(),
        })
    }

    pub(in crate::write) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Names a new file in `folder` and remembers it. The name carries the statement and the attempt, so no run of any
    /// statement ever overwrites a file of another.
    pub(super) fn create(self: &Arc<Self>, folder: &[String], kind: &str) -> Result<(Path, OpenFile)> {
        let number = self.sequence.fetch_add(1, Ordering::SeqCst);
        let name = format!("{kind}-{number:05}-{}-{}.snappy.parquet", self.statement, self.attempt);
        let path = folder
            .iter()
            .map(String::as_str)
            .chain([name.as_str()])
            .collect::<Path>();
        let open = self.remember(&path)?;
        Ok((path, open))
    }

    /// Names a new file of deletion vectors and remembers it. Its name is the identifier, as the format wants it.
    pub(in crate::write) fn create_vectors(self: &Arc<Self>) -> Result<(Path, Uuid, OpenFile)> {
        let id = Uuid::new_v4();
        let path = Path::from(format!("deletion_vector_{id}.bin"));
        let open = self.remember(&path)?;
        Ok((path, id, open))
    }

    fn remember(self: &Arc<Self>, path: &Path) -> Result<OpenFile> {
        // Counted before it is asked, so that cleaning up either waits for this file or keeps it from being made.
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = OpenFile {
            files: Arc::clone(self),
        };
        if self.discarded.load(Ordering::SeqCst) {
            return Err(LoadError::new(
                SqlState::Cancelled,
                "the statement was cancelled while it was writing",
            ));
        }
        self.created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.clone());
        Ok(open)
    }

    /// Deletes every file of the statement, as far as possible: what cannot be deleted is left to VACUUM. Writers must
    /// be done or on their way to being dropped.
    pub(in crate::write) async fn discard(&self) {
        self.discarded.store(true, Ordering::SeqCst);
        let writers_are_gone = async {
            loop {
                let closed = self.closed.notified();
                if self.open.load(Ordering::SeqCst) == 0 {
                    break;
                }
                closed.await;
            }
        };
        if tokio::time::timeout(PATIENCE, writers_are_gone).await.is_err() {
            tracing::warn!("writers are still busy; their files are left to VACUUM");
        }
        let created = std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        futures::stream::iter(created)
            .for_each_concurrent(8, |path| async move {
                match self.store.delete(&path).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => (),
                    Err(e) => {
                        let cause = redact(&e.to_string());
                        tracing::warn!("a file of an abandoned statement is left to VACUUM: {cause}");
                    }
                }
            })
            .await;
    }
}

impl OpenFile {
    /// Takes the step that makes the file appear, to its end even when nobody waits for it any more: stores may take it in a
    /// thread of their own, which cannot be stopped, and cleaning up has to come after it.
    pub(in crate::write) async fn appear<T: Send + 'static>(
        self,
        step: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let whole = tokio::spawn(async move {
            let done = step.await;
            drop(self);
            done
        });
        whole
            .await
            .map_err(|e| LoadError::internal(format!("a file was not written: {e}")))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.files.open.fetch_sub(1, Ordering::SeqCst);
        self.files.closed.notify_waiters();
    }
}
