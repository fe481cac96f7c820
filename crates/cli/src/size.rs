//! Sizes as people write them.

/// The units, with the factor of each. `KB` and its kin are powers of 1000, `KiB` and its kin powers of 1024; a single
/// letter is a power of 1024 too, as in most tools that take a memory limit.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

/// Reads a size such as `512MB`, `1.5GiB`, or `1g` as a number of bytes.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor =
        factor.ok_or_else(|| format!("\"{unit}\" is not a unit: use B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"))?;
    let bytes = multiply(number, factor).ok_or_else(|| format!("\"{number}\" is not a size"))?;
    match usize::try_from(bytes) {
        Ok(0) => Err("a size of zero leaves nothing to work with".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err("the size is too large".to_owned()),
    }
}

/// Exact, digit by digit: a float would round large sizes.
fn multiply(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || number.ends_with('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if fraction.is_empty() {
        return Some(whole);
    }
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = fraction.parse::<u128>().ok()? * u128::from(factor) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_units_are_read() {
        assert_eq!(parse("512MB"), Ok(512_000_000));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("1g"), Ok(1 << 30));
        assert_eq!(parse(" 1.5 gib "), Ok(3 << 29));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("0.5k"), Ok(512));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "GB",
            "-1",
            "1x",
            "1.g",
            ".5g",
            "0",
            "0.1b",
            "1.2.3m",
            "99999999999TB",
            "1e9",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
