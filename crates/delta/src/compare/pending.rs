//! Rows that wait for their comparison.

use alluvium_core::{LoadError, Result};
use alluvium_exec::columns;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef, UInt32Type};

use super::{WANTED, new_value};

/// A stored row and the row that is compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) file: u32,
    pub(super) position: u64,
    pub(super) batch: usize,
    pub(super) row: usize,
}

/// Where the columns of the input are.
#[derive(Debug, Clone)]
pub(super) struct Places {
    wanted: usize,
    file: usize,
    row: usize,
    pub(super) new: Vec<usize>,
}

impl Places {
    pub(super) fn find(schema: &SchemaRef, compared: usize) -> Result<Self> {
        let place = |name: &str| schema.index_of(name).map_err(LoadError::from);
        Ok(Self {
            wanted: place(WANTED)?,
            file: place(columns::FILE)?,
            row: place(columns::ROW)?,
            new: (0..compared).map(|i| place(&new_value(i))).collect::<Result<_>>()?,
        })
    }
}

/// Batches in their order, and which of their rows are to be compared.
#[derive(Debug, Default)]
pub(super) struct Pending {
    batches: Vec<RecordBatch>,
    spots: Vec<Spot>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether nothing that waits needs a comparison.
    pub(super) fn is_decided(&self) -> bool {
        self.spots.is_empty()
    }

    pub(super) fn push(&mut self, batch: RecordBatch, places: &Places) -> Result<()> {
        let wrong = || LoadError::internal("the columns of a comparison have wrong types");
        let wanted = batch.column(places.wanted).as_boolean_opt().ok_or_else(wrong)?;
        let files = batch.column(places.file);
        let files = files.as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
        let rows = batch.column(places.row);
        let rows = rows.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
        let at = self.batches.len();
        for row in 0..batch.num_rows() {
            if wanted.is_valid(row) && wanted.value(row) && files.is_valid(row) {
                let position = u64::try_from(rows.value(row)).map_err(|_| wrong())?;
                self.spots.push(Spot {
                    file: files.value(row),
                    position,
                    batch: at,
                    row,
                });
            }
        }
        self.batches.push(batch);
        Ok(())
    }

    /// The rows to be compared, those of a file together and in its order.
    pub(super) fn take_spots(&mut self) -> Vec<Spot> {
        let mut spots = std::mem::take(&mut self.spots);
        spots.sort_unstable();
        spots
    }

    /// The values of input column `place` in the rows of `spots`.
    pub(super) fn values(&self, place: usize, spots: &[Spot]) -> Result<ArrayRef> {
        let columns: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(place).as_ref()).collect();
        let indices: Vec<(usize, usize)> = spots.iter().map(|spot| (spot.batch, spot.row)).collect();
        Ok(interleave(&columns, &indices)?)
    }

    /// Lets the batches go; all rows differ but those of `equal`.
    pub(super) fn finish(&mut self, equal: &[Spot], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        let batches = std::mem::take(&mut self.batches);
        let mut differs: Vec<Vec<bool>> = batches.iter().map(|batch| vec![true; batch.num_rows()]).collect();
        for spot in equal {
            let row = differs.get_mut(spot.batch).and_then(|rows| rows.get_mut(spot.row));
            *row.ok_or_else(|| LoadError::internal("a compared row is gone"))? = false;
        }
        let with_answer = |(batch, differs): (RecordBatch, Vec<bool>)| {
            let answer: ArrayRef = std::sync::Arc::new(BooleanArray::from(differs));
            let columns = batch.columns().iter().cloned().chain([answer]).collect();
            Ok(RecordBatch::try_new(SchemaRef::clone(schema), columns)?)
        };
        batches.into_iter().zip(differs).map(with_answer).collect()
    }
}
