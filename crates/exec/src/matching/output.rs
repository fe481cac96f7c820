//! From stored rows to pairs, and from the source's rows to those that are left.

use std::collections::VecDeque;
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array, new_null_array};
use datafusion::arrow::compute::{filter_record_batch, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::metrics::Count;
use futures::StreamExt;
use tokio::sync::watch;

use super::Keep;
use super::block::Block;
use super::build::Built;
use super::settle::{Found, Settle};

/// Where the partitions wait until each has looked up its stored rows.
#[derive(Debug)]
pub(super) struct Meeting {
    state: watch::Sender<Missing>,
}

#[derive(Debug, Clone)]
struct Missing {
    partitions: usize,
    error: Option<Arc<DataFusionError>>,
}

impl Meeting {
    pub(super) fn of(partitions: usize) -> Self {
        let missing = Missing {
            partitions,
            error: None,
        };
        Self {
            state: watch::Sender::new(missing),
        }
    }

    fn arrive(&self) {
        self.state
            .send_modify(|missing| missing.partitions = missing.partitions.saturating_sub(1));
    }

    /// Nobody shall wait for a partition that has failed.
    fn fail(&self, error: DataFusionError) -> DataFusionError {
        let error = Arc::new(error);
        self.state
            .send_modify(|missing| missing.error = Some(Arc::clone(&error)));
        DataFusionError::Shared(error)
    }

    async fn all_are_there(&self) -> Result<()> {
        let mut state = self.state.subscribe();
        let done = state
            .wait_for(|missing| missing.partitions == 0 || missing.error.is_some())
            .await;
        let missing = done.map_err(|_| LoadError::internal("the partitions of a match parted"))?;
        match &missing.error {
            Some(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            None => Ok(()),
        }
    }
}

/// The source, and what tells the histories that it does not change.
pub(super) struct Known {
    pub(super) built: Built,
    pub(super) settle: Option<Settle>,
}

/// What a partition needs.
pub(super) struct Side {
    pub(super) known: Arc<Known>,
    pub(super) meeting: Arc<Meeting>,
    pub(super) keep: Keep,
    /// Where the key is in the stored rows.
    pub(super) key: Vec<usize>,
    pub(super) stored_schema: SchemaRef,
    pub(super) schema: SchemaRef,
    pub(super) partition: usize,
    pub(super) partitions: usize,
    pub(super) batch_size: usize,
    pub(super) pool: Arc<dyn MemoryPool>,
    /// Source rows that are left out because they change nothing.
    pub(super) unchanged: Count,
}

/// One partition at work: stored rows are looked up, then a share of the source's rows is gone through.
pub(super) struct Work {
    side: Side,
    stored: Option<SendableRecordBatchStream>,
    block: Block,
    ready: VecDeque<RecordBatch>,
    rest: Option<std::vec::IntoIter<(usize, RecordBatch)>>,
}

impl Work {
    /// `None`: a partition without stored rows of its own.
    pub(super) fn new(side: Side, stored: Option<SendableRecordBatchStream>) -> Self {
        Self {
            block: Block::of(&side.known.built, side.keep, side.batch_size, &side.pool),
            side,
            stored,
            ready: VecDeque::new(),
            rest: None,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.rest.is_none() {
            match self.next_pairs().await {
                Ok(None) => self.side.meeting.arrive(),
                Ok(pairs) => return Ok(pairs),
                Err(error) => return Err(self.side.meeting.fail(error)),
            }
            self.side.meeting.all_are_there().await?;
            self.side.known.settle.as_ref().map_or(Ok(()), Settle::check)?;
            self.rest = Some(self.share().into_iter());
        }
        while let Some((start, batch)) = self.rest.as_mut().and_then(Iterator::next) {
            if let Some(left) = self.left_of(start, &batch)? {
                return Ok(Some(left));
            }
        }
        Ok(None)
    }

    /// An equal part of the source for every partition, so that all have the same to write.
    fn share(&self) -> Vec<(usize, RecordBatch)> {
        let (rows, of) = (self.side.known.built.rows(), self.side.partitions.max(1));
        let part = rows.div_ceil(of);
        let from = part.saturating_mul(self.side.partition);
        self.side
            .known
            .built
            .slices(from.min(rows), from.saturating_add(part).min(rows))
    }

    async fn next_pairs(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            match &mut self.stored {
                Some(stored) => match stored.next().await {
                    Some(batch) => self.look_up(batch?)?,
                    None => self.stored = None,
                },
                None if self.block.is_empty() => return Ok(None),
                None => (),
            }
            if self.stored.is_none() || self.block.is_full() {
                let schema = &self.side.schema;
                let source = &self.side.known.built;
                let done = self.block.work_off(source, schema, self.side.batch_size)?;
                self.ready.extend(done);
            }
        }
    }

    /// Finds the source rows of stored rows.
    fn look_up(&mut self, stored: RecordBatch) -> Result<()> {
        let known = Arc::clone(&self.side.known);
        if let Some(settle) = &known.settle {
            return self.settle(settle, &stored);
        }
        let keeps_pairs = self.side.keep == Keep::Pairs;
        let (mut rows, mut places) = (Vec::new(), Vec::new());
        self.each_match(&stored, |at, row| {
            known.built.mark(row);
            if keeps_pairs {
                rows.push(row);
                places.push(u64::try_from(at).unwrap_or(u64::MAX));
            }
        })?;
        if !rows.is_empty() {
            let stored = take_record_batch(&stored, &UInt64Array::from(places))?;
            self.block.push(&rows, stored);
        }
        Ok(())
    }

    /// Lets the stored versions go on that the source may change.
    fn settle(&mut self, settle: &Settle, stored: &RecordBatch) -> Result<()> {
        let mut found = vec![Found::None; stored.num_rows()];
        self.each_match(stored, |at, row| {
            if let Some(found) = found.get_mut(at) {
                *found = found.and(row);
            }
        })?;
        let passing = settle.passing(&self.side.known.built, stored, &found)?;
        if passing.num_rows() > 0 {
            self.ready
                .push_back(passing.with_schema(Arc::clone(&self.side.schema))?);
        }
        Ok(())
    }

    /// Calls `found` with each stored row and each source row of its key.
    fn each_match(&self, stored: &RecordBatch, found: impl FnMut(usize, u32)) -> Result<()> {
        let built = &self.side.known.built;
        if stored.num_rows() == 0 || built.rows() == 0 {
            return Ok(());
        }
        let keys: Vec<ArrayRef> = self.side.key.iter().map(|i| Arc::clone(stored.column(*i))).collect();
        built.table.each_match(&keys, found)
    }

    /// What goes out of a slice of the source once all matches are known.
    fn left_of(&self, start: usize, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let marked = (start..start + batch.num_rows()).map(|row| self.side.known.built.is_marked(row));
        match self.side.keep {
            Keep::Mark => {
                let mark: ArrayRef = Arc::new(BooleanArray::from(marked.collect::<Vec<_>>()));
                let columns = batch.columns().iter().cloned().chain([mark]).collect();
                Ok(Some(RecordBatch::try_new(Arc::clone(&self.side.schema), columns)?))
            }
            Keep::Unsettled => {
                let left = BooleanArray::from(marked.map(|settled| !settled).collect::<Vec<_>>());
                self.side.unchanged.add(left.false_count());
                let rows = filter_record_batch(batch, &left)?;
                match rows.num_rows() {
                    0 => Ok(None),
                    _ => Ok(Some(rows.with_schema(Arc::clone(&self.side.schema))?)),
                }
            }
            Keep::Pairs => {
                let alone = BooleanArray::from(marked.map(|marked| !marked).collect::<Vec<_>>());
                let rows = filter_record_batch(batch, &alone)?;
                if rows.num_rows() == 0 {
                    return Ok(None);
                }
                let none = self.side.stored_schema.fields().iter();
                let none = none.map(|field| new_null_array(field.data_type(), rows.num_rows()));
                let columns = rows.columns().iter().cloned().chain(none).collect();
                Ok(Some(RecordBatch::try_new(Arc::clone(&self.side.schema), columns)?))
            }
        }
    }
}
