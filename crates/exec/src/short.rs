//! Values of a few bytes, of which there are many.

/// Copies `value` to `to`, which has its length; values of 8 to 16 bytes without a call.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn copy(value: &[u8], to: &mut [u8]) {
    if value.len() <= 16
        && to.len() == value.len()
        && let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>())
    {
        if let Some(to) = to.first_chunk_mut() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = *last;
        }
    } else {
        to.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_length_are_copied_whole() {
        let value: Vec<u8> = (1..=40).collect();
        for length in 0..=value.len() {
            let mut to = vec![0; length];
            copy(&value[..length], &mut to);
            assert_eq!(to, value[..length]);
        }
    }
}
