//! Writing one partition of a table: file after file, each up to the target size.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use chrono::Utc;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use deltalake::kernel::{Add, AddCDCFile};

use super::dictionary::properties_for;
use super::group::NewRowGroup;
use super::layout::{FileLayout, ROW_GROUP_ROWS, rows_size};
use super::ledger::StatementFiles;
use super::parquet::ParquetFile;
use super::partition::folder;

/// Rows handed to the encoder at once; after each the file's size is looked at.
const LARGEST_STEP: usize = 8192;
const SMALLEST_STEP: usize = 256;

/// A finished file.
#[derive(Debug)]
pub(in crate::write) struct WrittenFile {
    pub(super) path: String,
    pub(in crate::write) size: u64,
    pub(in crate::write) rows: u64,
    pub(super) partition_values: Arc<HashMap<String, Option<String>>>,
    pub(super) stats: String,
}

impl WrittenFile {
    /// The action that makes the file part of the table.
    pub(in crate::write) fn add_action(&self) -> Result<Add> {
        Ok(Add {
            path: self.path.clone(),
            partition_values: self.partition_values.as_ref().clone(),
            size: signed(self.size)?,
            modification_time: Utc::now().timestamp_millis(),
            data_change: true,
            stats: Some(self.stats.clone()),
            ..Add::default()
        })
    }

    /// The action that makes the file part of the change data feed.
    pub(in crate::write) fn change_action(&self) -> Result<AddCDCFile> {
        Ok(AddCDCFile {
            path: self.path.clone(),
            size: signed(self.size)?,
            partition_values: self.partition_values.as_ref().clone(),
            data_change: false,
            tags: None,
        })
    }
}

fn signed(size: u64) -> Result<i64> {
    i64::try_from(size).map_err(|_| LoadError::internal("a file of more than eight exabytes"))
}

/// Writes rows that share their partition values.
pub(in crate::write) struct RollingWriter {
    layout: Arc<FileLayout>,
    files: Arc<StatementFiles>,
    folder: Vec<String>,
    partition_values: Arc<HashMap<String, Option<String>>>,
    current: Option<CurrentFile>,
    finished: Vec<WrittenFile>,
}

struct CurrentFile {
    file: ParquetFile,
    group: Option<NewRowGroup>,
}

impl RollingWriter {
    /// A writer for the partition with these values, in the order of the layout's partition columns.
    pub(in crate::write) fn new(
        layout: Arc<FileLayout>,
        files: Arc<StatementFiles>,
        partition_values: HashMap<String, Option<String>>,
    ) -> Self {
        let values = layout
            .partition
            .iter()
            .map(|(_, name)| folder(name, partition_values.get(name).and_then(Option::as_deref)));
        Self {
            folder: layout.folder.map(str::to_owned).into_iter().chain(values).collect(),
            layout,
            files,
            partition_values: Arc::new(partition_values),
            current: None,
            finished: Vec::new(),
        }
    }

    /// Writes the rows of `batch`, which has the schema of the layout's files (no partition columns).
    pub(super) async fn write_stored(&mut self, batch: &RecordBatch) -> Result<()> {
        let step = self.step(batch);
        let mut offset = 0;
        while offset < batch.num_rows() {
            let rows = step.min(batch.num_rows() - offset);
            self.write_step(&batch.slice(offset, rows)).await?;
            offset += rows;
        }
        Ok(())
    }

    /// Writes the rows of `batch`, which has the layout's schema; its partition columns are not looked at.
    pub(in crate::write) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let stored = self.layout.stored_columns(batch)?;
        self.write_stored(&stored).await
    }

    /// Few rows at once where the target is small or rows are wide: a file shall not miss its size by much.
    fn step(&self, batch: &RecordBatch) -> usize {
        let width = rows_size(batch) / batch.num_rows().max(1);
        let affordable = self.layout.target_size / 16 / u64::try_from(width).unwrap_or(u64::MAX).max(1);
        usize::try_from(affordable)
            .unwrap_or(LARGEST_STEP)
            .clamp(SMALLEST_STEP, LARGEST_STEP)
    }

    async fn write_step(&mut self, batch: &RecordBatch) -> Result<()> {
        let file = match &mut self.current {
            Some(file) => file,
            None => self
                .current
                .insert(CurrentFile::create(&self.layout, &self.files, &self.folder, batch)?),
        };
        file.write(batch).await?;
        if file.size() >= self.layout.target_size {
            self.finish_current().await?;
        }
        Ok(())
    }

    async fn finish_current(&mut self) -> Result<()> {
        if let Some(file) = self.current.take() {
            let partition_values = Arc::clone(&self.partition_values);
            self.finished.push(file.finish(partition_values).await?);
        }
        Ok(())
    }

    /// Bytes held in memory.
    pub(in crate::write) fn memory(&self) -> usize {
        self.current.as_ref().map_or(0, CurrentFile::memory)
    }

    /// Ends the current row group, so that its bytes leave memory.
    pub(in crate::write) async fn flush(&mut self) -> Result<()> {
        match &mut self.current {
            Some(file) => file.flush().await,
            None => Ok(()),
        }
    }

    /// Ends the last file.
    pub(in crate::write) async fn close(mut self) -> Result<Vec<WrittenFile>> {
        self.finish_current().await?;
        Ok(self.finished)
    }
}

/// Writes a file of all rows of `batches`, which have the layout's schema, its columns side by side in `threads` tasks. Of a
/// table without partitions, and no more rows than a row group takes.
pub(in crate::write) async fn write_at_once(
    layout: &Arc<FileLayout>,
    files: &Arc<StatementFiles>,
    batches: &[RecordBatch],
    threads: usize,
) -> Result<WrittenFile> {
    let stored = batches.iter().map(|batch| layout.stored_columns(batch));
    let stored: Vec<RecordBatch> = stored.collect::<Result<_>>()?;
    let first = stored.first();
    let first = first.ok_or_else(|| LoadError::internal("a file of no rows"))?;
    let folders: Vec<String> = layout.folder.map(str::to_owned).into_iter().collect();
    let mut file = ParquetFile::create(layout, files, &folders, properties_for(first, &layout.properties)?)?;
    file.write_all(stored, threads).await?;
    file.finish(Arc::default()).await
}

/// Whether so many rows and bytes make one row group of one file.
pub(in crate::write) fn is_one_file(layout: &FileLayout, rows: usize, bytes: usize) -> bool {
    let small = u64::try_from(bytes).is_ok_and(|bytes| bytes < layout.target_size);
    small && rows <= ROW_GROUP_ROWS && !layout.partitioned()
}

impl CurrentFile {
    fn create(
        layout: &Arc<FileLayout>,
        files: &Arc<StatementFiles>,
        folder: &[String],
        first: &RecordBatch,
    ) -> Result<Self> {
        let properties = properties_for(first, &layout.properties)?;
        Ok(Self {
            file: ParquetFile::create(layout, files, folder, properties)?,
            group: None,
        })
    }

    /// Writes rows, and ends row groups that are full.
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let group = match &mut self.group {
                Some(group) => group,
                None => self.group.insert(self.file.new_row_group()?),
            };
            let rows = (batch.num_rows() - start).min(ROW_GROUP_ROWS - group.rows);
            self.file.write(group, &batch.slice(start, rows))?;
            start += rows;
            if group.rows == ROW_GROUP_ROWS {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        match self.group.take() {
            Some(group) => self.file.end(group).await,
            None => Ok(()),
        }
    }

    fn memory(&self) -> usize {
        self.group.as_ref().map_or(0, NewRowGroup::memory)
    }

    fn size(&self) -> u64 {
        let size = self.file.size() + self.group.as_ref().map_or(0, NewRowGroup::size);
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    async fn finish(mut self, partition_values: Arc<HashMap<String, Option<String>>>) -> Result<WrittenFile> {
        self.flush().await?;
        self.file.finish(partition_values).await
    }
}

pub(super) fn parquet_error(e: ParquetError) -> LoadError {
    LoadError::from(DataFusionError::from(e))
}
