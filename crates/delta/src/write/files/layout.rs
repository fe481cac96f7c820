//! What the files of a table look like.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;

use super::stats::{Leaf, leaves};

/// The folder of change data.
const CHANGE_FOLDER: &str = "_change_data";
/// What happened to a row of change data.
pub(in crate::write) const CHANGE_TYPE: &str = "_change_type";
/// File size unless the table says otherwise.
const DEFAULT_TARGET_SIZE: u64 = 100 * 1024 * 1024;
/// Rows per row group: small enough that a reader can skip a good part of a file.
const ROW_GROUP_ROWS: usize = 256 * 1024;

/// How batches of a schema become files.
#[derive(Debug)]
pub(in crate::write) struct FileLayout {
    /// The rows as they are given to a writer, partition columns included.
    pub(in crate::write) schema: SchemaRef,
    /// Indexes and names of the partition columns in `schema`.
    pub(super) partition: Vec<(usize, String)>,
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
        Ok(Self {
            leaves: leaves(&file_schema, properties),
            schema: Arc::clone(schema),
            partition,
            stored,
            file_schema,
            folder: None,
            kind: "part",
            target_size: target_size
                .or_else(|| table_target_size(properties))
                .unwrap_or(DEFAULT_TARGET_SIZE)
                .max(1),
            properties: writer_properties(),
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
            file_schema: with_type(&self.file_schema),
            leaves: Vec::new(),
            folder: Some(CHANGE_FOLDER),
            kind: "cdc",
            target_size: self.target_size,
            properties: self.properties.clone(),
        })
    }

    /// Whether the files lie in partitions.
    pub(in crate::write) fn partitioned(&self) -> bool {
        !self.partition.is_empty()
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

/// `columns` as a batch of exactly `schema`. Types that differ only in their encoding (views, dictionaries, field
/// metadata inside) are converted; a value that does not fit is an error.
pub(in crate::write) fn conform(columns: Vec<Arc<dyn Array>>, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(column)
            } else {
                Ok(cast_with_options(&column, field.data_type(), &strict)?)
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

fn writer_properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_created_by(format!("alluvium version {}", env!("CARGO_PKG_VERSION")))
        .build()
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
    use super::*;

    #[test]
    fn the_target_size_may_have_a_unit() {
        let size = |text: &str| table_target_size(&HashMap::from([("delta.targetFileSize".into(), text.into())]));
        assert_eq!(size("1048576"), Some(1 << 20));
        assert_eq!(size("64 MB"), Some(64 << 20));
        assert_eq!(size("many"), None);
    }
}
