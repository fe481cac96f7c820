//! Which columns are worth a dictionary. Where nearly every value is another one, building it costs as much as the rest of
//! the encoding, and it is thrown away when its page is full.

use std::collections::HashSet;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use datafusion::parquet::schema::types::ColumnPath;

/// Fewer rows tell nothing, and cost nothing.
const FEWEST: usize = 512;
/// More rows tell no more.
const MOST: usize = 4096;

/// `properties` for a file that begins with the rows of `sample`.
pub(super) fn properties_for(sample: &RecordBatch, properties: &WriterProperties) -> Result<WriterProperties> {
    let mut builder: WriterPropertiesBuilder = properties.clone().into_builder();
    for (field, column) in sample.schema_ref().fields().iter().zip(sample.columns()) {
        if !field.data_type().is_nested() && hardly_repeats(column)? {
            let path = ColumnPath::new(vec![field.name().clone()]);
            builder = builder.set_column_dictionary_enabled(path, false);
        }
    }
    Ok(builder.build())
}

/// Whether three of four values are new ones.
fn hardly_repeats(column: &ArrayRef) -> Result<bool> {
    let sample = column.slice(0, column.len().min(MOST));
    let rows = sample.len() - sample.null_count();
    if rows < FEWEST {
        return Ok(false);
    }
    let mut hashes = vec![0; sample.len()];
    create_hashes([&sample], &RandomState::default(), &mut hashes)?;
    let valid = hashes.iter().enumerate().filter(|(row, _)| sample.is_valid(*row));
    let distinct: HashSet<u64> = valid.map(|(_, hash)| *hash).collect();
    Ok(distinct.len() > rows / 4 * 3)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn values_that_repeat_get_a_dictionary() {
        let batch = |rows: i64| {
            let unique: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
            let few: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("v{}", i % 9))));
            let nulls: ArrayRef = Arc::new((0..rows).map(|i| (i % 100 == 0).then_some(i)).collect::<Int64Array>());
            RecordBatch::try_from_iter([("unique", unique), ("few", few), ("nulls", nulls)]).unwrap()
        };
        let with = |rows, name: &str| {
            let properties = properties_for(&batch(rows), &WriterProperties::default()).unwrap();
            properties.dictionary_enabled(&ColumnPath::new(vec![name.to_owned()]))
        };
        assert!(!with(5000, "unique"));
        assert!(with(5000, "few") && with(5000, "nulls"));
        assert!(with(100, "unique"), "too few rows to tell");
    }
}
