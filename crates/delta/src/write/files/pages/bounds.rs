//! The lowest and the highest of the values of a page or of a chunk.

use std::cmp::Ordering;

use datafusion::parquet::data_type::{ByteArray, FixedLenByteArray};
use datafusion::parquet::file::statistics::{Statistics, ValueStatistics};

use super::kind::{Kind, double, float, int32, int64};
use super::values::Texts;

/// Longer bounds are cut off, as other writers do: a text of megabytes is no help in skipping.
const LONGEST: usize = 64;

/// The lowest and the highest of some values. NaN is neither.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: Option<Bound>,
    pub(super) max: Option<Bound>,
}

/// A value, or something below or above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: Vec<u8>,
    pub(super) exact: bool,
}

impl Bounds {
    /// Of `values`.
    pub(super) fn of<'a>(kind: Kind, values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut extremes = Extremes::default();
        for value in values {
            extremes.see(kind, value);
        }
        extremes.bounds(kind)
    }

    /// Of values as they are in a page.
    pub(super) fn of_plain(kind: Kind, bytes: &[u8]) -> Self {
        let ends = match kind {
            Kind::Int32 => ends(bytes.as_chunks().0, i32::from_le_bytes, |_| false),
            Kind::Int64 => ends(bytes.as_chunks().0, i64::from_le_bytes, |_| false),
            Kind::Float => ends(bytes.as_chunks().0, f32::from_le_bytes, |value| value.is_nan()),
            Kind::Double => ends(bytes.as_chunks().0, f64::from_le_bytes, |value| value.is_nan()),
            Kind::Boolean | Kind::Decimal(_) => {
                return Self::of(kind, bytes.chunks_exact(kind.width().unwrap_or(1)));
            }
            Kind::Text | Kind::Binary => text_ends(Texts(bytes)),
        };
        match ends {
            Some((min, max)) => Self {
                min: Some(lower(kind, min)),
                max: Some(upper(kind, max)),
            },
            None => Self::default(),
        }
    }

    /// What the statistics of a chunk say.
    pub(super) fn known(statistics: Option<&Statistics>) -> Self {
        let Some(statistics) = statistics else {
            return Self::default();
        };
        let bound = |value: Option<&[u8]>, exact| {
            value.map(|value| Bound {
                value: value.to_vec(),
                exact,
            })
        };
        Self {
            min: bound(statistics.min_bytes_opt(), statistics.min_is_exact()),
            max: bound(statistics.max_bytes_opt(), statistics.max_is_exact()),
        }
    }

    /// Those of the values of both.
    pub(super) fn with(self, kind: Kind, other: &Self) -> Self {
        let further = |ours: Option<Bound>, theirs: &Option<Bound>, wanted| match (ours, theirs) {
            (Some(ours), Some(theirs)) => match kind.compare(&theirs.value, &ours.value) {
                Some(order) if order == wanted => Some(theirs.clone()),
                _ => Some(ours),
            },
            (ours, theirs) => ours.or_else(|| theirs.clone()),
        };
        Self {
            min: further(self.min, &other.min, Ordering::Less),
            max: further(self.max, &other.max, Ordering::Greater),
        }
    }

    /// Takes in `value` whole, as long as it may be.
    pub(super) fn widen(&mut self, kind: Kind, value: &[u8]) {
        let beyond = |known: &Option<Bound>, wanted| match known {
            Some(known) => kind.compare(value, &known.value) == Some(wanted),
            None => kind.compare(value, value).is_some(),
        };
        let (below, above) = (beyond(&self.min, Ordering::Less), beyond(&self.max, Ordering::Greater));
        let bound = || Bound {
            value: value.to_vec(),
            exact: true,
        };
        if below {
            self.min = Some(bound());
        }
        if above {
            self.max = Some(bound());
        }
    }

    /// As statistics of a chunk; `None` where a bound is no value of its kind.
    pub(super) fn statistics(&self, kind: Kind, nulls: Option<u64>) -> Option<Statistics> {
        Some(match kind {
            Kind::Boolean => typed(self, nulls, |value| Some(value.first()? == &1))?,
            Kind::Int32 => typed(self, nulls, int32)?,
            Kind::Int64 => typed(self, nulls, int64)?,
            Kind::Float => typed(self, nulls, float)?,
            Kind::Double => typed(self, nulls, double)?,
            Kind::Text | Kind::Binary => typed(self, nulls, |value| Some(ByteArray::from(value.to_vec())))?,
            Kind::Decimal(_) => typed(self, nulls, |value| Some(FixedLenByteArray::from(value.to_vec())))?,
        })
    }
}

fn typed<T>(bounds: &Bounds, nulls: Option<u64>, value: impl Fn(&[u8]) -> Option<T>) -> Option<Statistics>
where
    Statistics: From<ValueStatistics<T>>,
{
    let read = |bound: &Option<Bound>| match bound {
        Some(bound) => value(&bound.value).map(Some),
        None => Some(None),
    };
    let exact = |bound: &Option<Bound>| bound.as_ref().is_some_and(|bound| bound.exact);
    let statistics = ValueStatistics::new(read(&bounds.min)?, read(&bounds.max)?, None, nulls, false);
    let statistics = statistics
        .with_min_is_exact(exact(&bounds.min))
        .with_max_is_exact(exact(&bounds.max));
    Some(Statistics::from(statistics))
}

/// The first and the last by `number`, but for those that are in no order.
fn ends<const N: usize, T: PartialOrd + Copy>(
    values: &[[u8; N]],
    number: impl Fn([u8; N]) -> T,
    apart: impl Fn(T) -> bool,
) -> Option<(&[u8], &[u8])> {
    let first = values.iter().position(|value| !apart(number(*value)))?;
    let ((mut min, mut at_min), (mut max, mut at_max)) = (
        (number(*values.get(first)?), first),
        (number(*values.get(first)?), first),
    );
    for (at, value) in values.iter().enumerate().skip(first) {
        let value = number(*value);
        if value < min {
            (min, at_min) = (value, at);
        }
        if value > max {
            (max, at_max) = (value, at);
        }
    }
    Some((values.get(at_min)?.as_slice(), values.get(at_max)?.as_slice()))
}

/// The first and the last text. Their first eight bytes tell in most cases.
fn text_ends<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Option<(&'a [u8], &'a [u8])> {
    let mut texts = texts.map(|text| (start_of(text), text));
    let first = texts.next()?;
    let (min, max) = texts.fold((first, first), |(min, max), text| (min.min(text), max.max(text)));
    Some((min.1, max.1))
}

/// A number that is lower where the text is, or equal.
fn start_of(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            for (to, from) in eight.iter_mut().zip(text) {
                *to = *from;
            }
            u64::from_be_bytes(eight)
        }
    }
}

#[derive(Default)]
struct Extremes<'a> {
    min: Option<&'a [u8]>,
    max: Option<&'a [u8]>,
}

impl<'a> Extremes<'a> {
    fn see(&mut self, kind: Kind, value: &'a [u8]) {
        // NaN is in no order with itself.
        let beyond = |known: Option<&[u8]>, wanted| match known {
            Some(known) => kind.compare(value, known) == Some(wanted),
            None => kind.compare(value, value).is_some(),
        };
        if beyond(self.min, Ordering::Less) {
            self.min = Some(value);
        }
        if beyond(self.max, Ordering::Greater) {
            self.max = Some(value);
        }
    }

    fn bounds(self, kind: Kind) -> Bounds {
        Bounds {
            min: self.min.map(|value| lower(kind, value)),
            max: self.max.map(|value| upper(kind, value)),
        }
    }
}

/// Readers may take the two zeros for equal or not: a lower bound is the one below.
fn lower(kind: Kind, value: &[u8]) -> Bound {
    let exact = |value| Bound { value, exact: true };
    match kind {
        Kind::Float if float(value) == Some(0.0) => exact((-0.0_f32).to_le_bytes().to_vec()),
        Kind::Double if double(value) == Some(0.0) => exact((-0.0_f64).to_le_bytes().to_vec()),
        Kind::Text | Kind::Binary if value.len() > LONGEST => Bound {
            value: start(kind, value).to_vec(),
            exact: false,
        },
        _ => exact(value.to_vec()),
    }
}

/// The value itself where no short one is above.
fn upper(kind: Kind, value: &[u8]) -> Bound {
    let exact = |value| Bound { value, exact: true };
    match kind {
        Kind::Float if float(value) == Some(0.0) => exact(0.0_f32.to_le_bytes().to_vec()),
        Kind::Double if double(value) == Some(0.0) => exact(0.0_f64.to_le_bytes().to_vec()),
        Kind::Text | Kind::Binary if value.len() > LONGEST => match above(kind, start(kind, value)) {
            Some(value) => Bound { value, exact: false },
            None => exact(value.to_vec()),
        },
        _ => exact(value.to_vec()),
    }
}

/// The beginning of a long value, at a character's end.
fn start(kind: Kind, value: &[u8]) -> &[u8] {
    let goes_on = |at: &usize| kind == Kind::Text && value.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (0..=LONGEST).rev().find(|at| !goes_on(at)).unwrap_or(0);
    value.get(..end).unwrap_or(value)
}

/// The shortest value above all that begin with `start`.
fn above(kind: Kind, start: &[u8]) -> Option<Vec<u8>> {
    if kind == Kind::Text {
        let text = std::str::from_utf8(start).ok()?;
        let (at, next) = text
            .char_indices()
            .rev()
            .find_map(|(at, char)| Some((at, following(char)?)))?;
        let mut above = text.get(..at)?.to_owned();
        above.push(next);
        return Some(above.into_bytes());
    }
    let at = start.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut above = start.get(..=at)?.to_vec();
    *above.last_mut()? += 1;
    Some(above)
}

fn following(char: char) -> Option<char> {
    let mut following = char..=char::MAX;
    following.next();
    following.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_widen_and_nan_is_left_out() {
        let values = [f64::NAN, 0.0, -0.0, f64::NAN].map(f64::to_le_bytes);
        let bounds = Bounds::of_plain(Kind::Double, values.as_flattened());
        assert_eq!(bounds.min.unwrap().value, (-0.0_f64).to_le_bytes());
        assert_eq!(bounds.max.unwrap().value, 0.0_f64.to_le_bytes());
        let none = Bounds::of_plain(Kind::Double, &f64::NAN.to_le_bytes());
        assert_eq!(none, Bounds::default());
    }

    #[test]
    fn numbers_have_a_sign() {
        let values = [-5_i64, 7, 3].map(i64::to_le_bytes);
        let bounds = Bounds::of_plain(Kind::Int64, values.as_flattened());
        assert_eq!(int64(&bounds.min.unwrap().value), Some(-5));
        assert_eq!(int64(&bounds.max.unwrap().value), Some(7));
        let values = [(-5_i16).to_be_bytes(), 300_i16.to_be_bytes(), 2_i16.to_be_bytes()];
        let bounds = Bounds::of_plain(Kind::Decimal(2), values.as_flattened());
        assert_eq!(bounds.min.unwrap().value, (-5_i16).to_be_bytes());
        assert_eq!(bounds.max.unwrap().value, 300_i16.to_be_bytes());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let long = "é".repeat(50);
        let bounds = Bounds::of(Kind::Text, [long.as_bytes()]);
        let (min, max) = (bounds.min.unwrap(), bounds.max.unwrap());
        assert!(!min.exact && !max.exact);
        assert_eq!(min.value, "é".repeat(32).as_bytes());
        assert!(max.value.as_slice() > long.as_bytes() && std::str::from_utf8(&max.value).is_ok());
        let highest = char::MAX.to_string().repeat(40);
        let max = Bounds::of(Kind::Text, [highest.as_bytes()]).max.unwrap();
        assert_eq!((max.value.as_slice(), max.exact), (highest.as_bytes(), true));
        let surrogates = "\u{d7ff}".repeat(40);
        let max = Bounds::of(Kind::Text, [surrogates.as_bytes()]).max.unwrap();
        assert!(std::str::from_utf8(&max.value).unwrap().ends_with('\u{e000}'));
        let bytes = [vec![7; 10], vec![255; 90]].concat();
        let max = Bounds::of(Kind::Binary, [bytes.as_slice()]).max.unwrap();
        assert_eq!(max.value, [7, 7, 7, 7, 7, 7, 7, 7, 7, 8]);
    }
}
