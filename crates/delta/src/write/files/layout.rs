//! What the files of a table look like.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::schema::types::ColumnPath;

use crate::keys::usable_key_columns;

use super::stats::{Leaf, leaves};

/// The folder of change data.
const CHANGE_FOLDER: &str = "_change_data";
/// What happened to a row of change data.
pub(in crate::write) const CHANGE_TYPE: &str = "_change_type";
/// File size unless the table says otherwise.
const DEFAULT_TARGET_SIZE: u64 = 100 * 1024 * 1024;
/// Rows per row group: small enough that a reader can skip a good part of a file.
pub(super) const ROW_GROUP_ROWS: usize = 256 * 1024;
/// How often a Bloom filter may say of a value that is not there that it might be.
const FALSE_POSITIVES: f64 = 0.01;

/// How batches of a schema become files.
#[derive(Debug)]
pub(in crate::write) struct FileLayout {
    /// The rows as they are given to a writer, partition columns included.
    pub(in crate::write) schema: SchemaRef,
    /// Indexes and names of the partition columns in `schema`.
    pub(super) partition: Vec<(usize, String)>,
    /// Indexes of the columns in whose order rows are written; none where any order will do.
    order: Vec<usize>,
    /// Indexes of the columns that are stored.
    pub(super) stored: Vec<usize>,
    pub(super) file_schema: SchemaRef,
    pub(super) leaves: Vec<Leaf>,
    pub(super) folder: Option<&'static str>,
    pub(super) kind: &'static str,
    pub(super) target_size: u64,
    pub(super) properties: WriterProperties,
}

impl FileLayout {
    /// The layout of a table's data files.
    pub(in crate::write) fn data(
        schema: &SchemaRef,
        partition_columns: &[String],
        properties: &HashMap<String, String>,
        target_size: Option<u64>,
    ) -> Result<Self> {
        let partition = partition_columns
            .iter()
            .map(|name| match schema.index_of(name) {
                Ok(index) => Ok((index, name.clone())),
                Err(_) => Err(LoadError::internal(format!(
                    "partition column {name:?} is not a column"
                ))),
            })
            .collect::<Result<Vec<_>>>()?;
        let stored: Vec<usize> = (0..schema.fields().len())
            .filter(|i| partition.iter().all(|(p, _)| p != i))
            .collect();
        let file_schema: SchemaRef = Arc::new(schema.project(&stored)?);
        let keys: Vec<usize> = usable_key_columns(properties, schema)
            .into_iter()
            .filter(|key| stored.contains(key))
            .collect();
        Ok(Self {
            leaves: leaves(&file_schema, properties),
            schema: Arc::clone(schema),
            order: match keys.is_empty() {
                true => Vec::new(),
                false => partition.iter().map(|(p, _)| *p).chain(keys.iter().copied()).collect(),
            },
            partition,
            stored,
            file_schema,
            folder: None,
            kind: "part",
            target_size: target_size
                .or_else(|| table_target_size(properties))
                .unwrap_or(DEFAULT_TARGET_SIZE)
                .max(1),
            properties: writer_properties(keys.iter().map(|key| schema.field(*key))),
        })
    }

    /// The layout of the change data files beside the data files of `self`.
    pub(in crate::write) fn change_data(&self) -> Result<Self> {
        let change_type = Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, true));
        let with_type = |schema: &SchemaRef| -> SchemaRef {
            let fields: Vec<_> = schema
                .fields()
                .iter()
                .cloned()
                .chain([Arc::clone(&change_type)])
                .collect();
            Arc::new(Schema::new(fields))
        };
        let schema = with_type(&self.schema);
        Ok(Self {
            stored: self
                .stored
                .iter()
                .copied()
                .chain([self.schema.fields().len()])
                .collect(),
            schema,
            partition: self.partition.clone(),
            order: Vec::new(),
            file_schema: with_type(&self.file_schema),
            leaves: Vec::new(),
            folder: Some(CHANGE_FOLDER),
            kind: "cdc",
            target_size: self.target_size,
            properties: writer_properties([]),
        })
    }

    /// Whether the files lie in partitions.
    pub(in crate::write) fn partitioned(&self) -> bool {
        !self.partition.is_empty()
    }

    /// Bytes that a file is to have.
    pub(in crate::write) fn target_size(&self) -> u64 {
        self.target_size
    }

    /// The columns in whose order, ascending and NULL first, rows have to come to a writer: partition by partition, in each
    /// by key. None for a table without keys.
    pub(in crate::write) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The stored columns of a batch of `self.schema`.
    pub(super) fn stored_columns(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.stored.iter().map(|i| Arc::clone(batch.column(*i))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.file_schema),
            columns,
            &options,
        )?)
    }
}

/// `columns` as a batch of exactly `schema`. Types that differ only in their encoding (views, dictionaries, fields
/// inside) are converted; anything else should have been cast with the checks of a load, and is refused.
pub(in crate::write) fn conform(columns: Vec<Arc<dyn Array>>, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            let (given, wanted) = (column.data_type(), field.data_type());
            if given == wanted {
                Ok(column)
            } else if same_values(given, wanted) {
                Ok(cast_with_options(&column, wanted, &strict)?)
            } else {
                let name = field.name();
                Err(LoadError::internal(format!(
                    "column {name:?} comes as {given}, but is stored as {wanted}"
                )))
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// Whether two types hold the same values in another encoding.
fn same_values(a: &DataType, b: &DataType) -> bool {
    let text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |t: &DataType| matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    match (a, b) {
        (DataType::Null, _) => true,
        (DataType::Dictionary(_, value), b) => same_values(value, b),
        (DataType::Timestamp(one, zone), DataType::Timestamp(other, other_zone)) => {
            one == other && zone.is_some() == other_zone.is_some()
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(a, b)| a.name() == b.name() && same_values(a.data_type(), b.data_type()))
        }
        (DataType::List(one) | DataType::LargeList(one), DataType::List(other)) => {
            same_values(one.data_type(), other.data_type())
        }
        (DataType::Map(one, _), DataType::Map(other, _)) => match (one.data_type(), other.data_type()) {
            (DataType::Struct(one), DataType::Struct(other)) => one
                .iter()
                .zip(other)
                .all(|(a, b)| same_values(a.data_type(), b.data_type())),
            _ => false,
        },
        (a, b) => a == b || (text(a) && text(b)) || (bytes(a) && bytes(b)),
    }
}

/// Bytes of the rows themselves: a slice may keep a much larger buffer alive.
pub(in crate::write) fn rows_size(batch: &RecordBatch) -> usize {
    let size = |column: &Arc<dyn Array>| {
        column
            .to_data()
            .get_slice_memory_size()
            .unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(size).sum()
}

/// How files are encoded. A Bloom filter is made for as many values as a row group has rows, and folded to what the values
/// that came need.
fn writer_properties<'a>(keys: impl IntoIterator<Item = &'a Field>) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_created_by(format!("alluvium version {}", env!("CARGO_PKG_VERSION")));
    for key in keys.into_iter().filter(|key| can_be_asked_for(key.data_type())) {
        let path = ColumnPath::new(vec![key.name().clone()]);
        builder = builder
            .set_column_bloom_filter_enabled(path.clone(), true)
            .set_column_bloom_filter_fpp(path, FALSE_POSITIVES);
    }
    builder.build()
}

/// Whether a Bloom filter helps to find values of this type. Equal floats may differ in their bits (`-0.0`), and for the
/// other types that are left out readers do not ask it: bounds say as much of them.
fn can_be_asked_for(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int32 | DataType::Int64 | DataType::Decimal128(_, _) | DataType::Utf8 | DataType::Binary
    )
}

/// `delta.targetFileSize`: bytes, or a number with a unit such as `64mb`.
fn table_target_size(properties: &HashMap<String, String>) -> Option<u64> {
    let text = properties.get("delta.targetFileSize")?.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim();
    let unit = match text[digits.len()..].trim() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn encodings_are_converted_and_other_types_refused() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let views: Arc<dyn Array> = Arc::new(StringViewArray::from(vec!["x"]));
        assert_eq!(
            conform(vec![views], 1, &schema).unwrap().column(0).data_type(),
            &DataType::Utf8
        );
        let numbers: Arc<dyn Array> = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(conform(vec![numbers], 1, &schema).unwrap_err().code(), "XX000");
    }

    #[test]
    fn the_target_size_may_have_a_unit() {
        let size = |text: &str| table_target_size(&HashMap::from([("delta.targetFileSize".into(), text.into())]));
        assert_eq!(size("1048576"), Some(1 << 20));
        assert_eq!(size("64 MB"), Some(64 << 20));
        assert_eq!(size("many"), None);
    }
}
