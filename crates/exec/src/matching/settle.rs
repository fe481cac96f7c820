//! Histories that a load does not change: the only source row of a key that says what the open version says. Neither of
//! the two has to be put in order with anything, and in a full extract most rows are such.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, AsArray, BooleanArray, BooleanBufferBuilder, Int64Array, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int64Type, Schema};
use datafusion::common::Result;

use super::build::Built;
use super::equal::{Couple, retain_equal};
use super::prints::Printer;
use crate::intervals::{CURRENT, DELETED, FROM, INSIDE, MARKED, TIME, TO, WINNER, broken_history};
use crate::keys::{Columns, index_of};

/// Which stored versions go on, and when a source row changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SettleSpec {
    /// The target table, as the statement names it.
    pub table: String,
    /// The columns that identify a history.
    pub keys: Vec<String>,
    /// The columns that have to be equal.
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

/// The columns of a comparison: those that fingerprints stand for, and all others.
pub(super) struct Compared {
    printer: Printer,
    others: Vec<usize>,
}

impl Compared {
    /// Finds the columns in the schema of both sides.
    pub(super) fn try_new(spec: &SettleSpec, schema: &Schema) -> Result<Self> {
        let place = |name: &str| index_of(schema, name, "Match");
        let columns = spec.compared.iter().map(|name| place(name));
        let columns: Vec<usize> = columns.collect::<Result<_, _>>()?;
        let known = |place: &usize| Printer::knows(schema.field(*place).data_type());
        let (printed, others): (Vec<usize>, Vec<usize>) = columns.into_iter().partition(known);
        let times = match spec.by_sequence {
            true => Some((place(TIME)?, place(FROM)?)),
            false => None,
        };
        let printed = printed.into_iter().map(|place| (place, place));
        Ok(Self {
            printer: Printer::new(times.into_iter().chain(printed)),
            others,
        })
    }

    /// The fingerprints of source rows.
    pub(super) fn prints(&self, source: &RecordBatch) -> Result<Vec<u128>> {
        self.printer.of_source(source)
    }

    /// Keeps the couples that say the same.
    fn retain_equal(&self, built: &Built, stored: &RecordBatch, couples: &mut Vec<Couple>) -> Result<()> {
        let rows: Vec<usize> = couples.iter().map(|couple| couple.stored).collect();
        let ours = self.printer.of_stored(stored.columns(), &rows)?;
        // All are fetched before any is compared: they are far apart, and the processor waits for several at once.
        let theirs: Vec<Option<u128>> = couples.iter().map(|couple| built.print(couple.source)).collect();
        let mut same = ours.into_iter().zip(theirs).map(|(ours, theirs)| theirs == Some(ours));
        couples.retain(|_| same.next() == Some(true));
        for column in &self.others {
            if !couples.is_empty() {
                retain_equal(built, stored, *column, couples)?;
            }
        }
        Ok(())
    }
}

/// The spec, with its columns found.
pub(super) struct Settle {
    pub(super) spec: SettleSpec,
    keys: Columns,
    compared: Arc<Compared>,
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
}

impl Settle {
    pub(super) fn try_new(spec: &SettleSpec, schema: &Schema, compared: Arc<Compared>, built: &Built) -> Result<Self> {
        let place = |name: &str| index_of(schema, name, "Match");
        let (winner, marked) = (place(WINNER)?, place(MARKED)?);
        Ok(Self {
            keys: Columns::try_new(schema, &spec.keys, "Match")?,
            compared,
            places: Places {
                from: place(FROM)?,
                to: place(TO)?,
                current: place(CURRENT)?,
                deleted: place(DELETED)?,
                inside: place(INSIDE)?,
            },
            telling: telling(built, winner, marked)?,
            opened: (0..built.rows().div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            broken: Mutex::new(None),
            spec: spec.clone(),
        })
    }

    /// The stored versions that go on. `found` names the source rows of each: none, one, or several.
    pub(super) fn passing(&self, built: &Built, stored: &RecordBatch, found: &[Found]) -> Result<RecordBatch> {
        let open = self.open(stored)?;
        let kept = |(found, open): (&Found, &bool)| match (found, self.spec.absent) {
            (Found::None, AbsentVersions::Dropped) => false,
            (Found::None, AbsentVersions::Open) => *open,
            _ => true,
        };
        let mut passing: Vec<bool> = found.iter().zip(&open).map(kept).collect();
        let mut couples = self.candidates(stored, found, &open)?;
        self.compared.retain_equal(built, stored, &mut couples)?;
        for Couple { stored, source } in couples {
            built.mark(source);
            if let Some(passes) = passing.get_mut(stored) {
                *passes = false;
            }
        }
        Ok(filter_record_batch(stored, &BooleanArray::from(passing))?)
    }

    /// Which versions are open.
    fn open(&self, stored: &RecordBatch) -> Result<Vec<bool>> {
        let ends = times(stored, self.places.to)?;
        let open = |row| ends.is_valid(row).then(|| ends.value(row)) == self.spec.open_until;
        Ok((0..stored.num_rows()).map(open).collect())
    }

    /// The open versions of a batch that have only one source row, which may say the same, with that row.
    fn candidates(&self, stored: &RecordBatch, found: &[Found], open: &[bool]) -> Result<Vec<Couple>> {
        let from = times(stored, self.places.from)?;
        let flags = |place: usize| stored.column(place).as_boolean_opt();
        let (inside, current) = (flags(self.places.inside), flags(self.places.current));
        let deleted = flags(self.places.deleted);
        let yes = |flags: Option<&BooleanArray>, row: usize| flags.is_some_and(|f| f.is_valid(row) && f.value(row));
        let mut couples = Vec::new();
        for (at, (found, open)) in found.iter().zip(open).enumerate() {
            let Found::One(source) = *found else { continue };
            if !open || !yes(inside, at) {
                continue;
            }
            if self.opens_again(source) {
                self.report_broken(stored, at)?;
            }
            let flagged = !self.spec.has_current || yes(current, at);
            let tells = self.telling.value(super::table::index(source));
            if flagged && tells && !yes(deleted, at) && from.is_valid(at) {
                couples.push(Couple { stored: at, source });
            }
        }
        Ok(couples)
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

/// The rows of the other side that have a row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    None,
    One(u32),
    Several,
}

impl Found {
    pub(crate) fn and(self, row: u32) -> Self {
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

#[cfg(test)]
mod tests;
