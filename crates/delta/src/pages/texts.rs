//! Texts as a page holds them.

use alluvium_exec::short;

/// The texts at the beginning of `bytes`, each behind its length.
pub(crate) struct Texts<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Texts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        self.0 = rest;
        Some(text)
    }
}

/// Puts a text behind its length.
pub(crate) fn put_text(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
    out.extend_from_slice(text);
    Some(())
}

/// Puts the texts between one offset into `bytes` and the next, each behind its length.
pub(crate) fn put_texts(offsets: &[i32], bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return Some(());
    };
    let length = usize::try_from(last.checked_sub(*first)?).ok()? + 4 * (offsets.len() - 1);
    let start = out.len();
    out.resize(start + length, 0);
    let mut rest = out.get_mut(start..)?;
    for ends in offsets.windows(2) {
        let &[from, to] = ends else { continue };
        let text = bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
        let (mine, behind) = rest.split_at_mut_checked(4 + text.len())?;
        let (length, place) = mine.split_first_chunk_mut()?;
        *length = u32::try_from(text.len()).ok()?.to_le_bytes();
        short::copy(text, place);
        rest = behind;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_put_as_one_by_one() {
        let bytes = b"before-aAbCdefghijklmnopqrstuvwxyz0123456789";
        let offsets = [7, 7, 8, 10, 13, 22, 38, 44];
        for from in 0..offsets.len() {
            let (mut together, mut one_by_one) = (vec![9], vec![9]);
            put_texts(&offsets[from..], bytes, &mut together).unwrap();
            for ends in offsets[from..].windows(2) {
                let text = usize::try_from(ends[0]).unwrap()..usize::try_from(ends[1]).unwrap();
                put_text(&bytes[text], &mut one_by_one).unwrap();
            }
            assert_eq!(together, one_by_one);
        }
        assert_eq!(put_texts(&[], bytes, &mut Vec::new()), Some(()));
        assert_eq!(put_texts(&[0, 90], bytes, &mut Vec::new()), None, "beyond the end");
    }
}
