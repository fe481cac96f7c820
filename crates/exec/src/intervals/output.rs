//! The rows that go out: for every column, from which incoming row its value comes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt64Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;

use super::IntervalsSpec;
use super::fold::Version;
use crate::{action, columns};

/// Which row of its version a column is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The row that was taken over last.
    Land,
    /// The stored row; NULL without one.
    Stored,
    /// The row that the version was made from.
    Base,
}

/// The roles of all incoming columns.
pub(super) struct Roles(Vec<Role>);

impl Roles {
    pub(super) fn of(spec: &IntervalsSpec, schema: &Schema) -> Self {
        let role = |name: &String| {
            if spec.landing.contains(name) || spec.source.contains(name) {
                Role::Land
            } else if spec.old.contains(name) || name == columns::FILE || name == columns::ROW {
                Role::Stored
            } else {
                Role::Base
            }
        };
        Self(schema.fields().iter().map(|field| role(field.name())).collect())
    }
}

/// Collects outgoing rows.
#[derive(Default)]
pub(super) struct Output {
    base: Vec<Option<u64>>,
    land: Vec<Option<u64>>,
    stored: Vec<Option<u64>>,
    from: Vec<Option<i64>>,
    to: Vec<Option<i64>>,
    deleted: Vec<Option<bool>>,
    action: Vec<u8>,
}

impl Output {
    /// A version that was opened or changed. A flag that was stored as NULL stays NULL while it means "no".
    pub(super) fn version(&mut self, version: &Version, null_flag: bool) {
        self.base.push(number(version.base));
        self.land.push(number(version.land));
        self.stored.push(version.stored.and_then(|stored| number(stored.row)));
        self.from.push(Some(version.from));
        self.to.push(version.to);
        self.deleted
            .push((version.deleted || !null_flag).then_some(version.deleted));
        self.action.push(match version.stored {
            Some(_) => action::UPDATE,
            None => action::INSERT,
        });
    }

    /// A source row that is only counted.
    pub(super) fn counted(&mut self, row: usize, action: u8) {
        self.base.push(number(row));
        self.land.push(number(row));
        self.stored.push(None);
        self.from.push(None);
        self.to.push(None);
        self.deleted.push(None);
        self.action.push(action);
    }

    /// The rows, taken out of `input`; `None` if there are none.
    pub(super) fn build(self, input: &RecordBatch, roles: &Roles, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        if self.action.is_empty() {
            return Ok(None);
        }
        let (base, land) = (UInt64Array::from(self.base), UInt64Array::from(self.land));
        let stored = UInt64Array::from(self.stored);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (column, role) in input.columns().iter().zip(&roles.0) {
            let rows = match role {
                Role::Land => &land,
                Role::Stored => &stored,
                Role::Base => &base,
            };
            arrays.push(take(column, rows, None)?);
        }
        arrays.push(Arc::new(Int64Array::from(self.from)));
        arrays.push(Arc::new(Int64Array::from(self.to)));
        arrays.push(Arc::new(BooleanArray::from(self.deleted)));
        arrays.push(Arc::new(UInt8Array::from(self.action)));
        Ok(Some(RecordBatch::try_new(Arc::clone(schema), arrays)?))
    }
}

fn number(row: usize) -> Option<u64> {
    u64::try_from(row).ok()
}
