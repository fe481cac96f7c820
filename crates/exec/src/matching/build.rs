//! The source, held in memory with a table of its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::gather::Gather;
use super::index::KeyTable;
use super::parts::{KeyParts, too_much};
use super::prints::PRINT;
use super::settle::Compared;
use super::table::index;

/// Fewer rows are not worth several threads.
const WORTH_SHARDS: usize = 32 * 1024;

/// The source of one execution.
pub(super) struct Built {
    /// In the source's order.
    pub(super) batches: Vec<RecordBatch>,
    /// The fingerprints of the rows, where rows are compared.
    prints: Vec<u128>,
    /// The number of the first row of each batch, and at the end that of all rows.
    starts: Vec<usize>,
    pub(super) keys: KeyParts,
    pub(super) table: Arc<KeyTable>,
    /// A bit for each row that has met a stored row.
    matched: Vec<AtomicU64>,
    held: Vec<MemoryReservation>,
}

impl Built {
    /// Reads all of `source`, whose columns `key` are its key.
    pub(super) async fn read(
        source: &Arc<dyn ExecutionPlan>,
        key: &[usize],
        nulls_equal: bool,
        compared: Option<&Arc<Compared>>,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let Held {
            batches,
            prints,
            rooms: held,
        } = collect(source, compared, context).await?;
        let starts = starts(&batches)?;
        let rows = starts.last().copied().unwrap_or(0);
        let shards = match rows < WORTH_SHARDS {
            true => 1,
            false => context.session_config().target_partitions().max(1),
        };
        let room = MemoryConsumer::new("MatchExec keys").register(context.memory_pool());
        room.try_grow(rows.div_ceil(8))?;
        let prints = in_one(prints, &room)?;
        let keys = key_parts(&batches, key, source);
        let table = KeyTable::build(&keys, shards, nulls_equal, room).await?;
        Ok(Self {
            keys,
            table: Arc::new(table),
            matched: (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            batches,
            prints,
            starts,
            held,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The memory that the rows take.
    pub(super) fn bytes(&self) -> usize {
        self.held.iter().map(MemoryReservation::size).sum()
    }

    /// Whether two rows have the same key.
    pub(super) fn repeated(&self) -> bool {
        self.table.repeats()
    }

    /// Rows by their numbers, in any order.
    pub(super) fn gather(&self, rows: &[u32]) -> Gather<'_> {
        Gather::new(&self.batches, &self.starts, rows)
    }

    /// The fingerprint of row number `row`.
    pub(super) fn print(&self, row: u32) -> Option<u128> {
        self.prints.get(index(row)).copied()
    }

    pub(super) fn mark(&self, row: u32) {
        if let Some(word) = self.matched.get(index(row / 64)) {
            word.fetch_or(1 << (row % 64), Ordering::Relaxed);
        }
    }

    /// Whether row number `row` has met a stored row. Only sure when all stored rows have been looked up.
    pub(super) fn is_marked(&self, row: usize) -> bool {
        let word = self
            .matched
            .get(row / 64)
            .map_or(0, |word| word.load(Ordering::Relaxed));
        word & (1 << (row % 64)) != 0
    }

    /// The rows `from..to` as slices of batches, each with the number of its first row.
    pub(super) fn slices(&self, from: usize, to: usize) -> Vec<(usize, RecordBatch)> {
        let mut slices = Vec::new();
        for (batch, start) in self.batches.iter().zip(&self.starts) {
            let (low, high) = (from.max(*start), to.min(start + batch.num_rows()));
            if low < high {
                slices.push((low, batch.slice(low - start, high - low)));
            }
        }
        slices
    }
}

/// The fingerprints of all batches one after the other: for each that is asked for there is one place to look at.
fn in_one(prints: Vec<Vec<u128>>, room: &MemoryReservation) -> Result<Vec<u128>> {
    let rows = prints.iter().map(Vec::len).sum::<usize>();
    // Until they have moved they are there twice.
    room.try_grow(rows * PRINT)?;
    let mut all = Vec::with_capacity(rows);
    prints.into_iter().for_each(|part| all.extend(part));
    room.shrink(rows * PRINT);
    Ok(all)
}

/// Rows in memory.
#[derive(Default)]
struct Held {
    batches: Vec<RecordBatch>,
    /// Those of each batch, see [`Built::prints`].
    prints: Vec<Vec<u128>>,
    rooms: Vec<MemoryReservation>,
}

/// All batches, partition after partition. The partitions are read side by side.
async fn collect(
    source: &Arc<dyn ExecutionPlan>,
    compared: Option<&Arc<Compared>>,
    context: &Arc<TaskContext>,
) -> Result<Held> {
    let mut tasks = JoinSet::new();
    for partition in 0..source.output_partitioning().partition_count() {
        let rows = source.execute(partition, Arc::clone(context))?;
        let room = MemoryConsumer::new(format!("MatchExec[{partition}]")).register(context.memory_pool());
        let compared = compared.cloned();
        tasks.spawn(async move { (partition, hold(rows, compared, room).await) });
    }
    let mut parts = Vec::new();
    while let Some(part) = tasks.join_next().await {
        let (partition, part) = part.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
        parts.push((partition, part?));
    }
    parts.sort_by_key(|(partition, _)| *partition);
    let mut all = Held::default();
    for (_, part) in parts {
        all.batches.extend(part.batches);
        all.prints.extend(part.prints);
        all.rooms.extend(part.rooms);
    }
    Ok(all)
}

async fn hold(
    mut rows: SendableRecordBatchStream,
    compared: Option<Arc<Compared>>,
    room: MemoryReservation,
) -> Result<Held> {
    let mut held = Held::default();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        room.try_grow(get_record_batch_memory_size(&batch))?;
        if let Some(compared) = &compared {
            room.try_grow(batch.num_rows() * PRINT)?;
            held.prints.push(compared.prints(&batch)?);
        }
        held.batches.push(batch);
    }
    held.rooms.push(room);
    Ok(held)
}

fn starts(batches: &[RecordBatch]) -> Result<Vec<usize>> {
    let mut starts = vec![0];
    let mut next = 0_usize;
    for batch in batches {
        next += batch.num_rows();
        starts.push(next);
    }
    match u32::try_from(next) {
        Ok(_) => Ok(starts),
        Err(_) => Err(too_much("rows", next)),
    }
}

fn key_parts(batches: &[RecordBatch], key: &[usize], source: &Arc<dyn ExecutionPlan>) -> KeyParts {
    let schema = source.schema();
    let types = key.iter().map(|place| schema.field(*place).data_type().clone());
    let columns = |batch: &RecordBatch| key.iter().map(|place| Arc::clone(batch.column(*place))).collect();
    KeyParts::new(types, batches.iter().map(columns))
}
