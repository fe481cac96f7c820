//! Text into everything that can be written as text.

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringViewArray, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use datafusion::arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::Result;

use super::cast::{all_of, lossy};
use super::unfit::{Target, Why};
use super::{datetime, digits, number};

/// Fractions of a second longer than this lose digits when they are read.
const NANOSECOND_DIGITS: usize = 9;

pub(super) fn cast(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let texts = lossy(array, &DataType::Utf8View)?;
    let source = Texts {
        array,
        texts: texts.as_string_view(),
        target,
    };
    Ok(match target.to {
        DataType::Boolean => all_of(array, lossy(array, target.to)?, target, Why::Unreadable)?,
        DataType::Int8 => source.parsed::<Int8Type>(integer)?,
        DataType::Int16 => source.parsed::<Int16Type>(integer)?,
        DataType::Int32 => source.parsed::<Int32Type>(integer)?,
        DataType::Int64 => source.parsed::<Int64Type>(integer)?,
        DataType::UInt8 => source.parsed::<UInt8Type>(integer)?,
        DataType::UInt16 => source.parsed::<UInt16Type>(integer)?,
        DataType::UInt32 => source.parsed::<UInt32Type>(integer)?,
        DataType::UInt64 => source.parsed::<UInt64Type>(integer)?,
        DataType::Float32 => source.parsed::<Float32Type>(|text| float(text, f32::is_infinite))?,
        DataType::Float64 => source.parsed::<Float64Type>(|text| float(text, f64::is_infinite))?,
        DataType::Date32 => source.parsed::<Date32Type>(date)?,
        DataType::Date64 | DataType::Timestamp(_, _) => source.datetimes()?,
        to if to.is_decimal() => number::decimals(array, target, to, |row, precision, scale| {
            Ok(digits::unscaled(source.texts.value(row).trim(), precision, scale))
        })?,
        other => return Err(LoadError::internal(format!("no cast from text to {other}")).into()),
    })
}

struct Texts<'a> {
    array: &'a ArrayRef,
    texts: &'a StringViewArray,
    target: Target<'a>,
}

impl Texts<'_> {
    fn parsed<T: ArrowPrimitiveType>(&self, parse: impl Fn(&str) -> Result<T::Native, Why>) -> Result<ArrayRef> {
        Ok(Arc::new(self.values::<T>(parse)?))
    }

    fn values<T: ArrowPrimitiveType>(
        &self,
        parse: impl Fn(&str) -> Result<T::Native, Why>,
    ) -> Result<PrimitiveArray<T>> {
        let mut values = PrimitiveArray::<T>::builder(self.texts.len());
        for (row, text) in self.texts.iter().enumerate() {
            match text.map(|text| parse(text.trim())) {
                None => values.append_null(),
                Some(Ok(value)) => values.append_value(value),
                Some(Err(why)) => return Err(self.target.unfit(self.array, row, why)),
            }
        }
        Ok(values.finish())
    }

    /// Through microseconds, which reach far, or nanoseconds where digits ask for them.
    fn datetimes(&self) -> Result<ArrayRef> {
        let nanoseconds = |target: &DataType| {
            matches!(
                target,
                DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Nanosecond, _)
            )
        };
        let instants: ArrayRef = match nanoseconds(self.target.to) {
            true => {
                let instants: TimestampNanosecondArray = self.values(|text| {
                    let (seconds, nanos) = instant(text)?;
                    let seconds = seconds.checked_mul(1_000_000_000).ok_or(Why::DatetimeOverflow)?;
                    seconds.checked_add(i64::from(nanos)).ok_or(Why::DatetimeOverflow)
                })?;
                Arc::new(instants)
            }
            false => {
                let instants: TimestampMicrosecondArray = self.values(|text| {
                    let (seconds, nanos) = instant(text)?;
                    if nanos % 1_000 != 0 {
                        return Err(Why::LostSubUnit);
                    }
                    Ok(seconds * 1_000_000 + i64::from(nanos / 1_000))
                })?;
                Arc::new(instants)
            }
        };
        datetime::cast_shown(self.array, &instants, self.target)
    }
}

fn integer<T: TryFrom<i128>>(text: &str) -> Result<T, Why> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let value: i128 = text.parse().map_err(|e: std::num::ParseIntError| match e.kind() {
        PosOverflow | NegOverflow => Why::Overflow,
        _ => Why::Unreadable,
    })?;
    T::try_from(value).map_err(|_| Why::Overflow)
}

fn float<T: std::str::FromStr + Copy>(text: &str, infinite: impl Fn(T) -> bool) -> Result<T, Why> {
    let value: T = text.parse().map_err(|_| Why::Unreadable)?;
    // A number too large is read as infinity; only the word may be.
    match infinite(value) && text.bytes().any(|b| b.is_ascii_digit()) {
        true => Err(Why::Overflow),
        false => Ok(value),
    }
}

fn date(text: &str) -> Result<i32, Why> {
    if !text.contains(':') {
        return Date32Type::parse(text).ok_or(Why::UnreadableDatetime);
    }
    let (seconds, nanos) = instant(text)?;
    match (seconds.rem_euclid(86_400), nanos) {
        (0, 0) => i32::try_from(seconds.div_euclid(86_400)).map_err(|_| Why::DatetimeOverflow),
        _ => Err(Why::LostTimeOfDay),
    }
}

/// Seconds since the epoch, and nanoseconds. Without an offset the text is taken as UTC.
fn instant(text: &str) -> Result<(i64, u32), Why> {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let fraction = fraction.bytes().take_while(u8::is_ascii_digit);
    if fraction.skip(NANOSECOND_DIGITS).any(|digit| digit != b'0') {
        return Err(Why::LostSubUnit);
    }
    let instant = string_to_datetime(&chrono::Utc, text).map_err(|_| Why::UnreadableDatetime)?;
    Ok((instant.timestamp(), instant.timestamp_subsec_nanos()))
}
