//! Whether a stored value differs from a new one: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, and lists, structs
//! and maps compare by value.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, MapArray, make_comparator};
use datafusion::arrow::compute::{SortOptions, kernels::cmp};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::floats;

/// `left IS DISTINCT FROM right` by SQL equality of values, for every type that a table can hold.
pub fn changed(left: Expr, right: Expr) -> Expr {
    ScalarUDF::new_from_impl(Changed::default()).call(vec![left, right])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Changed {
    signature: Signature,
}

impl Default for Changed {
    fn default() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Changed {
    fn name(&self) -> &str {
        "changed"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else {
            return datafusion::common::internal_err!("changed() takes two arguments");
        };
        Ok(ColumnarValue::Array(Arc::new(distinct(left, right)?)))
    }
}

/// Row by row, whether the values differ.
pub fn distinct(left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
    match left.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Ok(cmp::distinct(
            &floats::normalize_array(left)?,
            &floats::normalize_array(right)?,
        )?),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(_, _)
        | DataType::Struct(_)
        | DataType::Map(_, _) => nested_distinct(left, right),
        _ => Ok(cmp::distinct(left, right)?),
    }
}

fn nested_distinct(left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
    let left = without_maps(&floats::normalize_array(left)?)?;
    let right = without_maps(&floats::normalize_array(right)?)?;
    let compare = make_comparator(left.as_ref(), right.as_ref(), SortOptions::default())?;
    Ok((0..left.len()).map(|i| Some(compare(i, i).is_ne())).collect())
}

/// Maps as lists of entries, which Arrow can compare.
pub(crate) fn without_maps(array: &ArrayRef) -> Result<ArrayRef> {
    let wanted = plain_type(array.data_type());
    if &wanted == array.data_type() {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Map(_, _) => {
            let map = datafusion::common::cast::as_map_array(array)?;
            let list: ArrayRef = Arc::new(entries_list(map));
            without_maps(&list)
        }
        // Struct fields and list items that hold maps are rebuilt by Arrow's cast, which knows map to list.
        _ => Ok(datafusion::arrow::compute::cast(array, &wanted)?),
    }
}

fn entries_list(map: &MapArray) -> datafusion::arrow::array::ListArray {
    let item = Arc::new(Field::new("element", map.entries().data_type().clone(), false));
    let entries: ArrayRef = Arc::new(map.entries().clone());
    datafusion::arrow::array::ListArray::new(item, map.offsets().clone(), entries, map.nulls().cloned())
}

pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Map(entries, _) => {
            let item = Field::new("element", plain_type(entries.data_type()), false);
            DataType::List(Arc::new(item))
        }
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect::<Fields>()),
        other => other.clone(),
    }
}

fn plain_field(field: &Arc<Field>) -> Arc<Field> {
    Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type())))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::builder::{Int32Builder, MapBuilder, StringBuilder};
    use datafusion::arrow::array::{Float64Array, Int64Array, ListArray, StringArray};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    fn differs(left: ArrayRef, right: ArrayRef) -> Vec<bool> {
        distinct(&left, &right).unwrap().iter().map(|b| b.unwrap()).collect()
    }

    #[test]
    fn null_is_a_value() {
        let left = Arc::new(Int64Array::from(vec![Some(1), None, None, Some(2)]));
        let right = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None]));
        assert_eq!(differs(left, right), [false, false, true, true]);
    }

    #[test]
    fn floats_compare_by_sql_equality() {
        let left = Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.0]));
        let right = Arc::new(Float64Array::from(vec![-f64::NAN, 0.0, 2.0]));
        assert_eq!(differs(left, right), [false, false, true]);
    }

    #[test]
    fn strings_and_lists_compare_by_value() {
        let left = Arc::new(StringArray::from(vec!["a", ""]));
        let right = Arc::new(StringArray::from(vec![Some("a"), None]));
        assert_eq!(differs(left, right), [false, true]);
        let list =
            |rows: Vec<Option<Vec<Option<i64>>>>| Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows));
        let left = list(vec![Some(vec![Some(1), None]), None, Some(vec![])]);
        let right = list(vec![Some(vec![Some(1), None]), Some(vec![]), Some(vec![])]);
        assert_eq!(differs(left, right), [false, true, false]);
    }

    fn map_of(value: i32) -> ArrayRef {
        let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        builder.keys().append_value("k");
        builder.values().append_value(value);
        builder.append(true).unwrap();
        Arc::new(builder.finish())
    }

    #[test]
    fn maps_compare_by_value() {
        assert_eq!(differs(map_of(1), map_of(1)), [false]);
        assert_eq!(differs(map_of(1), map_of(2)), [true]);
    }
}
