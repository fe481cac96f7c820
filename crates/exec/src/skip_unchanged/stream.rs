//! What a partition delivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::filter_record_batch;
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

/// The rows of one partition that tell something. With `tells`, no scan below has seen to that.
pub(super) fn telling(
    rows: SendableRecordBatchStream,
    tells: Option<Arc<Tells>>,
    busy: Busy,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::try_unfold((rows, tells, busy), |(mut rows, tells, mut busy)| async move {
        let Some(batch) = rows.next().await else {
            return busy.end().map(|()| None);
        };
        let batch = batch.map_err(|error| busy.known.cause_of(error))?;
        let batch = match &tells {
            Some(tells) => filter_record_batch(&batch, &tells.telling(&batch)?)?,
            None => batch,
        };
        Ok(Some((batch, (rows, tells, busy))))
    })
}
