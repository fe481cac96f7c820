//! Rows that deletion vectors have taken out, dropped from what a scan has read.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{AsArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int64Type, UInt32Type};
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use deltalake::kernel::DeletionVectorDescriptor;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use roaring::RoaringTreemap;

use crate::scan::tasks::ScanTask;
use crate::scan::{ScanDesc, vectors};

/// How many vectors are fetched before they are needed.
const AHEAD: usize = 4;

/// The deletion vectors of the files of one scan.
pub(super) struct Vectors {
    described: HashMap<u32, DeletionVectorDescriptor>,
    /// In the order in which the files are read.
    ahead: BoxStream<'static, Result<(u32, RoaringTreemap)>>,
    current: Option<(u32, RoaringTreemap)>,
    desc: Arc<ScanDesc>,
    context: Arc<TaskContext>,
}

impl Vectors {
    /// Those of `tasks`, if any of these has one.
    pub(super) fn of(desc: &Arc<ScanDesc>, tasks: &[ScanTask], context: &Arc<TaskContext>) -> Option<Self> {
        let mut seen = HashSet::new();
        let in_order: Vec<(u32, DeletionVectorDescriptor)> = tasks
            .iter()
            .filter_map(|task| Some((task.ordinal, task.deletion_vector.clone()?)))
            .filter(|(file, _)| seen.insert(*file))
            .collect();
        if in_order.is_empty() {
            return None;
        }
        let described = in_order.iter().cloned().collect();
        let (table, ctx) = (Arc::clone(desc), Arc::clone(context));
        let ahead = stream::iter(in_order)
            .map(move |(file, vector)| fetched(file, vector, Arc::clone(&table), Arc::clone(&ctx)))
            .buffered(AHEAD);
        Some(Self {
            described,
            ahead: ahead.boxed(),
            current: None,
            desc: Arc::clone(desc),
            context: Arc::clone(context),
        })
    }

    /// With the columns of a batch that say the file of a row, and its position there.
    pub(super) fn placed(self, file: usize, row: usize) -> Placed {
        Placed {
            vectors: self,
            file,
            row,
        }
    }

    /// What is deleted in `file`.
    async fn seek(&mut self, file: u32) -> Result<Option<&RoaringTreemap>> {
        let Some(descriptor) = self.described.get(&file) else {
            return Ok(None);
        };
        while self.current.as_ref().is_none_or(|(current, _)| *current != file) {
            self.current = Some(match self.ahead.try_next().await? {
                Some(next) => next,
                // Read out of order, after all: never met, but right.
                None => (file, vectors::read(&self.desc, descriptor, &self.context).await?),
            });
        }
        Ok(self.current.as_ref().map(|(_, deleted)| deleted))
    }
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vectors")
            .field("described", &self.described.len())
            .finish_non_exhaustive()
    }
}

/// A vector on its way, whether somebody waits for it yet or not.
async fn fetched(
    file: u32,
    vector: DeletionVectorDescriptor,
    desc: Arc<ScanDesc>,
    context: Arc<TaskContext>,
) -> Result<(u32, RoaringTreemap)> {
    let task = SpawnedTask::spawn(async move { vectors::read(&desc, &vector, &context).await });
    let read = task.join().await.map_err(|e| LoadError::internal(e.to_string()))?;
    Ok((file, read?))
}

/// [`Vectors`] that can tell the rows of a batch.
#[derive(Debug)]
pub(super) struct Placed {
    vectors: Vectors,
    file: usize,
    row: usize,
}

impl Placed {
    /// `rows` without the deleted ones.
    pub(super) fn drop_from(
        self,
        rows: SendableRecordBatchStream,
    ) -> impl Stream<Item = Result<RecordBatch, DataFusionError>> + Send {
        stream::try_unfold((rows, self), |(mut rows, mut placed)| async move {
            let Some(batch) = rows.try_next().await? else {
                return Ok(None);
            };
            let kept = placed.kept(batch).await?;
            Ok(Some((kept, (rows, placed))))
        })
    }

    async fn kept(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let files = batch.column(self.file).as_primitive::<UInt32Type>();
        let positions = batch.column(self.row).as_primitive::<Int64Type>();
        let mut kept: Option<BooleanBufferBuilder> = None;
        let mut begin = 0;
        for same in files.values().chunk_by(|a, b| a == b) {
            let rows = begin..begin + same.len();
            begin = rows.end;
            let deleted = match same.first() {
                Some(file) => self.vectors.seek(*file).await?,
                None => None,
            };
            if let Some(deleted) = deleted {
                mark(&mut kept, batch.num_rows(), positions.values(), rows, deleted);
            }
        }
        match kept {
            Some(mut kept) => Ok(filter_record_batch(&batch, &kept.finish().into())?),
            None => Ok(batch),
        }
    }
}

/// Unsets in `kept`, of `len` rows, which is made when it is needed, those of `rows` whose position is `deleted`. Rows of a
/// file come in their order, so that one pass over both suffices; others are right, and slow.
fn mark(
    kept: &mut Option<BooleanBufferBuilder>,
    len: usize,
    positions: &[i64],
    rows: Range<usize>,
    deleted: &RoaringTreemap,
) {
    let mut gone = deleted.iter();
    let (mut next, mut last) = (gone.next(), 0);
    for row in rows {
        let Some(position) = positions.get(row).and_then(|p| u64::try_from(*p).ok()) else {
            continue;
        };
        if position < last {
            gone = deleted.iter();
            next = gone.next();
        }
        last = position;
        if next.is_some_and(|next| next < position) {
            gone.advance_to(position);
            next = gone.next();
        }
        if next == Some(position) {
            kept.get_or_insert_with(|| all(len)).set_bit(row, false);
        }
    }
}

fn all(len: usize) -> BooleanBufferBuilder {
    let mut kept = BooleanBufferBuilder::new(len);
    kept.append_n(len, true);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(positions: &[i64], deleted: &[u64]) -> Vec<i64> {
        let mut kept = None;
        let deleted: RoaringTreemap = deleted.iter().collect();
        mark(&mut kept, positions.len(), positions, 0..positions.len(), &deleted);
        let Some(mut kept) = kept else {
            return positions.to_vec();
        };
        let kept = kept.finish();
        let rows = positions.iter().zip(&kept);
        rows.filter(|(_, kept)| *kept).map(|(position, _)| *position).collect()
    }

    #[test]
    fn deleted_positions_go() {
        assert_eq!(kept(&[0, 1, 2, 3], &[]), [0, 1, 2, 3]);
        assert_eq!(kept(&[0, 1, 2, 3], &[0, 3]), [1, 2]);
        assert_eq!(kept(&[0, 1, 2, 3], &[0, 1, 2, 3, 4]), [0_i64; 0]);
        assert_eq!(kept(&[5, 6, 7], &[1, 2, 6, 900]), [5, 7]);
        assert_eq!(kept(&[5, 60, 7_000_000_000], &[5, 6, 7, 59, 61, 7_000_000_000]), [60]);
        assert_eq!(kept(&[], &[1]), [0_i64; 0]);
    }

    #[test]
    fn positions_out_of_order_are_looked_for_again() {
        assert_eq!(kept(&[9, 3, 4, 1, 70_000], &[3, 9, 70_000]), [4, 1]);
    }
}
