//! Parquet's encoding of small numbers (levels, places in a dictionary): runs of equal ones, and groups of eight packed
//! bit by bit.
//!
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>

/// Shorter runs are packed.
const GROUP: usize = 8;
/// Numbers of more bits do not occur.
const WIDEST: u32 = 32;

/// `count` numbers of `width` bits. `None`: `bytes` hold something else.
pub(super) fn decode(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > WIDEST {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let header = varint(&mut bytes)?;
        let length = usize::try_from(header >> 1).ok().filter(|length| *length > 0)?;
        let left = count - numbers.len();
        if header & 1 == 0 {
            let number = whole(&mut bytes, width)?;
            numbers.extend(std::iter::repeat_n(number, length.min(left)));
        } else {
            let packed = length.checked_mul(usize::try_from(width).ok()?)?;
            // The last group may end where its numbers do.
            let (packed, rest) = bytes.split_at(packed.min(bytes.len()));
            unpack(packed, width, length.saturating_mul(GROUP).min(left), &mut numbers)?;
            bytes = rest;
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
    let mask = u32::MAX.checked_shr(WIDEST - width).unwrap_or(0);
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
pub(super) fn encode(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed_from, mut at) = (0, 0);
    while let Some(number) = numbers.get(at) {
        let run = numbers.iter().skip(at).take_while(|next| *next == number).count();
        // Only the last group may have fewer than eight numbers.
        let missing = (at - packed_from).next_multiple_of(GROUP) - (at - packed_from);
        if run >= GROUP + missing {
            pack(numbers.get(packed_from..at + missing).unwrap_or_default(), width, out);
            let length = u64::try_from(run - missing).unwrap_or(0);
            put_varint(length << 1, out);
            let bytes = usize::try_from(width.div_ceil(8)).unwrap_or(0);
            out.extend(number.to_le_bytes().iter().take(bytes));
            packed_from = at + run;
        }
        at += run;
    }
    pack(numbers.get(packed_from..).unwrap_or_default(), width, out);
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
pub(super) fn width_of(count: usize) -> u32 {
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
