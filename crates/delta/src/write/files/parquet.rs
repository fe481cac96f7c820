//! One Parquet file, row group after row group: encoded here, or made elsewhere and taken as it is.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use datafusion::parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use datafusion::parquet::schema::types::SchemaDescriptor;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tokio::io::AsyncWriteExt;

use super::layout::FileLayout;
use super::ledger::{OpenFile, StatementFiles};
use super::pages::{Chunks, ColumnEncoder, Scratch};
use super::rolling::{WrittenFile, parquet_error};
use super::stats::{leaf_count, statistics};

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
    _open: OpenFile,
}

/// A row group that is being encoded.
pub(in crate::write) struct NewRowGroup {
    columns: Vec<Column>,
    pub(super) rows: usize,
}

/// The encoder of a column, or of all that it holds.
enum Column {
    Ours(Box<ColumnEncoder>),
    Library(Vec<ArrowColumnWriter>),
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
            _open: open,
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
        let factory = ArrowRowGroupWriterFactory::new(&self.writer, Arc::clone(&self.layout.file_schema));
        let number = self.writer.flushed_row_groups().len();
        let mut library = factory
            .create_column_writers(number)
            .map_err(parquet_error)?
            .into_iter();
        let mut columns = Vec::with_capacity(self.layout.file_schema.fields().len());
        let mut leaf = 0;
        for field in self.layout.file_schema.fields() {
            let leaves = leaf_count(field.data_type());
            let writers = library.by_ref().take(leaves).collect();
            let column = self.writer.schema_descr().columns().get(leaf);
            let column = column.ok_or_else(|| LoadError::internal("a column of a file is not in its schema"))?;
            columns.push(
                match ColumnEncoder::new(Arc::clone(column), field.data_type(), &self.properties) {
                    Some(encoder) if leaves == 1 => Column::Ours(Box::new(encoder)),
                    _ => Column::Library(writers),
                },
            );
            leaf += leaves;
        }
        Ok(NewRowGroup { columns, rows: 0 })
    }

    /// Encodes rows of the file's schema.
    pub(super) fn write(&mut self, group: &mut NewRowGroup, stored: &RecordBatch) -> Result<()> {
        self.look_for_nan(stored);
        group.rows += stored.num_rows();
        let fields = self.layout.file_schema.fields().iter().zip(stored.columns());
        for ((field, array), column) in fields.zip(&mut group.columns) {
            match column {
                Column::Ours(encoder) => encoder.write(array, &mut self.scratch).map_err(parquet_error)?,
                Column::Library(writers) => {
                    let leaves = compute_leaves(field, array).map_err(parquet_error)?;
                    for (writer, leaf) in writers.iter_mut().zip(leaves) {
                        writer.write(&leaf).map_err(parquet_error)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends a row group of new rows.
    pub(super) async fn end(&mut self, group: NewRowGroup) -> Result<()> {
        self.rows += u64::try_from(group.rows).unwrap_or(0);
        let mut target: SerializedRowGroupWriter<'_, _> = self.writer.next_row_group().map_err(parquet_error)?;
        for column in group.columns {
            match column {
                Column::Ours(encoder) => {
                    let (bytes, closed) = encoder.close(&mut self.scratch).map_err(parquet_error)?;
                    self.encoded.expect(bytes.bytes().len());
                    target.append_column(&bytes, closed).map_err(parquet_error)?;
                }
                Column::Library(writers) => {
                    for writer in writers {
                        let chunk = writer.close().map_err(parquet_error)?;
                        chunk.append_to_row_group(&mut target).map_err(parquet_error)?;
                    }
                }
            }
            send(&mut self.sink, &self.encoded, WORTH_SENDING).await?;
        }
        target.close().map_err(parquet_error)?;
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
        self.sink.shutdown().await.map_err(io_error)?;
        Ok(WrittenFile {
            path: self.path.to_string(),
            size: u64::try_from(self.writer.bytes_written()).unwrap_or(u64::MAX),
            rows: self.rows,
            partition_values,
            stats: statistics(&self.layout.leaves, &self.nan, &metadata),
        })
    }
}

impl NewRowGroup {
    /// Bytes held in memory.
    pub(in crate::write) fn memory(&self) -> usize {
        let of = |column: &Column| match column {
            Column::Ours(encoder) => encoder.memory(),
            Column::Library(writers) => writers.iter().map(ArrowColumnWriter::memory_size).sum(),
        };
        self.columns.iter().map(of).sum()
    }

    /// Bytes that it will take in the file, nearly.
    pub(super) fn size(&self) -> usize {
        let of = |column: &Column| match column {
            Column::Ours(encoder) => encoder.size(),
            Column::Library(writers) => writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum(),
        };
        self.columns.iter().map(of).sum()
    }
}

/// Bytes on their way from Parquet's writer to the store. They leave column by column, so that no row group is held
/// a second time.
#[derive(Debug, Clone, Default)]
struct Encoded(Arc<Mutex<Vec<u8>>>);

impl Encoded {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for so many bytes.
    fn expect(&self, bytes: usize) {
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
