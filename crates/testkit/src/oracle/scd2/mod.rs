//! `SCD2 MERGE INTO`: the source becomes versions with validity intervals.
//!
//! By boundary (`boundary.rs`) one time closes and opens; by sequence (`sequence.rs`) every row has its own.

mod boundary;
mod frame;
mod sequence;

use super::clauses::{Absent, ColumnSet, Common, DeleteMarker};
use super::{Answer, BAD_VALUE, ErrorCode, SYNTAX, finished, skipped, source};
use crate::rows::{ident_list, literal};
use crate::values::{ColumnType, Table, Value};
use frame::Frame;

/// What a delete marker does to the open version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeleteVersions {
    /// It is closed (default, not printed).
    #[default]
    Invalidate,
    /// It is closed, and a deleted version with its content opened.
    NewRecord,
}

/// What happens to open versions the source lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsentVersions {
    /// They are closed.
    Invalidate,
    /// They are closed, and deleted versions with their content opened.
    NewRecord,
}

/// Which columns make a new version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Track {
    /// All but keys and sequence (no clause).
    #[default]
    All,
    /// `TRACK HISTORY ON ..`.
    On(ColumnSet),
    /// `TRACK HISTORY ALWAYS`: every newer row.
    Always,
}

/// `ON LATE ARRIVAL ..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatePolicy {
    /// Spliced into the history, which is also the default.
    Reorder,
    /// Dropped.
    Ignore,
    /// An error.
    Error,
    /// Inserted open; nothing is closed.
    Append,
}

/// `VALIDITY COLUMNS (from, to [, is_current [, is_deleted]])`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// Start, included.
    pub from: String,
    /// End, excluded.
    pub to: String,
    /// Whether open.
    pub is_current: Option<String>,
    /// Whether the version records a deletion.
    pub is_deleted: Option<String>,
}

impl Validity {
    /// Two to four names, in the clause's order.
    pub fn new(from: &str, to: &str, is_current: Option<&str>, is_deleted: Option<&str>) -> Self {
        let owned = |name: &str| name.to_owned();
        Self {
            from: owned(from),
            to: owned(to),
            is_current: is_current.map(owned),
            is_deleted: is_deleted.map(owned),
        }
    }

    /// The names in order.
    pub fn names(&self) -> Vec<String> {
        let optional = [self.is_current.clone(), self.is_deleted.clone()].into_iter().flatten();
        [self.from.clone(), self.to.clone()]
            .into_iter()
            .chain(optional)
            .collect()
    }
}

/// The statement. By sequence if `common.sequence` is not empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scd2 {
    /// Shared clauses; without keys the tracked columns are the identity.
    pub common: Common,
    /// `APPLY AS DELETE WHEN .. [THEN ..]`.
    pub delete_when: Option<(DeleteMarker, DeleteVersions)>,
    /// `TRACK HISTORY ..`.
    pub track: Track,
    /// `EFFECTIVE AT`, in microseconds.
    pub effective_at: Option<i64>,
    /// `VALIDITY COLUMNS`.
    pub validity: Option<Validity>,
    /// `ACTIVE UNTIL`, in microseconds; `None` is NULL.
    pub active_until: Option<i64>,
    /// `WHEN NOT MATCHED BY SOURCE`.
    pub absent: Option<Absent<AbsentVersions>>,
    /// `ON LATE ARRIVAL`.
    pub late: Option<LatePolicy>,
    /// `OPTIONS ('merge.compare' 'tracked')`: what is not tracked is not looked at where the tracked columns are equal.
    pub trusts_tracked: bool,
}

impl Scd2 {
    /// The statement as SQL.
    pub fn to_sql(&self, target: &str, source: &str) -> String {
        let time = |micros: i64| literal(&Value::Ts(micros), ColumnType::Ts);
        let mut clauses = Vec::new();
        clauses.extend(self.delete_when.iter().map(|(marker, then)| {
            let then = if *then == DeleteVersions::NewRecord {
                " THEN NEW RECORD"
            } else {
                ""
            };
            format!("APPLY AS DELETE WHEN {}{then}", marker.to_sql())
        }));
        match &self.track {
            Track::All => {}
            Track::On(set) => clauses.push(format!("TRACK HISTORY ON {}", set.to_sql())),
            Track::Always => clauses.push("TRACK HISTORY ALWAYS".to_owned()),
        }
        clauses.extend(self.effective_at.map(|at| format!("EFFECTIVE AT {}", time(at))));
        clauses.extend(
            self.validity
                .iter()
                .map(|v| format!("VALIDITY COLUMNS ({})", ident_list(&v.names()))),
        );
        clauses.extend(self.active_until.map(|at| format!("ACTIVE UNTIL {}", time(at))));
        clauses.extend(self.absent.iter().map(|absent| match absent.action {
            AbsentVersions::Invalidate => absent.to_sql("INVALIDATE"),
            AbsentVersions::NewRecord => absent.to_sql("NEW RECORD"),
        }));
        clauses.extend(self.late.map(|late| match late {
            LatePolicy::Reorder => "ON LATE ARRIVAL REORDER".to_owned(),
            LatePolicy::Ignore => "ON LATE ARRIVAL IGNORE".to_owned(),
            LatePolicy::Error => "ON LATE ARRIVAL ERROR".to_owned(),
            LatePolicy::Append => "ON LATE ARRIVAL APPEND".to_owned(),
        }));
        if self.trusts_tracked {
            clauses.push("OPTIONS ('merge.compare' 'tracked')".to_owned());
        }
        self.common.to_sql("SCD2 MERGE", target, source, clauses)
    }

    /// What it does when it starts at `now` (used only without `EFFECTIVE AT`).
    pub fn apply(&self, before: Option<&Table>, source: &Table, now: i64) -> Answer {
        self.check_clauses()?;
        let marker = self.delete_when.as_ref().map(|(marker, _)| marker);
        source::check_clauses(&self.common)?;
        source::check_names(&self.common, source, before, marker)?;
        let mut frame = Frame::new(self, before, source, self.effective_at.unwrap_or(now))?;
        if source::ends_empty(&self.common, source, before)? {
            return Ok(skipped(before));
        }
        source::check_keys(&frame.identity, source)?;
        frame.check_open_marker()?;
        if self.common.sequence.is_empty() {
            boundary::load(&mut frame)?;
        } else {
            sequence::load(&mut frame)?;
        }
        frame.retire_absent()?;
        let (table, counts) = frame.finish()?;
        Ok(finished(before, table, counts))
    }

    fn check_clauses(&self) -> Result<(), ErrorCode> {
        let by_sequence = !self.common.sequence.is_empty();
        let one_key_set = self.common.keys.len() <= 1;
        let keys_if_sequence = !by_sequence || !self.common.keys.is_empty();
        let always = self.track != Track::Always || by_sequence;
        let late = self.late.is_none() || by_sequence;
        let boundary = self.effective_at.is_none() || !by_sequence || self.absent.is_some();
        let records = self.records_deletions() && self.validity.as_ref().is_some_and(|v| v.is_deleted.is_none());
        if one_key_set && keys_if_sequence && always && late && boundary && !records {
            Ok(())
        } else {
            Err(SYNTAX)
        }
    }

    fn records_deletions(&self) -> bool {
        let marked = self
            .delete_when
            .as_ref()
            .is_some_and(|(_, then)| *then == DeleteVersions::NewRecord);
        marked
            || self
                .absent
                .as_ref()
                .is_some_and(|absent| absent.action == AbsentVersions::NewRecord)
    }

    /// The names in use: those of the clause, or the defaults.
    pub fn validity_columns(&self) -> Validity {
        let deleted = self.records_deletions().then_some("__is_deleted");
        let default = || Validity::new("__valid_from", "__valid_to", Some("__is_current"), deleted);
        self.validity.clone().unwrap_or_else(default)
    }
}

pub(super) fn time_of(value: &Value) -> Result<i64, ErrorCode> {
    match value {
        Value::Ts(v) => Ok(*v),
        Value::Date(v) => Ok(i64::from(*v) * 86_400_000_000),
        _ => Err(BAD_VALUE),
    }
}
