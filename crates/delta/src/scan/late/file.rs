//! A file whose late columns are wanted.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::chunk::{self, Chunk};
use super::form::Form;
use crate::scan::tasks::ScanTask;

/// A file, and where its late columns are.
#[derive(Debug)]
pub(super) struct LateFile {
    pub(super) task: ScanTask,
    metadata: Arc<ParquetMetaData>,
    /// The first row of each row group, and behind them the number of all rows.
    starts: Vec<u64>,
    /// Where the late columns are, if all of them can be gathered.
    columns: Option<Vec<Place>>,
}

/// Where a column is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// It was added to the table later: every row is NULL.
    Missing,
    Stored(usize, Form),
}

impl LateFile {
    /// The file of `task`, which has `metadata`, with the columns of `late`.
    pub(super) fn new(task: ScanTask, metadata: Arc<ParquetMetaData>, late: &SchemaRef) -> Self {
        let mut starts = vec![0];
        let mut next = 0_u64;
        for group in metadata.row_groups() {
            next = next.saturating_add(u64::try_from(group.num_rows()).unwrap_or(0));
            starts.push(next);
        }
        let columns = late.fields().iter().map(|field| place(&metadata, field)).collect();
        Self {
            task,
            metadata,
            starts,
            columns,
        }
    }

    /// The row group that has `row`, and its first row.
    pub(super) fn group_of(&self, row: u64) -> Result<(usize, u64)> {
        let behind = self.starts.partition_point(|start| *start <= row);
        let found = behind.checked_sub(1).and_then(|number| {
            let start = *self.starts.get(number)?;
            (behind < self.starts.len()).then_some((number, start))
        });
        found.ok_or_else(|| LoadError::internal(format!("there is no row {row} in file {}", self.task.path)))
    }

    /// The rows of the file.
    pub(super) fn rows(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    pub(super) fn group_rows(&self, number: usize) -> usize {
        let rows = self.metadata.row_groups().get(number).map(RowGroupMetaData::num_rows);
        rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0)
    }

    /// Where the late columns are. `None`: some are stored in a way that is not known here.
    pub(super) fn places(&self) -> Option<&[Place]> {
        self.columns.as_deref()
    }

    /// The chunk of a stored column in row group `number`.
    pub(super) fn chunk(&self, number: usize, column: usize, form: Form) -> Option<Chunk<'_>> {
        let pages = self.metadata.offset_index();
        let pages = pages.and_then(|groups| groups.get(number)?.get(column));
        Some(Chunk {
            metadata: self.metadata.row_groups().get(number)?.columns().get(column)?,
            pages: pages.map(|index| index.page_locations.as_slice()),
            form,
            rows: self.group_rows(number),
        })
    }
}

/// `None`: the column is stored in a way that is not known here.
fn place(metadata: &ParquetMetaData, field: &FieldRef) -> Option<Place> {
    let schema = metadata.file_metadata().schema_descr();
    let root = schema.root_schema().get_fields();
    if !root
        .iter()
        .any(|stored| stored.name().eq_ignore_ascii_case(field.name()))
    {
        return field.is_nullable().then_some(Place::Missing);
    }
    let mut columns = schema.columns().iter().enumerate();
    let (index, column) =
        columns.find(|(_, column)| matches!(column.path().parts(), [name] if name == field.name()))?;
    let form = Form::of(column, field.data_type())?;
    let mut chunks = metadata.row_groups().iter().map(|group| group.columns().get(index));
    let known = chunks.all(|chunk| chunk.is_some_and(chunk::known));
    known.then_some(Place::Stored(index, form))
}
