//! Many pairs at a time. Rows of a large source are far apart in memory, and every one that is touched alone costs
//! as much as copying a hundred in a row; so matches wait, and the source is gone through in its order for all of them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{BatchCoalescer, interleave, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::Keep;
use super::build::Built;
use super::table::index;

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
    let gathered = Gathered::new(source, sources, width)?;
    let mut start = 0;
    let mut pairs = Vec::with_capacity(stored.len());
    for stored in stored {
        let mut columns = gathered.columns(start, stored.num_rows())?;
        columns.extend_from_slice(stored.columns());
        start += stored.num_rows();
        pairs.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
    }
    Ok(pairs)
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

/// The source's rows of a block, gathered in the source's order.
struct Gathered {
    columns: Vec<ArrayRef>,
    /// Where in them each row of the block is.
    places: UInt32Array,
}

impl Gathered {
    fn new(source: &Built, rows: &[u32], width: usize) -> Result<Self> {
        let mut sorted: Vec<(u32, u32)> = (0..).zip(rows).map(|(at, row)| (*row, at)).collect();
        sorted.sort_unstable();
        let from: Vec<(usize, usize)> = sorted.iter().map(|(row, _)| source.place(*row)).collect();
        let mut places = vec![0; rows.len()];
        for (place, (_, at)) in (0..).zip(&sorted) {
            if let Some(slot) = places.get_mut(index(*at)) {
                *slot = place;
            }
        }
        let gather = |column: usize| {
            let parts: Vec<&dyn Array> = source.batches.iter().map(|b| b.column(column).as_ref()).collect();
            interleave(&parts, &from)
        };
        Ok(Self {
            columns: (0..width).map(gather).collect::<std::result::Result<_, _>>()?,
            places: UInt32Array::from(places),
        })
    }

    /// `count` rows of the block in its own order.
    fn columns(&self, start: usize, count: usize) -> Result<Vec<ArrayRef>> {
        let places = self.places.slice(start, count);
        let taken = self.columns.iter().map(|column| take(column, &places, None));
        Ok(taken.collect::<std::result::Result<_, _>>()?)
    }
}
