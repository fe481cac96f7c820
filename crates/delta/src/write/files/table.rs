//! Writing rows of any partition: each row goes to its partition's writer.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::Result;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::try_join_all;
use indexmap::IndexMap;

use super::background::BackgroundWriter;
use super::layout::FileLayout;
use super::ledger::StatementFiles;
use super::partition::partition_value;
use super::rolling::WrittenFile;

/// More partitions than this are not kept open at once.
const MOST_OPEN: usize = 256;
/// Row groups smaller than this are not worth ending early.
const WORTH_FLUSHING: usize = 1024 * 1024;

/// Writes batches of a layout's schema.
pub(in crate::write) struct TableWriter {
    layout: Arc<FileLayout>,
    files: Arc<StatementFiles>,
    /// What the encoders hold in memory.
    reservation: MemoryReservation,
    /// Bytes that they may hold.
    most: usize,
    /// Tells partitions apart; `None` for an unpartitioned table.
    converter: Option<RowConverter>,
    open: IndexMap<Option<OwnedRow>, BackgroundWriter>,
    finished: Vec<WrittenFile>,
}

impl TableWriter {
    pub(in crate::write) fn try_new(
        layout: Arc<FileLayout>,
        files: Arc<StatementFiles>,
        reservation: MemoryReservation,
        most: usize,
    ) -> Result<Self> {
        let fields: Vec<_> = layout
            .partition
            .iter()
            .map(|(index, _)| SortField::new(layout.schema.field(*index).data_type().clone()))
            .collect();
        let converter = if fields.is_empty() {
            None
        } else {
            Some(RowConverter::new(fields)?)
        };
        Ok(Self {
            layout,
            files,
            reservation,
            most,
            converter,
            open: IndexMap::new(),
            finished: Vec::new(),
        })
    }

    /// Writes the rows of `batch` in their order, partition by partition.
    pub(in crate::write) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let keys: Vec<ArrayRef> = self
            .layout
            .partition
            .iter()
            .map(|(i, _)| Arc::clone(batch.column(*i)))
            .collect();
        let stored = self.layout.stored_columns(batch)?;
        for (partition, rows) in self.split(&keys, batch.num_rows())? {
            let Some(&first) = rows.first() else {
                continue;
            };
            let part = if rows.len() == batch.num_rows() {
                stored.clone()
            } else {
                take_record_batch(&stored, &UInt32Array::from(rows))?
            };
            if self.open.get(&partition).is_none() {
                self.make_room().await?;
                let values = self.values(&keys, usize::try_from(first).unwrap_or(usize::MAX))?;
                let writer = BackgroundWriter::new(Arc::clone(&self.layout), Arc::clone(&self.files), values);
                self.open.insert(partition.clone(), writer);
            }
            if let Some(writer) = self.open.get_mut(&partition) {
                writer.write_stored(part).await?;
            }
        }
        if self.converter.is_some() {
            // A writer that was idle runs next in this thread, where no other one takes it; this task goes on elsewhere.
            tokio::task::yield_now().await;
        }
        self.account().await
    }

    /// The rows of each partition, in order of first appearance.
    fn split(&self, keys: &[ArrayRef], rows: usize) -> Result<IndexMap<Option<OwnedRow>, Vec<u32>>> {
        let all = u32::try_from(rows).unwrap_or(u32::MAX);
        let Some(converter) = &self.converter else {
            return Ok(IndexMap::from([(None, (0..all).collect())]));
        };
        let converted = converter.convert_columns(keys)?;
        let mut found: IndexMap<_, Vec<u32>> = IndexMap::new();
        for (index, row) in (0..all).zip(converted.iter()) {
            found.entry(row).or_default().push(index);
        }
        Ok(found.into_iter().map(|(row, rows)| (Some(row.owned()), rows)).collect())
    }

    fn values(&self, keys: &[ArrayRef], row: usize) -> Result<HashMap<String, Option<String>>> {
        let columns = self.layout.partition.iter().zip(keys);
        columns
            .map(|((_, name), key)| {
                let key: &dyn Array = key.as_ref();
                Ok((name.clone(), partition_value(name, key, row)?))
            })
            .collect()
    }

    /// Closes the largest writer if too many are open. Where rows come in order the partition before has ended.
    async fn make_room(&mut self) -> Result<()> {
        let most = if self.layout.order().is_empty() { MOST_OPEN } else { 1 };
        if self.open.len() < most {
            return Ok(());
        }
        let largest = self
            .open
            .values()
            .enumerate()
            .max_by_key(|(_, w)| w.memory())
            .map(|(index, _)| index);
        if let Some((_, writer)) = largest.and_then(|index| self.open.swap_remove_index(index)) {
            self.finished.extend(writer.close().await?);
        }
        Ok(())
    }

    /// Tells the pool what the encoders hold; when it is too much, row groups end early.
    async fn account(&mut self) -> Result<()> {
        let held = self.open.values().map(BackgroundWriter::memory).sum();
        if held <= self.most && self.reservation.try_resize(held).is_ok() {
            return Ok(());
        }
        if held > WORTH_FLUSHING {
            for writer in self.open.values_mut() {
                writer.flush().await?;
            }
        }
        self.reservation
            .resize(self.open.values().map(BackgroundWriter::memory).sum());
        Ok(())
    }

    /// Ends all files, side by side.
    pub(in crate::write) async fn close(mut self) -> Result<Vec<WrittenFile>> {
        let open = std::mem::take(&mut self.open);
        let closed = try_join_all(open.into_values().map(BackgroundWriter::close)).await?;
        self.finished.extend(closed.into_iter().flatten());
        Ok(self.finished)
    }
}
