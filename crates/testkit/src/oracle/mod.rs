//! The four statements as a plain model over rows. Quadratic on purpose: being right is all that counts.
//!
//! A spec struct per statement ([`Upsert`], [`InsertOnly`], [`Overwrite`], [`Scd2`]) holds its clauses. `apply` runs it
//! on a target and a source, `to_sql` prints it as the statement the engine runs.

pub mod clauses;
pub mod expr;
pub mod insert_only;
pub mod overwrite;
pub mod scd2;
mod source;
mod target;
pub mod upsert;

#[cfg(test)]
mod tests;

pub use clauses::{Absent, ColumnSet, Common, Create, Dedup, DeleteMarker, Keys, NullKeys, OnEmpty, Order, Unique};
pub use expr::{Cond, Expr};
pub use insert_only::InsertOnly;
pub use overwrite::{OnOutside, Overwrite, Window};
pub use scd2::{AbsentVersions, DeleteVersions, LatePolicy, Scd2, Track, Validity};
pub use upsert::{AbsentRows, UpdateColumns, Upsert};

use crate::values::Table;

/// Row counts of the result row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// `num_inserted_rows`.
    pub inserted: u64,
    /// `num_updated_rows`.
    pub updated: u64,
    /// `num_deleted_rows`.
    pub deleted: u64,
    /// `num_unchanged_rows`.
    pub unchanged: u64,
    /// `num_skipped_rows`.
    pub skipped: u64,
    /// `num_source_rows`.
    pub source: u64,
}

impl Counts {
    /// `num_affected_rows`.
    pub fn affected(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }
}

/// `status` of the result row (`DRY RUN` is the caller's business: it changes nothing else).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// `COMMITTED`.
    Committed,
    /// `NO CHANGES`.
    NoChanges,
    /// `SKIPPED`.
    Skipped,
}

impl Status {
    /// As the result row spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "COMMITTED",
            Self::NoChanges => "NO CHANGES",
            Self::Skipped => "SKIPPED",
        }
    }
}

/// What a statement that succeeds leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The target afterwards; `None` when it did not exist and was not created.
    pub table: Option<Table>,
    /// The counts of the result row.
    pub counts: Counts,
    /// The status of the result row.
    pub status: Status,
}

/// The SQLSTATE of a statement that fails (and changes nothing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode(pub &'static str);

/// What the model answers.
pub type Answer = Result<Outcome, ErrorCode>;

pub(crate) const SYNTAX: ErrorCode = ErrorCode("42601");
pub(crate) const NO_TABLE: ErrorCode = ErrorCode("42P01");
pub(crate) const NO_COLUMN: ErrorCode = ErrorCode("42703");
pub(crate) const DUPLICATE_COLUMN: ErrorCode = ErrorCode("42701");
pub(crate) const BAD_VALUE: ErrorCode = ErrorCode("22023");
pub(crate) const DUPLICATE_KEY: ErrorCode = ErrorCode("21000");
pub(crate) const NULL_VALUE: ErrorCode = ErrorCode("23502");
pub(crate) const OUTSIDE: ErrorCode = ErrorCode("44000");

/// The outcome of a statement that did not even start.
pub(crate) fn skipped(target: Option<&Table>) -> Outcome {
    Outcome {
        table: target.cloned(),
        counts: Counts::default(),
        status: Status::Skipped,
    }
}

/// Committed if rows or columns changed.
pub(crate) fn finished(before: Option<&Table>, table: Table, counts: Counts) -> Outcome {
    let same = before.is_some_and(|b| b.columns == table.columns) && counts.affected() == 0;
    let status = if same { Status::NoChanges } else { Status::Committed };
    Outcome {
        table: Some(table),
        counts,
        status,
    }
}
