//! A file of row groups that another file has already, copied byte by byte, and of new ones.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use datafusion::parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use datafusion::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use datafusion::parquet::schema::types::SchemaDescriptor;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tokio::io::AsyncWriteExt;

use super::layout::FileLayout;
use super::ledger::{OpenFile, StatementFiles};
use super::original::Original;
use super::partition::folder;
use super::patch::{Chunks, FreshRows};
use super::rolling::{WrittenFile, parquet_error};
use super::stats::statistics;

pub(super) fn parquet_schema(layout: &FileLayout) -> Result<SchemaDescriptor> {
    ArrowSchemaConverter::new()
        .convert(&layout.file_schema)
        .map_err(parquet_error)
}

/// Writes such a file.
pub(in crate::write) struct SplicedFile {
    layout: Arc<FileLayout>,
    files: Arc<StatementFiles>,
    path: Path,
    sink: BufWriter,
    writer: SerializedFileWriter<Vec<u8>>,
    partition_values: Arc<HashMap<String, Option<String>>>,
    nan: Vec<bool>,
    rows: u64,
    _open: OpenFile,
}

/// A row group that is being encoded.
pub(in crate::write) struct NewRowGroup(Vec<ArrowColumnWriter>);

impl SplicedFile {
    /// A file of `layout`, in the partition with these values, for row groups of `original` and rows of their kind.
    /// `bounded` tells of which columns the copied rows are known to have no NaN.
    pub(in crate::write) fn create(
        layout: &Arc<FileLayout>,
        files: &Arc<StatementFiles>,
        partition_values: HashMap<String, Option<String>>,
        original: &Original,
        bounded: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let names = layout.partition.iter().map(|(_, name)| name);
        let folders: Vec<String> = names
            .map(|name| folder(name, partition_values.get(name).and_then(Option::as_deref)))
            .collect();
        let (path, open) = files.create(&folders, layout.kind)?;
        let mut properties = original.encodings(&layout.properties);
        add_encoded_arrow_schema_to_metadata(&layout.file_schema, &mut properties);
        let schema = parquet_schema(layout)?.root_schema_ptr();
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map_err(parquet_error)?;
        Ok(Self {
            sink: BufWriter::new(Arc::clone(files.store()), path.clone()),
            nan: layout.leaves.iter().map(|leaf| leaf.may_hide_nan(&bounded)).collect(),
            layout: Arc::clone(layout),
            files: Arc::clone(files),
            path,
            writer,
            partition_values: Arc::new(partition_values),
            rows: 0,
            _open: open,
        })
    }

    /// Copies row group `number` of `original`, column after column.
    pub(in crate::write) async fn copy(&mut self, original: &Original, number: usize) -> Result<()> {
        let group = original.metadata.row_groups().get(number);
        let group = group.ok_or_else(|| LoadError::internal(format!("there is no row group {number}")))?;
        let store = Arc::clone(self.files.store());
        let mut chunks = Vec::with_capacity(group.num_columns());
        for (column, chunk) in group.columns().iter().enumerate() {
            let bytes = original.part(&store, chunk.byte_range()).await?;
            let closed = original.closed(&store, number, column, chunk).await?;
            chunks.push((Arc::new(bytes), closed));
        }
        self.append(chunks).await
    }

    /// Copies row group `number` of `original` with other values in `rows`, which ascend: those of `new`, which has the
    /// layout's schema. False, and nothing is done: that is not possible.
    pub(in crate::write) async fn patch(
        &mut self,
        original: &Original,
        number: usize,
        rows: &[usize],
        new: &RecordBatch,
    ) -> Result<bool> {
        let stored = self.layout.stored_columns(new)?;
        let fresh = FreshRows::encode(&self.layout, &stored)?;
        let Some(chunks) = original.patched(self.files.store(), number, rows, &fresh).await? else {
            return Ok(false);
        };
        self.look_for_nan(&stored);
        self.append(chunks).await?;
        Ok(true)
    }

    /// Ends with a row group of these columns.
    async fn append(&mut self, chunks: Chunks) -> Result<()> {
        self.rows += chunks.first().map_or(0, |(_, closed)| closed.rows_written);
        let mut group = self.writer.next_row_group().map_err(parquet_error)?;
        for (bytes, closed) in chunks {
            group.append_column(bytes.as_ref(), closed).map_err(parquet_error)?;
        }
        group.close().map_err(parquet_error)?;
        self.drain().await
    }

    fn look_for_nan(&mut self, stored: &RecordBatch) {
        for (leaf, nan) in self.layout.leaves.iter().zip(&mut self.nan) {
            *nan = *nan || leaf.has_nan(stored);
        }
    }

    /// Begins a row group of new rows.
    pub(in crate::write) fn new_row_group(&self) -> Result<NewRowGroup> {
        let factory = ArrowRowGroupWriterFactory::new(&self.writer, Arc::clone(&self.layout.file_schema));
        let number = self.writer.flushed_row_groups().len();
        Ok(NewRowGroup(
            factory.create_column_writers(number).map_err(parquet_error)?,
        ))
    }

    /// Encodes the rows of `batch`, which has the layout's schema.
    pub(in crate::write) fn write(&mut self, group: &mut NewRowGroup, batch: &RecordBatch) -> Result<()> {
        let stored = self.layout.stored_columns(batch)?;
        self.look_for_nan(&stored);
        self.rows += u64::try_from(stored.num_rows()).unwrap_or(0);
        let mut writers = group.0.iter_mut();
        for (field, column) in self.layout.file_schema.fields().iter().zip(stored.columns()) {
            for leaf in compute_leaves(field, column).map_err(parquet_error)? {
                let writer = writers.next();
                let writer = writer.ok_or_else(|| LoadError::internal("a column of a file has no writer"))?;
                writer.write(&leaf).map_err(parquet_error)?;
            }
        }
        Ok(())
    }

    /// Ends a row group of new rows.
    pub(in crate::write) async fn end(&mut self, group: NewRowGroup) -> Result<()> {
        let mut target: SerializedRowGroupWriter<'_, _> = self.writer.next_row_group().map_err(parquet_error)?;
        for writer in group.0 {
            let chunk = writer.close().map_err(parquet_error)?;
            chunk.append_to_row_group(&mut target).map_err(parquet_error)?;
        }
        target.close().map_err(parquet_error)?;
        self.drain().await
    }

    /// Sends what is encoded on its way.
    async fn drain(&mut self) -> Result<()> {
        self.writer.flush().map_err(io_error)?;
        let bytes = std::mem::take(self.writer.inner_mut());
        self.sink.write_all(&bytes).await.map_err(io_error)
    }

    /// Ends the file.
    pub(in crate::write) async fn finish(mut self) -> Result<WrittenFile> {
        let metadata = self.writer.finish().map_err(parquet_error)?;
        self.drain().await?;
        self.sink.shutdown().await.map_err(io_error)?;
        Ok(WrittenFile {
            path: self.path.to_string(),
            size: u64::try_from(self.writer.bytes_written()).unwrap_or(u64::MAX),
            rows: self.rows,
            partition_values: self.partition_values,
            stats: statistics(&self.layout.leaves, &self.nan, &metadata),
        })
    }
}

impl NewRowGroup {
    /// Bytes held in memory.
    pub(in crate::write) fn memory(&self) -> usize {
        self.0.iter().map(ArrowColumnWriter::memory_size).sum()
    }
}

fn io_error(e: std::io::Error) -> LoadError {
    LoadError::from(DataFusionError::from(e))
}
