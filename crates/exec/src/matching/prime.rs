//! Arithmetic modulo the prime 2^127 - 1, where reducing takes a shift and an addition. Numbers are `0..=PRIME`, of which
//! the last stands for zero as well.

pub(super) const PRIME: u128 = (1 << 127) - 1;
const LOW_64: u128 = (1 << 64) - 1;
const LOW_63: u128 = (1 << 63) - 1;

/// Any number but 2^128 - 1, which none of the sums and products here reaches.
fn reduced(number: u128) -> u128 {
    (number & PRIME) + (number >> 127)
}

/// The sum.
pub(super) fn add(a: u128, b: u128) -> u128 {
    reduced(a + b)
}

/// The product with a number of 64 bits.
pub(super) fn times_word(a: u128, word: u64) -> u128 {
    let word = u128::from(word);
    let (low, high) = ((a & LOW_64) * word, (a >> 64) * word);
    // 2^127 is 1, and `high` has less than 127 bits.
    add(reduced(low), (high >> 63) | ((high & LOW_63) << 64))
}

/// The product.
pub(super) fn times(a: u128, b: u128) -> u128 {
    let (a_low, a_high) = (a & LOW_64, a >> 64);
    let (b_low, b_high) = (b & LOW_64, b >> 64);
    let middle = a_low * b_high + a_high * b_low;
    let middle = reduced((middle >> 63) + ((middle & LOW_63) << 64));
    // 2^128 is 2.
    add(add(reduced(a_low * b_low), middle), 2 * (a_high * b_high))
}

/// The only form of a number.
pub(super) fn canonical(number: u128) -> u128 {
    if number == PRIME { 0 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum and product, digit by digit.
    fn slow_add(a: u128, b: u128) -> u128 {
        let (a, b) = (a % PRIME, b % PRIME);
        if a >= PRIME - b { a - (PRIME - b) } else { a + b }
    }

    fn slow_times(a: u128, b: u128) -> u128 {
        (0..128).rev().fold(0, |sum, bit| {
            let doubled = slow_add(sum, sum);
            if b >> bit & 1 == 1 {
                slow_add(doubled, a)
            } else {
                doubled
            }
        })
    }

    #[test]
    fn results_are_those_of_plain_arithmetic() {
        let edges = [0, 1, 2, LOW_63, LOW_64, LOW_64 + 1, 1 << 126, PRIME - 1, PRIME];
        let mut numbers = edges.to_vec();
        let mut next = 1_u128;
        for _ in 0..60 {
            next = next
                .wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645)
                .wrapping_add(1);
            numbers.push(next >> 1);
        }
        for a in &numbers {
            for b in &numbers {
                assert!(add(*a, *b) <= PRIME && times(*a, *b) <= PRIME);
                assert_eq!(canonical(add(*a, *b)), slow_add(*a, *b), "{a} + {b}");
                assert_eq!(canonical(times(*a, *b)), slow_times(*a, *b), "{a} * {b}");
                let word = u64::try_from(*b & LOW_64).unwrap();
                assert!(times_word(*a, word) <= PRIME);
                assert_eq!(
                    canonical(times_word(*a, word)),
                    slow_times(*a, word.into()),
                    "{a} * {word}"
                );
            }
        }
    }
}
