//! Many pairs at a time. Rows of a large source are far apart in memory, and every one that is touched alone costs
//! as much as copying a hundred in a row; so matches wait, and the source is gone through in its order for all of them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::Keep;
use super::build::Built;
use super::gather::own_rows;

/// Rows of a block of a large source.
const MOST_ROWS: usize = 128 * 1024;
/// Bytes of a block of a large source.
const MOST_BYTES: usize = 32 << 20;
/// A source of so many bytes is large.
const LARGE: usize = 64 << 20;

/// Pairs of one partition.
pub(super) struct Block {
    /// So many rows are worked off together.
    size: usize,
    rows: usize,
    sources: Vec<u32>,
    stored: Vec<RecordBatch>,
    _held: MemoryReservation,
}

impl Block {
    /// Blocks of `batch_size` rows, or larger ones where there are pairs, the source is large and memory allows it.
    pub(super) fn of(source: &Built, keep: Keep, batch_size: usize, pool: &Arc<dyn MemoryPool>) -> Self {
        let held = MemoryConsumer::new("MatchExec block").register(pool);
        let width = source.bytes() / source.rows().max(1) + 1;
        let size = (MOST_BYTES / width).min(MOST_ROWS);
        // The rows as they wait, and as they leave.
        let large = keep == Keep::Pairs && source.bytes() > LARGE && size > batch_size;
        let large = large && held.try_grow(2 * size * width).is_ok();
        Self {
            size: if large { size } else { batch_size },
            rows: 0,
            sources: Vec::new(),
            stored: Vec::new(),
            _held: held,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.size
    }

    pub(super) fn push(&mut self, sources: &[u32], stored: RecordBatch) {
        self.rows += sources.len();
        self.sources.extend_from_slice(sources);
        self.stored.push(stored);
    }

    /// The pairs that have waited.
    pub(super) fn work_off(
        &mut self,
        source: &Built,
        schema: &SchemaRef,
        batch_size: usize,
    ) -> Result<Vec<RecordBatch>> {
        self.rows = 0;
        let (sources, stored) = (std::mem::take(&mut self.sources), std::mem::take(&mut self.stored));
        match sources.is_empty() {
            true => Ok(Vec::new()),
            false => pairs(source, &sources, stored, schema, batch_size),
        }
    }
}

/// Source rows beside their stored rows, in the order of the stored rows, as batches of their own memory.
fn pairs(
    source: &Built,
    sources: &[u32],
    stored: Vec<RecordBatch>,
    schema: &SchemaRef,
    batch_size: usize,
) -> Result<Vec<RecordBatch>> {
    let stored = of_size(stored, batch_size)?;
    let width = schema.fields().len() - stored.first().map_or(0, RecordBatch::num_columns);
    let gather = source.gather(sources);
    let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(schema.fields().len()); stored.len()];
    for column in 0..width {
        let gathered = gather.column(column)?;
        let mut start = 0;
        for (columns, stored) in columns.iter_mut().zip(&stored) {
            columns.push(own_rows(&gathered, start, stored.num_rows())?);
            start += stored.num_rows();
        }
    }
    let pair = |(mut columns, stored): (Vec<ArrayRef>, RecordBatch)| {
        columns.extend_from_slice(stored.columns());
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    };
    columns.into_iter().zip(stored).map(pair).collect()
}

fn of_size(batches: Vec<RecordBatch>, batch_size: usize) -> Result<Vec<RecordBatch>> {
    let Some(schema) = batches.first().map(RecordBatch::schema) else {
        return Ok(Vec::new());
    };
    let mut coalescer = BatchCoalescer::new(schema, batch_size);
    for batch in batches {
        coalescer.push_batch(batch)?;
    }
    coalescer.finish_buffered_batch()?;
    Ok(std::iter::from_fn(|| coalescer.next_completed_batch()).collect())
}
