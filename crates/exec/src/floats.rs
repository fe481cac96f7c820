//! Floats as SQL compares them: NaN equals NaN, -0.0 equals 0.0.
//!
//! Arrow hashes, sorts and compares the bits (total order). Wherever an operator does one of these to user values,
//! they go through [`normalize_array`] first; join keys and comparisons go through the function of [`normalize`].

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Whether values of `data_type` hold floats, at any depth.
pub fn contains_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::Struct(fields) => fields.iter().any(|f| contains_float(f.data_type())),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => contains_float(f.data_type()),
        DataType::Map(entries, _) => contains_float(entries.data_type()),
        DataType::Dictionary(_, value) => contains_float(value),
        _ => false,
    }
}

/// `array` with one NaN and without negative zeros.
pub fn normalize_array(array: &ArrayRef) -> Result<ArrayRef> {
    if !contains_float(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Float16 => {
            let normal = array
                .as_primitive::<Float16Type>()
                .unary::<_, Float16Type>(|v| match v {
                    v if v.is_nan() => half_nan(),
                    v if v == half_zero() => half_zero(),
                    v => v,
                });
            Arc::new(normal)
        }
        // Adding zero turns -0.0 into 0.0 and changes nothing else.
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            Arc::new(array.unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }))
        }
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            Arc::new(array.unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }))
        }
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let columns = parts.columns().iter().map(normalize_array).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?)
        }
        DataType::List(field) => normalize_list::<i32>(array, field)?,
        DataType::LargeList(field) => normalize_list::<i64>(array, field)?,
        DataType::FixedSizeList(field, size) => {
            let lists = array.as_fixed_size_list();
            let values = normalize_array(lists.values())?;
            let field = Arc::clone(field);
            Arc::new(FixedSizeListArray::try_new(
                field,
                *size,
                values,
                lists.nulls().cloned(),
            )?)
        }
        DataType::Map(entries, sorted) => {
            let maps = array.as_map();
            let parts: ArrayRef = Arc::new(maps.entries().clone());
            let parts = normalize_array(&parts)?.as_struct().clone();
            let (entries, nulls) = (Arc::clone(entries), maps.nulls().cloned());
            Arc::new(MapArray::try_new(
                entries,
                maps.offsets().clone(),
                parts,
                nulls,
                *sorted,
            )?)
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            dictionary.with_values(normalize_array(dictionary.values())?)
        }
        _ => Arc::clone(array),
    })
}

type Half = <Float16Type as datafusion::arrow::datatypes::ArrowPrimitiveType>::Native;

fn half_nan() -> Half {
    Half::NAN
}

fn half_zero() -> Half {
    Half::ZERO
}

fn normalize_list<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let lists = array.as_list::<O>();
    let values = normalize_array(lists.values())?;
    let lists = GenericListArray::<O>::try_new(
        Arc::clone(field),
        lists.offsets().clone(),
        values,
        lists.nulls().cloned(),
    )?;
    Ok(Arc::new(lists))
}

/// `expr` with its floats normalized.
pub fn normalize(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function(), vec![expr]))
}

/// `expr` with its floats normalized; `expr` itself if `data_type` holds none.
pub fn normalize_float(expr: Expr, data_type: &DataType) -> Expr {
    match contains_float(data_type) {
        true => normalize(expr),
        false => expr,
    }
}

/// The function behind [`normalize`].
pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(NormalizeFloat {
            signature: Signature::any(1, Volatility::Immutable),
        }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NormalizeFloat {
    signature: Signature,
}

impl ScalarUDFImpl for NormalizeFloat {
    fn name(&self) -> &str {
        "normalize_float"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let argument = args.arg_fields.first();
        let data_type = argument.map_or(DataType::Null, |f| f.data_type().clone());
        let nullable = argument.is_none_or(|f| f.is_nullable());
        Ok(Arc::new(datafusion::arrow::datatypes::Field::new(
            self.name(),
            data_type,
            nullable,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(normalize_array(array)?)),
            Some(ColumnarValue::Scalar(value)) => {
                let array = normalize_array(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            None => Err(alluvium_core::LoadError::internal("normalize_float without an argument").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float32Array, Float64Array};
    use datafusion::prelude::col;

    use super::*;

    #[test]
    fn zeros_and_nans_become_one() {
        let odd = f64::from_bits(0xfff8_0000_0000_0001);
        let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(odd), None, Some(1.5)]));
        let normal = normalize_array(&array).unwrap();
        let normal = normal.as_primitive::<Float64Type>();
        assert_eq!(normal.value(0).to_bits(), 0.0f64.to_bits());
        assert_eq!(normal.value(1).to_bits(), f64::NAN.to_bits());
        assert!(normal.is_null(2));
        assert_eq!(normal.value(3), 1.5);
    }

    #[test]
    fn floats_inside_structs_are_reached() {
        let inner: ArrayRef = Arc::new(Float32Array::from(vec![-0.0f32]));
        let field = Arc::new(datafusion::arrow::datatypes::Field::new("f", DataType::Float32, true));
        let array: ArrayRef = Arc::new(StructArray::from(vec![(field, inner)]));
        let normal = normalize_array(&array).unwrap();
        let value = normal.as_struct().column(0).as_primitive::<Float32Type>().value(0);
        assert_eq!(value.to_bits(), 0);
    }

    #[test]
    fn only_float_expressions_are_wrapped() {
        assert_eq!(normalize_float(col("a"), &DataType::Int64), col("a"));
        assert_ne!(normalize_float(col("a"), &DataType::Float64), col("a"));
    }
}
