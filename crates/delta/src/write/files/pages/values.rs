//! The parts of a page: which rows have values, and the values.

use std::ops::Range;

use super::hybrid;
pub(super) use crate::pages::texts::{Texts, put_text, put_texts};

/// Which rows of a page have values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flags {
    /// All of so many, which cannot be NULL.
    All(usize),
    /// All of so many, which can be NULL.
    Filled(usize),
    /// Those with a 1.
    Some(Vec<u32>),
}

impl Flags {
    pub(super) fn is_present(&self, row: usize) -> bool {
        match self {
            Self::All(rows) | Self::Filled(rows) => row < *rows,
            Self::Some(levels) => levels.get(row) == Some(&1),
        }
    }

    /// How many of these rows have values.
    pub(super) fn present(&self, rows: Range<usize>) -> usize {
        match self {
            Self::All(_) | Self::Filled(_) => rows.len(),
            Self::Some(levels) => levels
                .get(rows)
                .map_or(0, |levels| levels.iter().filter(|level| **level == 1).count()),
        }
    }

    /// `None`: a row that needs a value is to have none.
    pub(super) fn set(&mut self, row: usize, present: bool) -> Option<()> {
        match self {
            Self::All(_) => return present.then_some(()),
            Self::Filled(_) if present => return Some(()),
            Self::Filled(rows) => *self = Self::Some(vec![1; *rows]),
            Self::Some(_) => {}
        }
        if let Self::Some(levels) = self {
            *levels.get_mut(row)? = u32::from(present);
        }
        Some(())
    }

    /// As the beginning of a page.
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::All(_) => Some(()),
            Self::Filled(rows) => put_behind_length(out, |out| hybrid::encode_run(1, *rows, 1, out)),
            Self::Some(levels) => put_levels(levels, out),
        }
    }
}

/// Puts flags of rows, behind their length.
fn put_levels(levels: &[u32], out: &mut Vec<u8>) -> Option<()> {
    put_behind_length(out, |out| hybrid::encode(levels, 1, out))
}

fn put_behind_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = u32::try_from(out.len() - start - 4).ok()?;
    out.get_mut(start..start + 4)?.copy_from_slice(&length.to_le_bytes());
    Some(())
}

/// The flags of a page's rows, and the bytes of its values.
pub(super) fn split_levels(page: &[u8], optional: bool, rows: usize) -> Option<(Flags, &[u8])> {
    if !optional {
        return Some((Flags::All(rows), page));
    }
    let (length, rest) = page.split_first_chunk::<4>()?;
    let (levels, values) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let flags = match hybrid::Runs::new(levels, 1).seek(rows.saturating_sub(1)) {
        Some((nth, hybrid::Run::Equal(1))) if nth + 1 >= rows => Flags::Filled(rows),
        _ => Flags::Some(hybrid::decode(levels, 1, rows)?),
    };
    Some((flags, values))
}

/// A byte for each bit.
pub(super) fn unpack_booleans(bits: &[u8], count: usize) -> Option<Vec<u8>> {
    if bits.len() * 8 < count {
        return None;
    }
    let bits = bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
    Some(bits.take(count).collect())
}

/// A bit for each byte.
pub(super) fn pack_booleans(bytes: &[u8], out: &mut Vec<u8>) {
    let packed = |eight: &[u8]| eight.iter().rev().fold(0_u8, |packed, bit| packed << 1 | bit & 1);
    out.extend(bytes.chunks(8).map(packed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_come_back() {
        for count in 0..40 {
            let bytes: Vec<u8> = (0..count).map(|i: u8| u8::from(i.is_multiple_of(3))).collect();
            let mut bits = Vec::new();
            pack_booleans(&bytes, &mut bits);
            assert_eq!(unpack_booleans(&bits, bytes.len()), Some(bytes));
        }
    }

    #[test]
    fn levels_come_back() {
        let mut flags = Flags::Some(vec![1, 0, 1, 1, 0]);
        flags.set(1, true).unwrap();
        let mut page = Vec::new();
        flags.put(&mut page).unwrap();
        page.extend_from_slice(b"rest");
        assert_eq!(split_levels(&page, true, 5), Some((flags.clone(), &b"rest"[..])));
        assert_eq!(flags.present(1..5), 3);
        assert_eq!(Flags::All(3).set(0, false), None);
    }

    #[test]
    fn rows_that_all_have_values_are_known_for_it() {
        let mut page = Vec::new();
        Flags::Some(vec![1; 50]).put(&mut page).unwrap();
        let (mut flags, _) = split_levels(&page, true, 50).unwrap();
        assert_eq!((&flags, flags.present(3..50)), (&Flags::Filled(50), 47));
        let mut again = Vec::new();
        flags.put(&mut again).unwrap();
        assert_eq!(again, page);
        flags.set(4, true).unwrap();
        assert_eq!(flags, Flags::Filled(50));
        flags.set(4, false).unwrap();
        assert_eq!((flags.present(0..50), flags.is_present(4)), (49, false));
    }
}
