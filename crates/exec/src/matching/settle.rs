//! Histories that a load does not change: the only source row of a key that says what the open version says. Neither of
//! the two has to be put in order with anything, and in a full extract most rows are such.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int64Array, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int64Type, Schema};
use datafusion::common::Result;

use super::build::Built;
use super::equal::{Couple, retain_equal};
use crate::intervals::{CURRENT, DELETED, FROM, INSIDE, MARKED, TIME, TO, WINNER, broken_history};
use crate::keys::{Columns, index_of};

/// Which stored versions go on, and when a source row changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SettleSpec {
    /// The target table, as the statement names it.
    pub table: String,
    /// The columns that identify a history.
    pub keys: Vec<String>,
    /// The columns that have to be equal, those that differ most often first.
    pub compared: Vec<String>,
    /// Whether rows carry times of their own, which have to be that of the version.
    pub by_sequence: bool,
    /// The end of open versions, in microseconds; `None`: NULL.
    pub open_until: Option<i64>,
    /// Whether the table flags open versions.
    pub has_current: bool,
    /// Stored versions of keys that the source lacks.
    pub absent: AbsentVersions,
}

/// Which stored versions go on although the source lacks their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbsentVersions {
    /// None.
    Dropped,
    /// Those that are open.
    Open,
    /// All.
    Kept,
}

/// The spec, with its columns found.
pub(super) struct Settle {
    pub(super) spec: SettleSpec,
    keys: Columns,
    compared: Vec<usize>,
    places: Places,
    /// The source rows that win and are no deletes.
    telling: BooleanBuffer,
    /// A bit for each source row whose key has an open version.
    opened: Vec<AtomicU64>,
    /// The first key with several.
    broken: Mutex<Option<LoadError>>,
}

/// Where the columns that describe a version and a source row are.
struct Places {
    from: usize,
    to: usize,
    current: usize,
    deleted: usize,
    inside: usize,
    time: usize,
}

impl Settle {
    pub(super) fn try_new(spec: &SettleSpec, schema: &Schema, built: &Built) -> Result<Self> {
        let place = |name: &str| index_of(schema, name, "Match");
        let (winner, marked) = (place(WINNER)?, place(MARKED)?);
        let compared = spec.compared.iter().map(|name| place(name));
        Ok(Self {
            keys: Columns::try_new(schema, &spec.keys, "Match")?,
            compared: compared.collect::<Result<_, _>>()?,
            places: Places {
                from: place(FROM)?,
                to: place(TO)?,
                current: place(CURRENT)?,
                deleted: place(DELETED)?,
                inside: place(INSIDE)?,
                time: place(TIME)?,
            },
            telling: telling(built, winner, marked)?,
            opened: (0..built.rows().div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            broken: Mutex::new(None),
            spec: spec.clone(),
        })
    }

    /// The stored versions that go on. `found` names the source rows of each: none, one, or several.
    pub(super) fn passing(
        &self,
        built: &Built,
        stored: &[RecordBatch],
        found: &[Vec<Found>],
    ) -> Result<Vec<RecordBatch>> {
        let mut passing = Vec::with_capacity(stored.len());
        let mut couples = Vec::new();
        for (number, (batch, found)) in stored.iter().zip(found).enumerate() {
            let open = self.open(batch)?;
            let kept = |(at, found): (usize, &Found)| match (found, self.spec.absent) {
                (Found::None, AbsentVersions::Dropped) => false,
                (Found::None, AbsentVersions::Open) => open.value(at),
                _ => true,
            };
            passing.push(found.iter().enumerate().map(kept).collect::<Vec<bool>>());
            let of_batch = self.candidates(batch, found, &open)?.into_iter();
            couples.extend(of_batch.map(|(row, source)| ((number, row), source)));
        }
        for ((number, row), source) in self.settled(built, stored, couples)? {
            built.mark(source);
            if let Some(passes) = passing.get_mut(number).and_then(|rows| rows.get_mut(row)) {
                *passes = false;
            }
        }
        let left = stored.iter().zip(passing);
        let left = left.map(|(batch, passing)| Ok(filter_record_batch(batch, &BooleanArray::from(passing))?));
        left.filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0))
            .collect()
    }

    /// Which versions are open.
    fn open(&self, stored: &RecordBatch) -> Result<BooleanArray> {
        let ends = times(stored, self.places.to)?;
        let open = |row| ends.is_valid(row).then(|| ends.value(row)) == self.spec.open_until;
        Ok((0..stored.num_rows()).map(|row| Some(open(row))).collect())
    }

    /// The open versions of a batch that have only one source row, which may say the same, with that row.
    fn candidates(&self, stored: &RecordBatch, found: &[Found], open: &BooleanArray) -> Result<Vec<(usize, u32)>> {
        let from = times(stored, self.places.from)?;
        let yes = |place: usize, row: usize| flag(stored, place, row);
        let mut couples = Vec::new();
        for (at, found) in found.iter().enumerate() {
            let Found::One(source) = *found else { continue };
            if !open.value(at) || !yes(self.places.inside, at) {
                continue;
            }
            if self.opens_again(source) {
                self.report_broken(stored, at)?;
            }
            let flagged = !self.spec.has_current || yes(self.places.current, at);
            let tells = self.telling.value(super::table::index(source));
            if flagged && tells && !yes(self.places.deleted, at) && from.is_valid(at) {
                couples.push((at, source));
            }
        }
        Ok(couples)
    }

    /// Those whose source row says the same: times are compared and then one column after the other, as long as any rows
    /// are left. In the order of the source, whose rows are far apart in memory.
    fn settled(
        &self,
        built: &Built,
        stored: &[RecordBatch],
        mut candidates: Vec<((usize, usize), u32)>,
    ) -> Result<Vec<((usize, usize), u32)>> {
        candidates.sort_unstable_by_key(|(_, source)| *source);
        let couple = |(stored, source): &((usize, usize), u32)| Couple {
            stored: *stored,
            source: built.place(*source),
        };
        let mut couples: Vec<Couple> = candidates.iter().map(couple).collect();
        let times = self.spec.by_sequence.then_some((self.places.time, self.places.from));
        let columns = self.compared.iter().map(|column| (*column, *column));
        for (new, old) in times.into_iter().chain(columns) {
            if couples.is_empty() {
                break;
            }
            let new: Vec<&ArrayRef> = built.batches.iter().map(|batch| batch.column(new)).collect();
            let old: Vec<&ArrayRef> = stored.iter().map(|batch| batch.column(old)).collect();
            retain_equal(&new, &old, &mut couples)?;
        }
        let mut equal = couples.into_iter().map(|couple| couple.stored).peekable();
        candidates.retain(|(stored, _)| equal.next_if_eq(stored).is_some());
        Ok(candidates)
    }

    /// Notes that the key of a source row has an open version; whether it had one.
    fn opens_again(&self, source: u32) -> bool {
        let (word, bit) = (super::table::index(source / 64), 1 << (source % 64));
        let before = self
            .opened
            .get(word)
            .map_or(0, |word| word.fetch_or(bit, Ordering::Relaxed));
        before & bit != 0
    }

    fn report_broken(&self, stored: &RecordBatch, row: usize) -> Result<()> {
        let key = self.keys.shown(&self.keys.arrays(stored)?, row)?;
        let error = broken_history(&self.spec.table, &key)?;
        self.broken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get_or_insert(error);
        Ok(())
    }

    /// The error of a key with several open versions, once all stored rows have been seen.
    pub(super) fn check(&self) -> Result<()> {
        let broken = self
            .broken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        broken.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The source rows that win and are no deletes.
fn telling(built: &Built, winner: usize, marked: usize) -> Result<BooleanBuffer> {
    let mut telling = BooleanBufferBuilder::new(built.rows());
    for batch in &built.batches {
        // NULL is no.
        let yes = |flags: &BooleanArray| match flags.nulls() {
            Some(valid) => flags.values() & valid.inner(),
            None => flags.values().clone(),
        };
        let flags = |place: usize| batch.column(place).as_boolean_opt().map(yes);
        let (Some(wins), Some(deletes)) = (flags(winner), flags(marked)) else {
            return Err(LoadError::internal("flags of source rows have a wrong type").into());
        };
        telling.append_buffer(&(&wins & &!&deletes));
    }
    Ok(telling.finish())
}

/// The source rows of a stored row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    None,
    One(u32),
    Several,
}

impl Found {
    pub(super) fn and(self, row: u32) -> Self {
        match self {
            Self::None => Self::One(row),
            _ => Self::Several,
        }
    }
}

fn times(batch: &RecordBatch, place: usize) -> Result<&Int64Array> {
    let times = batch.column(place).as_primitive_opt::<Int64Type>();
    Ok(times.ok_or_else(|| LoadError::internal("times of a history have a wrong type"))?)
}

fn flag(batch: &RecordBatch, place: usize, row: usize) -> bool {
    let flags = batch.column(place).as_boolean_opt();
    flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row))
}
