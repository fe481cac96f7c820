//! Numbers into numbers: arrow's cast does the work, and a second look finds what it lost.

use std::fmt::{LowerExp, Write};
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array,
    PrimitiveArray,
};
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::datatypes::{DataType, Decimal256Type, Float32Type, Float64Type, i256};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};

use super::cast::{all_of, first_lost, lossy};
use super::digits::unscaled;
use super::unfit::{Target, Why};
use crate::floats;

pub(super) fn cast(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let (from, to) = (array.data_type(), target.to);
    match (from.is_floating(), to.is_floating()) {
        (true, true) => float_to_float(array, target),
        (true, false) if to.is_decimal() => to_decimal(array, target),
        (true, false) => there_and_back(&floats::normalize_array(array)?, target),
        (false, true) if from.is_decimal() => decimal_to_float(array, target),
        (false, true) => there_and_back(array, target),
        (false, false) if to.is_decimal() => {
            let result = lossy(array, to).ok().filter(|r| first_lost(array, r).is_none());
            match result {
                Some(result) if !scale_shrinks(from, to) || unchanged(array, &result)? => Ok(result),
                // Arrow gives up on some zeros, and does not tell lost digits from overflow.
                _ => to_decimal(array, target),
            }
        }
        (false, false) if from.is_decimal() => decimal_to_integer(array, target),
        (false, false) => all_of(array, lossy(array, to)?, target, Why::Overflow),
    }
}

fn scale_shrinks(from: &DataType, to: &DataType) -> bool {
    match (parameters(from), parameters(to)) {
        (Some((_, from)), Some((_, to))) => from > to,
        (None, Some((_, to))) => to < 0,
        _ => false,
    }
}

/// Precision and scale of a decimal type.
fn parameters(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((*p, *s)),
        _ => None,
    }
}

/// Whether `result`, cast back, is `array`.
fn unchanged(array: &ArrayRef, result: &ArrayRef) -> Result<bool> {
    Ok(first_changed(array, result)?.is_none())
}

fn first_changed(array: &ArrayRef, result: &ArrayRef) -> Result<Option<usize>> {
    let back = lossy(result, array.data_type())?;
    Ok(distinct(&back, array)?.values().set_indices().next())
}

/// Between integers and floats: what comes back unchanged has lost nothing.
fn there_and_back(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let result = all_of(array, lossy(array, target.to)?, target, Why::Overflow)?;
    match first_changed(array, &result)? {
        Some(row) => Err(target.unfit(array, row, Why::LostDigits)),
        None => Ok(result),
    }
}

/// A narrower float fits if it is the same number, or at least prints as the same.
fn float_to_float(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let result = lossy(array, target.to)?;
    let back = lossy(&result, array.data_type())?;
    let (normal, back) = (floats::normalize_array(array)?, floats::normalize_array(&back)?);
    for row in distinct(&back, &normal)?.values().set_indices() {
        let narrow = ScalarValue::try_from_array(&result, row)?;
        let wide = ScalarValue::try_from_array(array, row)?;
        if narrow.to_string().parse::<f64>().ok() != wide.to_string().parse::<f64>().ok() {
            return Err(target.unfit(array, row, float_loss(&narrow)));
        }
    }
    Ok(result)
}

fn float_loss(narrow: &ScalarValue) -> Why {
    match narrow {
        ScalarValue::Float32(Some(v)) if v.is_infinite() => Why::Overflow,
        ScalarValue::Float16(Some(v)) if v.is_infinite() => Why::Overflow,
        _ => Why::LostDigits,
    }
}

fn decimal_to_integer(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let quick = lossy(array, target.to)?;
    if first_lost(array, &quick).is_none() && unchanged(array, &quick)? {
        return Ok(quick);
    }
    let exact = decimals_of_numbers(array, target, &DataType::Decimal256(76, 0))?;
    all_of(array, lossy(&exact, target.to)?, target, Why::Overflow)
}

/// A decimal fits a float if the float prints as the decimal. Few digits always do.
fn decimal_to_float(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let (_, scale) = parameters(array.data_type()).unwrap_or((0, 0));
    let wide = lossy(array, &DataType::Decimal256(76, scale))?;
    let wide = wide.as_primitive::<Decimal256Type>();
    let few = match target.to {
        DataType::Float64 => i256::from_i128(1_000_000_000_000_000),
        _ => i256::from_i128(1_000),
    };
    let few_digits = |value: i256| value < few && value > few.wrapping_neg();
    if (0..=22).contains(&scale) && wide.iter().flatten().all(few_digits) {
        return lossy(array, target.to);
    }
    let source = Decimals {
        array,
        wide,
        scale,
        target,
    };
    match target.to {
        DataType::Float64 => Ok(Arc::new(source.parsed::<Float64Type>()?)),
        _ => lossy(&source.parsed::<Float32Type>()?, target.to),
    }
}

struct Decimals<'a> {
    array: &'a ArrayRef,
    wide: &'a Decimal256Array,
    scale: i8,
    target: Target<'a>,
}

impl Decimals<'_> {
    /// Arrow divides by a power of ten, which is not always the nearest float; reading the digits is.
    fn parsed<T: ArrowPrimitiveType>(&self) -> Result<PrimitiveArray<T>>
    where
        T::Native: FromStr + LowerExp,
    {
        let texts = Texts::of(self.array)?;
        let mut text = String::new();
        let mut values = PrimitiveArray::<T>::builder(self.array.len());
        for row in 0..self.array.len() {
            if self.array.is_null(row) {
                values.append_null();
                continue;
            }
            match texts.write(row, &mut text)?.parse::<T::Native>() {
                Ok(float) if unscaled(&format!("{float:e}"), 76, self.scale) == Ok(self.wide.value(row)) => {
                    values.append_value(float);
                }
                _ => return Err(self.target.unfit(self.array, row, Why::LostDigits)),
            }
        }
        Ok(values.finish())
    }
}

/// Numbers as text that is exact.
enum Texts<'a> {
    Float64(&'a [f64]),
    Float32(&'a [f32]),
    Other(ArrayFormatter<'a>),
}

impl<'a> Texts<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Float64 => Self::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Float32 => Self::Float32(array.as_primitive::<Float32Type>().values()),
            _ => Self::Other(ArrayFormatter::try_new(array, &FormatOptions::default())?),
        })
    }

    fn write<'t>(&self, row: usize, text: &'t mut String) -> Result<&'t str> {
        text.clear();
        let written = match self {
            Self::Float64(values) => write!(text, "{:e}", values[row]),
            Self::Float32(values) => write!(text, "{:e}", values[row]),
            Self::Other(formatter) => write!(text, "{}", formatter.value(row)),
        };
        written.map_err(|_| alluvium_core::LoadError::internal("a number without a text"))?;
        Ok(text)
    }
}

fn to_decimal(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    decimals_of_numbers(array, target, target.to)
}

fn decimals_of_numbers(array: &ArrayRef, target: Target<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let texts = Texts::of(array)?;
    let mut text = String::new();
    decimals(array, target, data_type, |row, precision, scale| {
        let text = texts.write(row, &mut text)?;
        // Of a number only NaN and the infinities cannot be read.
        Ok(unscaled(text, precision, scale).map_err(|why| match why {
            Why::Unreadable => Why::Overflow,
            why => why,
        }))
    })
}

/// Decimals of `data_type` on the way to `target`, `value` giving the unscaled value of a row.
pub(super) fn decimals(
    array: &ArrayRef,
    target: Target<'_>,
    data_type: &DataType,
    mut value: impl FnMut(usize, u8, i8) -> Result<Result<i256, Why>>,
) -> Result<ArrayRef> {
    let (precision, scale) = parameters(data_type).unwrap_or((0, 0));
    let mut values: Vec<Option<i256>> = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        values.push(match array.is_valid(row) {
            true => Some(value(row, precision, scale)?.map_err(|why| target.unfit(array, row, why))?),
            false => None,
        });
    }
    // The precision has been checked, so that every value fits its width.
    let narrow = |v: &Option<i256>| v.and_then(|v| v.to_i128());
    Ok(match data_type {
        DataType::Decimal32(p, s) => {
            let values = values.iter().map(|v| narrow(v).and_then(|v| i32::try_from(v).ok()));
            Arc::new(values.collect::<Decimal32Array>().with_precision_and_scale(*p, *s)?)
        }
        DataType::Decimal64(p, s) => {
            let values = values.iter().map(|v| narrow(v).and_then(|v| i64::try_from(v).ok()));
            Arc::new(values.collect::<Decimal64Array>().with_precision_and_scale(*p, *s)?)
        }
        DataType::Decimal128(p, s) => {
            let values = values.iter().map(narrow);
            Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(*p, *s)?)
        }
        _ => Arc::new(
            values
                .into_iter()
                .collect::<Decimal256Array>()
                .with_precision_and_scale(precision, scale)?,
        ),
    })
}
