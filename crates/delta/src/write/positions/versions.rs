//! Rows for files that are written again: new versions of stored rows, which take the places of the old ones, so that
//! columns that do not change need not be encoded; and new rows whose keys lie among those of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alluvium_core::Result;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::super::files::rows_size;
use super::super::pool::share_of;

/// More is not kept: further new versions go to files of their own.
const MOST_KEPT: usize = 512 << 20;

/// Those of one statement.
#[derive(Debug, Default)]
pub(in crate::write) struct NewVersions(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    batches: Vec<RecordBatch>,
    files: BTreeMap<u32, Vec<Version>>,
    added: BTreeMap<u32, Vec<(usize, usize)>>,
    /// The files that will be written again.
    marked: BTreeSet<u32>,
    size: usize,
    held: Option<MemoryReservation>,
}

/// The place of a stored row, and where its new version is.
#[derive(Debug, Clone, Copy)]
struct Version {
    position: u64,
    batch: usize,
    row: usize,
}

impl NewVersions {
    /// Keeps the rows of `batch`, which are to stand at `places` (file and position). False: there is no room for them.
    pub(in crate::write) fn keep(
        &self,
        batch: &RecordBatch,
        places: &[(u32, u64)],
        pool: &Arc<dyn MemoryPool>,
    ) -> bool {
        let mut kept = self.lock();
        let Some(number) = kept.room_for(batch, pool) else {
            return false;
        };
        for (row, (file, position)) in places.iter().enumerate() {
            kept.files.entry(*file).or_default().push(Version {
                position: *position,
                batch: number,
                row,
            });
        }
        true
    }

    /// Keeps the rows of `batch` for these files. False: there is no room for them.
    pub(in crate::write) fn add(&self, batch: &RecordBatch, files: &[u32], pool: &Arc<dyn MemoryPool>) -> bool {
        let mut kept = self.lock();
        let Some(number) = kept.room_for(batch, pool) else {
            return false;
        };
        for (row, file) in files.iter().enumerate() {
            kept.added.entry(*file).or_default().push((number, row));
        }
        true
    }

    /// These files will be written again.
    pub(in crate::write) fn mark(&self, files: impl IntoIterator<Item = u32>) {
        self.lock().marked.extend(files);
    }

    /// The files that will be written again, when all writers have marked theirs.
    pub(in crate::write) fn marked(&self) -> BTreeSet<u32> {
        self.lock().marked.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those for `file`. Asked for when all writers have ended.
    pub(in crate::write) fn of(&self, file: u32) -> FileVersions {
        let mut kept = self.lock();
        let mut rows = kept.files.remove(&file).unwrap_or_default();
        rows.sort_unstable_by_key(|version| version.position);
        let added = kept.added.remove(&file).unwrap_or_default();
        FileVersions {
            batches: match rows.is_empty() && added.is_empty() {
                true => Vec::new(),
                false => kept.batches.clone(),
            },
            rows,
            added,
        }
    }
}

impl Kept {
    /// Keeps `batch` under the number that is given back.
    fn room_for(&mut self, batch: &RecordBatch, pool: &Arc<dyn MemoryPool>) -> Option<usize> {
        let size = rows_size(batch) + size_of::<Version>() * batch.num_rows();
        let held = self
            .held
            .get_or_insert_with(|| MemoryConsumer::new("LoadWriteExec new versions").register(pool));
        if self.size + size > MOST_KEPT.min(share_of(pool)) || held.try_grow(size).is_err() {
            return None;
        }
        self.size += size;
        self.batches.push(batch.clone());
        Some(self.batches.len() - 1)
    }
}

/// The new versions of rows of one file, in the order of the file, and the rows that are added to it.
#[derive(Debug, Default)]
pub(in crate::write) struct FileVersions {
    batches: Vec<RecordBatch>,
    rows: Vec<Version>,
    added: Vec<(usize, usize)>,
}

impl FileVersions {
    /// How many rows the file gets.
    pub(in crate::write) fn len(&self) -> usize {
        self.rows.len() + self.added.len()
    }

    /// Whether rows are added to the file.
    pub(in crate::write) fn adds_rows(&self) -> bool {
        !self.added.is_empty()
    }

    /// The positions within `range` that get new versions.
    pub(in crate::write) fn positions(&self, range: &Range<u64>) -> impl Iterator<Item = u64> {
        self.within(range).iter().map(|version| version.position)
    }

    /// The new versions of the rows within `range`, in their order. None if there are none.
    pub(in crate::write) fn rows(&self, range: &Range<u64>) -> Result<Option<RecordBatch>> {
        let places: Vec<(usize, usize)> = self.within(range).iter().map(|v| (v.batch, v.row)).collect();
        self.gathered(&places)
    }

    /// The rows that are added to the file. None if there are none.
    pub(in crate::write) fn added(&self) -> Result<Option<RecordBatch>> {
        self.gathered(&self.added)
    }

    fn gathered(&self, places: &[(usize, usize)]) -> Result<Option<RecordBatch>> {
        if places.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        Ok(Some(interleave_record_batch(&batches, places)?))
    }

    fn within(&self, range: &Range<u64>) -> &[Version] {
        let before = |end: u64| self.rows.partition_point(|version| version.position < end);
        self.rows
            .get(before(range.start)..before(range.end))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn batch(values: &[i64]) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("v", values)]).unwrap()
    }

    #[test]
    fn versions_come_in_the_order_of_the_file() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let versions = NewVersions::default();
        assert!(versions.keep(&batch(&[1, 2, 3]), &[(0, 70), (1, 5), (0, 3)], &pool));
        assert!(versions.keep(&batch(&[4]), &[(0, 9)], &pool));
        let mine = versions.of(0);
        assert_eq!(mine.positions(&(0..70)).collect::<Vec<_>>(), [3, 9]);
        let rows = mine.rows(&(5..100)).unwrap().unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[4, 1]);
        assert!(mine.rows(&(10..70)).unwrap().is_none());
        assert_eq!((mine.len(), versions.of(2).len()), (3, 0));
        assert!(versions.add(&batch(&[8, 9]), &[2, 2], &pool));
        let added = versions.of(2).added().unwrap().unwrap();
        assert_eq!(added.column(0).as_primitive::<Int64Type>().values(), &[8, 9]);
    }

    #[test]
    fn what_has_no_room_is_not_kept() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(640));
        let versions = NewVersions::default();
        assert!(versions.keep(&batch(&[1]), &[(0, 1)], &pool));
        assert!(!versions.keep(&batch(&[1, 2, 3]), &[(0, 2), (0, 3), (0, 4)], &pool));
        assert_eq!(versions.of(0).len(), 1);
    }
}
