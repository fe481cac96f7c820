//! Keys for a merge join, which compares no time with a zone and no NaN: as integers of the same bits. Any order serves
//! it, as long as both sides have the same.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, make_array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::floats::normalize_array;

/// `key` as an integer; `None` where a merge join compares values of `data_type` as they are.
pub fn key_bits(key: &Expr, data_type: &DataType) -> Option<Expr> {
    integer(data_type)?;
    let function = ScalarFunction::new_udf(function(), vec![key.clone()]);
    Some(Expr::ScalarFunction(function))
}

fn integer(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Float16 => Some(DataType::Int16),
        DataType::Float32 => Some(DataType::Int32),
        DataType::Float64 | DataType::Timestamp(_, Some(_)) => Some(DataType::Int64),
        _ => None,
    }
}

/// The function behind [`key_bits`].
pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(KeyBits {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KeyBits {
    signature: Signature,
}

impl ScalarUDFImpl for KeyBits {
    fn name(&self) -> &str {
        "key_bits"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [one] => Ok(integer(one).unwrap_or_else(|| one.clone())),
            _ => internal_err!("key_bits() takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        match arrays.as_slice() {
            [one] => Ok(ColumnarValue::Array(bits(one)?)),
            _ => internal_err!("key_bits() takes one argument"),
        }
    }
}

fn bits(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(integer) = integer(array.data_type()) else {
        return Ok(Arc::clone(array));
    };
    let normal = normalize_array(array)?;
    Ok(make_array(normal.to_data().into_builder().data_type(integer).build()?))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Float64Array, TimestampMicrosecondArray};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn equal_keys_have_equal_bits() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(0.0),
            Some(-0.0),
            Some(-f64::NAN),
            Some(f64::NAN),
            None,
        ]));
        let bits = bits(&floats).unwrap();
        let bits = bits.as_primitive::<Int64Type>();
        assert_eq!(bits.value(0), bits.value(1));
        assert_eq!(bits.value(2), bits.value(3));
        assert!(bits.is_null(4));
    }

    #[test]
    fn times_with_a_zone_keep_their_instant() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![7, -7]).with_timezone("UTC"));
        assert_eq!(bits(&times).unwrap().as_primitive::<Int64Type>().values(), &[7, -7]);
    }
}
