//! Why a load is refused, in words.

use std::sync::Arc;

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::{ArrayRef, TimestampMicrosecondArray};
use datafusion::common::Result;

use super::chunk::Unreadable;
use super::fold::Refusal;
use crate::keys::shown_value;

/// At most so many keys are listed.
const SHOWN_KEYS: usize = 5;

/// What was refused so far. The load fails at its end, so that duplicates are known with their counts.
#[derive(Default)]
pub(super) struct Refused {
    duplicates: Vec<(String, usize)>,
    more: bool,
    first: Option<LoadError>,
}

impl Refused {
    pub(super) fn is_empty(&self) -> bool {
        self.duplicates.is_empty() && self.first.is_none()
    }

    /// Whether another key would still be shown.
    pub(super) fn is_full(&self) -> bool {
        self.more
    }

    /// The history of `key` was refused.
    pub(super) fn add(&mut self, refusal: Refusal, table: &str, key: &str) -> Result<()> {
        match refusal {
            Refusal::Duplicates { rows } if self.duplicates.len() < SHOWN_KEYS => {
                self.duplicates.push((key.to_owned(), rows));
            }
            Refusal::Duplicates { .. } => self.more = true,
            other if self.first.is_none() => self.first = Some(described(other, table, key)?),
            _ => (),
        }
        Ok(())
    }

    pub(super) fn add_error(&mut self, error: LoadError) {
        self.first.get_or_insert(error);
    }

    /// The error of the load, if there is one.
    pub(super) fn into_error(self, table: &str) -> Option<LoadError> {
        if self.duplicates.is_empty() {
            return self.first;
        }
        let lines = self
            .duplicates
            .iter()
            .map(|(key, rows)| format!("Key {key} occurs {rows} times in the source."));
        let mut lines: Vec<String> = lines.collect();
        if self.more {
            lines.push("There are more such keys.".into());
        }
        let message = format!("several source rows have the same key for table \"{table}\"");
        Some(
            LoadError::new(SqlState::CardinalityViolation, message)
                .detail(lines.join("\n"))
                .hint("Add SEQUENCE BY or DEDUPLICATE BY; only rows that are equal in all columns collapse."),
        )
    }
}

/// The error of a history with several open versions.
pub(crate) fn broken_history(table: &str, key: &str) -> Result<LoadError> {
    described(Refusal::Broken, table, key)
}

fn described(refusal: Refusal, table: &str, key: &str) -> Result<LoadError> {
    let bad = |message: String| LoadError::new(SqlState::InvalidParameter, message);
    Ok(match refusal {
        Refusal::Duplicates { rows } => bad(format!("key {key} occurs {rows} times")),
        Refusal::SameSequence { .. } => LoadError::new(
            SqlState::CardinalityViolation,
            format!("source rows with the same key and sequence differ for table \"{table}\""),
        )
        .detail(format!(
            "Key {key} occurs several times with one sequence and different content."
        ))
        .hint("Add an expression to SEQUENCE BY that tells such rows apart."),
        Refusal::Late { time, end, .. } => bad(format!(
            "a source row is older than the history of its key in table \"{table}\""
        ))
        .detail(format!(
            "Key {key} has a row of {}, and history up to {}.",
            shown(time)?,
            shown(end)?
        ))
        .hint("ON LATE ARRIVAL REORDER splices such rows in, IGNORE drops them, APPEND adds them."),
        Refusal::Past { from, at } => bad(format!("a version of table \"{table}\" would end before it begins"))
            .detail(format!(
                "Key {key} has a version from {}, the boundary is {}.",
                shown(from)?,
                shown(at)?
            ))
            .hint("Load with a later boundary: EFFECTIVE AT must not lie before what it closes."),
        Refusal::Closed { to, at } => bad(format!("the boundary lies inside closed history of table \"{table}\""))
            .detail(format!(
                "Key {key} has a version up to {}, the boundary is {}.",
                shown(to)?,
                shown(at)?
            ))
            .hint("Load with a later EFFECTIVE AT."),
        Refusal::Broken => bad(format!("the history of a key in table \"{table}\" is broken"))
            .detail(format!(
                "Key {key} has versions that overlap, or several that are open."
            ))
            .hint(
                "Repair it first: a version must not reach beyond the start of the next one of its key. After ON LATE ARRIVAL \
                 APPEND several open versions are what was asked for: such a table takes only loads with that clause.",
            ),
    })
}

/// A stored version that cannot be read.
pub(super) fn unreadable(what: Unreadable, table: &str, key: &str) -> LoadError {
    match what {
        Unreadable::Marker => LoadError::new(
            SqlState::InvalidParameter,
            format!("the open versions of table \"{table}\" use another marker"),
        )
        .detail(format!(
            "Key {key} has a version whose end does not go with ACTIVE UNTIL."
        ))
        .hint("Write the ACTIVE UNTIL that the table was loaded with."),
        Unreadable::NoStart => LoadError::new(
            SqlState::InvalidParameter,
            format!("a version of table \"{table}\" has no start"),
        )
        .detail(format!("Key {key} has a version that begins at NULL."))
        .hint("Repair it first; VALIDITY COLUMNS may name the wrong columns."),
    }
}

/// A key is stored outside `WITHIN` only.
pub(super) fn outside(table: &str, key: &str) -> LoadError {
    LoadError::new(SqlState::OutsideWindow, "a source row's key is stored outside WITHIN")
        .detail(format!(
            "Key {key} of table \"{table}\" has versions outside, beside which the new ones do not fit."
        ))
        .hint("Widen WITHIN so that it covers every row of the keys you load.")
}

/// `EFFECTIVE AT` came out as NULL.
pub(super) fn null_boundary() -> LoadError {
    LoadError::new(SqlState::InvalidParameter, "the boundary of the load is NULL").hint("Give EFFECTIVE AT a time.")
}

fn shown(micros: i64) -> Result<String> {
    let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![micros]));
    shown_value(&array, 0)
}
