//! Structs, lists and maps: the parts are cast one by one, under the path of the column.

use std::sync::Arc;

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
    UInt64Array, make_array, new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;

use super::cast::{cast_array, lossy};
use super::types::{element, find, key_and_value};
use super::unfit::Target;

pub(super) fn cast_struct(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let DataType::Struct(fields) = target.to else {
        return Err(shape(array, target));
    };
    let source = array.as_struct();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let path = format!("{}.{}", target.column, field.name());
        let column = match find(source.fields(), field.name()) {
            Some((index, _)) => cast_array(&masked(source.column(index), source.nulls())?, &path, field.data_type())?,
            None => new_null_array(field.data_type(), array.len()),
        };
        refuse_null(&column, source.nulls(), field, &path)?;
        columns.push(column);
    }
    let nulls = source.nulls().cloned();
    Ok(Arc::new(match fields.is_empty() {
        true => StructArray::new_empty_fields(array.len(), nulls),
        false => StructArray::try_new(fields.clone(), columns, nulls)?,
    }))
}

/// `child` without the values that a NULL parent hides: they are no values of the column.
fn masked(child: &ArrayRef, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
    if parent.is_none_or(|nulls| nulls.null_count() == 0) || *child.data_type() == DataType::Null {
        return Ok(Arc::clone(child));
    }
    let nulls = NullBuffer::union(parent, child.nulls());
    Ok(make_array(child.to_data().into_builder().nulls(nulls).build()?))
}

/// Fails if `column` is NULL, under a parent that is not, in a field that must not be.
fn refuse_null(column: &ArrayRef, parent: Option<&NullBuffer>, field: &Field, path: &str) -> Result<()> {
    if field.is_nullable() || column.null_count() == 0 {
        return Ok(());
    }
    let exposed = |row: usize| column.is_null(row) && parent.is_none_or(|nulls| nulls.is_valid(row));
    match (0..column.len()).any(exposed) {
        false => Ok(()),
        true => {
            let message = format!("NULL in column \"{path}\", which must not be NULL");
            let error = LoadError::new(SqlState::NotNullViolation, message);
            Err(error
                .hint("Filter such rows out, or give them a value with coalesce().")
                .into())
        }
    }
}

pub(super) fn cast_list(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let (Some(given), Some(wanted)) = (element(array.data_type()), element(target.to)) else {
        return Err(shape(array, target));
    };
    // First the layout, then the elements.
    match target.to {
        DataType::LargeList(_) => {
            let lists = lossy(array, &DataType::LargeList(Arc::clone(given)))?;
            cast_elements::<i64>(&lists, wanted, target)
        }
        DataType::List(_) => {
            let lists = lossy(array, &DataType::List(Arc::clone(given)))?;
            cast_elements::<i32>(&lists, wanted, target)
        }
        DataType::FixedSizeList(_, size) => {
            let lists = lossy(array, &DataType::FixedSizeList(Arc::clone(given), *size))?;
            let lists = lists.as_fixed_size_list();
            let path = format!("{}.element", target.column);
            let values = cast_array(lists.values(), &path, wanted.data_type())?;
            let nulls = lists.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new(
                Arc::clone(wanted),
                *size,
                values,
                nulls,
            )?))
        }
        _ => {
            let lists = lossy(array, &DataType::List(Arc::clone(given)))?;
            let lists = cast_elements::<i32>(&lists, wanted, target)?;
            lossy(&lists, target.to)
        }
    }
}

fn cast_elements<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef, target: Target<'_>) -> Result<ArrayRef> {
    let lists = array.as_list::<O>();
    let lists = match hides_values(lists.offsets(), lists.nulls(), lists.values().len()) {
        true => compact(array)?,
        false => Arc::clone(array),
    };
    let lists = lists.as_list::<O>();
    let path = format!("{}.element", target.column);
    let values = cast_array(lists.values(), &path, field.data_type())?;
    refuse_null(&values, None, field, &path)?;
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(
        Arc::clone(field),
        offsets,
        values,
        nulls,
    )?))
}

/// Whether there are values outside of all lists: before or after a slice, or in a list that is NULL.
fn hides_values<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, nulls: Option<&NullBuffer>, values: usize) -> bool {
    let visible: usize = offsets
        .lengths()
        .enumerate()
        .filter(|(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)))
        .map(|(_, length)| length)
        .sum();
    visible != values
}

/// The same rows without hidden values.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    let rows = u64::try_from(array.len()).map_err(|_| LoadError::internal("an array of too many rows"))?;
    Ok(take(array, &UInt64Array::from_iter_values(0..rows), None)?)
}

pub(super) fn cast_map(array: &ArrayRef, target: Target<'_>) -> Result<ArrayRef> {
    let DataType::Map(entries, sorted) = target.to else {
        return Err(shape(array, target));
    };
    let (Some((key, value)), DataType::Struct(fields)) = (key_and_value(entries), entries.data_type()) else {
        return Err(shape(array, target));
    };
    let maps = array.as_map();
    let array = match hides_values(maps.offsets(), maps.nulls(), maps.entries().len()) {
        true => compact(array)?,
        false => Arc::clone(array),
    };
    let maps = array.as_map();
    let (key_path, value_path) = (format!("{}.key", target.column), format!("{}.value", target.column));
    let keys = cast_array(maps.keys(), &key_path, key.data_type())?;
    let values = cast_array(maps.values(), &value_path, value.data_type())?;
    refuse_null(&values, None, value, &value_path)?;
    let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
    Ok(Arc::new(MapArray::try_new(
        Arc::clone(entries),
        offsets,
        pairs,
        nulls,
        *sorted,
    )?))
}

fn shape(array: &ArrayRef, target: Target<'_>) -> datafusion::common::DataFusionError {
    LoadError::internal(format!("no cast from {} to {}", array.data_type(), target.to)).into()
}
