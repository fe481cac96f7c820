//! Key columns: where they are, how they compare, how they are shown in messages.

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::{SortOptions, cast};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, PhysicalExpr, PhysicalSortRequirement, ScalarFunctionExpr};

use crate::floats;
use crate::node::missing;

/// Values longer than this are cut in messages.
const SHOWN_CHARS: usize = 60;

/// Some columns of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    names: Vec<String>,
    indices: Vec<usize>,
    types: Vec<DataType>,
}

impl Columns {
    pub(crate) fn try_new<'a>(
        schema: &Schema,
        names: impl IntoIterator<Item = &'a String>,
        operator: &str,
    ) -> Result<Self> {
        let names: Vec<String> = names.into_iter().cloned().collect();
        let indices = names
            .iter()
            .map(|name| index_of(schema, name, operator))
            .collect::<Result<Vec<_>>>()?;
        let types = indices.iter().map(|i| schema.field(*i).data_type().clone()).collect();
        Ok(Self { names, indices, types })
    }

    pub(crate) fn indices(&self) -> &[usize] {
        &self.indices
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The columns of `batch`, floats normalized.
    pub(crate) fn arrays(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.indices
            .iter()
            .map(|i| floats::normalize_array(batch.column(*i)))
            .collect()
    }

    /// A converter of these columns to rows that compare as bytes.
    pub(crate) fn converter(&self) -> Result<RowConverter> {
        let fields: Vec<SortField> = self.types.iter().cloned().map(SortField::new).collect();
        for (name, data_type) in self.names.iter().zip(&self.types) {
            if !RowConverter::supports_fields(&[SortField::new(data_type.clone())]) {
                let error = LoadError::unsupported(format!("values of column \"{name}\" cannot be compared"));
                return Err(error.hint("Compare by columns of a simpler type.").into());
            }
        }
        Ok(RowConverter::new(fields)?)
    }

    pub(crate) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// `(a, b)=(1, x)` for one row of [`Self::arrays`].
    pub(crate) fn shown(&self, arrays: &[ArrayRef], row: usize) -> Result<String> {
        let values = arrays
            .iter()
            .map(|array| shown_value(array, row))
            .collect::<Result<Vec<_>>>()?;
        Ok(format!("({})=({})", self.names.join(", "), values.join(", ")))
    }
}

/// One value as messages show it.
pub(crate) fn shown_value(array: &dyn Array, row: usize) -> Result<String> {
    let text = match formatted(array, row) {
        Ok(text) => text,
        // Dates and times out of the calendar's range are shown as their count.
        Err(_) => formatted(&cast(&array.slice(row, 1), &DataType::Int64)?, 0)?,
    };
    Ok(match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    })
}

fn formatted(array: &dyn Array, row: usize) -> Result<String> {
    let options = FormatOptions::default().with_null("NULL");
    Ok(ArrayFormatter::try_new(array, &options)?.value(row).try_to_string()?)
}

/// The index of the only column called `name`.
pub(crate) fn index_of(schema: &Schema, name: &str, operator: &str) -> Result<usize> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, f)| f.name() == name);
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        _ => Err(missing(operator, name)),
    }
}

/// A column as hashing and sorting have to see it.
pub(crate) fn comparable(
    schema: &Schema,
    name: &str,
    operator: &str,
    config: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let index = index_of(schema, name, operator)?;
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
    if !floats::contains_float(schema.field(index).data_type()) {
        return Ok(column);
    }
    let call = ScalarFunctionExpr::try_new(floats::function(), vec![column], schema, Arc::clone(config))?;
    Ok(Arc::new(call))
}

/// All rows of a key in one partition.
pub(crate) fn by_key(
    schema: &Schema,
    keys: &[String],
    operator: &str,
    config: &Arc<ConfigOptions>,
) -> Result<Distribution> {
    if keys.is_empty() {
        return Ok(Distribution::SinglePartition);
    }
    let keys = keys.iter().map(|key| comparable(schema, key, operator, config));
    Ok(Distribution::KeyPartitioned(keys.collect::<Result<_>>()?))
}

/// All rows of a key next to each other.
pub(crate) fn key_order(
    schema: &Schema,
    keys: &[String],
    operator: &str,
    config: &Arc<ConfigOptions>,
) -> Result<Vec<PhysicalSortRequirement>> {
    keys.iter()
        .map(|key| {
            let options = Some(SortOptions::default());
            Ok(PhysicalSortRequirement::new(
                comparable(schema, key, operator, config)?,
                options,
            ))
        })
        .collect()
}

/// Where any of `arrays` is NULL; `None` if nowhere.
pub(crate) fn nulls(arrays: &[ArrayRef]) -> Option<NullBuffer> {
    arrays
        .iter()
        .fold(None, |all, array| {
            NullBuffer::union(all.as_ref(), array.logical_nulls().as_ref())
        })
        .filter(|nulls| nulls.null_count() > 0)
}

/// Where the Boolean column `index` is TRUE.
pub(crate) fn is_true(batch: &RecordBatch, index: usize) -> Result<BooleanBuffer> {
    let column: &BooleanArray = batch
        .column(index)
        .as_boolean_opt()
        .ok_or_else(|| LoadError::internal("a flag column is not Boolean"))?;
    Ok(match column.nulls() {
        Some(nulls) => column.values() & nulls.inner(),
        None => column.values().clone(),
    })
}

/// Which rows are looked at: those without NULL in the key unless NULLs are equal, and those that are not exempt.
/// `None` means all.
pub(crate) fn live(
    batch: &RecordBatch,
    keys: &[ArrayRef],
    nulls_equal: bool,
    exempt: Option<usize>,
) -> Result<Option<BooleanBuffer>> {
    let valid = match nulls_equal {
        true => None,
        false => nulls(keys).map(|n| n.inner().clone()),
    };
    let included = match exempt {
        Some(index) => Some(!&is_true(batch, index)?),
        None => None,
    };
    Ok(match (valid, included) {
        (Some(a), Some(b)) => Some(&a & &b),
        (a, b) => a.or(b),
    })
}
