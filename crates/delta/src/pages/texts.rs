//! Texts as a page holds them.

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
