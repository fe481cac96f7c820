//! Rows made from their keys: eleven columns of the types a fact table has, the same in every run.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};

use crate::Result;

/// Days between the first and the last row of the base table.
pub const DAYS: u64 = 90;
/// 2024-01-01, in days since 1970.
const FIRST_DAY: u64 = 19_723;
const MICROS_OF_A_DAY: u64 = 86_400_000_000;
const REGIONS: [&str; 12] = [
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

/// The hashes that the columns of one row are cut from.
struct Seeds {
    id: u64,
    key: u64,
    content: u64,
    more: u64,
}

impl Seeds {
    fn of(id: i64, version: i32) -> Self {
        let id = id.unsigned_abs();
        let content = mix(id
            .wrapping_mul(1_000_003)
            .wrapping_add(u64::from(version.unsigned_abs())));
        Self {
            id,
            key: mix(id),
            content,
            more: mix(content),
        }
    }
}

/// The rows of `ids` at `version`. Days follow the ids of a base table of `total` rows: its even ids below
/// `2 * total` cover [`DAYS`] days in order; ids beyond them belong to the last day.
///
/// # Errors
///
/// None in practice: the columns have equal lengths.
pub fn rows(ids: &[i64], version: i32, total: u64) -> Result<RecordBatch> {
    let seeds: Vec<Seeds> = ids.iter().map(|id| Seeds::of(*id, version)).collect();
    let day = |s: &Seeds| FIRST_DAY + (s.id / 2 * DAYS / total.max(1)).min(DAYS - 1);
    let moment = |s: &Seeds| {
        let day = day(s) + u64::from(version.unsigned_abs()) * DAYS;
        i64::try_from(day * MICROS_OF_A_DAY + s.content % MICROS_OF_A_DAY).unwrap_or(i64::MAX)
    };
    let score = |s: &Seeds| f64::from(below(s.content >> 20, 1 << 30)) / f64::from(1_u32 << 30);
    let columns: [(&str, ArrayRef); 11] = [
        ("id", Arc::new(Int64Array::from(ids.to_vec()))),
        ("sk", Arc::new(texts(&seeds, |s| Some(format!("{:012x}", s.key >> 16))))),
        (
            "updated_at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(seeds.iter().map(moment)).with_timezone("UTC")),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter_values(
                seeds.iter().map(|s| i32::try_from(day(s)).unwrap_or(i32::MAX)),
            )),
        ),
        ("region", Arc::new(words(&seeds, &REGIONS, |s| s.key))),
        ("status", Arc::new(words(&seeds, &STATUSES, |s| s.content))),
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
        ("ver", Arc::new(Int32Array::from(vec![version; ids.len()]))),
    ];
    let nullable = columns.into_iter().map(|(name, column)| (name, column, true));
    Ok(RecordBatch::try_from_iter_with_nullable(nullable)?)
}

fn below(hash: u64, bound: u32) -> u32 {
    u32::try_from(hash % u64::from(bound)).unwrap_or(0)
}

fn texts(seeds: &[Seeds], text: impl Fn(&Seeds) -> Option<String>) -> StringArray {
    seeds.iter().map(text).collect()
}

fn words<const N: usize>(seeds: &[Seeds], words: &[&'static str; N], hash: impl Fn(&Seeds) -> u64) -> StringArray {
    let one = |s: &Seeds| usize::try_from(hash(s)).ok().and_then(|h| words.get(h % N).copied());
    seeds.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_keys_make_the_same_rows() {
        let ids = [0, 2, 7, 199_998];
        assert_eq!(rows(&ids, 1, 100_000).unwrap(), rows(&ids, 1, 100_000).unwrap());
        assert_ne!(rows(&ids, 0, 100_000).unwrap(), rows(&ids, 1, 100_000).unwrap());
    }

    #[test]
    fn days_follow_the_ids_and_end_with_the_last() {
        let batch = rows(&[0, 199_998, 500_001], 0, 100_000).unwrap();
        let days = batch.column_by_name("day").unwrap();
        assert_eq!(days.as_ref(), &Date32Array::from(vec![19_723, 19_812, 19_812]));
    }
}
