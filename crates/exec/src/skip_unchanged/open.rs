//! The open versions of a table, as far as source rows are compared with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use crate::matching::{Found, KeyTable, Printer, in_one_column};

/// A source row of this version's key has come.
const MET: u64 = 1;
/// It was left out.
const SKIPPED: u64 = 2;
/// Versions in a word of states.
const IN_WORD: usize = 32;

/// What the columns of either side are: keys, compared columns, a time if rows have one. Stored rows have a flag
/// after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) keys: usize,
    pub(super) compared: usize,
    pub(super) timed: bool,
    pub(super) nulls_equal: bool,
}

impl Layout {
    /// How many columns a source row is compared by.
    pub(super) fn width(self) -> usize {
        self.keys + self.compared + usize::from(self.timed)
    }

    fn printer(self) -> Printer {
        Printer::new((self.keys..self.keys + self.compared).map(|place| (place, place)))
    }
}

/// Keys, fingerprints of the compared columns and times of all open versions.
pub(super) struct OpenVersions {
    layout: Layout,
    printer: Arc<Printer>,
    table: KeyTable,
    versions: Versions,
    /// Two bits for each version, see [`MET`] and [`SKIPPED`].
    states: Vec<AtomicU64>,
    _held: Vec<MemoryReservation>,
}

/// What is known of a version beside its key, in one place: source rows come in any order, and what is fetched for one
/// of them is seldom in a cache.
#[derive(Debug, Clone, Copy)]
struct Version {
    /// The halves of its fingerprint; as one number they would take more room.
    print: [u64; 2],
    begun: i64,
}

/// The versions of all partitions, one after the other, where they were read: there are many, and a copy takes long.
struct Versions {
    parts: Vec<Vec<Version>>,
}

impl Versions {
    fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    #[inline]
    fn get(&self, version: u32) -> Option<Version> {
        let mut at = index(version);
        for part in &self.parts {
            match part.get(at) {
                Some(version) => return Some(*version),
                None => at -= part.len(),
            }
        }
        None
    }
}

/// The open versions of one partition.
struct Part {
    keys: Vec<Vec<ArrayRef>>,
    versions: Vec<Version>,
    room: MemoryReservation,
}

impl OpenVersions {
    /// Reads them. `None`: there is not enough memory for them.
    pub(super) async fn read(
        stored: &Arc<dyn ExecutionPlan>,
        layout: Layout,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Self>> {
        match Self::held(stored, layout, context).await {
            Ok(held) => Ok(Some(held)),
            Err(e) if matches!(e.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                tracing::debug!("the open versions do not fit into memory: all source rows are compared in full");
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    async fn held(stored: &Arc<dyn ExecutionPlan>, layout: Layout, context: &Arc<TaskContext>) -> Result<Self> {
        let printer = Arc::new(layout.printer());
        let mut tasks = JoinSet::new();
        for partition in 0..stored.output_partitioning().partition_count() {
            let rows = stored.execute(partition, Arc::clone(context))?;
            let room = MemoryConsumer::new(format!("SkipUnchangedExec[{partition}]")).register(context.memory_pool());
            let printer = Arc::clone(&printer);
            tasks.spawn(async move { Part::read(rows, layout, &printer, room).await });
        }
        let room = MemoryConsumer::new("SkipUnchangedExec keys").register(context.memory_pool());
        let (mut keys, mut parts, mut held) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(part) = tasks.join_next().await {
            let part = part.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??;
            keys.extend(part.keys);
            parts.push(part.versions);
            held.push(part.room);
        }
        let versions = Versions { parts };
        let words = versions.len().div_ceil(IN_WORD);
        room.try_grow(words * size_of::<u64>())?;
        let keys = joined(keys, stored, layout)?;
        let threads = context.session_config().target_partitions();
        let table = KeyTable::build(keys, threads, layout.nulls_equal, room).await?;
        Ok(Self {
            layout,
            printer,
            table,
            states: (0..words).map(|_| AtomicU64::new(0)).collect(),
            versions,
            _held: held,
        })
    }

    /// Which source rows say something that no open version says. `columns` are those of [`Layout`].
    ///
    /// # Errors
    ///
    /// When a row of the same key has been left out before: neither can be judged alone.
    pub(super) fn telling(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let keys = columns.get(..self.layout.keys).unwrap_or_default();
        let mut found = vec![Found::None; rows];
        self.table.each_match(keys, |at, version| {
            if let Some(found) = found.get_mut(at) {
                *found = found.and(version);
            }
        })?;
        let same = self.same(columns, &found)?;
        let mut telling = vec![true; rows];
        let rows = found.iter().zip(same).zip(&mut telling);
        for ((found, same), telling) in rows {
            if let Found::One(version) = *found {
                *telling = !self.skips(version, same)?;
            }
        }
        Ok(telling.into())
    }

    /// Which rows agree with the only version they have found.
    fn same(&self, columns: &[ArrayRef], found: &[Found]) -> Result<Vec<bool>> {
        let only = |(at, found): (usize, &Found)| match found {
            Found::One(version) => Some((at, *version)),
            _ => None,
        };
        let (rows, versions): (Vec<usize>, Vec<u32>) = found.iter().enumerate().filter_map(only).unzip();
        let ours = self.printer.of_stored(columns, &rows)?;
        // All are fetched before any is compared: they are far apart, and the processor waits for several at once.
        let theirs: Vec<Option<Version>> = versions.iter().map(|v| self.versions.get(*v)).collect();
        let times = self.times_of(columns)?;
        let mut same = vec![false; found.len()];
        for ((at, ours), theirs) in rows.into_iter().zip(ours).zip(theirs) {
            let in_time = |begun: i64| times.is_none_or(|times| times.is_valid(at) && begun <= times.value(at));
            if let (Some(same), Some(theirs)) = (same.get_mut(at), theirs) {
                *same = theirs.print == halves(ours) && in_time(theirs.begun);
            }
        }
        Ok(same)
    }

    fn times_of<'a>(&self, columns: &'a [ArrayRef]) -> Result<Option<&'a Int64Array>> {
        if !self.layout.timed {
            return Ok(None);
        }
        times(columns.last()).map(Some)
    }

    /// Notes that a row of this version's key has come; whether it is left out.
    fn skips(&self, version: u32, same: bool) -> Result<bool> {
        let (word, shift) = (index(version) / IN_WORD, 2 * (index(version) % IN_WORD));
        let bits = if same { MET | SKIPPED } else { MET };
        let word = self
            .states
            .get(word)
            .map(|word| word.fetch_or(bits << shift, Ordering::Relaxed));
        match word.unwrap_or(0) >> shift & (MET | SKIPPED) {
            0 => Ok(same),
            // The first one went through, so that what follows will see all of them.
            MET => Ok(false),
            _ => Err(comes_again()),
        }
    }
}

impl Part {
    async fn read(
        mut rows: SendableRecordBatchStream,
        layout: Layout,
        printer: &Printer,
        room: MemoryReservation,
    ) -> Result<Self> {
        let mut part = Self {
            keys: Vec::new(),
            versions: Vec::new(),
            room,
        };
        while let Some(batch) = rows.next().await {
            part.add(&batch?, layout, printer)?;
        }
        Ok(part)
    }

    fn add(&mut self, batch: &RecordBatch, layout: Layout, printer: &Printer) -> Result<()> {
        let open = batch.columns().last().and_then(|open| open.as_boolean_opt());
        let open = open.ok_or_else(|| LoadError::internal("open versions have no flag"))?;
        let rows: Vec<usize> = (0..batch.num_rows())
            .filter(|row| open.is_valid(*row) && open.value(*row))
            .collect();
        let keys = batch.columns().iter().take(layout.keys).map(|key| filter(key, open));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let of_keys: usize = keys.iter().map(|key| key.get_array_memory_size()).sum();
        self.room.try_grow(of_keys + rows.len() * size_of::<Version>())?;
        let prints = printer.of_stored(batch.columns(), &rows)?;
        let begun = match layout.timed {
            true => Some(times(batch.columns().get(layout.width() - 1))?),
            false => None,
        };
        self.versions
            .extend(rows.iter().zip(prints).map(|(row, print)| Version {
                print: halves(print),
                begun: begun.map_or(0, |begun| begun.value(*row)),
            }));
        self.keys.push(keys);
        Ok(())
    }
}

/// The key columns of all parts.
fn joined(parts: Vec<Vec<ArrayRef>>, stored: &Arc<dyn ExecutionPlan>, layout: Layout) -> Result<Vec<ArrayRef>> {
    let schema = stored.schema();
    let column = |place: usize| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = parts
            .iter()
            .filter_map(|part| Some(part.get(place)?.as_ref()))
            .collect();
        in_one_column(&parts, schema.field(place).data_type())
    };
    (0..layout.keys).map(column).collect()
}

/// Answered by planning the statement anew, with operators that hold no rows back.
fn comes_again() -> DataFusionError {
    LoadError::new(
        SqlState::OutOfMemory,
        "a key of the source comes again after a row of it was left out as unchanged",
    )
    .detail("Its rows have to be put in order, which this plan cannot do.")
    .hint("Leave out OPTIONS ('merge.compare' 'tracked').")
    .into()
}

fn times(column: Option<&ArrayRef>) -> Result<&Int64Array> {
    let times = column.and_then(|times| times.as_primitive_opt::<Int64Type>());
    Ok(times.ok_or_else(|| LoadError::internal("times of compared rows have a wrong type"))?)
}

/// The lower and the upper half of a fingerprint.
fn halves(print: u128) -> [u64; 2] {
    let half = |print: u128| u64::try_from(print & u128::from(u64::MAX)).unwrap_or(0);
    [half(print), half(print >> 64)]
}

fn index(version: u32) -> usize {
    usize::try_from(version).unwrap_or(usize::MAX)
}
