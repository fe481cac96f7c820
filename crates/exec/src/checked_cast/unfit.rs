//! Why a value does not fit, and the error that says so.

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;

use super::types::sql_type_name;
use crate::keys::shown_value;

/// Where a value goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The column, with the path inside it.
    pub(super) column: &'a str,
    pub(super) to: &'a DataType,
}

/// Why a value does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The number is too large.
    Overflow,
    /// The number has digits that the type does not hold.
    LostDigits,
    /// The text is not of the form.
    Unreadable,
    /// The bytes are no text.
    NotText,
    /// The text is no date or time.
    UnreadableDatetime,
    /// The date or time is out of range.
    DatetimeOverflow,
    /// The timestamp is finer than the type.
    LostSubUnit,
    /// The timestamp has a time of day.
    LostTimeOfDay,
}

impl Why {
    fn state(self) -> SqlState {
        match self {
            Self::Overflow | Self::LostDigits => SqlState::NumericOutOfRange,
            Self::Unreadable | Self::NotText => SqlState::InvalidText,
            Self::UnreadableDatetime | Self::DatetimeOverflow | Self::LostSubUnit | Self::LostTimeOfDay => {
                SqlState::InvalidDatetime
            }
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Overflow => "Filter such values out, or give the column a wider type.",
            Self::LostDigits => "Round the value in the source, for example with round() or CAST.",
            Self::Unreadable | Self::UnreadableDatetime => {
                "Clean the value in the source, or turn it into NULL there with TRY_CAST."
            }
            Self::NotText => "Decode the value in the source: it is not UTF-8.",
            Self::DatetimeOverflow => "Filter such values out in the source.",
            Self::LostSubUnit => "Truncate the value in the source with date_trunc('microsecond', ..).",
            Self::LostTimeOfDay => "Drop the time of day in the source with CAST(.. AS DATE).",
        }
    }
}

impl Target<'_> {
    /// The error for row `row` of `values`.
    pub(super) fn unfit(self, values: &dyn Array, row: usize, why: Why) -> DataFusionError {
        let shown = match shown_value(values, row) {
            Ok(shown) => shown,
            Err(e) => return e,
        };
        let quote = match values.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "'",
            _ => "",
        };
        let message = format!(
            "value {quote}{shown}{quote} does not fit column \"{}\" of type {}",
            self.column,
            sql_type_name(self.to)
        );
        LoadError::new(why.state(), message).hint(why.hint()).into()
    }
}
