//! What the log says about the values in the files, as columns: one row per file.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, PrimitiveArray, RecordBatch, StructArray,
    UInt32Array, UInt64Array, new_null_array,
};
use datafusion::arrow::compute::{cast, concat, take};
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, SchemaRef, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ColumnStatistics, Result, ScalarValue, Statistics};

/// Writers may cut timestamps in statistics to milliseconds; the true maximum is less than this much higher.
const CUT_MICROS: i64 = 999;

/// Stands for a number of rows that the log does not tell, where all that matters is that all of them are NULL.
const UNTOLD: u64 = u64::MAX;

/// Bounds and NULL counts of files, one row per file.
#[derive(Debug, Clone)]
pub(crate) struct FileStats {
    schema: SchemaRef,
    records: UInt64Array,
    columns: Vec<Option<ColumnBounds>>,
}

/// One column of [`FileStats`]; a value that is not known is NULL.
#[derive(Debug, Clone)]
pub(crate) struct ColumnBounds {
    /// No value of the file is lower.
    pub(crate) min: ArrayRef,
    /// No value of the file is higher.
    pub(crate) max: ArrayRef,
    /// How many are NULL.
    pub(crate) nulls: UInt64Array,
}

impl FileStats {
    /// Puts columns together that were taken apart for travelling.
    pub(crate) fn new(schema: SchemaRef, records: UInt64Array, columns: Vec<Option<ColumnBounds>>) -> Self {
        Self {
            schema,
            records,
            columns,
        }
    }

    /// From add actions (`num_records`, `min`, `max`, `null_count`) in the order of `partition_values`, whose columns
    /// have the indices `partition_columns` in `schema`.
    pub(crate) fn from_actions(
        schema: SchemaRef,
        actions: &[RecordBatch],
        partition_columns: &[usize],
        partition_values: &[Vec<ScalarValue>],
    ) -> Result<Self> {
        let records = counts(actions, |batch| batch.column_by_name("num_records").cloned())?;
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            columns.push(match partition_columns.iter().position(|p| *p == index) {
                Some(part) => Some(exact(partition_values, part, field.data_type(), &records)?),
                None if field.data_type().is_nested() => None,
                None => bounds(actions, field.name(), field.data_type())?,
            });
        }
        Ok(Self {
            schema,
            records,
            columns,
        })
    }

    /// The rows at `indices`, in that order.
    pub(crate) fn take(&self, indices: &UInt32Array) -> Result<Self> {
        let columns = self
            .columns
            .iter()
            .map(|column| column.as_ref().map(|c| c.take(indices)).transpose());
        Ok(Self {
            schema: Arc::clone(&self.schema),
            records: take(&self.records, indices, None)?.as_primitive().clone(),
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// How many files.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Physical rows per file.
    pub(crate) fn records(&self) -> &UInt64Array {
        &self.records
    }

    /// What is known about column `index`.
    pub(crate) fn column(&self, index: usize) -> Option<&ColumnBounds> {
        self.columns.get(index).and_then(Option::as_ref)
    }

    /// What is known about file `row`, bounds as inexact.
    pub(crate) fn statistics(&self, row: usize) -> Statistics {
        let records = self
            .records
            .is_valid(row)
            .then(|| usize::try_from(self.records.value(row)).ok())
            .flatten();
        let columns = self.columns.iter().map(|column| match column {
            Some(column) => column.statistics(row),
            None => ColumnStatistics::new_unknown(),
        });
        Statistics {
            num_rows: records.map_or(Precision::Absent, Precision::Exact),
            total_byte_size: Precision::Absent,
            column_statistics: columns.collect(),
        }
    }
}

impl ColumnBounds {
    fn take(&self, indices: &UInt32Array) -> Result<Self> {
        Ok(Self {
            min: take(&self.min, indices, None)?,
            max: take(&self.max, indices, None)?,
            nulls: take(&self.nulls, indices, None)?.as_primitive().clone(),
        })
    }

    fn statistics(&self, row: usize) -> ColumnStatistics {
        let bound = |array: &ArrayRef| match ScalarValue::try_from_array(array, row) {
            Ok(value) if !value.is_null() => Precision::Inexact(value),
            _ => Precision::Absent,
        };
        let nulls = self.nulls.is_valid(row).then(|| self.nulls.value(row));
        let nulls = nulls
            .filter(|nulls| *nulls != UNTOLD)
            .and_then(|nulls| usize::try_from(nulls).ok());
        ColumnStatistics {
            null_count: nulls.map_or(Precision::Absent, Precision::Exact),
            min_value: bound(&self.min),
            max_value: bound(&self.max),
            ..ColumnStatistics::new_unknown()
        }
    }
}

/// DataFusion's own implementation for [`Statistics`] leaves out bounds that are not exact values of the file, though
/// pruning needs no more than bounds.
impl PruningStatistics for FileStats {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.schema.index_of(column.name()).ok()?;
        self.column(index).map(|c| Arc::clone(&c.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.schema.index_of(column.name()).ok()?;
        self.column(index).map(|c| Arc::clone(&c.max))
    }

    fn num_containers(&self) -> usize {
        self.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.schema.index_of(column.name()).ok()?;
        let nulls: ArrayRef = Arc::new(self.column(index)?.nulls.clone());
        Some(nulls)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(
            self.records
                .iter()
                .map(|count| count.or(Some(UNTOLD)))
                .collect::<UInt64Array>(),
        ))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// A partition column: every row of a file has the one value.
fn exact(rows: &[Vec<ScalarValue>], part: usize, data_type: &DataType, records: &UInt64Array) -> Result<ColumnBounds> {
    let values = match rows.is_empty() {
        true => new_null_array(data_type, 0),
        false => ScalarValue::iter_to_array(rows.iter().filter_map(|row| row.get(part).cloned()))?,
    };
    let nulls = (0..values.len()).map(|i| match values.is_null(i) {
        true if records.is_valid(i) => Some(records.value(i)),
        true => Some(UNTOLD),
        false => Some(0),
    });
    Ok(ColumnBounds {
        nulls: nulls.collect(),
        min: Arc::clone(&values),
        max: values,
    })
}

fn bounds(actions: &[RecordBatch], name: &str, data_type: &DataType) -> Result<Option<ColumnBounds>> {
    let min = nested(actions, "min", name, data_type)?;
    let max = nested(actions, "max", name, data_type)?;
    let nulls = counts(actions, |batch| field_of(batch, "null_count", name))?;
    if min.null_count() == min.len() && max.null_count() == max.len() && nulls.null_count() == nulls.len() {
        return Ok(None);
    }
    Ok(Some(ColumnBounds {
        min: safe_min(min),
        max: safe_max(max),
        nulls,
    }))
}

/// Column `name` of struct `group` over all batches, NULL where a batch does not have it.
fn nested(actions: &[RecordBatch], group: &str, name: &str, data_type: &DataType) -> Result<ArrayRef> {
    let parts = actions.iter().map(|batch| match field_of(batch, group, name) {
        Some(array) => cast(&array, data_type),
        None => Ok(new_null_array(data_type, batch.num_rows())),
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    match parts.as_slice() {
        [] => Ok(new_null_array(data_type, 0)),
        parts => Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
    }
}

fn field_of(batch: &RecordBatch, group: &str, name: &str) -> Option<ArrayRef> {
    let group: &StructArray = batch.column_by_name(group)?.as_struct_opt()?;
    group.column_by_name(name).cloned()
}

fn counts(actions: &[RecordBatch], column: impl Fn(&RecordBatch) -> Option<ArrayRef>) -> Result<UInt64Array> {
    let mut all = Vec::new();
    for batch in actions {
        // Counts of nested columns are structs; of those we know nothing.
        match column(batch).filter(|array| array.data_type().is_integer()) {
            Some(array) => all.extend(
                cast(&array, &DataType::UInt64)?
                    .as_primitive::<UInt64Type>()
                    .iter()
                    .collect::<Vec<_>>(),
            ),
            None => all.extend(std::iter::repeat_n(None, batch.num_rows())),
        }
    }
    let counts: UInt64Array = all.into_iter().collect();
    Ok(counts)
}

/// Statistics leave NaN out and do not tell the zeros apart, while comparisons order -0 below 0 and NaN above all.
/// So a lowest zero may stand for -0, and there is no upper bound.
fn safe_min(min: ArrayRef) -> ArrayRef {
    match min.data_type() {
        DataType::Float32 => {
            let known = min
                .as_primitive::<Float32Type>()
                .iter()
                .map(|v| v.filter(|v| !v.is_nan()));
            Arc::new(
                known
                    .map(|v| v.map(|v| if v == 0.0 { -0.0 } else { v }))
                    .collect::<Float32Array>(),
            )
        }
        DataType::Float64 => {
            let known = min
                .as_primitive::<Float64Type>()
                .iter()
                .map(|v| v.filter(|v| !v.is_nan()));
            Arc::new(
                known
                    .map(|v| v.map(|v| if v == 0.0 { -0.0 } else { v }))
                    .collect::<Float64Array>(),
            )
        }
        _ => min,
    }
}

fn safe_max(max: ArrayRef) -> ArrayRef {
    match max.data_type() {
        DataType::Float32 | DataType::Float64 => new_null_array(max.data_type(), max.len()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let known: &PrimitiveArray<TimestampMicrosecondType> = max.as_primitive();
            let widened: PrimitiveArray<TimestampMicrosecondType> = known
                .unary_opt(|v| v.checked_add(CUT_MICROS))
                .with_data_type(max.data_type().clone());
            Arc::new(widened)
        }
        _ => max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bounds_of_timestamps_are_widened_and_of_floats_dropped() {
        let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let max: ArrayRef = Arc::new(
            PrimitiveArray::<TimestampMicrosecondType>::from(vec![Some(1_000), None, Some(i64::MAX)])
                .with_data_type(zone.clone()),
        );
        let widened = safe_max(max);
        assert_eq!(widened.data_type(), &zone);
        let widened: &PrimitiveArray<TimestampMicrosecondType> = widened.as_primitive();
        assert_eq!(widened.iter().collect::<Vec<_>>(), [Some(1_999), None, None]);

        let max: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        assert_eq!(safe_max(max).null_count(), 1);
    }

    #[test]
    fn lower_bounds_of_floats_allow_for_negative_zero_and_nan() {
        let min = safe_min(Arc::new(Float64Array::from(vec![0.0, f64::NAN, 2.5])));
        let min: &Float64Array = min.as_primitive();
        assert!(min.value(0).is_sign_negative() && min.is_null(1) && min.value(2) == 2.5);
    }
}
