//! A file whose row groups are copied into another.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::parquet::bloom_filter::Sbbf;
use datafusion::parquet::column::writer::ColumnCloseResult;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use datafusion::parquet::file::page_index::column_index::ColumnIndexMetaData;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::reader::{ChunkReader, Length};
use datafusion::parquet::file::statistics::Statistics;
use object_store::ObjectStore;
use object_store::path::Path;

use super::layout::FileLayout;
use super::parquet::parquet_schema;
use super::rolling::parquet_error;

/// The file whose row groups are copied.
pub(in crate::write) struct Original {
    pub(in crate::write) path: Path,
    pub(in crate::write) metadata: ParquetMetaData,
}

impl Original {
    /// Whether its row groups can stand in a file of `layout` as they are: the columns are stored the same way, and
    /// everything that belongs to a column can be found.
    pub(in crate::write) fn fits(&self, layout: &FileLayout) -> Result<bool> {
        let wanted = parquet_schema(layout)?;
        let given = self.metadata.file_metadata().schema_descr();
        let copyable = |column: &ColumnChunkMetaData| {
            // Statistics of the old kind are of doubtful order; readers know by the writer's name which ones to trust.
            // Those of NULLs alone, which have no bounds, count as old, too.
            let unbounded = |s: &Statistics| s.min_bytes_opt().is_none() && s.max_bytes_opt().is_none();
            let trusted = column
                .statistics()
                .is_none_or(|s| !s.is_min_max_deprecated() || unbounded(s));
            trusted
                && column.file_path().is_none()
                && (column.bloom_filter_offset().is_none() || column.bloom_filter_length().is_some())
        };
        let groups = self.metadata.row_groups();
        Ok(wanted.root_schema().get_fields() == given.root_schema().get_fields()
            && groups.iter().all(|group| group.columns().iter().all(copyable)))
    }

    /// The bytes of the largest row group.
    pub(in crate::write) fn largest_group(&self) -> usize {
        let sizes = self.metadata.row_groups().iter().map(|group| group.compressed_size());
        usize::try_from(sizes.max().unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// `properties` with a dictionary for those columns that have one already.
    pub(super) fn encodings(&self, properties: &WriterProperties) -> WriterProperties {
        let mut builder = properties.clone().into_builder();
        let columns = self.metadata.row_groups().first().map(|group| group.columns());
        for column in columns.unwrap_or_default() {
            let with_dictionary = column.dictionary_page_offset().is_some();
            builder = builder.set_column_dictionary_enabled(column.column_path().clone(), with_dictionary);
        }
        builder.build()
    }

    /// `length` bytes from `start`.
    pub(super) async fn part(&self, store: &Arc<dyn ObjectStore>, (start, length): (u64, u64)) -> Result<Part> {
        let range = start..start + length;
        let bytes = store.get_ranges(&self.path, std::slice::from_ref(&range)).await;
        let mut bytes = bytes.map_err(|e| LoadError::from(DataFusionError::from(e)))?;
        let bytes = bytes
            .pop()
            .ok_or_else(|| LoadError::internal("a range has not been read"))?;
        Ok(Part { start, bytes })
    }

    /// What a writer of the chunk would have given back.
    pub(super) async fn closed(
        &self,
        store: &Arc<dyn ObjectStore>,
        group: usize,
        column: usize,
        chunk: &ColumnChunkMetaData,
    ) -> Result<ColumnCloseResult> {
        let bloom_filter = match (chunk.bloom_filter_offset(), chunk.bloom_filter_length()) {
            (Some(offset), Some(length)) => {
                let range = (u64::try_from(offset).unwrap_or(0), u64::try_from(length).unwrap_or(0));
                let part = self.part(store, range).await?;
                Sbbf::read_from_column_chunk(chunk, &part).map_err(parquet_error)?
            }
            _ => None,
        };
        let metadata = &self.metadata;
        let column_index = metadata
            .column_index()
            .and_then(|groups| groups.get(group)?.get(column));
        let offset_index = metadata
            .offset_index()
            .and_then(|groups| groups.get(group)?.get(column));
        Ok(ColumnCloseResult {
            bytes_written: chunk.byte_range().1,
            rows_written: metadata
                .row_groups()
                .get(group)
                .map_or(0, |g| u64::try_from(g.num_rows()).unwrap_or(0)),
            metadata: chunk.clone(),
            bloom_filter,
            column_index: column_index
                .filter(|index| !matches!(index, ColumnIndexMetaData::NONE))
                .cloned(),
            offset_index: offset_index.filter(|index| !index.page_locations.is_empty()).cloned(),
        })
    }
}

/// Some bytes of a file, at the place where they are in it.
pub(in crate::write) struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    /// `bytes` as if they were at `start` of a file.
    pub(super) fn new(start: u64, bytes: Bytes) -> Self {
        Self { start, bytes }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn from(&self, start: u64) -> ParquetResult<Bytes> {
        let skipped = start.checked_sub(self.start).and_then(|n| usize::try_from(n).ok());
        let skipped = skipped.filter(|n| *n <= self.bytes.len());
        let skipped = skipped.ok_or_else(|| ParquetError::General(format!("byte {start} has not been read")))?;
        Ok(self.bytes.slice(skipped..))
    }
}

impl Length for Part {
    fn len(&self) -> u64 {
        self.start + u64::try_from(self.bytes.len()).unwrap_or(0)
    }
}

impl ChunkReader for Part {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(bytes::Buf::reader(self.from(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!(
                "{length} bytes from {start} have not been read"
            ))),
        }
    }
}
