//! Values whose places in a dictionary have been asked for lately: most values of a column that has a dictionary are one
//! of a few, and short.

/// How many are remembered.
const SLOTS: usize = 1024;
/// A number without so many of its lower bits is one of [`SLOTS`].
const SHIFT: u32 = u64::BITS - SLOTS.trailing_zeros();

/// The places of some values.
#[derive(Default)]
pub(super) struct Recent {
    /// Each value has one slot that it may be in. None before the first value.
    slots: Vec<Option<(Short, u32)>>,
}

/// A value of at most sixteen bytes, which no other value is equal to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Short {
    /// Its first and its last bytes; they overlap if it is shorter than both.
    ends: [u64; 2],
    length: usize,
}

impl Recent {
    #[inline]
    pub(super) fn place_of(&self, value: Short) -> Option<u32> {
        match self.slots.get(value.slot())? {
            Some((here, place)) if *here == value => Some(*place),
            _ => None,
        }
    }

    pub(super) fn remember(&mut self, value: Short, place: u32) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, None);
        }
        if let Some(slot) = self.slots.get_mut(value.slot()) {
            *slot = Some((value, place));
        }
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Option<(Short, u32)>>()
    }
}

impl Short {
    /// `None`: it is longer.
    #[inline]
    pub(super) fn of(value: &[u8]) -> Option<Self> {
        let ends = match value.len() {
            0..4 => {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
                [u64::from_le_bytes(bytes), 0]
            }
            4..8 => [value.first_chunk()?, value.last_chunk()?].map(|end| u64::from(u32::from_le_bytes(*end))),
            8..=16 => [value.first_chunk()?, value.last_chunk()?].map(|end| u64::from_le_bytes(*end)),
            _ => return None,
        };
        Some(Self {
            ends,
            length: value.len(),
        })
    }

    /// Its number among [`SLOTS`], the upper bits of a product, which all bits of the value change.
    fn slot(self) -> usize {
        let [first, last] = self.ends;
        let mixed = (first ^ last.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        usize::try_from(mixed >> SHIFT).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_short_values_are_taken_for_each_other() {
        // All texts of two letters up to a length, and what is longer.
        let mut values: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 1..=9 {
            let longer = |value: &Vec<u8>| [0, b'x'].map(|last| [value.as_slice(), &[last]].concat());
            let shorter: Vec<_> = values.iter().filter(|v| v.len() == length - 1).cloned().collect();
            values.extend(shorter.iter().flat_map(longer));
        }
        values.extend((10..=16).flat_map(|length| {
            (0..length).map(move |at| {
                let mut value = vec![0; length];
                value[at] = 7;
                value
            })
        }));
        let shorts: Vec<Short> = values.iter().map(|value| Short::of(value).unwrap()).collect();
        for (at, short) in shorts.iter().enumerate() {
            assert_eq!(
                shorts.iter().position(|other| other == short),
                Some(at),
                "{:?}",
                values[at]
            );
            assert!(short.slot() < SLOTS);
        }
        assert_eq!(Short::of(&[1; 17]), None);
    }

    #[test]
    fn the_last_of_a_slot_is_remembered() {
        let short = |value: usize| Short::of(&value.to_le_bytes()).unwrap();
        let mut recent = Recent::default();
        assert_eq!(recent.place_of(short(1)), None);
        for value in 0..10 * SLOTS {
            recent.remember(short(value), u32::try_from(value).unwrap());
            assert_eq!(recent.place_of(short(value)), u32::try_from(value).ok());
        }
        let remembered = (0..10 * SLOTS).filter_map(|value| Some((value, recent.place_of(short(value))?)));
        let remembered: Vec<(usize, u32)> = remembered.collect();
        assert!(remembered.len() > SLOTS / 2 && remembered.len() <= SLOTS);
        assert!(
            remembered
                .iter()
                .all(|(value, place)| u32::try_from(*value) == Ok(*place))
        );
    }
}
