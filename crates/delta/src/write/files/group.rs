//! A row group that is being encoded: batch after batch in one thread, or, where all of its rows are there, column beside
//! column in several.

use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::runtime::JoinSet;
use datafusion::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use datafusion::parquet::column::writer::ColumnCloseResult;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::layout::FileLayout;
use super::original::Part;
use super::pages::{ColumnEncoder, Scratch};
use super::parquet::Encoded;
use super::rolling::parquet_error;
use super::stats::leaf_count;

/// A row group that is being encoded.
pub(in crate::write) struct NewRowGroup {
    columns: Vec<Column>,
    pub(super) rows: usize,
}

/// A column of the file's schema.
struct Column {
    field: FieldRef,
    encoder: Encoder,
}

/// The encoder of a column, or of all that it holds.
enum Encoder {
    Ours(Box<ColumnEncoder>),
    Library(Vec<ArrowColumnWriter>),
}

/// A column of a row group that has ended.
pub(super) enum Chunk {
    Ours(Box<(Part, ColumnCloseResult)>),
    Library(Vec<ArrowColumnChunk>),
}

impl NewRowGroup {
    /// The next row group of a file.
    pub(super) fn new(
        layout: &FileLayout,
        file: &SerializedFileWriter<Encoded>,
        properties: &WriterProperties,
    ) -> Result<Self> {
        let factory = ArrowRowGroupWriterFactory::new(file, Arc::clone(&layout.file_schema));
        let writers = factory.create_column_writers(file.flushed_row_groups().len());
        let mut library = writers.map_err(parquet_error)?.into_iter();
        let mut columns = Vec::with_capacity(layout.file_schema.fields().len());
        let mut leaf = 0;
        for field in layout.file_schema.fields() {
            let leaves = leaf_count(field.data_type());
            let writers = library.by_ref().take(leaves).collect();
            let column = file.schema_descr().columns().get(leaf);
            let column = column.ok_or_else(|| LoadError::internal("a column of a file is not in its schema"))?;
            let encoder = match ColumnEncoder::new(Arc::clone(column), field.data_type(), properties) {
                Some(encoder) if leaves == 1 => Encoder::Ours(Box::new(encoder)),
                _ => Encoder::Library(writers),
            };
            columns.push(Column {
                field: Arc::clone(field),
                encoder,
            });
            leaf += leaves;
        }
        Ok(Self { columns, rows: 0 })
    }

    /// Encodes rows of the file's schema.
    pub(super) fn write(&mut self, stored: &RecordBatch, scratch: &mut Scratch) -> Result<()> {
        self.rows += stored.num_rows();
        for (number, column) in self.columns.iter_mut().enumerate() {
            column.write(stored, number, scratch).map_err(parquet_error)?;
        }
        Ok(())
    }

    /// The encoded columns, each ended when it is asked for.
    pub(super) fn chunks(self, scratch: &mut Scratch) -> impl Iterator<Item = Result<Chunk>> {
        let closed = |column: Column| column.close(scratch).map_err(parquet_error);
        self.columns.into_iter().map(closed)
    }

    /// Encodes rows of the file's schema, all that the row group will have, in `threads` tasks.
    pub(super) async fn encode_all(self, stored: Vec<RecordBatch>, threads: usize) -> Result<Vec<Chunk>> {
        let mut chunks: Vec<Option<Chunk>> = self.columns.iter().map(|_| None).collect();
        let stored: Arc<[RecordBatch]> = stored.into();
        // Columns differ much in what they cost, so each task takes the next one when it is done with one.
        let columns = Arc::new(Mutex::new(self.columns.into_iter().enumerate()));
        let mut tasks = JoinSet::new();
        for _ in 0..threads.clamp(1, chunks.len().max(1)) {
            let (columns, stored) = (Arc::clone(&columns), Arc::clone(&stored));
            tasks.spawn(async move {
                let mut scratch = Scratch::default();
                let next = || columns.lock().unwrap_or_else(PoisonError::into_inner).next();
                let columns = std::iter::from_fn(next);
                let ended = columns.map(|(number, column)| Ok((number, column.encode(&stored, number, &mut scratch)?)));
                ended.collect::<ParquetResult<Vec<_>>>()
            });
        }
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(|e| LoadError::internal(format!("columns were not encoded: {e}")))?;
            for (number, chunk) in ended.map_err(parquet_error)? {
                if let Some(place) = chunks.get_mut(number) {
                    *place = Some(chunk);
                }
            }
        }
        let chunks: Option<Vec<Chunk>> = chunks.into_iter().collect();
        chunks.ok_or_else(|| LoadError::internal("a column was not encoded"))
    }

    /// Bytes held in memory.
    pub(in crate::write) fn memory(&self) -> usize {
        let of = |column: &Column| match &column.encoder {
            Encoder::Ours(encoder) => encoder.memory(),
            Encoder::Library(writers) => writers.iter().map(ArrowColumnWriter::memory_size).sum(),
        };
        self.columns.iter().map(of).sum()
    }

    /// Bytes that it will take in the file, nearly.
    pub(super) fn size(&self) -> usize {
        let of = |column: &Column| match &column.encoder {
            Encoder::Ours(encoder) => encoder.size(),
            Encoder::Library(writers) => writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum(),
        };
        self.columns.iter().map(of).sum()
    }
}

impl Column {
    /// Takes in the values of column `number` of `stored`.
    fn write(&mut self, stored: &RecordBatch, number: usize, scratch: &mut Scratch) -> ParquetResult<()> {
        let array = stored.column(number);
        match &mut self.encoder {
            Encoder::Ours(encoder) => encoder.write(array, scratch),
            Encoder::Library(writers) => {
                let leaves = compute_leaves(&self.field, array)?;
                let mut leaves = writers.iter_mut().zip(leaves);
                leaves.try_for_each(|(writer, leaf)| writer.write(&leaf))
            }
        }
    }

    fn close(self, scratch: &mut Scratch) -> ParquetResult<Chunk> {
        Ok(match self.encoder {
            Encoder::Ours(encoder) => Chunk::Ours(Box::new(encoder.close(scratch)?)),
            Encoder::Library(writers) => {
                let chunks = writers.into_iter().map(ArrowColumnWriter::close);
                Chunk::Library(chunks.collect::<ParquetResult<_>>()?)
            }
        })
    }

    fn encode(mut self, stored: &[RecordBatch], number: usize, scratch: &mut Scratch) -> ParquetResult<Chunk> {
        for batch in stored {
            self.write(batch, number, scratch)?;
        }
        self.close(scratch)
    }
}

impl Chunk {
    /// Puts the column into a row group of a file.
    pub(super) fn append_to(
        self,
        group: &mut SerializedRowGroupWriter<'_, Encoded>,
        encoded: &Encoded,
    ) -> ParquetResult<()> {
        match self {
            Self::Ours(chunk) => {
                let (bytes, closed) = *chunk;
                encoded.expect(bytes.bytes().len());
                group.append_column(&bytes, closed)
            }
            Self::Library(chunks) => {
                let mut chunks = chunks.into_iter();
                chunks.try_for_each(|chunk| chunk.append_to_row_group(group))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StringArray};
    use datafusion::arrow::datatypes::Int32Type;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};
    use uuid::Uuid;

    use super::super::layout::FileLayout;
    use super::super::ledger::StatementFiles;
    use super::super::rolling::{RollingWriter, WrittenFile, write_at_once};
    use super::*;

    fn rows(from: i64, count: i64) -> RecordBatch {
        let ids = from..from + count;
        let text = |id: i64| (id % 7 != 0).then(|| format!("text {}", id % 90));
        let double = |id: i64| if id % 1000 == 3 { f64::NAN } else { 0.5 };
        let list = |id: i64| Some((0..id % 4).map(|v| i32::try_from(v).ok()));
        let columns: [(&str, ArrayRef); 4] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("t", Arc::new(ids.clone().map(text).collect::<StringArray>())),
            ("d", Arc::new(Float64Array::from_iter_values(ids.clone().map(double)))),
            (
                "l",
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(ids.map(list))),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    }

    async fn bytes(store: &InMemory, file: &WrittenFile) -> Vec<u8> {
        let file = store.get(&Path::from(file.path.as_str())).await.unwrap();
        file.bytes().await.unwrap().to_vec()
    }

    /// However the work is shared out, the file is the same. Writers take no more than 8192 rows in one step.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn columns_side_by_side_make_the_file_that_batches_make() {
        let layout = FileLayout::data(&rows(0, 1).schema(), &[], &HashMap::new(), None).unwrap();
        let layout = Arc::new(layout);
        let store = InMemory::new();
        let shared: Arc<dyn ObjectStore> = Arc::new(store.clone());
        let files = StatementFiles::new(shared, Uuid::new_v4());
        for counts in [vec![1], vec![5000, 1, 8000], vec![8192; 3]] {
            let batches: Vec<RecordBatch> = (0..).zip(&counts).map(|(i, n)| rows(i * 40_000, *n)).collect();
            let mut writer = RollingWriter::new(Arc::clone(&layout), Arc::clone(&files), HashMap::new());
            for batch in &batches {
                writer.write(batch).await.unwrap();
            }
            let expected = writer.close().await.unwrap().pop().unwrap();
            for threads in [1, 2, 3, 16] {
                let found = write_at_once(&layout, &files, &batches, threads).await.unwrap();
                assert_eq!((found.rows, &found.stats), (expected.rows, &expected.stats));
                assert!(
                    bytes(&store, &found).await == bytes(&store, &expected).await,
                    "{counts:?} in {threads}"
                );
            }
        }
    }
}
