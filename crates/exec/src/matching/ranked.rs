//! Keys that are integers of a range that is not too wide: a bit for each integer of the range, and the rows of those
//! that are there, found by counting the bits before. Nothing is hashed, and stored keys in order find their rows in order.

use datafusion::arrow::array::{Array, Int64Array};
use datafusion::arrow::compute::{max, min};
use hashbrown::HashMap;

use super::near::Span;

/// A range may be so many times wider than there are keys: then its bits take about what a hash table would.
const WIDEST: u64 = 64;
/// A range that takes this many bits is never too wide.
const ALWAYS: u64 = 1 << 25;
/// No row.
const NONE: u32 = u32::MAX;
/// So many rows are sorted out together.
const STEP: usize = 1 << 20;

/// The rows of keys that lie in one range.
#[derive(Debug, Default)]
pub(super) struct Ranked {
    low: i64,
    /// A bit for each integer from `low` on.
    bits: Vec<u64>,
    /// How many bits are set before each word.
    before: Vec<u32>,
    /// The last row of each key, in the order of the keys.
    rows: Vec<u32>,
    /// From a row to the one before it that has the same key.
    earlier: HashMap<u32, u32>,
}

/// How wide the range of some keys is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    low: i64,
    width: u64,
}

impl Range {
    /// The range of the keys in `parts`, if it is narrow enough for this kind of table.
    pub(super) fn of(parts: &[Int64Array]) -> Option<Self> {
        let low = parts.iter().filter_map(min).min()?;
        let high = parts.iter().filter_map(max).max()?;
        let width = high
            .checked_sub(low)
            .and_then(|w| u64::try_from(w).ok())?
            .checked_add(1)?;
        let rows = u64::try_from(parts.iter().map(Array::len).sum::<usize>()).ok()?;
        (width <= rows.saturating_mul(WIDEST).max(ALWAYS)).then_some(Self { low, width })
    }

    /// Cut into about `count` ranges that follow each other; all but the last fill their words.
    pub(super) fn parts(self, count: usize) -> Vec<Self> {
        let count = u64::try_from(count.max(1)).unwrap_or(1);
        let width = self.width.div_ceil(64).div_ceil(count).saturating_mul(64).max(64);
        let starts = std::iter::successors(Some(0), |start: &u64| {
            start.checked_add(width).filter(|s| *s < self.width)
        });
        let part = |start: u64| Self {
            low: self.low.wrapping_add_unsigned(start),
            width: width.min(self.width - start),
        };
        starts.map(part).collect()
    }

    fn span(self) -> Span {
        let Self { low, width } = self;
        Span { low, width }
    }

    fn words(self) -> usize {
        usize::try_from(self.width.div_ceil(64)).unwrap_or(usize::MAX)
    }

    /// The bytes of a table of `rows` rows.
    pub(super) fn bytes(self, rows: usize) -> usize {
        let words = self.words().saturating_mul(size_of::<u64>() + size_of::<u32>());
        words.saturating_add(rows.saturating_mul(size_of::<u32>()))
    }
}

impl Ranked {
    /// The rows of those keys in `parts` that lie in `range`. Rows without a key are left out.
    pub(super) fn build(parts: &[Int64Array], range: Range) -> Self {
        let mut table = Self {
            low: range.low,
            bits: vec![0; range.words()],
            ..Self::default()
        };
        each_inside(parts, range, |_, key| table.set(key));
        let mut keys_so_far = 0_u32;
        table.before.reserve_exact(table.bits.len());
        for word in &table.bits {
            table.before.push(keys_so_far);
            keys_so_far += word.count_ones();
        }
        table.rows = vec![NONE; super::table::index(keys_so_far)];
        each_inside(parts, range, |row, key| table.put(key, row));
        table
    }

    /// One table of tables whose ranges follow each other (see [`Range::parts`]).
    pub(super) fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            let keys_so_far = u32::try_from(all.rows.len()).unwrap_or(NONE);
            all.before
                .extend(part.before.into_iter().map(|keys| keys + keys_so_far));
            all.bits.extend(part.bits);
            all.rows.extend(part.rows);
            all.earlier.extend(part.earlier);
        }
        all
    }

    fn set(&mut self, key: i64) {
        let (word, bit) = self.place(key);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
    }

    fn put(&mut self, key: i64, row: u32) {
        let Some(rank) = self.rank(key) else {
            return;
        };
        if let Some(last) = self.rows.get_mut(rank) {
            let known = std::mem::replace(last, row);
            if known != NONE {
                self.earlier.insert(row, known);
            }
        }
    }

    /// Word and bit of a key; a word that is not there for a key outside the range.
    #[inline]
    fn place(&self, key: i64) -> (usize, u64) {
        // A key below the range wraps to far above it.
        let offset = key.wrapping_sub(self.low).cast_unsigned();
        (usize::try_from(offset / 64).unwrap_or(usize::MAX), 1 << (offset % 64))
    }

    /// How many keys are before `key`; `None`: it is not among them.
    #[inline]
    fn rank(&self, key: i64) -> Option<usize> {
        let (place, bit) = self.place(key);
        let word = self.bits.get(place).filter(|word| **word & bit != 0)?;
        let before = self.before.get(place)? + (word & (bit - 1)).count_ones();
        Some(super::table::index(before))
    }

    /// Whether a row has this key.
    #[inline]
    pub(super) fn contains(&self, key: i64) -> bool {
        let (place, bit) = self.place(key);
        self.bits.get(place).is_some_and(|word| word & bit != 0)
    }

    /// Calls `found` with every row of this key.
    #[inline]
    pub(super) fn look_up(&self, key: i64, mut found: impl FnMut(u32)) {
        let mut next = self.rank(key).and_then(|rank| self.rows.get(rank)).copied();
        while let Some(row) = next {
            found(row);
            next = match self.earlier.is_empty() {
                true => None,
                false => self.earlier.get(&row).copied(),
            };
        }
    }

    /// Whether two rows have the same key.
    pub(super) fn repeats(&self) -> bool {
        !self.earlier.is_empty()
    }
}

/// Calls `found` with the row and the key of those keys in `parts` that lie in `range`; rows of one key come in their
/// order.
fn each_inside(parts: &[Int64Array], range: Range, mut found: impl FnMut(u32, i64)) {
    let all: usize = parts.iter().map(Array::len).sum();
    let mut inside = Inside::new(range, all.min(STEP));
    let mut first = 0;
    for part in parts {
        for from in (0..part.len()).step_by(STEP) {
            let some = part.slice(from, STEP.min(part.len() - from));
            if inside.count + some.len() > inside.keys.len() {
                inside.give(&mut found);
            }
            inside.take(&some, first);
            first += u32::try_from(some.len()).unwrap_or(0);
        }
    }
    inside.give(&mut found);
}

/// Keys that lie in a range, with their rows. They are sorted out without a guess: of a part of the range no guess would be
/// right.
struct Inside {
    range: Range,
    keys: Vec<i64>,
    rows: Vec<u32>,
    count: usize,
}

impl Inside {
    fn new(range: Range, room: usize) -> Self {
        Self {
            range,
            keys: vec![0; room],
            rows: vec![0; room],
            count: 0,
        }
    }

    /// Takes in some keys, of which `first` is the first row. There is room for them.
    fn take(&mut self, keys: &Int64Array, first: u32) {
        let valid = keys.nulls().filter(|nulls| nulls.null_count() > 0);
        for (at, (row, key)) in (first..).zip(keys.values()).enumerate() {
            if let (Some(next), Some(of)) = (self.keys.get_mut(self.count), self.rows.get_mut(self.count)) {
                (*next, *of) = (*key, row);
            }
            let inside = key.wrapping_sub(self.range.low).cast_unsigned() < self.range.width;
            self.count += usize::from(inside & valid.is_none_or(|valid| valid.is_valid(at)));
        }
    }

    /// Hands out those that are here.
    fn give(&mut self, found: &mut impl FnMut(u32, i64)) {
        let (keys, rows) = (self.keys.get(..self.count), self.rows.get(..self.count));
        let (keys, rows) = (keys.unwrap_or_default(), rows.unwrap_or_default());
        match self.range.span().grouped(keys) {
            Some(order) => {
                for at in order.into_iter().map(super::table::index) {
                    if let (Some(row), Some(key)) = (rows.get(at), keys.get(at)) {
                        found(*row, *key);
                    }
                }
            }
            None => rows.iter().zip(keys).for_each(|(row, key)| found(*row, *key)),
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys: &[Option<i64>]) -> Option<Ranked> {
        table_of_parts(keys, 1)
    }

    fn table_of_parts(keys: &[Option<i64>], parts: usize) -> Option<Ranked> {
        // In as many pieces.
        let pieces = keys.chunks(keys.len().div_ceil(parts));
        let pieces: Vec<Int64Array> = pieces.map(|keys| Int64Array::from(keys.to_vec())).collect();
        let range = Range::of(&pieces)?;
        let parts = range.parts(parts).into_iter().map(|part| Ranked::build(&pieces, part));
        Some(Ranked::joined(parts))
    }

    fn rows(table: &Ranked, key: i64) -> Vec<u32> {
        let mut rows = Vec::new();
        table.look_up(key, |row| rows.push(row));
        rows
    }

    #[test]
    fn every_row_of_a_key_is_found_and_no_other() {
        let keys = [Some(7), None, Some(-64), Some(7), Some(0), Some(128), Some(7)];
        for parts in [1, 2, 3, 4, 9] {
            let table = table_of_parts(&keys, parts).unwrap();
            assert!(table.repeats());
            assert_eq!(rows(&table, 7), [6, 3, 0]);
            for key in -300..300 {
                let mut expected: Vec<u32> = (0..)
                    .zip(&keys)
                    .filter(|(_, k)| **k == Some(key))
                    .map(|(row, _)| row)
                    .collect();
                expected.reverse();
                assert_eq!(rows(&table, key), expected, "key {key} in {parts} parts");
                assert_eq!(table.contains(key), !expected.is_empty(), "key {key} in {parts} parts");
            }
            for key in [i64::MIN, i64::MAX] {
                assert!(!table.contains(key) && rows(&table, key).is_empty());
            }
        }
    }

    #[test]
    fn many_rows_are_sorted_out_in_their_order() {
        let step = i64::try_from(STEP).unwrap();
        for rows in [1023, 20_000, step, step + 1, 2 * step + 20_000] {
            let keys: Vec<Option<i64>> = (0..rows)
                .map(|row| (row % 11 != 0).then_some(row * 7919 % 3000))
                .collect();
            let mut of_keys = vec![Vec::new(); 3000];
            for (row, key) in (0_u32..).zip(&keys) {
                if let Some(key) = key {
                    of_keys[usize::try_from(*key).unwrap()].insert(0, row);
                }
            }
            for parts in [1, 2, 5] {
                let table = table_of_parts(&keys, parts).unwrap();
                for (key, expected) in (0..).zip(&of_keys) {
                    assert_eq!(
                        &self::rows(&table, key),
                        expected,
                        "key {key} of {rows} in {parts} parts"
                    );
                }
            }
        }
    }

    #[test]
    fn ranges_are_cut_without_a_gap() {
        for (low, high) in [
            (0, 0),
            (-5, 700),
            (i64::MAX - 200, i64::MAX),
            (i64::MIN, i64::MIN + 6400),
        ] {
            let range = Range::of(&[Int64Array::from(vec![low, high])]).unwrap();
            for count in [0, 1, 2, 3, 7, 1000] {
                let parts = range.parts(count);
                let mut next = low;
                for part in &parts {
                    assert_eq!(part.low, next, "{low} to {high} in {count}");
                    next = next.wrapping_add_unsigned(part.width);
                }
                assert_eq!(next, high.wrapping_add(1), "{low} to {high} in {count}");
                assert!(parts.len() <= count.max(1));
                assert!(parts.split_last().unwrap().1.iter().all(|part| part.width % 64 == 0));
            }
        }
    }

    #[test]
    fn wide_ranges_are_left_to_hashing() {
        assert!(table(&[Some(i64::MIN), Some(i64::MAX)]).is_none());
        assert!(table(&[Some(0), Some(1 << 40)]).is_none());
        assert!(table(&[None, None]).is_none());
        let ends = table(&[Some(i64::MAX), Some(i64::MAX - 1)]).unwrap();
        assert_eq!(rows(&ends, i64::MAX), [0]);
        assert!(!ends.contains(i64::MIN));
    }
}
