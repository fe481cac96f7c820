//! Whole histories in Arrow columns: reading times and flags, comparing contents.

use std::cmp::Ordering;

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type, Schema};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

use super::fold::{Contents, Event, Stored};
use super::{BOUNDARY, CURRENT, DELETED, FROM, INSIDE, IntervalsSpec, MARKED, RETIRES, STORED, TIME, TO, WINNER};
use crate::changed::{plain_type, without_maps};
use crate::keys::{Columns, index_of};
use crate::node::RowSpec;

/// Columns that are compared together, by the bytes of their row format.
pub(super) struct Comparison {
    columns: Columns,
    converter: RowConverter,
}

impl Comparison {
    pub(super) fn try_new(schema: &Schema, names: &[String]) -> Result<Self> {
        let columns = Columns::try_new(schema, names, IntervalsSpec::NAME)?;
        let types = columns.types().iter().map(|t| SortField::new(plain_type(t)));
        let converter = RowConverter::new(types.collect())?;
        Ok(Self { columns, converter })
    }

    pub(super) fn arrays(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.columns.arrays(batch)?.iter().map(without_maps).collect()
    }

    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Compared> {
        let arrays = self.arrays(batch)?;
        match arrays.is_empty() {
            true => Ok(Compared(None)),
            false => Ok(Compared(Some(self.converter.convert_columns(&arrays)?))),
        }
    }

    /// `(a, b)=(1, x)`.
    pub(super) fn shown(&self, batch: &RecordBatch, row: usize) -> Result<String> {
        self.columns.shown(&self.columns.arrays(batch)?, row)
    }
}

/// Rows that compare; without columns all are equal.
pub(super) struct Compared(Option<Rows>);

impl Compared {
    pub(super) fn cmp(&self, a: usize, b: usize) -> Ordering {
        self.0
            .as_ref()
            .map_or(Ordering::Equal, |rows| rows.row(a).cmp(&rows.row(b)))
    }

    pub(super) fn eq(&self, a: usize, b: usize) -> bool {
        self.cmp(a, b).is_eq()
    }

    /// The bytes of one row.
    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        self.0.as_ref().map_or(&[], |rows| rows.row(row).data())
    }
}

/// All comparisons of a load.
pub(super) struct Comparisons {
    tracked: Comparison,
    landing: Comparison,
    /// Where not all of them call for an update in place: those that do.
    calling: Option<Comparison>,
    source: Comparison,
    sequence: Comparison,
    first: Comparison,
}

impl Comparisons {
    pub(super) fn try_new(schema: &Schema, spec: &IntervalsSpec) -> Result<Self> {
        let sequence = spec.sequence_columns();
        let first: Vec<String> = sequence.iter().take(1).cloned().collect();
        let part = |names: &[String]| Comparison::try_new(schema, names);
        Ok(Self {
            tracked: part(&spec.tracked)?,
            landing: part(&spec.landing)?,
            calling: match spec.compared == spec.landing {
                true => None,
                false => Some(part(&spec.compared)?),
            },
            source: match spec.sequence {
                0 => part(&spec.source)?,
                _ => part(&[])?,
            },
            sequence: part(&sequence)?,
            first: part(&first)?,
        })
    }

    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<ComparedRows> {
        Ok(ComparedRows {
            tracked: self.tracked.rows(batch)?,
            landing: self.landing.rows(batch)?,
            calling: self.calling.as_ref().map(|calling| calling.rows(batch)).transpose()?,
            source: self.source.rows(batch)?,
            sequence: self.sequence.rows(batch)?,
            first: self.first.rows(batch)?,
        })
    }
}

/// The rows of one chunk, comparable.
pub(super) struct ComparedRows {
    tracked: Compared,
    landing: Compared,
    calling: Option<Compared>,
    source: Compared,
    sequence: Compared,
    first: Compared,
}

impl Contents for ComparedRows {
    fn tracked(&self, a: usize, b: usize) -> bool {
        self.tracked.eq(a, b)
    }

    fn landing(&self, a: usize, b: usize) -> bool {
        self.landing.eq(a, b)
    }

    fn settled(&self, a: usize, b: usize) -> bool {
        self.calling.as_ref().unwrap_or(&self.landing).eq(a, b)
    }

    fn identical(&self, a: usize, b: usize) -> bool {
        self.source.eq(a, b)
    }

    fn sequence(&self, a: usize, b: usize) -> Ordering {
        self.sequence.cmp(a, b)
    }

    fn first(&self, a: usize, b: usize) -> bool {
        self.first.eq(a, b)
    }
}

/// The columns that every history is read from.
pub(super) struct Lines {
    stored: BooleanArray,
    from: Int64Array,
    to: Int64Array,
    current: BooleanArray,
    deleted: BooleanArray,
    retires: BooleanArray,
    inside: BooleanArray,
    time: Int64Array,
    marked: BooleanArray,
    winner: BooleanArray,
    boundary: Int64Array,
    open_until: Option<i64>,
    has_current: bool,
}

/// What one incoming row is.
pub(super) enum Line {
    Stored(Stored),
    /// A stored version out of the statement's reach, with its start, where it has one, and its end.
    Outside(Option<i64>, Option<i64>),
    /// A stored version that is open by another marker, or a version without a start.
    Unreadable(Unreadable),
    Event(Event),
    /// A source row that lost deduplication.
    Loser,
}

/// What is wrong with a stored version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Its end or its flag contradicts the marker of open versions.
    Marker,
    /// It does not say when it begins.
    NoStart,
}

impl Lines {
    pub(super) fn try_new(batch: &RecordBatch, spec: &IntervalsSpec) -> Result<Self> {
        Ok(Self {
            stored: flags(batch, STORED)?,
            from: times(batch, FROM)?,
            to: times(batch, TO)?,
            current: flags(batch, CURRENT)?,
            deleted: flags(batch, DELETED)?,
            retires: flags(batch, RETIRES)?,
            inside: flags(batch, INSIDE)?,
            time: times(batch, TIME)?,
            marked: flags(batch, MARKED)?,
            winner: flags(batch, WINNER)?,
            boundary: times(batch, BOUNDARY)?,
            open_until: spec.open_until,
            has_current: spec.has_current,
        })
    }

    pub(super) fn boundary(&self) -> Result<i64> {
        match self.boundary.is_valid(0) {
            true => Ok(self.boundary.value(0)),
            false => Err(super::refused::null_boundary().into()),
        }
    }

    /// Whether the flag of deletions is NULL in a stored row.
    pub(super) fn null_flag(&self, stored: Option<Stored>) -> bool {
        stored.is_some_and(|stored| self.deleted.is_null(stored.row))
    }

    pub(super) fn line(&self, row: usize) -> Line {
        if !truth(&self.stored, row) {
            return match truth(&self.winner, row) {
                true => Line::Event(Event {
                    row,
                    time: if self.time.is_valid(row) {
                        self.time.value(row)
                    } else {
                        0
                    },
                    delete: truth(&self.marked, row),
                }),
                false => Line::Loser,
            };
        }
        let end = self.to.is_valid(row).then(|| self.to.value(row));
        let open = end == self.open_until;
        if !truth(&self.inside, row) {
            let from = self.from.is_valid(row).then(|| self.from.value(row));
            return Line::Outside(from, end.filter(|_| !open));
        }
        let contradicts = self.has_current && truth(&self.current, row) != open;
        if contradicts || (end.is_none() && !open) {
            return Line::Unreadable(Unreadable::Marker);
        }
        if self.from.is_null(row) {
            return Line::Unreadable(Unreadable::NoStart);
        }
        Line::Stored(Stored {
            row,
            from: self.from.value(row),
            to: end.filter(|_| !open),
            deleted: truth(&self.deleted, row),
            retires: truth(&self.retires, row),
        })
    }
}

fn truth(flags: &BooleanArray, row: usize) -> bool {
    flags.is_valid(row) && flags.value(row)
}

fn flags(batch: &RecordBatch, name: &str) -> Result<BooleanArray> {
    let column = batch.column(index_of(&batch.schema(), name, IntervalsSpec::NAME)?);
    let flags = column.as_boolean_opt().cloned();
    Ok(flags.ok_or_else(|| unexpected(name, column.data_type()))?)
}

fn times(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    let column = batch.column(index_of(&batch.schema(), name, IntervalsSpec::NAME)?);
    let times = column.as_primitive_opt::<Int64Type>().cloned();
    Ok(times.ok_or_else(|| unexpected(name, column.data_type()))?)
}

fn unexpected(name: &str, data_type: &DataType) -> LoadError {
    LoadError::internal(format!("column {name} of {} has type {data_type}", IntervalsSpec::NAME))
}
