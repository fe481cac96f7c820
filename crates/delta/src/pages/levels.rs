//! Which rows of a page have values.

use std::ops::Range;

use super::hybrid::{Run, Runs};

/// The levels of a page's rows: 1 where there is a value, 0 where there is NULL.
pub(crate) struct Levels<'a> {
    bytes: &'a [u8],
    runs: Runs<'a>,
    run: Run,
    /// The rows of `run`.
    rows: Range<usize>,
    /// Up to which row values have been counted, and how many there are before it.
    counted: usize,
    values: usize,
}

impl<'a> Levels<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            runs: Runs::new(bytes, 1),
            run: Run::Equal(0),
            rows: 0..0,
            counted: 0,
            values: 0,
        }
    }

    /// How many values are before that of `row`, if it has one; goes forward only. Outer `None`: there is no such row.
    pub(crate) fn find(&mut self, row: usize) -> Option<Option<usize>> {
        while row >= self.rows.end {
            self.count_to(self.rows.end)?;
            let (length, run) = self.runs.next()?;
            self.run = run;
            self.rows = self.rows.end..self.rows.end.checked_add(length)?;
        }
        self.count_to(row)?;
        let nth = row.checked_sub(self.rows.start)?;
        let present = self.run.number(self.bytes, 1, nth)? == 1;
        Some(present.then_some(self.values))
    }

    fn count_to(&mut self, row: usize) -> Option<()> {
        if row < self.counted {
            return None;
        }
        let among = self.counted.checked_sub(self.rows.start)?..row.checked_sub(self.rows.start)?;
        self.values += match self.run {
            Run::Equal(1) => among.len(),
            Run::Equal(_) => 0,
            Run::Packed(start) => ones(self.bytes.get(start..)?, among)?,
        };
        self.counted = row;
        Some(())
    }
}

/// How many of these bits are set.
fn ones(bytes: &[u8], bits: Range<usize>) -> Option<usize> {
    let (first, last) = (bits.start / 8, bits.end / 8);
    let below = |bit: usize| match bit % 8 {
        0 => Some(0),
        rest => bytes.get(bit / 8).map(|byte| (byte & !(u8::MAX << rest)).count_ones()),
    };
    let whole: u32 = bytes.get(first..last)?.iter().map(|byte| byte.count_ones()).sum();
    let bits = (whole + below(bits.end)?).checked_sub(below(bits.start)?)?;
    usize::try_from(bits).ok()
}

#[cfg(test)]
mod tests {
    use super::super::hybrid::encode;
    use super::*;

    /// Rows of long and short runs.
    fn rows() -> Vec<u32> {
        let runs = [(1, 100), (0, 3), (1, 1), (0, 40), (1, 9), (0, 1), (1, 2), (0, 1)];
        let once = runs
            .iter()
            .flat_map(|(level, count)| std::iter::repeat_n(*level, *count));
        once.collect::<Vec<_>>().repeat(3)
    }

    #[test]
    fn values_are_counted_whichever_rows_are_looked_at() {
        let rows = rows();
        let mut bytes = Vec::new();
        encode(&rows, 1, &mut bytes);
        for step in [1, 2, 3, 7, 8, 13, 64, 200] {
            let mut levels = Levels::new(&bytes);
            let mut before = 0;
            for (row, level) in rows.iter().enumerate() {
                if row % step == 0 {
                    let found = levels.find(row).unwrap();
                    assert_eq!(found, (*level == 1).then_some(before), "row {row}, every {step}");
                    assert_eq!(levels.find(row).unwrap(), found, "again");
                }
                before += usize::from(*level == 1);
            }
        }
    }

    #[test]
    fn rows_that_are_not_there_are_not_found() {
        let mut bytes = Vec::new();
        encode(&rows(), 1, &mut bytes);
        let mut levels = Levels::new(&bytes);
        assert!(levels.find(rows().len() + 8).is_none(), "beyond");
        let mut levels = Levels::new(&bytes);
        assert!(levels.find(50).is_some());
        assert!(levels.find(49).is_none(), "behind");
        assert!(Levels::new(&[]).find(0).is_none());
    }
}
