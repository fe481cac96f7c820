//! The open versions of a table, as far as source rows are compared with them.

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::met::Met;
use crate::matching::{Found, KeyParts, KeyTable, Printer};

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
    met: Met,
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
    /// The number of the first version of each part.
    starts: Vec<usize>,
}

impl Versions {
    fn new(parts: Vec<Vec<Version>>) -> Self {
        let lengths = parts.iter().map(Vec::len);
        let starts = lengths.scan(0, |next, length| Some(std::mem::replace(next, *next + length)));
        Self {
            starts: starts.collect(),
            parts,
        }
    }

    fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    #[inline]
    fn get(&self, version: usize) -> Option<Version> {
        // Counted, for which part it is in cannot be guessed.
        let parts = self.starts.iter().map(|start| usize::from(*start <= version));
        let part = parts.sum::<usize>().checked_sub(1)?;
        self.parts.get(part)?.get(version - self.starts.get(part)?).copied()
    }
}

/// The open versions of one partition.
struct Part {
    keys: Vec<Vec<ArrayRef>>,
    versions: Vec<Version>,
    room: MemoryReservation,
}

impl OpenVersions {
    /// Reads them, to be asked by so many threads. `None`: there is not enough memory for them.
    pub(super) async fn read(
        stored: &Arc<dyn ExecutionPlan>,
        layout: Layout,
        threads_of_source: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Self>> {
        match Self::held(stored, layout, threads_of_source, context).await {
            Ok(held) => Ok(Some(held)),
            Err(e) if matches!(e.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                tracing::debug!("the open versions do not fit into memory: all source rows are compared in full");
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    async fn held(
        stored: &Arc<dyn ExecutionPlan>,
        layout: Layout,
        threads_of_source: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
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
        let versions = Versions::new(parts);
        let notes = MemoryConsumer::new("SkipUnchangedExec notes").register(context.memory_pool());
        let types = stored.schema();
        let types = types
            .fields()
            .iter()
            .take(layout.keys)
            .map(|field| field.data_type().clone());
        let keys = KeyParts::new(types, keys);
        let threads = context.session_config().target_partitions();
        let table = KeyTable::build(&keys, threads, layout.nulls_equal, room).await?;
        Ok(Self {
            layout,
            printer,
            table,
            met: Met::new(versions.len(), threads_of_source, notes)?,
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
        let mut notes = self.met.take()?;
        let rows = found.iter().zip(same).zip(&mut telling);
        for ((found, same), telling) in rows {
            if let Found::One(version) = *found {
                *telling = !notes.skips(index(version), same)?;
            }
        }
        self.met.put_back(notes);
        Ok(telling.into())
    }

    /// To be asked when all source rows have been looked at.
    ///
    /// # Errors
    ///
    /// As [`Self::telling`], for rows that different threads have looked at.
    pub(super) fn check(&self) -> Result<()> {
        self.met.check()
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
        let theirs: Vec<Option<Version>> = versions.iter().map(|v| self.versions.get(index(*v))).collect();
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
