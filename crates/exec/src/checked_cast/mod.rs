//! Casting source values to the target's types without losing anything.
//!
//! DataFusion's cast truncates fractions, rounds decimals and drops digits of a second. A load must not: a value that
//! does not fit is an error naming column and value. [`check_castable`] refuses pairs of types at planning,
//! [`checked_cast`] does the work on rows.
//!
//! | from | to | error when |
//! |---|---|---|
//! | number | number | out of range, or digits lost. A double fits a float if both print alike (0.1 does) |
//! | text | number, boolean, date, timestamp, binary | it cannot be read as such, or does not fit |
//! | boolean, number, date, time, timestamp, binary | text | never (binary: not UTF-8) |
//! | date, timestamp | date, timestamp | out of range, or part of a unit lost. Without time zone means UTC |
//! | struct | struct | by field name; a field that is missing is NULL |
//! | list, map | list, map | an element does not fit |
//! | NULL | anything | never |

mod cast;
mod datetime;
mod digits;
mod nested;
mod number;
#[cfg(test)]
mod tests;
mod text;
mod types;
mod unfit;

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub use cast::cast_array;
pub use types::{check_castable, sql_type_name};

/// `expr` of type `from` as a value of column `column` of type `to`; `expr` itself if the types are equal.
pub fn checked_cast(expr: Expr, column: &str, from: &DataType, to: &DataType) -> Expr {
    if from == to {
        return expr;
    }
    let function = ScalarUDF::new_from_impl(CheckedCast::new(column, to.clone()));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// The function behind [`checked_cast`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedCast {
    column: String,
    to: DataType,
    signature: Signature,
}

impl CheckedCast {
    /// The cast of one argument to `to`; messages name `column`.
    pub fn new(column: impl Into<String>, to: DataType) -> Self {
        Self {
            column: column.into(),
            to,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// The column that messages name.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The type of the result.
    pub fn target(&self) -> &DataType {
        &self.to
    }
}

impl ScalarUDFImpl for CheckedCast {
    fn name(&self) -> &str {
        "checked_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    /// NULL comes from NULL only.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.first().is_none_or(|f| f.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(cast_array(array, &self.column, &self.to)?)),
            Some(ColumnarValue::Scalar(value)) => {
                let array = cast_array(&value.to_array()?, &self.column, &self.to)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            None => Err(LoadError::internal("checked_cast without an argument").into()),
        }
    }
}
