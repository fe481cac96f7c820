//! Parquet's encoding of small numbers (levels, places in a dictionary): runs of equal ones, and groups of eight packed
//! bit by bit.
//!
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>

use std::ops::Range;

/// Shorter runs are packed.
const GROUP: usize = 8;
/// Numbers of more bits do not occur.
pub(crate) const WIDEST: u32 = 32;

/// How the numbers of a run are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// All are this one.
    Equal(u32),
    /// Bit by bit, from this byte on.
    Packed(usize),
}

/// The runs of numbers of `width` bits in `bytes`.
pub(crate) struct Runs<'a> {
    bytes: &'a [u8],
    width: u32,
    /// What comes next.
    at: usize,
    numbers: Range<usize>,
    run: Run,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(bytes: &'a [u8], width: u32) -> Self {
        Self {
            bytes,
            width,
            at: 0,
            numbers: 0..0,
            run: Run::Packed(0),
        }
    }

    /// The next run: how many numbers it has, or at most, and what they are. `None`: `bytes` hold something else.
    pub(super) fn next(&mut self) -> Option<(usize, Run)> {
        let mut rest = self.bytes.get(self.at..)?;
        let header = varint(&mut rest)?;
        let length = usize::try_from(header >> 1).ok().filter(|length| *length > 0)?;
        if header & 1 == 0 {
            let number = whole(&mut rest, self.width)?;
            self.at = self.bytes.len() - rest.len();
            return Some((length, Run::Equal(number)));
        }
        let start = self.bytes.len() - rest.len();
        // The last group may end where its numbers do.
        let packed = length.checked_mul(usize::try_from(self.width).ok()?)?;
        self.at = start + packed.min(rest.len());
        Some((length.saturating_mul(GROUP), Run::Packed(start)))
    }

    /// The run that has number `number`, and how many are before it there. Goes forward only.
    pub(crate) fn seek(&mut self, number: usize) -> Option<(usize, Run)> {
        while number >= self.numbers.end {
            let (length, run) = self.next()?;
            self.numbers = self.numbers.end..self.numbers.end.checked_add(length)?;
            self.run = run;
        }
        Some((number.checked_sub(self.numbers.start)?, self.run))
    }
}

impl Run {
    /// Number `nth` of the run.
    pub(crate) fn number(self, bytes: &[u8], width: u32, nth: usize) -> Option<u32> {
        match self {
            Self::Equal(number) => Some(number),
            Self::Packed(start) => {
                let (from, shift) = place(start, width, nth)?;
                let (eight, _) = eight(bytes, from, shift + width)?;
                Some(low(u64::from_le_bytes(eight) >> shift) & mask(width))
            }
        }
    }

    /// Makes it `number`. `None`: it has no room there.
    pub(crate) fn set(self, bytes: &mut [u8], width: u32, nth: usize, number: u32) -> Option<()> {
        let start = match self {
            Self::Equal(known) => return (known == number).then_some(()),
            Self::Packed(_) if number & !mask(width) != 0 => return None,
            Self::Packed(start) => start,
        };
        let (from, shift) = place(start, width, nth)?;
        let (eight, held) = eight(bytes, from, shift + width)?;
        let others = u64::from_le_bytes(eight) & !(u64::from(mask(width)) << shift);
        let new = others | u64::from(number) << shift;
        let mine = bytes.get_mut(from..from + held)?;
        mine.copy_from_slice(new.to_le_bytes().get(..held)?);
        Some(())
    }
}

/// The byte in which a number of a run begins, and the bits before it.
fn place(start: usize, width: u32, nth: usize) -> Option<(usize, u32)> {
    let bit = nth.checked_mul(usize::try_from(width).ok()?)?;
    Some((start.checked_add(bit / 8)?, u32::try_from(bit % 8).ok()?))
}

/// Eight bytes from `from`, of which the first so many are there, `bits` bits at least.
fn eight(bytes: &[u8], from: usize, bits: u32) -> Option<([u8; 8], usize)> {
    let rest = bytes.get(from..)?;
    let held = rest.len().min(8);
    let mut eight = [0; 8];
    eight.get_mut(..held)?.copy_from_slice(rest.get(..held)?);
    (usize::try_from(bits).ok()? <= held * 8).then_some((eight, held))
}

/// The bits of a number.
fn mask(width: u32) -> u32 {
    u32::MAX.checked_shr(WIDEST.saturating_sub(width)).unwrap_or(0)
}

/// `count` numbers of `width` bits. `None`: `bytes` hold something else.
pub(crate) fn decode(bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > WIDEST {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    let mut runs = Runs::new(bytes, width);
    while numbers.len() < count {
        let (length, run) = runs.next()?;
        let length = length.min(count - numbers.len());
        match run {
            Run::Equal(number) => numbers.extend(std::iter::repeat_n(number, length)),
            Run::Packed(start) => unpack(bytes.get(start..runs.at)?, width, length, &mut numbers)?,
        }
    }
    Some(numbers)
}

/// The number of seven bits a byte, lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..35).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A number in as many whole bytes as its bits take.
fn whole(bytes: &mut &[u8], width: u32) -> Option<u32> {
    let (mine, rest) = bytes.split_at_checked(usize::try_from(width.div_ceil(8)).ok()?)?;
    *bytes = rest;
    let mut number = [0; 4];
    number.get_mut(..mine.len())?.copy_from_slice(mine);
    Some(u32::from_le_bytes(number))
}

fn unpack(packed: &[u8], width: u32, count: usize, numbers: &mut Vec<u32>) -> Option<()> {
    let width_bits = usize::try_from(width).ok()?;
    if packed.len().checked_mul(8)? < count.checked_mul(width_bits)? {
        return None;
    }
    // Eight bytes are looked at for each number, also for the last.
    let mut padded = Vec::with_capacity(packed.len() + 8);
    padded.extend_from_slice(packed);
    padded.extend_from_slice(&[0; 8]);
    let mask = mask(width);
    for bit in (0..count).map(|number| number * width_bits) {
        let eight = padded.get(bit / 8..)?.first_chunk::<8>()?;
        let shifted = u64::from_le_bytes(*eight) >> (bit % 8);
        numbers.push(low(shifted) & mask);
    }
    Some(())
}

/// The low half of `number`.
fn low(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Writes `numbers` of at most `width` bits.
pub(crate) fn encode(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed_from, mut at) = (0, 0);
    while let Some(number) = numbers.get(at) {
        if numbers.get(at + 1).is_some_and(|next| next != number) {
            at += 1;
            continue;
        }
        let run = numbers.iter().skip(at).take_while(|next| *next == number).count();
        // Only the last group may have fewer than eight numbers.
        let missing = (at - packed_from).next_multiple_of(GROUP) - (at - packed_from);
        if run >= GROUP + missing {
            pack(numbers.get(packed_from..at + missing).unwrap_or_default(), width, out);
            encode_run(*number, run - missing, width, out);
            packed_from = at + run;
        }
        at += run;
    }
    pack(numbers.get(packed_from..).unwrap_or_default(), width, out);
}

/// Writes `count` times `number`, of at most `width` bits, as one run.
pub(crate) fn encode_run(number: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    put_varint(u64::try_from(count).unwrap_or(0) << 1, out);
    let bytes = usize::try_from(width.div_ceil(8)).unwrap_or(0);
    out.extend(number.to_le_bytes().iter().take(bytes));
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let [lowest, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(lowest & 0x7f);
        }
        out.push(lowest | 0x80);
    }
}

fn pack(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let groups = numbers.len().div_ceil(GROUP);
    put_varint(u64::try_from(groups).unwrap_or(0) << 1 | 1, out);
    let end = out.len() + groups * usize::try_from(width).unwrap_or(0);
    let (mut held, mut bits) = (0_u64, 0_u32);
    for number in numbers {
        held |= u64::from(*number) << bits;
        bits += width;
        if bits >= WIDEST {
            out.extend_from_slice(&low(held).to_le_bytes());
            held >>= WIDEST;
            bits -= WIDEST;
        }
    }
    let bytes = usize::try_from(bits.div_ceil(8)).unwrap_or(0);
    out.extend(held.to_le_bytes().iter().take(bytes));
    out.resize(end, 0);
}

/// The bits that numbers below `count` take. One at least: not every reader knows numbers of none.
pub(crate) fn width_of(count: usize) -> u32 {
    let most = count.saturating_sub(1);
    (usize::BITS - most.leading_zeros()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(numbers: &[u32], width: u32) {
        let mut bytes = Vec::new();
        encode(numbers, width, &mut bytes);
        assert_eq!(
            decode(&bytes, width, numbers.len()).as_deref(),
            Some(numbers),
            "{width} bits"
        );
    }

    #[test]
    fn numbers_of_every_width_come_back() {
        for width in 0..=32 {
            let most = u32::MAX.checked_shr(32 - width).unwrap_or(0);
            for length in [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1000] {
                let scattered: Vec<u32> = (0..length).map(|i: u32| i.wrapping_mul(2_654_435_761) & most).collect();
                there_and_back(&scattered, width);
                there_and_back(&vec![most; scattered.len()], width);
                let runs: Vec<u32> = (0..length).map(|i| (i / 11) & most).collect();
                there_and_back(&runs, width);
            }
        }
    }

    #[test]
    fn a_run_may_begin_anywhere() {
        for before in 0..20_u32 {
            for run in 0..30 {
                let numbers: Vec<u32> = (0..before)
                    .map(|i| i % 2)
                    .chain(std::iter::repeat_n(1, run))
                    .chain([0, 1, 0])
                    .collect();
                there_and_back(&numbers, 1);
            }
        }
    }

    #[test]
    fn numbers_change_where_they_are() {
        for width in [1, 2, 3, 7, 8, 13, 25, 31, 32] {
            let most = mask(width);
            let numbers: Vec<u32> = (0..100).map(|i: u32| i.wrapping_mul(2_654_435_761) & most).collect();
            let mut bytes = Vec::new();
            pack(&numbers, width, &mut bytes);
            let before = bytes.clone();
            let (mut new, mut runs) = (numbers.clone(), Runs::new(&before, width));
            for at in (0..100).step_by(3) {
                let (nth, run) = runs.seek(at).unwrap();
                assert_eq!(run.number(&bytes, width, nth), Some(numbers[at]));
                new[at] = !numbers[at] & most;
                run.set(&mut bytes, width, nth, new[at]).unwrap();
            }
            assert_eq!(decode(&bytes, width, 100), Some(new), "{width} bits");
        }
    }

    #[test]
    fn what_has_no_room_is_not_set() {
        let mut bytes = Vec::new();
        encode(&[[5; 20].as_slice(), &[1, 2, 3]].concat(), 3, &mut bytes);
        let before = bytes.clone();
        let mut runs = Runs::new(&before, 3);
        let (nth, run) = runs.seek(19).unwrap();
        assert_eq!(
            (run.set(&mut bytes, 3, nth, 5), run.set(&mut bytes, 3, nth, 4)),
            (Some(()), None)
        );
        let (nth, run) = runs.seek(21).unwrap();
        assert_eq!(
            (run.number(&bytes, 3, nth), run.set(&mut bytes, 3, nth, 8)),
            (Some(2), None)
        );
        assert!(
            runs.seek(20).is_some_and(|(nth, _)| nth == 0),
            "the run that was reached"
        );
        assert!(runs.seek(40).is_none());
        assert!(runs.seek(0).is_none(), "behind");
    }

    #[test]
    fn long_runs_are_short() {
        let mut bytes = Vec::new();
        encode(&[1; 20_000], 1, &mut bytes);
        assert_eq!(bytes.len(), 4);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let mut bytes = Vec::new();
        encode(&(0..100).collect::<Vec<_>>(), 7, &mut bytes);
        for length in 0..bytes.len() - 8 {
            assert_eq!(decode(&bytes[..length], 7, 100), None, "{length}");
        }
        assert_eq!(decode(&[0, 0, 0], 1, 1), None, "a run of nothing");
        assert_eq!(decode(&[3], 33, 1), None);
    }

    #[test]
    fn widths_are_those_of_the_largest_number() {
        let widths: Vec<u32> = [0, 1, 2, 3, 4, 5, 256, 257].into_iter().map(width_of).collect();
        assert_eq!(widths, [1, 1, 1, 2, 2, 3, 8, 9]);
    }
}
