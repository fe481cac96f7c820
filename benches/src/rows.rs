//! Rows made from their keys: eleven columns of the types a fact table has, the same in every run.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};

use crate::Result;

/// Days between the first and the last row of the base table.
pub const DAYS: u64 = 90;
/// 2024-01-01, in days since 1970.
pub const FIRST_DAY: u64 = 19_723;
const MICROS_OF_A_DAY: u64 = 86_400_000_000;
pub(crate) const REGIONS: [&str; 12] = [
    "north", "south", "east", "west", "centre", "coast", "islands", "alps", "plains", "delta", "harbour", "forest",
];
const STATUSES: [&str; 5] = ["new", "open", "held", "closed", "void"];

/// A well mixed number for each number (the finaliser of splitmix64).
pub fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Which row: the rest of it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub id: i64,
    /// How often it has changed.
    pub version: i32,
}

impl Row {
    /// The row with this key at this version.
    pub fn new(id: u64, version: i32) -> Self {
        let id = i64::try_from(id).unwrap_or(i64::MAX);
        Self { id, version }
    }

    /// The hashes of its key and of its content.
    pub(crate) fn hashes(self) -> (u64, u64) {
        let id = self.id.unsigned_abs();
        let version = u64::from(self.version.unsigned_abs());
        (mix(id), mix(id.wrapping_mul(1_000_003).wrapping_add(version)))
    }

    /// Its day, in days since 1970. Days follow the ids of a table of `total` keys: its even ids below `2 * total`
    /// cover [`DAYS`] days in order; ids beyond them belong to the last day.
    fn day(self, total: u64) -> u64 {
        FIRST_DAY + (self.id.unsigned_abs() / 2 * DAYS / total.max(1)).min(DAYS - 1)
    }

    /// When it was changed to this version, in microseconds since 1970: later than every version before.
    pub(crate) fn moment(self, total: u64) -> i64 {
        let day = self.day(total) + u64::from(self.version.unsigned_abs()) * DAYS;
        let (_, content) = self.hashes();
        i64::try_from(day * MICROS_OF_A_DAY + content % MICROS_OF_A_DAY).unwrap_or(i64::MAX)
    }
}

/// The hashes that the columns of one row are cut from.
struct Seeds {
    key: u64,
    content: u64,
    more: u64,
}

impl Seeds {
    fn of(row: &Row) -> Self {
        let (key, content) = row.hashes();
        Self {
            key,
            content,
            more: mix(content),
        }
    }
}

/// The columns of these rows of a table of `total` keys.
///
/// # Errors
///
/// None in practice: the columns have equal lengths.
pub fn rows(rows: &[Row], total: u64) -> Result<RecordBatch> {
    let seeds: Vec<Seeds> = rows.iter().map(Seeds::of).collect();
    let score = |s: &Seeds| f64::from(below(s.content >> 20, 1 << 30)) / f64::from(1_u32 << 30);
    let columns: [(&str, ArrayRef); 11] = [
        (
            "id",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.id))),
        ),
        ("sk", Arc::new(texts(&seeds, |s| Some(format!("{:012x}", s.key >> 16))))),
        (
            "updated_at",
            Arc::new(moments(rows.iter().map(|row| Some(row.moment(total))))),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter_values(
                rows.iter().map(|row| i32::try_from(row.day(total)).unwrap_or(i32::MAX)),
            )),
        ),
        ("region", Arc::new(words(seeds.iter().map(|s| s.key), &REGIONS))),
        ("status", Arc::new(words(seeds.iter().map(|s| s.content), &STATUSES))),
        (
            "amount",
            Arc::new(Float64Array::from_iter_values(
                seeds.iter().map(|s| f64::from(below(s.more, 10_000_000)) / 100.0),
            )),
        ),
        (
            "score",
            Arc::new(Float64Array::from_iter(
                seeds.iter().map(|s| ((s.more >> 8) % 10 != 0).then(|| score(s))),
            )),
        ),
        (
            "qty",
            Arc::new(Int32Array::from_iter(seeds.iter().map(|s| {
                let quantity = i32::try_from(below(s.content, 1_000)).ok();
                quantity.filter(|_| (s.more >> 16) % 5 != 0)
            }))),
        ),
        (
            "note",
            Arc::new(texts(&seeds, |s| {
                ((s.more >> 24) % 10 > 2).then(|| format!("{:016x}", s.more))
            })),
        ),
        (
            "ver",
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.version))),
        ),
    ];
    let nullable = columns.into_iter().map(|(name, column)| (name, column, true));
    Ok(RecordBatch::try_from_iter_with_nullable(nullable)?)
}

/// A number below `bound` for each hash.
pub(crate) fn below(hash: u64, bound: u32) -> u32 {
    u32::try_from(hash % u64::from(bound)).unwrap_or(0)
}

/// Moments in UTC.
pub(crate) fn moments(micros: impl Iterator<Item = Option<i64>>) -> TimestampMicrosecondArray {
    TimestampMicrosecondArray::from_iter(micros).with_timezone("UTC")
}

fn texts(seeds: &[Seeds], text: impl Fn(&Seeds) -> Option<String>) -> StringArray {
    seeds.iter().map(text).collect()
}

/// One of a few words for each hash.
pub(crate) fn words<const N: usize>(hashes: impl Iterator<Item = u64>, words: &[&'static str; N]) -> StringArray {
    let one = |hash: u64| usize::try_from(hash).ok().and_then(|h| words.get(h % N).copied());
    hashes.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ids: &[u64], version: i32) -> RecordBatch {
        let wanted: Vec<Row> = ids.iter().map(|id| Row::new(*id, version)).collect();
        rows(&wanted, 100_000).unwrap()
    }

    #[test]
    fn the_same_keys_make_the_same_rows() {
        let ids = [0, 2, 7, 199_998];
        assert_eq!(at(&ids, 1), at(&ids, 1));
        assert_ne!(at(&ids, 0), at(&ids, 1));
    }

    #[test]
    fn days_follow_the_ids_and_end_with_the_last() {
        let batch = at(&[0, 199_998, 500_001], 0);
        let days = batch.column_by_name("day").unwrap();
        assert_eq!(days.as_ref(), &Date32Array::from(vec![19_723, 19_812, 19_812]));
    }
}
