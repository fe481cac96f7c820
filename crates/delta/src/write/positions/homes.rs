//! The file a new row belongs to: the one whose keys are around its own. Where that file is written again anyway the row
//! goes there, so that files keep their ranges of keys and later loads open as few of them as before.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use alluvium_core::Result;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, DynComparator, RecordBatch, make_comparator};
use datafusion::arrow::compute::{SortOptions, filter_record_batch, not};
use datafusion::execution::memory_pool::MemoryPool;

use crate::table::ColumnBounds;

use super::super::job::LoadJob;

/// Hands new rows to the files that their keys belong to and that are written again; the others are given back.
pub(in crate::write) fn add_to_files(
    job: &LoadJob,
    rows: RecordBatch,
    pool: &Arc<dyn MemoryPool>,
) -> Result<RecordBatch> {
    let (Some(versions), Some(base), Some(key)) = (&job.versions, &job.spec.target.base, job.spec.keys.first()) else {
        return Ok(rows);
    };
    let (open, column) = (versions.marked(), base.schema().index_of(key).ok());
    let bounds = column.map(|column| base.bounds(column)).transpose()?.flatten();
    let (Some(bounds), Some(keys)) = (bounds, rows.column_by_name(key)) else {
        return Ok(rows);
    };
    let Some(homes) = Homes::new(bounds, &open, keys) else {
        return Ok(rows);
    };
    let homes = homes.of(keys)?;
    let at_home: BooleanArray = homes.iter().map(|home| Some(home.is_some())).collect();
    let homes: Vec<u32> = homes.into_iter().flatten().collect();
    let added = filter_record_batch(&rows, &at_home)?;
    match homes.is_empty() || !versions.add(&added, &homes, pool) {
        true => Ok(rows),
        false => Ok(filter_record_batch(&rows, &not(&at_home)?)?),
    }
}

/// The ranges of the files of a table, in one column.
struct Homes<'a> {
    bounds: &'a ColumnBounds,
    /// Files in the order of their lowest keys.
    order: Vec<usize>,
    /// The files that take new rows.
    open: &'a BTreeSet<u32>,
}

impl<'a> Homes<'a> {
    /// `None`: keys of `column_type` cannot be compared with `bounds`.
    fn new(bounds: &'a ColumnBounds, open: &'a BTreeSet<u32>, key: &ArrayRef) -> Option<Self> {
        if bounds.min.data_type() != key.data_type() || bounds.max.data_type() != key.data_type() {
            return None;
        }
        let compare = make_comparator(&bounds.min, &bounds.min, SortOptions::default()).ok()?;
        let known = |file: &usize| bounds.min.is_valid(*file) && bounds.max.is_valid(*file);
        let mut order: Vec<usize> = (0..bounds.min.len()).filter(known).collect();
        order.sort_by(|a, b| compare(*a, *b));
        Some(Self { bounds, order, open })
    }

    /// The open file that each row with such a key belongs to.
    fn of(&self, keys: &ArrayRef) -> Result<Vec<Option<u32>>> {
        let min = make_comparator(keys, &self.bounds.min, SortOptions::default())?;
        let max = make_comparator(keys, &self.bounds.max, SortOptions::default())?;
        let home = |row: usize| keys.is_valid(row).then(|| self.home(row, &min, &max)).flatten();
        Ok((0..keys.len()).map(home).collect())
    }

    /// The last file that begins before the key, unless the key is beyond all files: those keys are a range of their own.
    fn home(&self, row: usize, min: &DynComparator, max: &DynComparator) -> Option<u32> {
        let after = self.order.partition_point(|file| min(row, *file) != Ordering::Less);
        let file = *self.order.get(after.checked_sub(1)?)?;
        let within = after < self.order.len() || max(row, file) != Ordering::Greater;
        let file = u32::try_from(file).ok()?;
        (within && self.open.contains(&file)).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn rows_belong_between_the_keys_around_them() {
        let bounds = ColumnBounds {
            min: Arc::new(Int64Array::from(vec![Some(50), Some(10), None, Some(30)])),
            max: Arc::new(Int64Array::from(vec![Some(59), Some(19), Some(90), Some(39)])),
            nulls: UInt64Array::from(vec![0; 4]),
        };
        let open = BTreeSet::from([0, 1]);
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(5),
            Some(10),
            Some(25),
            Some(35),
            Some(45),
            Some(59),
            Some(60),
            None,
        ]));
        let homes = Homes::new(&bounds, &open, &keys).unwrap();
        let found = homes.of(&keys).unwrap();
        assert_eq!(found, [None, Some(1), Some(1), None, None, Some(0), None, None]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(Homes::new(&bounds, &open, &texts).is_none());
    }
}
