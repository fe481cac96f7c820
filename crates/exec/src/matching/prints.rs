//! Fingerprints of rows: 127 bits that stand for all values that have to be equal. Source rows get theirs while they
//! come in, stored rows while they stream by, both column by column while the values are in the cache. What is compared
//! then is one number of each, where comparing the values would be a miss of the cache for every column.
//!
//! A fingerprint is a sum modulo the prime p = 2^127 - 1 over the columns:
//!
//! ```text
//! fixed width    k * value                                value: 64 bits
//! decimals       k * lower half + r * upper half
//! bytes          k * length + c1 * r^n + .. + cn * r      c: 15 bytes each
//! NULL           z
//! ```
//!
//! with secrets k, r and z for every column, drawn anew for every load. Equal rows have equal fingerprints. For two rows that
//! differ, the difference of the fingerprints is a polynomial of the secrets that is not zero, of degree n at most, and so is
//! zero for no more than n of p values of one of them: they are taken for equal with a probability of n / 2^127 at most,
//! where n is 1, or the longest text's bytes by 15. Five million compared rows with texts of 100 bytes make
//! 3e-31 for a load, a billion of them 5e-29. No content can be made for it: the secrets are not known before the load,
//! and nothing shows them.

use std::hash::{BuildHasher, RandomState};

use alluvium_core::LoadError;
use datafusion::arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Decimal128Type};
use datafusion::common::Result;

use super::prime::{PRIME, add, canonical, times, times_word};
use crate::floats::normalize_array;

/// So many bytes of a text are one number, smaller than the prime.
const PIECE: usize = 15;

/// Bytes of a fingerprint.
pub(super) const PRINT: usize = size_of::<u128>();

/// Makes the fingerprints of one load.
pub(crate) struct Printer {
    columns: Vec<Column>,
}

/// A column of fingerprints: where it is on either side, and its secrets.
struct Column {
    source: usize,
    stored: usize,
    secret: Secret,
}

struct Secret {
    value: u128,
    rest: u128,
    null: u128,
}

impl Printer {
    /// Over pairs of columns of a type that [`Self::knows`] accepts: in the source, and in stored rows.
    pub(crate) fn new(columns: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut random = Random::default();
        let column = |(source, stored)| Column {
            source,
            stored,
            secret: Secret {
                value: random.next(),
                rest: random.next(),
                null: random.next(),
            },
        };
        Self {
            columns: columns.into_iter().map(column).collect(),
        }
    }

    /// The fingerprints of all rows of the source's `batch`.
    pub(super) fn of_source(&self, batch: &RecordBatch) -> Result<Vec<u128>> {
        let rows: Vec<usize> = (0..batch.num_rows()).collect();
        let columns = self.columns.iter();
        print(columns.map(|c| (batch.column(c.source), &c.secret)), &rows)
    }

    /// The fingerprints of some stored rows.
    pub(crate) fn of_stored(&self, columns: &[ArrayRef], rows: &[usize]) -> Result<Vec<u128>> {
        let stored = |c: &Column| {
            columns
                .get(c.stored)
                .ok_or_else(|| LoadError::internal("a compared column is gone"))
        };
        let stored = self.columns.iter().map(|c| Ok((stored(c)?, &c.secret)));
        print(stored.collect::<Result<Vec<_>>>()?.into_iter(), rows)
    }

    /// Whether values of a type can be part of a fingerprint.
    pub(crate) fn knows(data_type: &DataType) -> bool {
        use DataType::{
            Binary, BinaryView, Boolean, Decimal128, FixedSizeBinary, Interval, LargeBinary, LargeUtf8, Utf8, Utf8View,
        };
        match data_type {
            Boolean | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
            FixedSizeBinary(_) | Decimal128(_, _) => true,
            Interval(_) => false,
            other => other.primitive_width().is_some_and(|width| width <= size_of::<u64>()),
        }
    }
}

/// Numbers that nobody can know: the standard library seeds its hasher from the system.
#[derive(Default)]
struct Random {
    state: RandomState,
    drawn: u64,
}

impl Random {
    fn next(&mut self) -> u128 {
        let mut half = || {
            self.drawn += 1;
            u128::from(self.state.hash_one(self.drawn))
        };
        (half() << 64 | half()) & PRIME
    }
}

fn print<'a>(columns: impl Iterator<Item = (&'a ArrayRef, &'a Secret)>, rows: &[usize]) -> Result<Vec<u128>> {
    let mut prints = vec![0; rows.len()];
    for (column, secret) in columns {
        let column = normalize_array(column)?;
        let rows = Rows {
            prints: &mut prints,
            rows,
            nulls: column.nulls().filter(|nulls| nulls.null_count() > 0),
            secret,
        };
        rows.add(&column)?;
    }
    prints.iter_mut().for_each(|print| *print = canonical(*print));
    Ok(prints)
}

/// The fingerprints of rows, to which a column is added.
struct Rows<'a> {
    prints: &'a mut [u128],
    rows: &'a [usize],
    nulls: Option<&'a NullBuffer>,
    secret: &'a Secret,
}

impl Rows<'_> {
    fn add(self, column: &ArrayRef) -> Result<()> {
        let data_type = column.data_type();
        match data_type {
            DataType::Boolean => self.booleans(column),
            DataType::Decimal128(_, _) => self.decimals(column),
            DataType::Utf8 => self.bytes::<StringArray>(column),
            DataType::LargeUtf8 => self.bytes::<LargeStringArray>(column),
            DataType::Utf8View => self.bytes::<StringViewArray>(column),
            DataType::Binary => self.bytes::<BinaryArray>(column),
            DataType::LargeBinary => self.bytes::<LargeBinaryArray>(column),
            DataType::BinaryView => self.bytes::<BinaryViewArray>(column),
            DataType::FixedSizeBinary(_) => self.bytes::<FixedSizeBinaryArray>(column),
            other => match other.primitive_width() {
                Some(1) => self.bits::<u8>(column),
                Some(2) => self.bits::<u16>(column),
                Some(4) => self.bits::<u32>(column),
                Some(8) => self.bits::<u64>(column),
                _ => None,
            },
        }
        .ok_or_else(|| LoadError::internal(format!("a fingerprint cannot be made of {data_type}")).into())
    }

    fn bits<T: ArrowNativeType + Into<u64>>(self, column: &ArrayRef) -> Option<()> {
        let data = column.to_data();
        let values = data.buffer::<T>(0);
        let secret = self.secret.value;
        self.each(|row| times_word(secret, values.get(row).copied().unwrap_or_default().into()));
        Some(())
    }

    fn booleans(self, column: &ArrayRef) -> Option<()> {
        let values = column.as_boolean_opt()?;
        let secret = self.secret.value;
        self.each(|row| times_word(secret, values.value(row).into()));
        Some(())
    }

    fn decimals(self, column: &ArrayRef) -> Option<()> {
        let values = column.as_primitive_opt::<Decimal128Type>()?.values();
        let secret = self.secret;
        self.each(|row| {
            let bytes = values.get(row).copied().unwrap_or_default().to_le_bytes();
            let (low, high) = (bytes.first_chunk().copied(), bytes.last_chunk().copied());
            let half = |bytes: Option<[u8; 8]>| u64::from_le_bytes(bytes.unwrap_or_default());
            add(times_word(secret.value, half(low)), times_word(secret.rest, half(high)))
        });
        Some(())
    }

    fn bytes<'a, A>(self, column: &'a ArrayRef) -> Option<()>
    where
        A: Array + 'static,
        &'a A: ArrayAccessor<Item: AsRef<[u8]>>,
    {
        let values: &A = column.as_any().downcast_ref()?;
        let secret = self.secret;
        self.each(|row| text(secret, ArrayAccessor::value(&values, row).as_ref()));
        Some(())
    }

    fn each(self, value: impl Fn(usize) -> u128) {
        let prints = self.prints.iter_mut().zip(self.rows);
        match self.nulls {
            None => prints.for_each(|(print, row)| *print = add(*print, value(*row))),
            Some(nulls) => prints.for_each(|(print, row)| {
                let part = match nulls.is_valid(*row) {
                    true => value(*row),
                    false => self.secret.null,
                };
                *print = add(*print, part);
            }),
        }
    }
}

fn text(secret: &Secret, bytes: &[u8]) -> u128 {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let pieces = bytes.chunks(PIECE).map(number);
    let content = pieces.fold(0, |sum, piece| times(add(sum, piece), secret.rest));
    add(times_word(secret.value, length), content)
}

/// Up to [`PIECE`] bytes as a number, the first byte lowest. The last eight overlap the first, and lose what they have in
/// common: two loads instead of a loop.
fn number(bytes: &[u8]) -> u128 {
    let beyond = |size: usize| u32::try_from(8 * (2 * size).saturating_sub(bytes.len())).unwrap_or(0);
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u64::from_le_bytes(*last).checked_shr(beyond(8)).unwrap_or(0);
        return u128::from(u64::from_le_bytes(*first)) | u128::from(last) << 64;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u32::from_le_bytes(*last).checked_shr(beyond(4)).unwrap_or(0);
        return u128::from(u32::from_le_bytes(*first)) | u128::from(last) << 32;
    }
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests;
