//! The columns of a change stream, and what a batch of it asks for.

use alluvium_core::{LoadError, Result};
use alluvium_exec::{action, columns};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt32Array,
};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{Int64Type, Schema, UInt8Type, UInt32Type};

use super::actions::TaskCounts;
use super::spec::LoadSpec;

/// Where the columns of a change stream are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangeColumns {
    pub(super) table: Vec<usize>,
    action: usize,
    file: usize,
    row: usize,
    pub(super) old: Vec<usize>,
    pub(super) returning: Vec<usize>,
    pub(super) checks: Vec<usize>,
}

impl ChangeColumns {
    /// Finds the columns that `spec` asks for, and those of `checks` constraints.
    pub(super) fn find(spec: &LoadSpec, checks: usize, input: &Schema) -> Result<Self> {
        let find = |name: &str| {
            input
                .index_of(name)
                .map_err(|_| LoadError::internal(format!("the change stream lacks column {name:?}")))
        };
        let table = spec.target.schema.fields();
        let olds = if spec.change_data { table.len() } else { 0 };
        let returned = spec.returning.as_ref().map_or(0, |schema| schema.fields().len());
        Ok(Self {
            table: table.iter().map(|field| find(field.name())).collect::<Result<_>>()?,
            action: find(columns::ACTION)?,
            file: find(columns::FILE)?,
            row: find(columns::ROW)?,
            old: (0..olds).map(|i| find(&columns::old(i))).collect::<Result<_>>()?,
            returning: (0..returned)
                .map(|i| find(&columns::returning(i)))
                .collect::<Result<_>>()?,
            checks: (0..checks).map(|i| find(&columns::check(i))).collect::<Result<_>>()?,
        })
    }

    /// Reads the actions of `batch`.
    pub(super) fn read<'a>(&self, batch: &'a RecordBatch) -> Result<Changes<'a>> {
        let wrong = |name: &str| LoadError::internal(format!("column {name:?} of the change stream has a wrong type"));
        let actions = batch.column(self.action).as_primitive_opt::<UInt8Type>();
        let files = batch.column(self.file).as_primitive_opt::<UInt32Type>();
        let rows = batch.column(self.row).as_primitive_opt::<Int64Type>();
        let actions = actions.ok_or_else(|| wrong(columns::ACTION))?;
        if actions.null_count() > 0 {
            return Err(LoadError::internal("a row of the change stream has no action"));
        }
        Ok(Changes {
            batch,
            actions,
            files: files.ok_or_else(|| wrong(columns::FILE))?,
            rows: rows.ok_or_else(|| wrong(columns::ROW))?,
        })
    }
}

/// The actions of one batch.
pub(super) struct Changes<'a> {
    batch: &'a RecordBatch,
    actions: &'a UInt8Array,
    files: &'a UInt32Array,
    rows: &'a Int64Array,
}

impl Changes<'_> {
    /// Adds the rows to `counts`. Deletions are counted where positions are put together: several rows may ask for one.
    pub(super) fn count(&self, counts: &mut TaskCounts) {
        for code in self.actions.values() {
            match *code {
                action::INSERT => counts.inserted += 1,
                action::UPDATE => counts.updated += 1,
                action::UNCHANGED => counts.unchanged += 1,
                action::SKIPPED => counts.skipped += 1,
                _ => (),
            }
        }
    }

    /// Which rows have one of the actions `wanted`.
    pub(super) fn with(&self, wanted: &[u8]) -> Choice {
        let mask: BooleanArray = self
            .actions
            .values()
            .iter()
            .map(|code| Some(wanted.contains(code)))
            .collect();
        match mask.true_count() {
            0 => Choice::None,
            all if all == mask.len() => Choice::All(all),
            rows => Choice::Some(mask, rows),
        }
    }

    /// The positions that updates and deletions mark, with the action and the row of the batch.
    pub(super) fn marks(&self) -> impl Iterator<Item = Result<Mark>> {
        let marking = self.actions.values().iter().enumerate();
        marking
            .filter(|(_, code)| matches!(**code, action::UPDATE | action::DELETE))
            .map(|(index, code)| {
                let position = u64::try_from(self.rows.value(index)).ok();
                match position.filter(|_| self.files.is_valid(index) && self.rows.is_valid(index)) {
                    Some(position) => Ok(Mark {
                        index,
                        update: *code == action::UPDATE,
                        file: self.files.value(index),
                        position,
                    }),
                    None => Err(LoadError::internal(
                        "a stored row is to be changed, but its position is not known",
                    )),
                }
            })
    }

    /// The file and the position of the stored row that each of the rows `choice` is a new version of.
    pub(super) fn places(&self, choice: &Choice) -> Vec<Option<(u32, u64)>> {
        let rows = 0..self.actions.len();
        let place = |row: usize| {
            let position = u64::try_from(self.rows.value(row)).ok()?;
            let known = self.files.is_valid(row) && self.rows.is_valid(row);
            (known && self.actions.value(row) == action::UPDATE).then(|| (self.files.value(row), position))
        };
        rows.filter(|row| choice.has(*row)).map(place).collect()
    }

    /// The rows `choice` of the columns `indices`.
    pub(super) fn columns(&self, indices: &[usize], choice: &Choice) -> Result<Vec<ArrayRef>> {
        indices
            .iter()
            .map(|index| choice.apply(self.batch.column(*index)))
            .collect()
    }
}

/// A stored row that is to go.
pub(super) struct Mark {
    /// The row of the batch that asks for it.
    pub(super) index: usize,
    pub(super) update: bool,
    pub(super) file: u32,
    pub(super) position: u64,
}

/// A choice of rows of a batch.
pub(super) enum Choice {
    None,
    All(usize),
    Some(BooleanArray, usize),
}

impl Choice {
    /// The rows where `mask` is true.
    pub(super) fn of(mask: BooleanArray) -> Self {
        match mask.true_count() {
            0 => Self::None,
            rows => Self::Some(mask, rows),
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            Self::None => 0,
            Self::All(rows) | Self::Some(_, rows) => *rows,
        }
    }

    fn has(&self, row: usize) -> bool {
        match self {
            Self::None => false,
            Self::All(_) => true,
            Self::Some(mask, _) => mask.value(row),
        }
    }

    fn apply(&self, column: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Self::None => Ok(column.slice(0, 0)),
            Self::All(_) => Ok(column.clone()),
            Self::Some(mask, _) => Ok(filter(column, mask)?),
        }
    }
}
