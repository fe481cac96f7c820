//! Values of stored rows by position.

use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::execution::TaskContext;
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use futures::TryStreamExt;
use object_store::ObjectStore;

use crate::scan::{Reader, ScanDesc, ScanTask};
use crate::table::{FileTask, TableSnapshot, footer_rows};

/// Reads columns of a table, one at a time.
pub(super) struct StoredColumns {
    files: Arc<Vec<FileTask>>,
    readers: Vec<Reader>,
    store: Arc<dyn ObjectStore>,
    table: String,
    context: Arc<TaskContext>,
}

impl StoredColumns {
    /// Reads the columns of these names.
    pub(super) async fn open(snapshot: &TableSnapshot, names: &[String], context: &Arc<TaskContext>) -> Result<Self> {
        let desc = Arc::new(ScanDesc::of(snapshot));
        let reader = |name: &String| Reader::try_new(Arc::clone(&desc), &[desc.schema.index_of(name)?]);
        Ok(Self {
            files: snapshot.files().await?,
            readers: names.iter().map(reader).collect::<Result<_>>()?,
            store: snapshot.log_store().object_store(None),
            table: snapshot.name(),
            context: Arc::clone(context),
        })
    }

    /// The values of column `column` at `positions` of a file; they ascend, and one may occur several times.
    pub(super) async fn read(&self, column: usize, file: u32, positions: &[u64]) -> Result<ArrayRef> {
        let task = usize::try_from(file).ok().and_then(|index| self.files.get(index));
        let task = task.ok_or_else(|| LoadError::internal(format!("there is no file {file}")))?;
        let reader = self.readers.get(column);
        let reader = reader.ok_or_else(|| LoadError::internal("a compared column has no reader"))?;
        let (distinct, places) = distinct(positions);
        let rows = match task.num_records {
            Some(total) => selection(total, &distinct)?,
            None => selection(footer_rows(self.store.as_ref(), &self.table, task).await?, &distinct)?,
        };
        let stream = reader.stream(vec![ScanTask::of_rows(task, rows)], Vec::new(), false, 0, &self.context);
        let batches: Vec<_> = stream.try_collect().await?;
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
        let values = concat(&parts)?;
        if values.len() != distinct.len() {
            return Err(LoadError::internal(format!(
                "{} rows of a file were asked for and {} read",
                distinct.len(),
                values.len()
            )));
        }
        match places {
            None => Ok(values),
            Some(places) => Ok(datafusion::arrow::compute::take(&values, &places, None)?),
        }
    }
}

/// Positions without repetition, and which of them each was, where that is not plain.
fn distinct(positions: &[u64]) -> (Vec<u64>, Option<datafusion::arrow::array::UInt64Array>) {
    let mut distinct = positions.to_vec();
    distinct.dedup();
    if distinct.len() == positions.len() {
        return (distinct, None);
    }
    let mut place = 0_u64;
    let mut last = positions.first().copied();
    let places = positions.iter().map(|position| {
        place += u64::from(last != Some(*position));
        last = Some(*position);
        place
    });
    let places = places.collect::<Vec<_>>().into();
    (distinct, Some(places))
}

/// The rows at `positions` of a file of `total` rows.
fn selection(total: u64, positions: &[u64]) -> Result<RowSelection> {
    let index = |position: u64| usize::try_from(position).map_err(|_| LoadError::internal("a file of 2^64 rows"));
    let total = index(total)?;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for position in positions {
        let position = index(*position)?;
        match ranges.last_mut() {
            Some(range) if range.end == position => range.end += 1,
            _ => ranges.push(position..position + 1),
        }
    }
    if ranges.last().is_some_and(|range| range.end > total) {
        return Err(LoadError::internal("a matched row lies beyond the end of its file"));
    }
    Ok(RowSelection::from_consecutive_ranges(ranges.into_iter(), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_positions_are_read_once() {
        let (positions, places) = distinct(&[3, 3, 5, 9, 9]);
        assert_eq!(positions, [3, 5, 9]);
        assert_eq!(places.unwrap().values(), &[0, 0, 1, 2, 2]);
        assert!(distinct(&[1, 2]).1.is_none());
    }
}
