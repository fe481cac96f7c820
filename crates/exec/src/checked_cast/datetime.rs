//! Dates and timestamps into each other. All are counts since the epoch in UTC; a timestamp without time zone is taken
//! as UTC, and a time zone is only how a timestamp is shown.

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::compute::cast as arrow_cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::Result;

use super::unfit::{Target, Why};

const SECONDS_PER_DAY: i64 = 86_400;
const MILLIS_PER_DAY: i64 = SECONDS_PER_DAY * 1_000;

fn cast_counts(
    array: &ArrayRef,
    counts: &PrimitiveArray<Int64Type>,
    per_day: i64,
    target: Target<'_>,
) -> Result<ArrayRef> {
    Ok(match target.to {
        DataType::Date32 => {
            let days = |count: i64| i32::try_from(whole_days(count, per_day)?).map_err(|_| Why::DatetimeOverflow);
            Arc::new(converted::<Date32Type>(array, counts, target, days)?)
        }
        DataType::Date64 => {
            let millis = |count: i64| {
                whole_days(count, per_day)?
                    .checked_mul(MILLIS_PER_DAY)
                    .ok_or(Why::DatetimeOverflow)
            };
            Arc::new(converted::<Date64Type>(array, counts, target, millis)?)
        }
        DataType::Timestamp(unit, zone) => {
            let scaled = |count: i64| rescaled(count, per_day, units_per_day(*unit));
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => {
                    let result = converted::<TimestampSecondType>(array, counts, target, scaled)?;
                    Arc::new(result.with_timezone_opt(zone))
                }
                TimeUnit::Millisecond => {
                    let result = converted::<TimestampMillisecondType>(array, counts, target, scaled)?;
                    Arc::new(result.with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    let result = converted::<TimestampMicrosecondType>(array, counts, target, scaled)?;
                    Arc::new(result.with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => {
                    let result = converted::<TimestampNanosecondType>(array, counts, target, scaled)?;
                    Arc::new(result.with_timezone_opt(zone))
                }
            }
        }
        other => return Err(LoadError::internal(format!("no date or time: {other}")).into()),
    })
}

/// `array` as dates or timestamps of the target's type.
pub(super) fn cast(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    cast_shown(array, array, target)
}

/// `instants` as dates or timestamps of the target's type; errors show the value in `array`.
pub(super) fn cast_shown(array: &ArrayRef, instants: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let per_day = match instants.data_type() {
        DataType::Date32 => 1,
        DataType::Date64 => MILLIS_PER_DAY,
        DataType::Timestamp(unit, _) => units_per_day(*unit),
        other => return Err(LoadError::internal(format!("no date or time: {other}")).into()),
    };
    let counts = match instants.data_type() {
        DataType::Date32 => arrow_cast(&arrow_cast(instants, &DataType::Int32)?, &DataType::Int64)?,
        _ => arrow_cast(instants, &DataType::Int64)?,
    };
    cast_counts(array, counts.as_primitive(), per_day, target)
}

fn units_per_day(unit: TimeUnit) -> i64 {
    let per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    SECONDS_PER_DAY * per_second
}

fn whole_days(count: i64, per_day: i64) -> Result<i64, Why> {
    match count.rem_euclid(per_day) {
        0 => Ok(count.div_euclid(per_day)),
        _ => Err(Why::LostTimeOfDay),
    }
}

/// Of two units, one always divides the other.
fn rescaled(count: i64, from: i64, to: i64) -> Result<i64, Why> {
    if to >= from {
        return count.checked_mul(to / from).ok_or(Why::DatetimeOverflow);
    }
    let factor = from / to;
    match count.rem_euclid(factor) {
        0 => Ok(count.div_euclid(factor)),
        _ => Err(Why::LostSubUnit),
    }
}

/// `convert` over all `counts`; the error shows the value in `array`.
fn converted<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    counts: &PrimitiveArray<Int64Type>,
    target: Target<'_>,
    convert: impl Fn(i64) -> Result<T::Native, Why>,
) -> Result<PrimitiveArray<T>> {
    counts.try_unary::<_, T, Why>(&convert).map_err(|why| {
        let fails = |row: &usize| counts.is_valid(*row) && convert(counts.value(*row)).is_err();
        let row = (0..counts.len()).find(fails).unwrap_or(0);
        target.unfit(array, row, why)
    })
}
