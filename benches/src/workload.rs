//! The loads that are measured: which keys they bring and what must be in the table afterwards.
//!
//! The base table holds the even ids below `2 * rows`, each at version 0. A source row has version 1. Odd ids lie
//! between the stored ones, so that scattered inserts fall into the key ranges of existing files.

use std::ops::Range;

use crate::rows::mix;

/// What a match does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A match updates the stored row.
    Upsert,
    /// A match leaves the stored row alone.
    InsertOnly,
}

/// Where the keys of a source lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// All over the table.
    Scattered,
    /// Known keys in the last twentieth of the table, new ones beyond its end.
    Recent,
}

/// How many rows a source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// One in so many rows of the table.
    OneIn(u64),
    /// So many rows, whatever the table.
    Rows(u64),
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Short name.
    pub name: &'static str,
    /// What it stands for.
    pub title: &'static str,
    /// What a match does.
    pub load: Load,
    /// Rows of the source.
    pub size: Size,
    /// How many in ten of them are known to the table.
    pub known_in_ten: u64,
    /// Where they lie.
    pub place: Place,
}

/// What the table must hold after a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Rows of the table.
    pub rows: u64,
    /// Rows that come from the source.
    pub rows_of_source: u64,
}

/// Every workload, by name.
pub const WORKLOADS: [Workload; 7] = [
    Workload {
        name: "w1",
        title: "upsert, 1 % scattered",
        load: Load::Upsert,
        size: Size::OneIn(100),
        known_in_ten: 5,
        place: Place::Scattered,
    },
    Workload {
        name: "w2",
        title: "upsert, 1 % recent",
        load: Load::Upsert,
        size: Size::OneIn(100),
        known_in_ten: 5,
        place: Place::Recent,
    },
    Workload {
        name: "w3",
        title: "upsert, 50 % scattered",
        load: Load::Upsert,
        size: Size::OneIn(2),
        known_in_ten: 5,
        place: Place::Scattered,
    },
    Workload {
        name: "w4",
        title: "insert only, 5 % replayed",
        load: Load::InsertOnly,
        size: Size::OneIn(20),
        known_in_ten: 9,
        place: Place::Scattered,
    },
    Workload {
        name: "w4c",
        title: "insert only, 5 % recent replayed",
        load: Load::InsertOnly,
        size: Size::OneIn(20),
        known_in_ten: 9,
        place: Place::Recent,
    },
    Workload {
        name: "w5",
        title: "insert only, 5 % all new",
        load: Load::InsertOnly,
        size: Size::OneIn(20),
        known_in_ten: 0,
        place: Place::Recent,
    },
    Workload {
        name: "w10",
        title: "upsert, 100 rows",
        load: Load::Upsert,
        size: Size::Rows(100),
        known_in_ten: 5,
        place: Place::Scattered,
    },
];

impl Workload {
    /// The workload of this name.
    pub fn named(name: &str) -> Option<Self> {
        WORKLOADS.into_iter().find(|w| w.name == name)
    }

    /// The keys of the source for a table of `total` rows: no key twice, in no order.
    pub fn keys(&self, total: u64) -> Vec<i64> {
        let (known, new) = self.counts(total);
        let known_in = match self.place {
            Place::Scattered => 0..total,
            Place::Recent => total - total / 20..total,
        };
        let new_in = match self.place {
            Place::Scattered => 0..total,
            Place::Recent => total..total + new,
        };
        let stored = pick(known_in, known, 1).into_iter().map(|position| position * 2);
        let unknown = pick(new_in, new, 2).into_iter().map(|position| position * 2 + 1);
        let mut keys: Vec<i64> = stored
            .chain(unknown)
            .map(|key| i64::try_from(key).unwrap_or(i64::MAX))
            .collect();
        keys.sort_by_key(|key| mix(key.unsigned_abs()));
        keys
    }

    /// What a table of `total` rows must hold afterwards.
    pub fn expected(&self, total: u64) -> Expected {
        let (known, new) = self.counts(total);
        Expected {
            rows: total + new,
            rows_of_source: match self.load {
                Load::Upsert => known + new,
                Load::InsertOnly => new,
            },
        }
    }

    /// How many source rows the table knows, and how many are new.
    fn counts(&self, total: u64) -> (u64, u64) {
        let rows = match self.size {
            Size::OneIn(n) => total / n,
            Size::Rows(n) => n.min(total),
        };
        let room = match self.place {
            Place::Scattered => total,
            Place::Recent => total / 20,
        };
        let known = (rows * self.known_in_ten / 10).min(room);
        (known, rows - known)
    }
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

    use super::*;

    #[test]
    fn keys_are_distinct_and_as_many_as_promised() {
        for workload in WORKLOADS {
            for total in [1_000, 20_000, 33_333] {
                let keys = workload.keys(total);
                let distinct: HashSet<i64> = keys.iter().copied().collect();
                assert_eq!(distinct.len(), keys.len(), "{} of {total}", workload.name);
                let new = keys.iter().filter(|key| *key % 2 == 1).count();
                let expected = workload.expected(total);
                assert_eq!(u64::try_from(new).unwrap(), expected.rows - total, "{}", workload.name);
            }
        }
    }

    #[test]
    fn recent_keys_lie_at_the_end() {
        let keys = Workload::named("w2").unwrap().keys(20_000);
        assert!(keys.iter().all(|key| *key >= 38_000));
    }
}
