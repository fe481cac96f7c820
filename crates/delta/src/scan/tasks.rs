//! File tasks as rows of a plan: so that they can be dealt to partitions, and travel.

use std::collections::BTreeSet;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{Field, Int64Type, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use deltalake::kernel::DeletionVectorDescriptor;

use crate::scan::ScanDesc;
use crate::table::FileTask;
use crate::table::files::Files;
use crate::table::stats::{ColumnBounds, FileStats};

/// What a scan reads of one file.
#[derive(Debug, Clone)]
pub(crate) struct ScanTask {
    pub(super) ordinal: u32,
    pub(super) path: String,
    pub(super) size: u64,
    /// Read only the row groups that begin in these bytes.
    pub(super) range: Option<(i64, i64)>,
    /// Read only these rows.
    pub(super) rows: Option<RowSelection>,
    pub(super) modification_time: i64,
    pub(super) partition_values: Vec<ScalarValue>,
    pub(super) deletion_vector: Option<DeletionVectorDescriptor>,
}

impl From<&FileTask> for ScanTask {
    fn from(task: &FileTask) -> Self {
        Self {
            ordinal: task.ordinal,
            path: task.path.clone(),
            size: task.size,
            range: None,
            rows: None,
            modification_time: task.modification_time,
            partition_values: task.partition_values.clone(),
            deletion_vector: task.deletion_vector.clone(),
        }
    }
}

impl ScanTask {
    /// Certain rows of a file, whether its deletion vector has them or not.
    pub(crate) fn of_rows(task: &FileTask, rows: RowSelection) -> Self {
        Self {
            rows: Some(rows),
            deletion_vector: None,
            ..Self::from(task)
        }
    }

    /// The row group of a file that begins at byte `start`.
    pub(crate) fn of_row_group(task: &FileTask, start: i64) -> Self {
        Self {
            range: Some((start, start.saturating_add(1))),
            ..Self::from(task)
        }
    }
}

/// A file, or the part of a large one, that one partition reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) ordinal: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// `pieces` as one batch, with the bounds of the table columns in `columns`.
pub(super) fn encode(
    desc: &ScanDesc,
    files: &Files,
    pieces: &[Piece],
    columns: &BTreeSet<usize>,
) -> Result<RecordBatch> {
    let tasks = pieces
        .iter()
        .map(|p| usize::try_from(p.ordinal).ok().and_then(|i| files.tasks.get(i)));
    let tasks = tasks
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| LoadError::internal("a file task is missing"))?;
    let vectors = tasks
        .iter()
        .map(|t| t.deletion_vector.as_ref().map(serde_json::to_string).transpose());
    let vectors = vectors
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| LoadError::internal(e.to_string()))?;
    let ordinals: UInt32Array = pieces.iter().map(|p| Some(p.ordinal)).collect();
    let stats = files.stats.take(&ordinals)?;
    let bytes = |byte: u64| i64::try_from(byte).ok();
    let mut out = Columns::default();
    out.push("ordinal", Arc::new(ordinals));
    out.push(
        "path",
        Arc::new(tasks.iter().map(|t| Some(t.path.as_str())).collect::<StringArray>()),
    );
    out.push(
        "size",
        Arc::new(tasks.iter().map(|t| Some(t.size)).collect::<UInt64Array>()),
    );
    out.push(
        "start",
        Arc::new(pieces.iter().map(|p| bytes(p.start)).collect::<Int64Array>()),
    );
    out.push(
        "end",
        Arc::new(pieces.iter().map(|p| bytes(p.end)).collect::<Int64Array>()),
    );
    out.push(
        "modified",
        Arc::new(tasks.iter().map(|t| Some(t.modification_time)).collect::<Int64Array>()),
    );
    out.push("vector", Arc::new(vectors.into_iter().collect::<StringArray>()));
    out.push("rows", Arc::new(stats.records().clone()));
    for (part, name) in desc.partition_columns.iter().enumerate() {
        let values = tasks.iter().filter_map(|t| t.partition_values.get(part).cloned());
        let array = match tasks.is_empty() {
            true => datafusion::arrow::array::new_empty_array(desc.schema.field_with_name(name)?.data_type()),
            false => ScalarValue::iter_to_array(values)?,
        };
        out.push(&format!("part_{part}"), array);
    }
    for index in columns {
        if let Some(bounds) = stats.column(*index) {
            out.push(&format!("min_{index}"), Arc::clone(&bounds.min));
            out.push(&format!("max_{index}"), Arc::clone(&bounds.max));
            out.push(&format!("nulls_{index}"), Arc::new(bounds.nulls.clone()));
        }
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(out.fields)), out.arrays)?)
}

#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(&mut self, name: &str, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
    }
}

/// The tasks of `batch`.
pub(super) fn decode(desc: &ScanDesc, batch: &RecordBatch) -> Result<Vec<ScanTask>> {
    let ordinals = column(batch, "ordinal")?.as_primitive::<UInt32Type>();
    let paths = column(batch, "path")?.as_string::<i32>();
    let sizes = column(batch, "size")?.as_primitive::<UInt64Type>();
    let starts = column(batch, "start")?.as_primitive::<Int64Type>();
    let ends = column(batch, "end")?.as_primitive::<Int64Type>();
    let modified = column(batch, "modified")?.as_primitive::<Int64Type>();
    let vectors = column(batch, "vector")?.as_string::<i32>();
    let parts = (0..desc.partition_columns.len()).map(|part| column(batch, &format!("part_{part}")));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let mut tasks = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let vector = vectors
            .is_valid(row)
            .then(|| serde_json::from_str(vectors.value(row)))
            .transpose();
        let values = parts.iter().map(|array| ScalarValue::try_from_array(array, row));
        tasks.push(ScanTask {
            ordinal: ordinals.value(row),
            path: paths.value(row).to_owned(),
            size: sizes.value(row),
            range: match (starts.value(row), ends.value(row)) {
                (0, end) if u64::try_from(end) == Ok(sizes.value(row)) => None,
                range => Some(range),
            },
            rows: None,
            modification_time: modified.value(row),
            partition_values: values.collect::<Result<_, _>>()?,
            deletion_vector: vector.map_err(|e| LoadError::internal(e.to_string()))?,
        });
    }
    Ok(tasks)
}

/// The bounds of the tasks of `batch`.
pub(super) fn decode_stats(schema: &SchemaRef, batch: &RecordBatch) -> Result<FileStats> {
    let named = |name: String| batch.column_by_name(&name);
    let columns = (0..schema.fields().len()).map(|index| {
        Some(ColumnBounds {
            min: Arc::clone(named(format!("min_{index}"))?),
            max: Arc::clone(named(format!("max_{index}"))?),
            nulls: named(format!("nulls_{index}"))?
                .as_primitive_opt::<UInt64Type>()?
                .clone(),
        })
    });
    let records = column(batch, "rows")?.as_primitive::<UInt64Type>().clone();
    Ok(FileStats::new(Arc::clone(schema), records, columns.collect()))
}

pub(super) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch
        .column_by_name(name)
        .ok_or_else(|| LoadError::internal(format!("file tasks without column {name}")))
}

/// How many of the `dropped` rows of `batch` are files: a file that is read in pieces counts once.
pub(super) fn files_begun(batch: &RecordBatch, dropped: &[bool]) -> Result<usize> {
    let starts = column(batch, "start")?.as_primitive::<Int64Type>();
    Ok(starts
        .iter()
        .zip(dropped)
        .filter(|(start, dropped)| **dropped && *start == Some(0))
        .count())
}

/// Smaller pieces are not worth a stream of their own.
const MIN_PIECE: u64 = 8 * 1024 * 1024;

/// Deals files (ordinal and size) to at most `partitions` partitions of about the same number of bytes, and takes
/// those apart that are larger than a partition's share. Large pieces go first, each to the partition with the least;
/// within a partition they are in the order of the table. Neighbours are likely to hold neighbouring keys, so a load
/// of one range of keys keeps all partitions busy.
pub(super) fn deal(files: &[(u32, u64)], partitions: usize) -> Vec<Vec<Piece>> {
    let total = files.iter().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
    let share = total
        .div_ceil(u64::try_from(partitions.max(1)).unwrap_or(u64::MAX))
        .max(MIN_PIECE);
    let mut pieces: Vec<Piece> = files
        .iter()
        .flat_map(|(ordinal, size)| cut(*ordinal, *size, share))
        .collect();
    pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.end - piece.start), *piece));
    let mut dealt = vec![(0_u64, Vec::new()); partitions.clamp(1, pieces.len().max(1))];
    for piece in pieces {
        if let Some((load, hand)) = dealt.iter_mut().min_by_key(|(load, hand)| (*load, hand.len())) {
            *load = load.saturating_add(piece.end - piece.start);
            hand.push(piece);
        }
    }
    let ordered = dealt.into_iter().map(|(_, mut hand)| {
        hand.sort_unstable();
        hand
    });
    ordered.collect()
}

/// Cuts a file into equal pieces of at most `share` bytes.
fn cut(ordinal: u32, size: u64, share: u64) -> Vec<Piece> {
    let length = size.div_ceil(size.div_ceil(share).max(1)).max(1);
    let starts = std::iter::successors(Some(0), |start| Some(start + length).filter(|start| *start < size));
    starts
        .map(|start| Piece {
            ordinal,
            start,
            end: size.min(start + length),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordinals(dealt: Vec<Vec<Piece>>) -> Vec<Vec<u32>> {
        dealt
            .into_iter()
            .map(|hand| hand.into_iter().map(|piece| piece.ordinal).collect())
            .collect()
    }

    #[test]
    fn files_are_dealt_by_size_and_kept_in_order() {
        let files = [(0, 10), (1, 10), (2, 30), (3, 10), (4, 10)];
        assert_eq!(ordinals(deal(&files, 2)), [vec![2, 4], vec![0, 1, 3]]);
        assert_eq!(deal(&files, 10).len(), 5);
        assert_eq!(deal(&[], 4), [Vec::<Piece>::new()]);
        assert_eq!(ordinals(deal(&[(0, 0)], 4)), [vec![0]]);
    }

    #[test]
    fn large_files_are_taken_apart() {
        let size = 3 * MIN_PIECE + 1;
        let dealt = deal(&[(0, size), (1, 5)], 2);
        let half = size.div_ceil(2);
        assert_eq!(
            dealt[0],
            [Piece {
                ordinal: 0,
                start: 0,
                end: half
            }]
        );
        let rest = Piece {
            ordinal: 0,
            start: half,
            end: size,
        };
        assert_eq!(
            dealt[1],
            [
                rest,
                Piece {
                    ordinal: 1,
                    start: 0,
                    end: 5
                }
            ]
        );
    }
}
