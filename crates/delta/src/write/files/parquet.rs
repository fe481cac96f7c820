//! One Parquet file, row group after row group: encoded here, or made elsewhere and taken as it is.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::types::SchemaDescriptor;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tokio::io::AsyncWriteExt;

use super::group::{Chunk, NewRowGroup};
use super::layout::FileLayout;
use super::ledger::{OpenFile, StatementFiles};
use super::pages::{Chunks, Scratch};
use super::rolling::{WrittenFile, parquet_error};
use super::stats::statistics;

pub(super) fn parquet_schema(layout: &FileLayout) -> Result<SchemaDescriptor> {
    ArrowSchemaConverter::new()
        .convert(&layout.file_schema)
        .map_err(parquet_error)
}

/// Fewer encoded bytes wait for the next column's.
const WORTH_SENDING: usize = 1 << 20;
/// Bytes of a part of a file, the fewest that S3 takes: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>.
const PART: usize = 5 << 20;
/// Parts of a file that are on their way at once: enough to keep up with the encoders.
const MOST_PARTS: usize = 2;

/// Writes a file of a layout.
pub(super) struct ParquetFile {
    layout: Arc<FileLayout>,
    path: Path,
    sink: BufWriter,
    writer: SerializedFileWriter<Encoded>,
    encoded: Encoded,
    properties: Arc<WriterProperties>,
    nan: Vec<bool>,
    scratch: Scratch,
    rows: u64,
    open: OpenFile,
}

impl ParquetFile {
    pub(super) fn create(
        layout: &Arc<FileLayout>,
        files: &Arc<StatementFiles>,
        folder: &[String],
        mut properties: WriterProperties,
    ) -> Result<Self> {
        let (path, open) = files.create(folder, layout.kind)?;
        add_encoded_arrow_schema_to_metadata(&layout.file_schema, &mut properties);
        let properties = Arc::new(properties);
        let schema = parquet_schema(layout)?.root_schema_ptr();
        let encoded = Encoded::default();
        let writer = SerializedFileWriter::new(encoded.clone(), schema, Arc::clone(&properties));
        Ok(Self {
            sink: BufWriter::with_capacity(Arc::clone(files.store()), path.clone(), PART)
                .with_max_concurrency(MOST_PARTS),
            encoded,
            nan: vec![false; layout.leaves.len()],
            layout: Arc::clone(layout),
            path,
            writer: writer.map_err(parquet_error)?,
            properties,
            scratch: Scratch::default(),
            rows: 0,
            open,
        })
    }

    /// Rows that are not looked at may hold NaN, but for the columns that `bounded` tells of.
    pub(super) fn expect_nan(&mut self, bounded: impl Fn(&str) -> bool) {
        for (leaf, nan) in self.layout.leaves.iter().zip(&mut self.nan) {
            *nan = *nan || leaf.may_hide_nan(&bounded);
        }
    }

    /// These rows, of the file's schema, are in the file.
    pub(super) fn look_for_nan(&mut self, stored: &RecordBatch) {
        for (leaf, nan) in self.layout.leaves.iter().zip(&mut self.nan) {
            *nan = *nan || leaf.has_nan(stored);
        }
    }

    /// Begins a row group of new rows.
    pub(super) fn new_row_group(&self) -> Result<NewRowGroup> {
        NewRowGroup::new(&self.layout, &self.writer, &self.properties)
    }

    /// Encodes rows of the file's schema.
    pub(super) fn write(&mut self, group: &mut NewRowGroup, stored: &RecordBatch) -> Result<()> {
        self.look_for_nan(stored);
        group.write(stored, &mut self.scratch)
    }

    /// Ends a row group of new rows.
    pub(super) async fn end(&mut self, group: NewRowGroup) -> Result<()> {
        let (rows, mut scratch) = (group.rows, std::mem::take(&mut self.scratch));
        self.put(rows, group.chunks(&mut scratch)).await?;
        self.scratch = scratch;
        Ok(())
    }

    /// Makes a row group of all rows of `stored`, of the file's schema, in `threads` tasks.
    pub(super) async fn write_all(&mut self, stored: Vec<RecordBatch>, threads: usize) -> Result<()> {
        stored.iter().for_each(|batch| self.look_for_nan(batch));
        let rows = stored.iter().map(RecordBatch::num_rows).sum();
        let chunks = self.new_row_group()?.encode_all(stored, threads).await?;
        self.put(rows, chunks.into_iter().map(Ok)).await
    }

    /// Goes on with a row group of these columns, each sent on its way before the next is asked for.
    async fn put(&mut self, rows: usize, chunks: impl Iterator<Item = Result<Chunk>>) -> Result<()> {
        self.rows += u64::try_from(rows).unwrap_or(0);
        let mut group = self.writer.next_row_group().map_err(parquet_error)?;
        for chunk in chunks {
            chunk?.append_to(&mut group, &self.encoded).map_err(parquet_error)?;
            send(&mut self.sink, &self.encoded, WORTH_SENDING).await?;
        }
        group.close().map_err(parquet_error)?;
        self.drain().await
    }

    /// Goes on with a row group of these columns.
    pub(super) async fn append(&mut self, chunks: Chunks) -> Result<()> {
        self.rows += chunks.first().map_or(0, |(_, closed)| closed.rows_written);
        let mut group = self.writer.next_row_group().map_err(parquet_error)?;
        for (bytes, closed) in chunks {
            self.encoded.expect(bytes.bytes().len());
            group.append_column(bytes.as_ref(), closed).map_err(parquet_error)?;
            drop(bytes);
            send(&mut self.sink, &self.encoded, WORTH_SENDING).await?;
        }
        group.close().map_err(parquet_error)?;
        self.drain().await
    }

    /// Sends what is encoded on its way.
    async fn drain(&mut self) -> Result<()> {
        self.writer.flush().map_err(io_error)?;
        send(&mut self.sink, &self.encoded, 0).await
    }

    /// Bytes of the row groups that have ended.
    pub(super) fn size(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Ends the file.
    pub(super) async fn finish(
        mut self,
        partition_values: Arc<HashMap<String, Option<String>>>,
    ) -> Result<WrittenFile> {
        let metadata = self.writer.finish().map_err(parquet_error)?;
        self.drain().await?;
        let mut sink = self.sink;
        let ended = self.open.appear(async move { sink.shutdown().await }).await?;
        ended.map_err(io_error)?;
        Ok(WrittenFile {
            path: self.path.to_string(),
            size: u64::try_from(self.writer.bytes_written()).unwrap_or(u64::MAX),
            rows: self.rows,
            partition_values,
            stats: statistics(&self.layout.leaves, &self.nan, &metadata),
        })
    }
}

/// Bytes on their way from Parquet's writer to the store. They leave column by column, so that no row group is held
/// a second time.
#[derive(Debug, Clone, Default)]
pub(super) struct Encoded(Arc<Mutex<Vec<u8>>>);

impl Encoded {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for so many bytes.
    pub(super) fn expect(&self, bytes: usize) {
        self.lock().reserve(bytes);
    }
}

impl Write for Encoded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Sends what is encoded on its way if it is more than `worth` bytes.
async fn send(sink: &mut BufWriter, encoded: &Encoded, worth: usize) -> Result<()> {
    let bytes = {
        let mut held = encoded.lock();
        if held.len() <= worth {
            return Ok(());
        }
        std::mem::take(&mut *held)
    };
    sink.put(bytes.into())
        .await
        .map_err(|e| LoadError::from(DataFusionError::from(e)))
}

fn io_error(e: std::io::Error) -> LoadError {
    LoadError::from(DataFusionError::from(e))
}
