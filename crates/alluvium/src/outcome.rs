//! What a statement left behind.

use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

/// The result of one statement.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The columns of the result.
    pub schema: SchemaRef,
    /// The rows of the result.
    pub batches: Vec<RecordBatch>,
    /// Whether rows are what the statement is for: queries, loads and `INSERT`, but not DDL or `SET`.
    pub returns_rows: bool,
    /// Wall-clock time from text to last row.
    pub elapsed: Duration,
}

impl Outcome {
    /// Number of rows in the result.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}
