//! Decimal numbers as text, without rounding.

use datafusion::arrow::datatypes::i256;

use super::unfit::Why;

/// Digits that always fit an `i128`.
const I128_DIGITS: usize = 38;
/// Exponents beyond this are out of every range; a bound keeps arithmetic on them safe.
const MAX_EXPONENT: i64 = 100_000;

/// The value of `text` (`-12.5`, `1e-3`) in units of `10^-scale`, if that is exact and has at most `precision` digits.
pub(super) fn unscaled(text: &str, precision: u8, scale: i8) -> Result<i256, Why> {
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = split_exponent(text)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole.as_bytes(), fraction.as_bytes()].concat();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Why::Unreadable);
    }
    let Some(start) = digits.iter().position(|d| *d != b'0') else {
        return Ok(i256::ZERO);
    };
    // How many of `digits` stand before the point of the unscaled value.
    let before = to_i64(whole.len()) + exponent + i64::from(scale);
    let kept = usize::try_from(before).unwrap_or(0).min(digits.len());
    if digits[kept..].iter().any(|d| *d != b'0') {
        return Err(Why::LostDigits);
    }
    let zeros = usize::try_from(before).unwrap_or(0) - kept;
    let significant = &digits[start.min(kept)..kept];
    if significant.len() + zeros > usize::from(precision) {
        return Err(Why::Overflow);
    }
    let value = whole_number(significant, zeros)?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

fn split_exponent(text: &str) -> Result<(&str, i64), Why> {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        return Ok((text, 0));
    };
    let exponent: i64 = exponent.parse().map_err(|_| Why::Unreadable)?;
    Ok((mantissa, exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT)))
}

fn whole_number(digits: &[u8], zeros: usize) -> Result<i256, Why> {
    if digits.len() + zeros <= I128_DIGITS {
        let digits = digits.iter().map(|d| i128::from(d - b'0'));
        let value = digits
            .chain(std::iter::repeat_n(0, zeros))
            .fold(0, |sum, d| sum * 10 + d);
        return Ok(i256::from_i128(value));
    }
    let mut text = String::from_utf8_lossy(digits).into_owned();
    text.extend(std::iter::repeat_n('0', zeros));
    i256::from_string(&text).ok_or(Why::Overflow)
}

fn to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(MAX_EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, precision: u8, scale: i8) -> Result<i128, Why> {
        unscaled(text, precision, scale).map(|v| v.to_i128().unwrap())
    }

    #[test]
    fn exact_values_are_read() {
        assert_eq!(value("12.50", 10, 2), Ok(1250));
        assert_eq!(value("-0.1", 10, 3), Ok(-100));
        assert_eq!(value("1e3", 10, 0), Ok(1000));
        assert_eq!(value("1.5e-1", 10, 2), Ok(15));
        assert_eq!(value("+7", 1, 0), Ok(7));
        assert_eq!(value("1200", 2, -2), Ok(12));
        assert_eq!(value(".5", 1, 1), Ok(5));
    }

    #[test]
    fn zero_fits_everywhere() {
        for text in ["0", "-0.000", "0e99", "0.0000000000000000000000000000000000000000000"] {
            assert_eq!(value(text, 38, 38), Ok(0));
            assert_eq!(value(text, 1, 0), Ok(0));
        }
    }

    #[test]
    fn what_does_not_fit_is_told_apart() {
        assert_eq!(value("1.239", 10, 2), Err(Why::LostDigits));
        assert_eq!(value("100", 2, 0), Err(Why::Overflow));
        assert_eq!(value("1e90", 38, 0), Err(Why::Overflow));
        assert_eq!(value("1e-90", 38, 0), Err(Why::LostDigits));
        for text in ["", "-", ".", "1e", "1.2.3", "abc", "0x10", "NaN", "inf"] {
            assert_eq!(value(text, 10, 0), Err(Why::Unreadable), "{text}");
        }
    }

    #[test]
    fn wide_values_are_read() {
        let text = "9".repeat(60);
        assert_eq!(unscaled(&text, 76, 0).unwrap().to_string(), text);
    }
}
