//! The columns that the history and the wide table have beside the eleven.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};

use crate::Result;
use crate::rows::{REGIONS, Row, below, mix, moments, rows, words};
use crate::source::version_in_history;
use crate::workload::Base;

/// Columns of the wide table, the eleven included.
const WIDE: usize = 200;

/// The rows of a source for a table of this kind with `total` keys.
///
/// # Errors
///
/// None in practice: the columns have equal lengths.
pub fn of_source(base: Base, source: &[Row], total: u64) -> Result<RecordBatch> {
    let batch = rows(source, total)?;
    match base {
        Base::Given | Base::Sorted | Base::ByDay => Ok(batch),
        Base::History => with_columns(&batch, vec![("row_hash".to_owned(), row_hash(source))]),
        Base::Wide => {
            let more = wide(source, WIDE - batch.num_columns());
            with_columns(&batch, more)
        }
    }
}

/// The rows of such a table itself. A history has the times between which each of them is valid.
///
/// # Errors
///
/// None in practice: the columns have equal lengths.
pub fn of_table(base: Base, stored: &[Row], total: u64) -> Result<RecordBatch> {
    let batch = of_source(base, stored, total)?;
    if base != Base::History {
        return Ok(batch);
    }
    let is_current = |row: &Row| row.version == version_in_history(row.id);
    let successor = |row: &Row| Row {
        version: row.version + 1,
        ..*row
    };
    let from = stored.iter().map(|row| Some(row.moment(total)));
    let to = stored
        .iter()
        .map(|row| (!is_current(row)).then(|| successor(row).moment(total)));
    let current: BooleanArray = stored.iter().map(|row| Some(is_current(row))).collect();
    let validity: [(&str, ArrayRef); 3] = [
        ("valid_from", Arc::new(moments(from))),
        ("valid_to", Arc::new(moments(to))),
        ("is_current", Arc::new(current)),
    ];
    with_columns(&batch, validity.map(|(name, column)| (name.to_owned(), column)).into())
}

fn row_hash(source: &[Row]) -> ArrayRef {
    let hash = |row: &Row| {
        let (_, content) = row.hashes();
        i64::from_ne_bytes(mix(!content).to_ne_bytes())
    };
    Arc::new(Int64Array::from_iter_values(source.iter().map(hash)))
}

/// `count` columns of four kinds.
fn wide(source: &[Row], count: usize) -> Vec<(String, ArrayRef)> {
    let mut hashes: Vec<u64> = source.iter().map(|row| mix(row.hashes().1)).collect();
    let mut column = |number: usize| {
        hashes.iter_mut().for_each(|hash| *hash = mix(*hash));
        let each = hashes.iter().copied();
        let values: ArrayRef = match number % 4 {
            0 => Arc::new(Float64Array::from_iter_values(
                each.map(|h| f64::from(below(h, 1_000)) / 8.0),
            )),
            1 => Arc::new(Int64Array::from_iter_values(each.map(|h| i64::from(below(h, 100_000))))),
            2 => Arc::new(words(each, &REGIONS)),
            _ => Arc::new(Int32Array::from_iter(each.map(|h| {
                let value = i32::try_from(below(h, 50)).ok();
                value.filter(|_| (h >> 9) % 4 != 0)
            }))),
        };
        (format!("c{number:03}"), values)
    };
    (0..count).map(&mut column).collect()
}

fn with_columns(batch: &RecordBatch, more: Vec<(String, ArrayRef)>) -> Result<RecordBatch> {
    let schema = batch.schema();
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    for (name, column) in more {
        fields.push(Arc::new(Field::new(name, column.data_type().clone(), true)));
        columns.push(column);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
