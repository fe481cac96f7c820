//! Files that a range covers: all their rows pass, so that their positions are known without reading them.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::columns;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::scan::tasks::column;
use crate::table::stats::FileStats;

/// A file whose rows are all wanted.
#[derive(Debug, Clone)]
pub(super) struct Covered {
    ordinal: u32,
    rows: i64,
    /// A value of the range's column that the range holds; every row comes with it.
    value: ScalarValue,
}

/// What the rows of a scan are, whose filters are a range of one column.
pub(super) struct Range<'a> {
    /// The name of the column.
    pub(super) name: &'a str,
    /// Its index in the table.
    pub(super) index: usize,
    /// The range, over the scan's columns.
    pub(super) condition: Arc<dyn PhysicalExpr>,
    /// The scan's columns.
    pub(super) output: &'a SchemaRef,
}

impl Range<'_> {
    /// The files of the tasks in `batch` that the range covers, and which tasks those are. Only files are looked at that
    /// are read whole and have lost no rows, and only if nothing is asked for but the range's column and positions.
    pub(super) fn covered(&self, batch: &RecordBatch, stats: &FileStats) -> Result<(Vec<Covered>, BooleanArray)> {
        let none = || BooleanArray::from(vec![false; batch.num_rows()]);
        let known = |name: &String| name == self.name || name == columns::FILE || name == columns::ROW;
        let bounds = stats.column(self.index);
        let Some(bounds) = bounds.filter(|_| self.output.fields().iter().all(|f| known(f.name()))) else {
            return Ok((Vec::new(), none()));
        };
        let (low, high) = (self.passes(&bounds.min)?, self.passes(&bounds.max)?);
        let records = column(batch, "rows")?.as_primitive::<UInt64Type>();
        let ordinals = column(batch, "ordinal")?.as_primitive::<UInt32Type>();
        let whole = whole(batch)?;
        let mut files = Vec::new();
        let mut covered = Vec::with_capacity(batch.num_rows());
        for (row, whole) in whole.into_iter().enumerate() {
            let without_nulls = bounds.nulls.is_valid(row) && bounds.nulls.value(row) == 0;
            let rows = records
                .is_valid(row)
                .then(|| i64::try_from(records.value(row)).ok())
                .flatten();
            let inside = whole && without_nulls && low.value(row) && high.value(row);
            covered.push(inside && rows.is_some());
            if let Some(rows) = rows.filter(|_| inside) {
                files.push(Covered {
                    ordinal: ordinals.value(row),
                    rows,
                    value: ScalarValue::try_from_array(&bounds.min, row)?,
                });
            }
        }
        Ok((files, BooleanArray::from(covered)))
    }

    /// Which of `values` are in the range: a bound that is not known is not.
    fn passes(&self, values: &ArrayRef) -> Result<BooleanArray> {
        let fields = self.output.fields().iter();
        let nullable = fields.clone().map(|f| f.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(nullable.collect::<Vec<Field>>()));
        let columns = fields.map(|field| match field.name() == self.name {
            true => Arc::clone(values),
            false => new_null_array(field.data_type(), values.len()),
        });
        let rows = RecordBatch::try_new(schema, columns.collect())?;
        let passes = self.condition.evaluate(&rows)?.into_array(rows.num_rows())?;
        let passes = passes
            .as_boolean_opt()
            .ok_or_else(|| LoadError::internal("a range is no condition"))?;
        Ok(passes.iter().map(|passes| Some(passes == Some(true))).collect())
    }
}

/// Which tasks are files that are read whole and have no deletion vector.
fn whole(batch: &RecordBatch) -> Result<Vec<bool>> {
    let starts = column(batch, "start")?.as_primitive::<Int64Type>();
    let ends = column(batch, "end")?.as_primitive::<Int64Type>();
    let sizes = column(batch, "size")?.as_primitive::<UInt64Type>();
    let vectors = column(batch, "vector")?;
    let whole = |row| {
        let all = u64::try_from(ends.value(row)) == Ok(sizes.value(row));
        starts.value(row) == 0 && all && vectors.is_null(row)
    };
    Ok((0..batch.num_rows()).map(whole).collect())
}

impl Covered {
    /// The rows of the file, in batches of `size` rows.
    pub(super) fn batches(self, output: SchemaRef, size: usize) -> impl Iterator<Item = Result<RecordBatch>> {
        let size = i64::try_from(size.max(1)).unwrap_or(i64::MAX);
        let starts = std::iter::successors(Some(0_i64), move |start| start.checked_add(size));
        let rows = self.rows;
        starts
            .take_while(move |start| *start < rows)
            .map(move |start| self.rows(&output, start, rows.min(start.saturating_add(size))))
    }

    fn rows(&self, output: &SchemaRef, from: i64, to: i64) -> Result<RecordBatch> {
        let count = usize::try_from(to - from).unwrap_or(0);
        let column = |field: &Arc<Field>| -> Result<ArrayRef> {
            match (field.name().as_str(), field.data_type()) {
                (columns::FILE, DataType::UInt32) => Ok(Arc::new(UInt32Array::from(vec![self.ordinal; count]))),
                (columns::ROW, DataType::Int64) => Ok(Arc::new(Int64Array::from_iter_values(from..to))),
                _ => Ok(self.value.to_array_of_size(count)?),
            }
        };
        let columns = output.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(output), columns)?)
    }
}
