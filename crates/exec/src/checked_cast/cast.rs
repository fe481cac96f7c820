//! The way from a pair of types to the code that casts between them.

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};

use super::types::{Family, check_castable, decoded, family};
use super::unfit::{Target, Why};
use super::{datetime, nested, number, text};

/// `array` as values of column `column` of type `to`.
pub fn cast_array(array: &ArrayRef, column: &str, to: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    let target = Target { column, to };
    if decoded(from) != from {
        let plain = lossy(array, decoded(from))?;
        return cast_array(&plain, column, to);
    }
    match (family(from), family(to)) {
        (Family::Null, _) => Ok(new_null_array(to, array.len())),
        (Family::Number, Family::Number) => number::cast(array, target),
        (Family::Text, Family::Number | Family::Boolean | Family::Datetime) => text::cast(array, target),
        (Family::Datetime, Family::Datetime) => datetime::cast(array, target),
        (Family::Struct, Family::Struct) => nested::cast_struct(array, target),
        (Family::List, Family::List) => nested::cast_list(array, target),
        (Family::Map, Family::Map) => nested::cast_map(array, target),
        (Family::Binary, Family::Text) => all_of(array, lossy(array, to)?, target, Why::NotText),
        (Family::Boolean | Family::Number | Family::Datetime | Family::Time, Family::Text)
        | (Family::Text, Family::Text | Family::Binary)
        | (Family::Binary, Family::Binary) => all_of(array, lossy(array, to)?, target, Why::Overflow),
        _ => Err(match check_castable(column, from, to) {
            Err(e) => e.into(),
            Ok(()) => LoadError::internal(format!("no cast from {from} to {to}")).into(),
        }),
    }
}

/// Arrow's cast, which gives NULL for values that do not fit, and rounds.
pub(super) fn lossy(array: &dyn Array, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options).map_err(DataFusionError::from)
}

/// `result`, if no value of `array` has become NULL in it.
pub(super) fn all_of(array: &ArrayRef, result: ArrayRef, target: Target<'_>, why: Why) -> Result<ArrayRef> {
    match first_lost(array, &result) {
        Some(row) => Err(target.unfit(array, row, why)),
        None => Ok(result),
    }
}

/// The first row that has become NULL.
pub(super) fn first_lost(array: &ArrayRef, result: &ArrayRef) -> Option<usize> {
    if array.null_count() == result.null_count() {
        return None;
    }
    (0..array.len()).find(|row| array.is_valid(*row) && result.is_null(*row))
}
