//! A file of row groups that another file has already, copied byte by byte or with new values in place, and of new ones.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;

use super::group::NewRowGroup;
use super::layout::FileLayout;
use super::ledger::StatementFiles;
use super::original::Original;
use super::pages::FreshRows;
use super::parquet::ParquetFile;
use super::partition::folder;
use super::rolling::WrittenFile;

/// Writes such a file.
pub(in crate::write) struct SplicedFile {
    layout: Arc<FileLayout>,
    files: Arc<StatementFiles>,
    file: ParquetFile,
    partition_values: Arc<HashMap<String, Option<String>>>,
}

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
        let mut file = ParquetFile::create(layout, files, &folders, original.encodings(&layout.properties))?;
        file.expect_nan(bounded);
        Ok(Self {
            layout: Arc::clone(layout),
            files: Arc::clone(files),
            file,
            partition_values: Arc::new(partition_values),
        })
    }

    /// Copies row group `number` of `original`, column after column.
    pub(in crate::write) async fn copy(&mut self, original: &Original, number: usize) -> Result<()> {
        let group = original.metadata.row_groups().get(number);
        let group = group.ok_or_else(|| LoadError::internal(format!("there is no row group {number}")))?;
        let store = self.files.store();
        let mut chunks = Vec::with_capacity(group.num_columns());
        for (column, chunk) in group.columns().iter().enumerate() {
            let bytes = original.part(store, chunk.byte_range()).await?;
            let closed = original.closed(store, number, column, chunk).await?;
            chunks.push((Arc::new(bytes), closed));
        }
        self.file.append(chunks).await
    }

    /// Copies row group `number` of `original` with other values in `rows`, which ascend: those of `new`, which has the
    /// layout's schema, and whose `keys` are those of the rows. False, and nothing is done: that is not possible.
    pub(in crate::write) async fn patch(
        &mut self,
        original: &Original,
        number: usize,
        rows: &[usize],
        new: &RecordBatch,
        keys: &[String],
    ) -> Result<bool> {
        let stored = self.layout.stored_columns(new)?;
        let fresh = FreshRows::of(&self.layout, &stored)?;
        let store = self.files.store();
        let Some(chunks) = original.patched(store, number, rows, &fresh, keys).await? else {
            return Ok(false);
        };
        self.file.look_for_nan(&stored);
        self.file.append(chunks).await?;
        Ok(true)
    }

    /// Begins a row group of new rows.
    pub(in crate::write) fn new_row_group(&self) -> Result<NewRowGroup> {
        self.file.new_row_group()
    }

    /// Encodes the rows of `batch`, which has the layout's schema.
    pub(in crate::write) fn write(&mut self, group: &mut NewRowGroup, batch: &RecordBatch) -> Result<()> {
        self.file.write(group, &self.layout.stored_columns(batch)?)
    }

    /// Ends a row group of new rows.
    pub(in crate::write) async fn end(&mut self, group: NewRowGroup) -> Result<()> {
        self.file.end(group).await
    }

    /// Ends the file.
    pub(in crate::write) async fn finish(self) -> Result<WrittenFile> {
        self.file.finish(self.partition_values).await
    }
}
