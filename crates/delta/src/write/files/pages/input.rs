//! Arrow's values as pages take them.

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::parquet::errors::Result as ParquetResult;

use super::close::too_large;
use super::dictionary::Dictionary;
use super::kind::Kind;
use super::values::{put_text, put_texts};

/// The values of an array.
pub(super) struct Input<'a> {
    rows: usize,
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    /// Of one width, side by side.
    Fixed(&'a [u8], usize),
    /// Between one offset and the next.
    Texts(&'a [i32], &'a [u8]),
}

impl<'a> Input<'a> {
    /// Whether values of a type lie in memory as pages of a column of this kind hold them.
    pub(super) fn takes(kind: Kind, data_type: &DataType) -> bool {
        matches!(
            (kind, data_type),
            (Kind::Int32, DataType::Int32 | DataType::Date32)
                | (
                    Kind::Int64,
                    DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond, _)
                )
                | (Kind::Float, DataType::Float32)
                | (Kind::Double, DataType::Float64)
                | (Kind::Text, DataType::Utf8)
                | (Kind::Binary, DataType::Binary)
        )
    }

    /// Whether there is a kind of column that takes values of a type.
    pub(super) fn knows(data_type: &DataType) -> bool {
        let kinds = [
            Kind::Int32,
            Kind::Int64,
            Kind::Float,
            Kind::Double,
            Kind::Text,
            Kind::Binary,
        ];
        kinds.into_iter().any(|kind| Self::takes(kind, data_type))
    }

    /// The values of `array`, if it is of a type that is taken.
    pub(super) fn of(array: &'a ArrayRef) -> Option<Self> {
        let values = match array.data_type() {
            DataType::Int32 => fixed::<Int32Type>(array)?,
            DataType::Date32 => fixed::<Date32Type>(array)?,
            DataType::Int64 => fixed::<Int64Type>(array)?,
            DataType::Timestamp(TimeUnit::Microsecond, _) => fixed::<TimestampMicrosecondType>(array)?,
            DataType::Float32 => fixed::<Float32Type>(array)?,
            DataType::Float64 => fixed::<Float64Type>(array)?,
            DataType::Utf8 => {
                let texts = array.as_string_opt::<i32>()?;
                Values::Texts(texts.offsets(), texts.value_data())
            }
            DataType::Binary => {
                let texts = array.as_binary_opt::<i32>()?;
                Values::Texts(texts.offsets(), texts.value_data())
            }
            _ => return None,
        };
        Some(Self {
            rows: array.len(),
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
            values,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// How many of the first `rows` are NULL.
    pub(super) fn nulls(&self, rows: usize) -> usize {
        match self.nulls {
            Some(nulls) if rows == self.rows => nulls.null_count(),
            Some(nulls) => nulls.slice(0, rows).null_count(),
            None => 0,
        }
    }

    /// For each of the first `rows` whether it has a value, behind those of `before` rows; nothing as long as all have.
    pub(super) fn put_levels(&self, before: usize, rows: usize, out: &mut Vec<u32>) {
        match self.nulls {
            Some(nulls) => {
                out.resize(before, 1);
                out.extend(nulls.iter().take(rows).map(u32::from));
            }
            None if out.is_empty() => {}
            None => out.resize(before + rows, 1),
        }
    }

    /// All values, as a page holds them.
    pub(super) fn put_plain(&self, out: &mut Vec<u8>) -> ParquetResult<()> {
        match (&self.values, self.nulls) {
            (Values::Fixed(bytes, _), None) => out.extend_from_slice(bytes),
            (Values::Fixed(bytes, width), Some(nulls)) => {
                for (from, to) in nulls.valid_slices() {
                    out.extend_from_slice(bytes.get(from * width..to * width).unwrap_or_default());
                }
            }
            (Values::Texts(offsets, bytes), None) => put_texts(offsets, bytes, out).ok_or_else(too_large)?,
            (Values::Texts(..), Some(_)) => {
                for value in (0..self.rows).filter_map(|row| self.value(row)) {
                    put_text(value, out).ok_or_else(too_large)?;
                }
            }
        }
        Ok(())
    }

    /// The places of the values in `dictionary`, as long as it has room. Tells of how many rows.
    pub(super) fn put_places(&self, dictionary: &mut Dictionary, out: &mut Vec<u32>) -> usize {
        let mut before: Option<(&[u8], u32)> = None;
        for row in 0..self.rows {
            let Some(value) = self.value(row) else {
                continue;
            };
            let place = match before {
                Some((same, place)) if same == value => Some(place),
                _ => dictionary.place_of(value),
            };
            let Some(place) = place else {
                return row;
            };
            out.push(place);
            before = Some((value, place));
        }
        self.rows
    }

    /// The value of a row, if it has one.
    #[inline]
    pub(super) fn value(&self, row: usize) -> Option<&'a [u8]> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match self.values {
            Values::Fixed(bytes, width) => bytes.get(row * width..(row + 1) * width),
            Values::Texts(offsets, bytes) => match offsets.get(row..)? {
                [from, to, ..] => bytes.get(from.as_usize()..to.as_usize()),
                _ => None,
            },
        }
    }
}

fn fixed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<Values<'_>> {
    let values = array.as_primitive_opt::<T>()?.values();
    Some(Values::Fixed(values.inner().as_slice(), T::Native::get_byte_width()))
}
