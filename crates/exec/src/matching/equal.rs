//! Values that no fingerprint knows, beside those of source rows: lists, structs and maps.

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::common::Result;

use super::build::Built;
use crate::changed::distinct;

/// A stored version, by its row in a batch, and the only source row of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Couple {
    pub(super) stored: usize,
    pub(super) source: u32,
}

/// Keeps the couples whose values in a column of both sides are equal as [`distinct`] sees it.
pub(super) fn retain_equal(
    built: &Built,
    stored: &RecordBatch,
    column: usize,
    couples: &mut Vec<Couple>,
) -> Result<()> {
    let row = |couple: &Couple| u32::try_from(couple.stored).ok();
    let rows: UInt32Array = couples.iter().map(row).collect();
    let old: ArrayRef = take(stored.column(column), &rows, None)?;
    let sources: Vec<u32> = couples.iter().map(|couple| couple.source).collect();
    let new = built.gather(&sources).column(column)?;
    let differs = distinct(&old, &new)?;
    let mut differs = differs.values().iter();
    couples.retain(|_| differs.next() == Some(false));
    Ok(())
}
