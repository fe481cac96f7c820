//! Which rows a load brings, and what must be in the table afterwards.
//!
//! The base table holds the even ids below `2 * rows`, each at version 0. A source row has a later version. Odd ids lie
//! between the stored ones, so that scattered inserts fall into the key ranges of existing files. A history holds every
//! fifth key at version 1 already, with version 0 closed.

use std::collections::HashMap;
use std::ops::Range;

use crate::rows::{DAYS, Row, mix};
use crate::workload::{Load, Place, Size, Workload};

/// Days that a window replaces: the last ones.
pub const WINDOW_DAYS: u64 = 7;
/// The first of them.
pub const WINDOW_FROM: &str = "2024-03-24";
/// The day after the last of them.
pub const WINDOW_TO: &str = "2024-03-31";
/// The first of them, in days since 1970.
pub const WINDOW_FIRST_DAY: i32 = 19_806;
/// The last of them, in days since 1970.
pub const WINDOW_LAST_DAY: i32 = 19_812;

/// What the table must hold after a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Rows of the table.
    pub rows: u64,
    /// The sum of their versions, or in a history the number of current rows.
    pub marked: u64,
}

/// The version at which a history stores a key as current.
pub fn version_in_history(id: i64) -> i32 {
    i32::from(id % 10 == 0)
}

impl Workload {
    /// The rows of each source, where the base table has `total` rows.
    pub fn rows(&self, total: u64) -> Vec<Vec<Row>> {
        let stored = self.base.keys(total);
        match self.load {
            Load::Upsert | Load::InsertOnly => (0..self.sources).map(|batch| self.batch(stored, batch)).collect(),
            Load::Window => vec![of_window(stored)],
            Load::Newest => vec![thrice(&self.batch(stored, 0))],
            Load::HistoryOfExtract => vec![extract(stored)],
            Load::HistoryOfChanges => vec![self.batch(stored, 0).into_iter().map(next_version).collect()],
        }
    }

    /// What must be in the table afterwards.
    pub fn expected(&self, total: u64) -> Expected {
        let stored = self.base.keys(total);
        let (known, new) = self.counts(stored);
        let (in_window, new_in_window) = counts_of_window(stored);
        let (changed, new_in_extract) = counts_of_extract(stored);
        let versions = stored + stored.div_ceil(5);
        let (rows, marked) = match self.load {
            Load::Upsert if self.sources == 1 => (stored + new, known + new),
            Load::Upsert => (stored + new * self.sources, self.last_versions(total)),
            Load::InsertOnly => (stored + new, new),
            Load::Window => (stored + new_in_window, in_window + new_in_window),
            Load::Newest => (stored + new, 3 * (known + new)),
            Load::HistoryOfExtract => (versions + changed + new_in_extract, stored + new_in_extract),
            Load::HistoryOfChanges => (versions + known + new, stored + new),
        };
        Expected { rows, marked }
    }

    /// One of several sources: no key twice in it, in no order. New keys follow those of the source before.
    fn batch(&self, stored: u64, batch: u64) -> Vec<Row> {
        let (known, new) = self.counts(stored);
        let (known_in, new_in) = match self.place {
            Place::Scattered => (0..stored, 0..stored),
            Place::Recent => (
                stored - stored / 20..stored,
                stored + batch * new..stored + (batch + 1) * new,
            ),
        };
        let known = pick(known_in, known, 1 + 2 * batch)
            .into_iter()
            .map(|position| position * 2);
        let new = pick(new_in, new, 2 + 2 * batch)
            .into_iter()
            .map(|position| position * 2 + 1);
        let version = i32::try_from(batch + 1).unwrap_or(i32::MAX);
        shuffled(known.chain(new).map(|id| Row::new(id, version)).collect())
    }

    /// How many rows of one source the table knows, and how many are new.
    fn counts(&self, stored: u64) -> (u64, u64) {
        let rows = match self.size {
            Size::OneIn(n) => stored / n,
            Size::Rows(n) => n.min(stored),
        };
        let room = match self.place {
            Place::Scattered => stored,
            Place::Recent => stored / 20,
        };
        let known = (rows * self.known_in_ten / 10).min(room);
        (known, rows - known)
    }

    /// The sum of the versions of all keys, each at the last one that it comes with.
    fn last_versions(&self, total: u64) -> u64 {
        let rows = self.rows(total).into_iter().flatten();
        let last: HashMap<i64, i32> = rows.map(|row| (row.id, row.version)).collect();
        last.values().map(|version| u64::from(version.unsigned_abs())).sum()
    }
}

/// Every row of the last days, and a few new ones, in order, as an extract of some days comes.
fn of_window(stored: u64) -> Vec<Row> {
    let (inside, new) = counts_of_window(stored);
    let days = stored - inside..stored;
    let known = days.clone().map(|position| position * 2);
    let new = pick(days, new, 2).into_iter().map(|position| position * 2 + 1);
    let mut rows: Vec<Row> = known.chain(new).map(|id| Row::new(id, 1)).collect();
    rows.sort_by_key(|row| row.id);
    rows
}

fn counts_of_window(stored: u64) -> (u64, u64) {
    let inside = stored - (stored * (DAYS - WINDOW_DAYS)).div_ceil(DAYS);
    (inside, inside / 50)
}

/// Every key of a history, one in fifty at its next version, and one in a hundred that is new.
fn extract(stored: u64) -> Vec<Row> {
    let (changed, new) = counts_of_extract(stored);
    let as_stored = |position: u64| {
        let row = Row::new(position * 2, 0);
        Row {
            version: version_in_history(row.id),
            ..row
        }
    };
    let mut rows: Vec<Row> = (0..stored).map(as_stored).collect();
    for position in pick(0..stored, changed, 1) {
        if let Some(row) = usize::try_from(position).ok().and_then(|p| rows.get_mut(p)) {
            *row = next_version(*row);
        }
    }
    let new = pick(0..stored, new, 2).into_iter().map(|position| position * 2 + 1);
    rows.extend(new.map(|id| Row::new(id, 1)));
    shuffled(rows)
}

fn counts_of_extract(stored: u64) -> (u64, u64) {
    (stored / 50, stored / 100)
}

/// The version that follows the stored one, and the first one of a new key.
fn next_version(row: Row) -> Row {
    Row {
        version: version_in_history(row.id) + 1,
        ..row
    }
}

/// Each row at the versions 1 to 3.
fn thrice(rows: &[Row]) -> Vec<Row> {
    let at = |version: i32| rows.iter().map(move |row| Row { version, ..*row });
    shuffled((1..=3).flat_map(at).collect())
}

fn shuffled(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| {
        mix(row
            .id
            .unsigned_abs()
            .wrapping_add(u64::from(row.version.unsigned_abs()) << 48))
    });
    rows
}

/// `count` different numbers of `range`, one from each of `count` equal parts of it.
fn pick(range: Range<u64>, count: u64, salt: u64) -> Vec<u64> {
    let width = range.end - range.start;
    let one = |i: u64| {
        let (from, to) = (width * i / count, width * (i + 1) / count);
        let offset = mix(i.wrapping_mul(31).wrapping_add(salt)) % (to - from).max(1);
        range.start + from + offset
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use datafusion::arrow::datatypes::Date32Type;

    use super::*;
    use crate::rows::FIRST_DAY;
    use crate::workload::{Base, WORKLOADS};

    #[test]
    fn sources_hold_no_row_twice_and_as_many_new_keys_as_promised() {
        for workload in WORKLOADS {
            for total in [1_000, 20_000, 33_333] {
                let mut new = HashSet::new();
                for rows in workload.rows(total) {
                    let distinct: HashSet<(i64, i32)> = rows.iter().map(|row| (row.id, row.version)).collect();
                    assert_eq!(distinct.len(), rows.len(), "{} of {total}", workload.name);
                    new.extend(rows.iter().map(|row| row.id).filter(|id| id % 2 == 1));
                }
                let expected = workload.expected(total);
                let keys = match workload.base {
                    Base::History => expected.marked,
                    _ => expected.rows,
                };
                let grown = keys - workload.base.keys(total);
                assert_eq!(u64::try_from(new.len()).unwrap(), grown, "{} of {total}", workload.name);
            }
        }
    }

    #[test]
    fn recent_keys_lie_at_the_end() {
        let sources = Workload::named("w2").unwrap().rows(20_000);
        assert!(sources.concat().iter().all(|row| row.id >= 38_000));
    }

    #[test]
    fn the_window_is_the_last_days() {
        let last = FIRST_DAY + DAYS - 1;
        assert_eq!(u64::try_from(WINDOW_LAST_DAY), Ok(last));
        assert_eq!(u64::try_from(WINDOW_FIRST_DAY), Ok(last + 1 - WINDOW_DAYS));
        let text = |days: i32| Date32Type::to_naive_date_opt(days).unwrap().to_string();
        assert_eq!(text(WINDOW_FIRST_DAY), WINDOW_FROM);
        assert_eq!(text(WINDOW_LAST_DAY + 1), WINDOW_TO);
    }

    #[test]
    fn an_extract_holds_every_key_and_few_changes() {
        let rows = Workload::named("w7").unwrap().rows(20_000).concat();
        let stored = rows.iter().filter(|row| row.id % 2 == 0);
        assert_eq!(stored.clone().count(), 10_000);
        let changed = stored.filter(|row| row.version != version_in_history(row.id));
        assert_eq!(changed.count(), 200);
    }
}
