//! The versions of each key: stored ones and source rows of one key come in, what changes in its history goes out.
//!
//! ```text
//! IntervalsExec: keys=[id], mode=by sequence, tracked=[name]
//!   SortExec: id                                    per partition, spills
//!     RepartitionExec: Hash([id])
//!       UnionExec: stored versions, source rows
//! ```
//!
//! Rows of one key are held until the key is complete; `fold.rs` computes its history. The output has the input's
//! columns and those of [`IntervalsSpec::appended`]: versions opened ([`crate::action::INSERT`]) and changed
//! ([`crate::action::UPDATE`], with the place of the stored row), and source rows that change nothing
//! ([`crate::action::UNCHANGED`], [`crate::action::SKIPPED`]), so that each is counted. Whatever refuses a history is
//! reported at the end of the input, duplicates first.

mod chunk;
mod exec;
mod fold;
mod output;
mod refused;
mod sequence;
#[cfg(test)]
mod tests;

use datafusion::arrow::datatypes::{DataType, Field};

use crate::columns;
use crate::node::{RowNode, RowSpec, list};

pub use exec::IntervalsExec;
pub(crate) use refused::broken_history;

/// The logical node.
pub type IntervalsNode = RowNode<IntervalsSpec>;

/// TRUE in stored versions, FALSE in source rows.
pub const STORED: &str = "__load_stored";
/// When a stored version begins, in microseconds, `Int64`.
pub const FROM: &str = "__load_from";
/// When it ends, in microseconds, `Int64`; NULL in one that is open with the marker NULL.
pub const TO: &str = "__load_to";
/// What its flag of open versions says; NULL without such a column.
pub const CURRENT: &str = "__load_current";
/// What its flag of deletions says.
pub const DELETED: &str = "__load_deleted";
/// Whether it is retired if the source lacks its key.
pub const RETIRES: &str = "__load_retires";
/// FALSE in stored versions that the statement must not touch.
pub const INSIDE: &str = "__load_inside";
/// The time of a source row, in microseconds, `Int64`.
pub const TIME: &str = "__load_time";
/// TRUE in source rows that delete.
pub const MARKED: &str = "__load_marked";
/// FALSE in source rows that lost deduplication.
pub const WINNER: &str = "__load_winner";
/// The boundary of the load, in microseconds, the same in all rows.
pub const BOUNDARY: &str = "__load_boundary";

/// When the version of an outgoing row begins, in microseconds.
pub const NEW_FROM: &str = "__load_new_from";
/// When it ends; NULL: it is open.
pub const NEW_TO: &str = "__load_new_to";
/// Whether it records a deletion; NULL where that was stored.
pub const NEW_DELETED: &str = "__load_new_deleted";

/// What happens to source rows older than the open version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LatePolicy {
    /// They are spliced into the history.
    Reorder,
    /// They are dropped.
    Ignore,
    /// They are an error.
    Error,
    /// They are inserted open, and close nothing.
    Append,
}

/// What happens to open versions of keys that the source lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbsentRows {
    /// They are closed.
    Invalidate,
    /// They are closed, and a deleted version with their content opened.
    NewRecord,
}

/// What the operator does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IntervalsSpec {
    /// The target table, as the statement names it.
    pub table: String,
    /// The columns that identify a history.
    pub keys: Vec<String>,
    /// Whether NULL equals NULL in them.
    pub nulls_equal: bool,
    /// The columns whose change opens a version.
    pub tracked: Vec<String>,
    /// The columns that an update in place takes over.
    pub landing: Vec<String>,
    /// Those of them that call for it when they differ.
    pub compared: Vec<String>,
    /// The source's columns: rows equal in all of them collapse.
    pub source: Vec<String>,
    /// The stored values, for the change feed.
    pub old: Vec<String>,
    /// The number of parts of the sequence; 0: all rows have the time of the load.
    pub sequence: usize,
    /// Whether stored versions carry the sequence of their row.
    pub guards: bool,
    /// Whether every newer row opens a version.
    pub always: bool,
    /// Late rows.
    pub late: LatePolicy,
    /// Whether a delete leaves a version of its own.
    pub delete_records: bool,
    /// Absent rows; `None`: they are left alone.
    pub absent: Option<AbsentRows>,
    /// Whether several rows of one key go unchecked.
    pub assume_unique: bool,
    /// The end of open versions, in microseconds; `None`: NULL.
    pub open_until: Option<i64>,
    /// Whether the table flags open versions.
    pub has_current: bool,
}

impl IntervalsSpec {
    fn sequence_columns(&self) -> Vec<String> {
        (0..self.sequence).map(columns::sequence).collect()
    }
}

impl RowSpec for IntervalsSpec {
    const NAME: &'static str = "Intervals";
    const EXEC_NAME: &'static str = "IntervalsExec";

    /// Of the sequence the names are built on the fly; they are kept by not being prunable.
    fn columns(&self) -> Vec<&str> {
        let named = self
            .keys
            .iter()
            .chain(&self.tracked)
            .chain(&self.landing)
            .chain(&self.compared)
            .chain(&self.source)
            .chain(&self.old);
        let fixed = [
            STORED,
            FROM,
            TO,
            CURRENT,
            DELETED,
            RETIRES,
            INSIDE,
            TIME,
            MARKED,
            WINNER,
            BOUNDARY,
            columns::FILE,
            columns::ROW,
        ];
        named.map(String::as_str).chain(fixed).collect()
    }

    fn appended(&self) -> Vec<Field> {
        vec![
            Field::new(NEW_FROM, DataType::Int64, true),
            Field::new(NEW_TO, DataType::Int64, true),
            Field::new(NEW_DELETED, DataType::Boolean, true),
            Field::new(columns::ACTION, DataType::UInt8, false),
        ]
    }

    fn prunable(&self) -> bool {
        false
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        let mut arguments = vec![("keys", list(&self.keys))];
        if !self.nulls_equal {
            arguments.push(("nulls", "distinct".into()));
        }
        let mode = if self.sequence > 0 {
            "by sequence"
        } else {
            "by boundary"
        };
        arguments.push(("mode", mode.into()));
        match self.always {
            true => arguments.push(("tracked", "every newer row".into())),
            false => arguments.push(("tracked", list(&self.tracked))),
        }
        if self.sequence > 0 {
            arguments.push(("late", format!("{:?}", self.late).to_lowercase()));
        }
        match self.absent {
            Some(AbsentRows::Invalidate) => arguments.push(("absent", "invalidate".into())),
            Some(AbsentRows::NewRecord) => arguments.push(("absent", "new record".into())),
            None => (),
        }
        arguments
    }
}
