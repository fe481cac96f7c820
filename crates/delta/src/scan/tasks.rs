//! File tasks as rows of a plan: so that they can be dealt to partitions, and travel.

use std::collections::BTreeSet;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{Field, Int64Type, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::common::ScalarValue;
use deltalake::kernel::DeletionVectorDescriptor;

use crate::scan::ScanDesc;
use crate::table::FileTask;
use crate::table::files::Files;
use crate::table::stats::{ColumnBounds, FileStats};

/// What a scan reads of one file.
#[derive(Debug, Clone)]
pub(super) struct ScanTask {
    pub(super) ordinal: u32,
    pub(super) path: String,
    pub(super) size: u64,
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
            modification_time: task.modification_time,
            partition_values: task.partition_values.clone(),
            deletion_vector: task.deletion_vector.clone(),
        }
    }
}

/// The tasks at `ordinals` as one batch, with the bounds of the table columns in `columns`.
pub(super) fn encode(
    desc: &ScanDesc,
    files: &Files,
    ordinals: &[u32],
    columns: &BTreeSet<usize>,
) -> Result<RecordBatch> {
    let tasks = ordinals
        .iter()
        .map(|o| usize::try_from(*o).ok().and_then(|i| files.tasks.get(i)));
    let tasks = tasks
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| LoadError::internal("a file task is missing"))?;
    let vectors = tasks
        .iter()
        .map(|t| t.deletion_vector.as_ref().map(serde_json::to_string).transpose());
    let vectors = vectors
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| LoadError::internal(e.to_string()))?;
    let stats = files.stats.take(&UInt32Array::from(ordinals.to_vec()))?;
    let mut out = Columns::default();
    out.push("ordinal", Arc::new(UInt32Array::from(ordinals.to_vec())));
    out.push(
        "path",
        Arc::new(tasks.iter().map(|t| Some(t.path.as_str())).collect::<StringArray>()),
    );
    out.push("size", Arc::new(tasks.iter().map(|t| t.size).collect::<UInt64Array>()));
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

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch
        .column_by_name(name)
        .ok_or_else(|| LoadError::internal(format!("file tasks without column {name}")))
}

/// Deals tasks to at most `partitions` partitions of about the same number of bytes. Large ones go first, each to the
/// partition with the least; within a partition they are in the order of the table. Neighbours are likely to hold
/// neighbouring keys, so a load of one range of keys keeps all partitions busy.
pub(super) fn deal(sizes: &[(u32, u64)], partitions: usize) -> Vec<Vec<u32>> {
    let mut largest = sizes.to_vec();
    largest.sort_by_key(|(ordinal, size)| (std::cmp::Reverse(*size), *ordinal));
    let mut dealt = vec![(0_u64, Vec::new()); partitions.clamp(1, sizes.len().max(1))];
    for (ordinal, size) in largest {
        if let Some((load, tasks)) = dealt.iter_mut().min_by_key(|(load, tasks)| (*load, tasks.len())) {
            *load = load.saturating_add(size);
            tasks.push(ordinal);
        }
    }
    let ordered = dealt.into_iter().map(|(_, mut tasks)| {
        tasks.sort_unstable();
        tasks
    });
    ordered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_dealt_by_size_and_kept_in_order() {
        let sizes = [(0, 10), (1, 10), (2, 30), (3, 10), (4, 10)];
        assert_eq!(deal(&sizes, 2), [vec![2], vec![0, 1, 3, 4]]);
        assert_eq!(deal(&sizes, 10).len(), 5);
        assert_eq!(deal(&[], 4), [Vec::<u32>::new()]);
    }
}
