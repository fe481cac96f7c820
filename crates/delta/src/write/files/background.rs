//! A writer that works beside the operator that feeds it: while rows are read and matched, those before them are encoded,
//! and the files of several table partitions at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use tokio::sync::{mpsc, oneshot};

use super::layout::{FileLayout, rows_size};
use super::ledger::StatementFiles;
use super::rolling::{RollingWriter, WrittenFile};

/// Batches that may wait for the encoder.
const MOST_WAITING: usize = 2;

/// Writes rows that share their partition values.
pub(super) struct BackgroundWriter {
    steps: mpsc::Sender<Step>,
    /// Gone once it has failed.
    task: Option<SpawnedTask<Result<Vec<WrittenFile>>>>,
    held: Arc<Held>,
}

enum Step {
    /// Rows, and their bytes.
    Rows(RecordBatch, usize),
    /// Ends the row group, then tells so.
    Flush(oneshot::Sender<()>),
}

/// Bytes in memory.
#[derive(Default)]
struct Held {
    waiting: AtomicUsize,
    encoded: AtomicUsize,
}

impl BackgroundWriter {
    /// A writer for the partition with these values, in the order of the layout's partition columns.
    pub(super) fn new(
        layout: Arc<FileLayout>,
        files: Arc<StatementFiles>,
        partition_values: HashMap<String, Option<String>>,
    ) -> Self {
        let (steps, received) = mpsc::channel(MOST_WAITING);
        let held = Arc::new(Held::default());
        let writer = RollingWriter::new(layout, files, partition_values);
        Self {
            steps,
            task: Some(SpawnedTask::spawn(work(writer, received, Arc::clone(&held)))),
            held,
        }
    }

    /// Writes the rows of `batch`, which has the schema of the layout's files (no partition columns).
    pub(super) async fn write_stored(&mut self, batch: RecordBatch) -> Result<()> {
        let size = rows_size(&batch);
        self.held.waiting.fetch_add(size, Ordering::Relaxed);
        match self.steps.send(Step::Rows(batch, size)).await {
            Ok(()) => Ok(()),
            Err(_) => self.failure().await,
        }
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        self.held.waiting.load(Ordering::Relaxed) + self.held.encoded.load(Ordering::Relaxed)
    }

    /// Ends the current row group, so that its bytes leave memory.
    pub(super) async fn flush(&mut self) -> Result<()> {
        let (done, flushed) = oneshot::channel();
        let sent = self.steps.send(Step::Flush(done)).await;
        if sent.is_err() || flushed.await.is_err() {
            return self.failure().await;
        }
        Ok(())
    }

    /// Ends the last file.
    pub(super) async fn close(self) -> Result<Vec<WrittenFile>> {
        drop(self.steps);
        finished(self.task).await
    }

    /// Why the task has ended early.
    async fn failure(&mut self) -> Result<()> {
        finished(self.task.take()).await?;
        Err(LoadError::internal("a writer ended before its rows did"))
    }
}

async fn finished(task: Option<SpawnedTask<Result<Vec<WrittenFile>>>>) -> Result<Vec<WrittenFile>> {
    let task = task.ok_or_else(|| LoadError::internal("a writer that has failed is used again"))?;
    let files = task.join().await;
    files.map_err(|e| LoadError::internal(format!("a file was not written: {e}")))?
}

async fn work(mut writer: RollingWriter, mut steps: mpsc::Receiver<Step>, held: Arc<Held>) -> Result<Vec<WrittenFile>> {
    while let Some(step) = steps.recv().await {
        match step {
            Step::Rows(batch, size) => {
                writer.write_stored(&batch).await?;
                held.encoded.store(writer.memory(), Ordering::Relaxed);
                held.waiting.fetch_sub(size, Ordering::Relaxed);
            }
            Step::Flush(done) => {
                writer.flush().await?;
                held.encoded.store(writer.memory(), Ordering::Relaxed);
                // Whoever waits for it may have been cancelled.
                let _ = done.send(());
            }
        }
    }
    writer.close().await
}
