//! Copy-on-write: a file with marked rows is written again without them, or with their new versions.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::columns;
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use deltalake::kernel::schema::cast_record_batch;
use futures::StreamExt;
use roaring::RoaringTreemap;

use crate::scan::{ScanDesc, rewrite_scan};
use crate::table::FileTask;

use super::super::files::{RollingWriter, WrittenFile, conform};
use super::super::job::LoadJob;
use super::lost_mark;
use super::splice::splice;
use super::versions::FileVersions;

/// Writes the rows of `task` that are not in `marked`, in their order, and the `new` versions of those that are. No file
/// when there are none.
pub(in crate::write) async fn rewrite(
    job: &LoadJob,
    desc: &ScanDesc,
    task: &FileTask,
    marked: &RoaringTreemap,
    new: &FileVersions,
    context: &Arc<TaskContext>,
) -> Result<Vec<WrittenFile>> {
    if !task.removable {
        return Err(LoadError::unsupported(format!(
            "a file of table {:?} has a path that cannot be removed from the log safely",
            job.table()
        ))
        .hint("Another engine wrote the path in an unusual way: run OPTIMIZE there once."));
    }
    if every_row_is_marked(task, marked) && new.len() == 0 {
        return Ok(Vec::new());
    }
    if let Some(spliced) = splice(job, desc, task, marked, new, context).await? {
        return Ok(vec![spliced]);
    }
    let mut held = MemoryConsumer::new("ApplyPositionsExec encoders").register(context.memory_pool());
    let values = task.raw_partition_values.clone();
    // Not in the background: files keep all threads busy, and rows are encoded best by the thread that has decoded them.
    let mut writer = RollingWriter::new(Arc::clone(&job.data), Arc::clone(&job.files), values);
    let mut rest = Survivors::new(marked.clone());
    let mut rows = rewrite_scan(desc, task, context)?;
    while let Some(batch) = rows.next().await {
        if let Some(kept) = rest.of(&batch?)? {
            writer.write(&as_target(&kept, &job.data.schema)?).await?;
            account(&mut writer, &mut held).await?;
        }
    }
    rest.done(job.table())?;
    for rows in [new.rows(&(0..u64::MAX))?, new.added()?].into_iter().flatten() {
        writer.write(&rows).await?;
    }
    writer.close().await
}

fn every_row_is_marked(task: &FileTask, marked: &RoaringTreemap) -> bool {
    let deleted = task
        .deletion_vector
        .as_ref()
        .map_or(0, |dv| u64::try_from(dv.cardinality).unwrap_or(0));
    task.num_records
        .is_some_and(|rows| rows.checked_sub(deleted) == Some(marked.len()))
}

async fn account(writer: &mut RollingWriter, held: &mut MemoryReservation) -> Result<()> {
    if held.try_resize(writer.memory()).is_err() {
        writer.flush().await?;
        held.resize(writer.memory());
    }
    Ok(())
}

/// Takes marked rows out of the batches of a file. Rows come in file order, so marks are looked at once each.
pub(super) struct Survivors {
    marks: std::iter::Peekable<roaring::treemap::IntoIter>,
}

impl Survivors {
    pub(super) fn new(marked: RoaringTreemap) -> Self {
        Self {
            marks: marked.into_iter().peekable(),
        }
    }

    /// The rows of `batch` that stay, without their positions.
    pub(super) fn of(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let (place, _) = batch
            .schema_ref()
            .column_with_name(columns::ROW)
            .ok_or_else(|| LoadError::internal("a rewritten file comes without positions"))?;
        let positions = batch
            .column(place)
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| LoadError::internal("positions have a wrong type"))?;
        let mut table = batch.clone();
        table.remove_column(place);
        let Some(&last) = positions.values().last() else {
            return Ok(None);
        };
        let last = u64::try_from(last).unwrap_or(0);
        if self.marks.peek().is_none_or(|next| *next > last) {
            return Ok(Some(table));
        }
        let mut stays = Vec::with_capacity(batch.num_rows());
        for position in positions.values() {
            let position = u64::try_from(*position).map_err(|_| LoadError::internal("a position is negative"))?;
            match self.marks.peek() {
                Some(next) if *next == position => {
                    self.marks.next();
                    stays.push(false);
                }
                Some(next) if *next < position => return Err(lost_mark()),
                _ => stays.push(true),
            }
        }
        let kept = filter_record_batch(&table, &BooleanArray::from(stays))?;
        Ok((kept.num_rows() > 0).then_some(kept))
    }

    /// Every mark must have met its row.
    pub(super) fn done(mut self, _table: &str) -> Result<()> {
        match self.marks.next() {
            Some(_) => Err(lost_mark()),
            None => Ok(()),
        }
    }
}

/// A stored batch as the table is after the load: columns that schema evolution adds are NULL.
pub(super) fn as_target(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let stored = batch.schema();
    let grown = |(name, wanted): (&str, &DataType)| match stored.field_with_name(name) {
        Ok(field) => wanted.is_nested() && field.data_type() != wanted,
        Err(_) => false,
    };
    if schema.fields().iter().any(|f| grown((f.name(), f.data_type()))) {
        let cast = cast_record_batch(batch, Arc::clone(schema), false, true);
        return cast.map_err(|e| LoadError::internal(format!("a stored row does not fit the new schema: {e}")));
    }
    let columns = schema
        .fields()
        .iter()
        .map(|field| -> ArrayRef {
            match batch.column_by_name(field.name()) {
                Some(column) => Arc::clone(column),
                None => new_null_array(field.data_type(), batch.num_rows()),
            }
        })
        .collect();
    conform(columns, batch.num_rows(), schema)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{Field, Schema};

    use super::*;

    fn rows(positions: &[i64]) -> RecordBatch {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(positions.iter().map(|p| p * 10)));
        let rows: ArrayRef = Arc::new(Int64Array::from(positions.to_vec()));
        RecordBatch::try_from_iter([("id", ids), (columns::ROW, rows)]).unwrap()
    }

    #[test]
    fn marked_rows_go_and_the_order_stays() {
        let marked = RoaringTreemap::from_iter([1_u64, 4, 5]);
        let mut rest = Survivors::new(marked);
        let first = rest.of(&rows(&[0, 1, 3])).unwrap().unwrap();
        assert_eq!(first.column(0).as_primitive::<Int64Type>().values(), &[0, 30]);
        assert!(rest.of(&rows(&[4, 5])).unwrap().is_none());
        assert_eq!(rest.of(&rows(&[6, 7])).unwrap().unwrap().num_rows(), 2);
        rest.done("t").unwrap();
    }

    #[test]
    fn a_mark_without_its_row_is_noticed() {
        let marked = RoaringTreemap::from_iter([2_u64]);
        assert!(Survivors::new(marked.clone()).of(&rows(&[0, 1, 3])).is_err());
        assert!(Survivors::new(marked.clone()).done("t").is_err());
    }

    #[test]
    fn added_columns_are_null_in_stored_rows() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("new", DataType::Utf8, true),
        ]));
        let mut batch = rows(&[1]);
        batch.remove_column(1);
        assert_eq!(as_target(&batch, &schema).unwrap().column(1).null_count(), 1);
    }
}
