//! What a partition delivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{BatchCoalescer, filter_record_batch};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt, stream};

use super::tells::{Known, Tells};

/// Held by a partition while it works: the last to end lets the open versions go.
pub(super) struct Busy {
    known: Arc<Known>,
    /// `None`: it has ended.
    busy: Option<Arc<AtomicUsize>>,
}

impl Busy {
    /// One of the partitions that `busy` counts.
    pub(super) fn new(known: &Arc<Known>, busy: &Arc<AtomicUsize>) -> Self {
        Self {
            known: Arc::clone(known),
            busy: Some(Arc::clone(busy)),
        }
    }

    /// Whether no partition is at work after this one.
    fn is_last(&mut self) -> bool {
        let busy = self.busy.take();
        busy.is_some_and(|busy| busy.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// All rows of the partition have come.
    fn end(&mut self) -> Result<()> {
        if !self.is_last() {
            return Ok(());
        }
        let checked = self.known.check();
        self.known.set(None);
        checked
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.is_last() {
            self.known.set(None);
        }
    }
}

/// The rows of one partition that tell something, in batches of their own memory: of those that a scan has gone through, few
/// may be left, or all in slices of one that is large.
pub(super) struct Telling {
    rows: SendableRecordBatchStream,
    /// `None`: the scan below evaluates the condition.
    tells: Option<Arc<Tells>>,
    busy: Busy,
    batches: BatchCoalescer,
    ended: bool,
}

impl Telling {
    pub(super) fn new(
        rows: SendableRecordBatchStream,
        tells: Option<Arc<Tells>>,
        busy: Busy,
        batch_size: usize,
    ) -> Self {
        Self {
            batches: BatchCoalescer::new(rows.schema(), batch_size),
            rows,
            tells,
            busy,
            ended: false,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        stream::try_unfold(self, |mut telling| async move {
            let batch = telling.next().await?;
            Ok(batch.map(|batch| (batch, telling)))
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.ended && !self.batches.has_completed_batch() {
            let Some(batch) = self.rows.next().await else {
                self.batches.finish_buffered_batch()?;
                self.busy.end()?;
                self.ended = true;
                break;
            };
            let batch = batch.map_err(|error| self.busy.known.cause_of(error))?;
            self.batches.push_batch(match &self.tells {
                Some(tells) => filter_record_batch(&batch, &tells.telling(&batch)?)?,
                None => batch,
            })?;
        }
        Ok(self.batches.next_completed_batch())
    }
}
