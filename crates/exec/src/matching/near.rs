//! Keys that are near each other put into a table together. A table of millions of keys is in no cache, and what a
//! processor knows of where pages are in memory covers a small part of it; keys that come in any order find neither at
//! hand.

/// A range is cut into about so many parts, each of which is soon at hand.
const PARTS: usize = 256;
/// So many rows meet often enough in a part.
const WORTH: usize = 16 * 1024;
/// One pair in so many is looked at to see whether keys are in order.
const STRIDE: usize = 61;

/// Numbers from `low` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) low: i64,
    pub(super) width: u64,
}

impl Span {
    /// The rows of `keys` part by part of the span, in each as they come, without those that lie outside. `None`: they are
    /// few, or come in a good order already.
    pub(super) fn grouped(self, keys: &[i64]) -> Option<Vec<u32>> {
        if keys.len() < WORTH || u32::try_from(keys.len()).is_err() || in_order(keys) {
            return None;
        }
        let mut next = [0_u32; PARTS + 1];
        for part in keys.iter().map(|key| self.part(*key)) {
            if let Some(count) = next.get_mut(part) {
                *count += 1;
            }
        }
        let mut rows = 0;
        for next in &mut next {
            rows += std::mem::replace(next, rows);
        }
        let inside = next.last().copied().unwrap_or(0);
        let mut grouped = vec![0; super::table::index(rows)];
        for (row, key) in (0..).zip(keys) {
            let Some(next) = next.get_mut(self.part(*key)) else {
                continue;
            };
            if let Some(place) = grouped.get_mut(super::table::index(*next)) {
                *place = row;
            }
            *next += 1;
        }
        grouped.truncate(super::table::index(inside));
        Some(grouped)
    }

    /// The part that a key is in, the last for those outside.
    #[inline]
    fn part(self, key: i64) -> usize {
        let offset = key.wrapping_sub(self.low).cast_unsigned();
        // A width of nine bits and more is cut to the upper eight.
        let shift = (u64::BITS - self.width.leading_zeros()).saturating_sub(PARTS.trailing_zeros());
        let part = usize::try_from(offset >> shift).unwrap_or(PARTS);
        if offset < self.width { part } else { PARTS }
    }
}

fn in_order(keys: &[i64]) -> bool {
    let mut pairs = keys.windows(2).step_by(STRIDE);
    pairs.all(|two| two.first() <= two.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_parts_and_none_is_lost() {
        let keys: Vec<i64> = (0..50_000).map(|row| row * 7919 % 30_011 - 10_000).collect();
        for (low, width) in [
            (-10_000, 30_011),
            (0, 1),
            (0, 255),
            (5, 256),
            (-3, 257),
            (100, 9_000),
            (i64::MIN, u64::MAX),
        ] {
            let span = Span { low, width };
            let grouped = span.grouped(&keys).unwrap();
            let parts: Vec<(usize, u32)> = grouped
                .iter()
                .map(|row| (span.part(keys[super::super::table::index(*row)]), *row))
                .collect();
            assert!(parts.is_sorted(), "parts ascend, and rows in them");
            assert!(parts.iter().all(|(part, _)| *part < PARTS));
            let inside =
                |key: &&i64| u64::try_from(i128::from(**key) - i128::from(low)).is_ok_and(|offset| offset < width);
            assert_eq!(
                grouped.len(),
                keys.iter().filter(inside).count(),
                "{low} and {width} more"
            );
            assert!(width < 1000 || parts.iter().any(|(part, _)| *part > 0));
        }
    }

    #[test]
    fn few_rows_and_rows_in_order_stay_as_they_are() {
        let span = Span { low: 0, width: 1 << 20 };
        let mixed = |count: i64| (0..count).map(|row| row * 7919 % 30_011).collect::<Vec<_>>();
        assert!(span.grouped(&mixed(1000)).is_none());
        assert!(span.grouped(&mixed(20_000)).is_some());
        let ascending: Vec<i64> = (0..20_000).map(|row| row / 2).collect();
        assert!(span.grouped(&ascending).is_none());
    }
}
