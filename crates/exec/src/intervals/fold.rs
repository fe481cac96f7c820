//! The arithmetic of one key's history: stored versions and new events in, the history afterwards out.
//!
//! Nothing here knows Arrow. Rows are numbers, and [`Contents`] compares them.

use std::cmp::Ordering;

use super::sequence;
use super::{AbsentRows, LatePolicy};

/// A stored version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub row: usize,
    pub from: i64,
    /// `None`: open.
    pub to: Option<i64>,
    /// It records a deletion.
    pub deleted: bool,
    /// If the source lacks its key, it is to be retired.
    pub retires: bool,
}

/// A source row at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub row: usize,
    pub time: i64,
    pub delete: bool,
}

/// A version of the history afterwards. Its columns come from up to two rows: what updates in place take over from
/// `land`, everything else from `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub from: i64,
    pub to: Option<i64>,
    pub deleted: bool,
    pub base: usize,
    pub land: usize,
    /// The stored version it was; `None` for a new one.
    pub stored: Option<Stored>,
}

/// How rows compare.
pub(super) trait Contents {
    /// Equal in all tracked columns.
    fn tracked(&self, a: usize, b: usize) -> bool;
    /// Equal in all columns that an update in place takes over.
    fn landing(&self, a: usize, b: usize) -> bool;
    /// Equal in all columns that call for an update in place.
    fn settled(&self, a: usize, b: usize) -> bool;
    /// Equal in all columns of the source.
    fn identical(&self, a: usize, b: usize) -> bool;
    /// The order of their sequences.
    fn sequence(&self, a: usize, b: usize) -> Ordering;
    /// Equal in the first part of the sequence.
    fn first(&self, a: usize, b: usize) -> bool;
}

/// What the statement's clauses say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// The boundary of the load; by sequence it dates absent rows only.
    pub boundary: i64,
    /// Rows carry their own time.
    pub by_sequence: bool,
    /// Every newer row opens a version.
    pub always: bool,
    pub late: LatePolicy,
    /// Deletes leave a version of their own.
    pub delete_records: bool,
    pub absent: Option<AbsentRows>,
    /// Several rows of one key are not checked.
    pub assume_unique: bool,
    /// Stored versions keep the sequence of their row.
    pub guards: bool,
}

/// The history afterwards, and the source rows that changed nothing.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub versions: Vec<Version>,
    pub unchanged: Vec<usize>,
    pub skipped: Vec<usize>,
}

/// Why a history cannot be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Several different rows of the key.
    Duplicates { rows: usize },
    /// Rows of equal sequence differ.
    SameSequence { row: usize },
    /// A row is older than the open version, or than the last end.
    Late { row: usize, time: i64, end: i64 },
    /// A version would end before it begins.
    Past { from: i64, at: i64 },
    /// The boundary lies inside closed history.
    Closed { to: i64, at: i64 },
    /// The stored versions overlap, or several are open.
    Broken,
}

impl Version {
    pub(super) fn of(stored: Stored) -> Self {
        Self {
            from: stored.from,
            to: stored.to,
            deleted: stored.deleted,
            base: stored.row,
            land: stored.row,
            stored: Some(stored),
        }
    }

    /// Opened by a source row.
    pub(super) fn opened(row: usize, from: i64) -> Self {
        Self {
            from,
            to: None,
            deleted: false,
            base: row,
            land: row,
            stored: None,
        }
    }

    /// The record of the deletion of this one.
    pub(super) fn record(self, from: i64) -> Self {
        Self {
            from,
            to: None,
            deleted: true,
            stored: None,
            ..self
        }
    }

    /// Takes over what is not tracked; whether that changed anything.
    pub(super) fn overwrite(&mut self, row: usize, contents: &dyn Contents) -> bool {
        if contents.settled(self.land, row) {
            return false;
        }
        self.land = row;
        true
    }

    /// Whether it differs from what is stored.
    pub(super) fn changed(&self, contents: &dyn Contents) -> bool {
        self.stored.is_none_or(|stored| {
            let bounds = (stored.from, stored.to, stored.deleted) != (self.from, self.to, self.deleted);
            bounds || (self.land != stored.row && !contents.settled(self.land, stored.row))
        })
    }

    fn close(&mut self, at: i64) -> Result<(), Refusal> {
        if at < self.from {
            return Err(Refusal::Past { from: self.from, at });
        }
        self.to = Some(at);
        Ok(())
    }
}

/// The history of a key after the load.
pub(super) fn fold(
    mut stored: Vec<Stored>,
    events: &[Event],
    policy: &Policy,
    contents: &dyn Contents,
) -> Result<Folded, Refusal> {
    stored.sort_by_key(|v| (v.from, v.to.is_none(), v.to));
    // What `APPEND` has left open beside the current version is legal where it is named.
    if policy.late != LatePolicy::Append && !is_sound(&stored) {
        return Err(Refusal::Broken);
    }
    match policy.by_sequence {
        true => sequence::fold(stored, events, policy, contents),
        false => by_boundary(stored, events, policy, contents),
    }
}

/// The history of a key that the source lacks.
pub(super) fn retire(mut stored: Vec<Stored>, policy: &Policy) -> Result<Folded, Refusal> {
    let Some(absent) = policy.absent else {
        return Ok(Folded::default());
    };
    stored.sort_by_key(|v| (v.from, v.to.is_none(), v.to));
    let retired = |version: &&Stored| version.to.is_none() && !version.deleted && version.retires;
    if !stored.iter().any(|version| retired(&version)) {
        return Ok(Folded::default());
    }
    if policy.late != LatePolicy::Append && !is_sound(&stored) {
        return Err(Refusal::Broken);
    }
    let mut versions = Vec::new();
    let latest = open_of(&stored);
    for (i, version) in stored.iter().enumerate().filter(|(_, version)| retired(version)) {
        let mut version = Version::of(*version);
        version.close(policy.boundary)?;
        // What `APPEND` left open beside the latest is closed as well; one record tells of the absence.
        let record = (absent == AbsentRows::NewRecord && latest == Some(i)).then(|| version.record(policy.boundary));
        versions.push(version);
        versions.extend(record);
    }
    Ok(Folded {
        versions,
        ..Folded::default()
    })
}

/// Whether versions out of the statement's reach, as start and end, stay disjoint from those of `folded`.
pub(super) fn fits_beside(folded: &Folded, outside: &[(i64, Option<i64>)]) -> bool {
    let before = |a: (i64, Option<i64>), b: (i64, Option<i64>)| a.1.is_some_and(|end| end <= b.0);
    folded.versions.iter().all(|version| {
        let version = (version.from, version.to);
        outside
            .iter()
            .all(|other| before(version, *other) || before(*other, version))
    })
}

/// Ordered and disjoint, with at most one open. Versions are sorted.
fn is_sound(stored: &[Stored]) -> bool {
    let backwards = stored.iter().any(|v| v.to.is_some_and(|to| to < v.from));
    let overlaps = stored.windows(2).any(|pair| match pair {
        [a, b] => a.to.is_none_or(|to| to > b.from),
        _ => false,
    });
    !backwards && !overlaps
}

/// The open version; the latest, should there be several.
pub(super) fn open_of(stored: &[Stored]) -> Option<usize> {
    let open = stored.iter().enumerate().filter(|(_, v)| v.to.is_none());
    open.max_by_key(|(_, v)| v.from).map(|(i, _)| i)
}

/// One boundary for the whole load, and one row per key.
fn by_boundary(
    stored: Vec<Stored>,
    events: &[Event],
    policy: &Policy,
    contents: &dyn Contents,
) -> Result<Folded, Refusal> {
    let mut folded = Folded::default();
    let mut distinct: Vec<Event> = Vec::new();
    for event in events {
        match distinct.iter().any(|known| contents.identical(known.row, event.row)) {
            true => folded.skipped.push(event.row),
            false if distinct.is_empty() || policy.assume_unique => distinct.push(*event),
            false => return Err(Refusal::Duplicates { rows: events.len() }),
        }
    }
    let mut versions: Vec<Version> = stored.into_iter().map(Version::of).collect();
    for event in distinct {
        if !apply(&mut versions, event, policy, contents)? {
            folded.unchanged.push(event.row);
        }
    }
    folded.versions = versions;
    Ok(folded)
}

/// One row against the open version; whether anything changed.
fn apply(versions: &mut Vec<Version>, event: Event, policy: &Policy, contents: &dyn Contents) -> Result<bool, Refusal> {
    let at = policy.boundary;
    let last_end = versions.iter().filter_map(|v| v.to).max();
    let open = versions.iter_mut().filter(|v| v.to.is_none()).max_by_key(|v| v.from);
    let opened = match open {
        Some(open) if event.delete => {
            if open.deleted {
                return Ok(false);
            }
            open.close(at)?;
            policy.delete_records.then(|| open.record(at))
        }
        None if event.delete => return Ok(false),
        Some(open) if !open.deleted && contents.tracked(open.land, event.row) => {
            return Ok(open.overwrite(event.row, contents));
        }
        Some(open) => {
            open.close(at)?;
            Some(Version::opened(event.row, at))
        }
        None => match last_end {
            Some(to) if to > at => return Err(Refusal::Closed { to, at }),
            _ => Some(Version::opened(event.row, at)),
        },
    };
    versions.extend(opened);
    Ok(true)
}
