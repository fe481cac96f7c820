//! Small writes are put together: a load of a few rows makes one file, however many partitions its plan has.
//!
//! A partition of the plan holds its rows back until there are enough for a file of its own. What the partitions still
//! hold when they end is parked, and the last one to end writes it all. Tables with partitions do not need this:
//! there, the rows of a table partition come to one writer anyway.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::Result;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use super::files::{FileLayout, StatementFiles, TableWriter, WrittenFile, is_one_file, rows_size, write_at_once};

/// Rows of this size in memory are worth a file of their own.
const WORTH_A_FILE: usize = 8 * 1024 * 1024;
/// The part of limited memory that a writer may hold.
const SHARE: usize = 8;
/// Rows that are put in order at once.
const AT_ONCE: usize = 8192;

/// What ended partitions have left over.
#[derive(Debug)]
pub(super) struct SmallWrites {
    partitions: usize,
    running: AtomicUsize,
    parked: Mutex<Vec<Parked>>,
}

#[derive(Debug)]
struct Parked {
    partition: usize,
    layout: Arc<FileLayout>,
    batches: Vec<RecordBatch>,
    _held: MemoryReservation,
}

impl SmallWrites {
    /// For a plan of `partitions` partitions.
    pub(super) fn new(partitions: usize) -> Arc<Self> {
        Arc::new(Self {
            partitions,
            running: AtomicUsize::new(partitions),
            parked: Mutex::default(),
        })
    }

    fn park(&self, parked: Parked) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).push(parked);
    }

    /// A partition has ended (and parked what it had). The last one gets everything that was parked with `layout`.
    pub(super) fn leave(&self) -> bool {
        self.running.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn take(&self, layout: &Arc<FileLayout>) -> Vec<Parked> {
        let mut all = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, kept): (Vec<_>, Vec<_>) = all.drain(..).partition(|p| Arc::ptr_eq(&p.layout, layout));
        *all = kept;
        taken.sort_by_key(|p| p.partition);
        taken
    }

    /// Leaves of everything that was parked with `layout` only what `rest` gives back of it.
    pub(super) fn reduce(
        &self,
        layout: &Arc<FileLayout>,
        rest: impl Fn(RecordBatch) -> Result<RecordBatch>,
    ) -> Result<()> {
        for mut parked in self.take(layout) {
            let batches = parked.batches.into_iter().map(&rest);
            parked.batches = batches.collect::<Result<_>>()?;
            parked.batches.retain(|batch| batch.num_rows() > 0);
            self.park(parked);
        }
        Ok(())
    }

    /// Writes everything that was parked with `layout`, in the layout's order, or else in that of the partitions.
    pub(super) async fn write_parked(
        &self,
        layout: &Arc<FileLayout>,
        files: &Arc<StatementFiles>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Vec<WrittenFile>> {
        let parked = self.take(layout);
        let batches: Vec<&RecordBatch> = parked.iter().flat_map(|parked| &parked.batches).collect();
        let held = MemoryConsumer::new("LoadWriteExec order").register(pool);
        let in_order = layout.order().is_empty() || parked.len() < 2;
        let order = match in_order {
            true => None,
            false => Some(order_of(&batches, layout.order(), &held)?),
        };
        let bytes = batches.iter().map(|batch| rows_size(batch)).sum();
        let rows = batches.iter().map(|batch| batch.num_rows()).sum();
        // Encoded rows are smaller, rows put in order are there a second time.
        let room = MemoryConsumer::new("LoadWriteExec encoders").register(pool);
        let at_once = rows > 0 && is_one_file(layout, rows, bytes) && room.try_grow(2 * bytes).is_ok();
        let batches = ordered(&batches, order.as_deref());
        if at_once {
            let batches = batches.collect::<Result<Vec<_>>>()?;
            return Ok(vec![write_at_once(layout, files, &batches, self.partitions).await?]);
        }
        let mut writer = table_writer(layout, files, pool)?;
        for batch in batches {
            writer.write(&batch?).await?;
        }
        writer.close().await
    }
}

/// The rows of `batches`, in the `order` of their places if there is one.
fn ordered<'a>(
    batches: &'a [&RecordBatch],
    order: Option<&'a [(usize, usize)]>,
) -> Box<dyn Iterator<Item = Result<RecordBatch>> + Send + 'a> {
    match order {
        None => Box::new(batches.iter().map(|batch| Ok((*batch).clone()))),
        Some(places) => Box::new(
            places
                .chunks(AT_ONCE)
                .map(|places| Ok(interleave_record_batch(batches, places)?)),
        ),
    }
}

/// Where the rows of `batches` are, batch and row, in the order of `columns`.
fn order_of(batches: &[&RecordBatch], columns: &[usize], held: &MemoryReservation) -> Result<Vec<(usize, usize)>> {
    let Some(first) = batches.first() else {
        return Ok(Vec::new());
    };
    let fields = columns
        .iter()
        .map(|column| SortField::new(first.column(*column).data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let keys = batches.iter().map(|batch| {
        let columns: Vec<_> = columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
        converter.convert_columns(&columns)
    });
    let keys = keys.collect::<std::result::Result<Vec<Rows>, _>>()?;
    held.grow(keys.iter().map(Rows::size).sum());
    let rows = keys.iter().enumerate();
    let mut rows: Vec<_> = rows
        .flat_map(|(batch, keys)| keys.iter().enumerate().map(move |(row, key)| (key, (batch, row))))
        .collect();
    rows.sort_by_key(|(key, _)| *key);
    Ok(rows.into_iter().map(|(_, place)| place).collect())
}

fn table_writer(
    layout: &Arc<FileLayout>,
    files: &Arc<StatementFiles>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<TableWriter> {
    let reservation = MemoryConsumer::new("LoadWriteExec encoders").register(pool);
    TableWriter::try_new(Arc::clone(layout), Arc::clone(files), reservation, share_of(pool))
}

/// What a writer may hold of the memory of `pool`: encoders cannot spill, and operators that can may not have begun yet.
pub(super) fn share_of(pool: &Arc<dyn MemoryPool>) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit / SHARE,
        _ => usize::MAX,
    }
}

/// Writes the rows of one partition of the plan.
pub(super) struct PooledWriter {
    partition: usize,
    layout: Arc<FileLayout>,
    files: Arc<StatementFiles>,
    pool: Arc<dyn MemoryPool>,
    waiting: Vec<RecordBatch>,
    held: MemoryReservation,
    writer: Option<TableWriter>,
}

impl PooledWriter {
    pub(super) fn new(
        partition: usize,
        layout: &Arc<FileLayout>,
        files: &Arc<StatementFiles>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        Self {
            partition,
            layout: Arc::clone(layout),
            files: Arc::clone(files),
            pool: Arc::clone(pool),
            waiting: Vec::new(),
            held: MemoryConsumer::new("LoadWriteExec rows")
                .with_can_spill(true)
                .register(pool),
            writer: None,
        }
    }

    /// Writes `batch`, or keeps it until there are more.
    pub(super) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            return writer.write(&batch).await;
        }
        let size = rows_size(&batch);
        let enough = self.layout.partitioned() || self.held.size() + size > WORTH_A_FILE;
        let refused = !enough && self.held.try_grow(size).is_err();
        self.waiting.push(batch);
        if enough || refused { self.open().await } else { Ok(()) }
    }

    /// Starts a file with what has waited.
    async fn open(&mut self) -> Result<()> {
        let mut writer = table_writer(&self.layout, &self.files, &self.pool)?;
        for batch in std::mem::take(&mut self.waiting) {
            writer.write(&batch).await?;
        }
        self.held.free();
        self.writer = Some(writer);
        Ok(())
    }

    /// Ends the files, or parks the rows that are too few for one.
    pub(super) async fn close(self, small: &SmallWrites) -> Result<Vec<WrittenFile>> {
        if let Some(writer) = self.writer {
            return writer.close().await;
        }
        if !self.waiting.is_empty() {
            small.park(Parked {
                partition: self.partition,
                layout: self.layout,
                batches: self.waiting,
                _held: self.held,
            });
        }
        Ok(Vec::new())
    }
}
