//! From where late columns come, and in which way.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::Count;
use object_store::ObjectStore;

use super::groups::{Group, passing};
use super::part::Part;
use crate::scan::reader::Reader;
use crate::scan::tasks::ScanTask;

/// Of more rows than one in so many, columns are read by the reader: its steps are long then.
const FEW: usize = 16;

/// From where late columns come.
pub(super) struct Source {
    /// Read the late columns when they are not gathered.
    pub(super) late: Late,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) output: SchemaRef,
    pub(super) partition: usize,
    pub(super) context: Arc<TaskContext>,
    pub(super) counters: Counters,
}

/// The late columns.
pub(super) struct Late {
    /// All: the columns of `middle`, then those of `rest`.
    pub(super) all: Reader,
    /// Those that filters need beside the early columns.
    pub(super) middle: Reader,
    pub(super) rest: Reader,
    /// The early columns and those of `middle`.
    pub(super) known: SchemaRef,
    /// The filters that need them, over `known` and over the output.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) finally: Vec<Arc<dyn PhysicalExpr>>,
}

pub(super) struct Counters {
    pub(super) rows: Count,
    pub(super) pages: Count,
    pub(super) bytes: Count,
}

/// What is done for a row group.
pub(super) enum Job {
    Gather(Part),
    /// Read what filters need, for there may be fewer rows then.
    Sift(Arc<Group>),
    /// By the reader.
    Read(Arc<Group>),
}

/// A row group whose late columns come from the reader.
pub(super) struct Reading {
    pub(super) group: Arc<Group>,
    pub(super) late: SendableRecordBatchStream,
    /// The rows that have come.
    pub(super) done: usize,
}

impl Job {
    pub(super) fn is_of(&self, other: &Arc<Group>) -> bool {
        matches!(self, Self::Gather(part) if Arc::ptr_eq(&part.group, other))
    }
}

impl Source {
    /// What has to be done for the rows of a row group.
    pub(super) fn jobs(&self, group: Group) -> Vec<Job> {
        let group = Arc::new(group);
        if group.rows.is_empty() {
            return Vec::new();
        }
        let few = group.rows.len().saturating_mul(FEW) <= group.file.group_rows(group.number);
        match Part::of(&group).filter(|_| few) {
            Some(parts) => parts.into_iter().map(Job::Gather).collect(),
            None => std::iter::once(match group.done == 0 && !self.late.filters.is_empty() {
                true => Job::Sift(group),
                false => Job::Read(group),
            })
            .collect(),
        }
    }

    /// The rows of `group` with these `early` columns, and `late` ones that the group did not have.
    pub(super) fn batch(&self, group: &Group, early: &RecordBatch, late: &[ArrayRef]) -> Result<RecordBatch> {
        let schema = self.late.all.output();
        let column = |name: &str| match early.column_by_name(name) {
            Some(column) => Some(Arc::clone(column)),
            None => late.get(schema.index_of(name).ok()?.checked_sub(group.done)?).cloned(),
        };
        let columns = self.output.fields().iter().map(|field| column(field.name()));
        let columns = columns.collect::<Option<Vec<_>>>();
        let columns = columns.ok_or_else(|| LoadError::internal("a column was read neither early nor late"))?;
        let batch = RecordBatch::try_new(Arc::clone(&self.output), columns)?;
        match group.done {
            0 => passing(&self.late.finally, batch),
            _ => Ok(batch),
        }
    }

    /// Begins to read the late columns that `group` has not yet.
    pub(super) fn read(&self, group: Arc<Group>) -> Result<Reading> {
        let reader = match group.done {
            0 => &self.late.all,
            _ => &self.late.rest,
        };
        let late = self.stream(&group, reader)?;
        Ok(Reading { group, late, done: 0 })
    }

    /// What `reader` reads of the rows of `group`.
    pub(super) fn stream(&self, group: &Group, reader: &Reader) -> Result<SendableRecordBatchStream> {
        let task = ScanTask {
            range: None,
            rows: Some(selection(group)?),
            deletion_vector: None,
            ..group.file.task.clone()
        };
        Ok(reader.stream(vec![task], Vec::new(), false, self.partition, &self.context))
    }
}

/// The rows of `group`, among all of its file.
fn selection(group: &Group) -> Result<RowSelection> {
    let small = |row: u64| usize::try_from(row).map_err(|_| LoadError::internal("a file of 2^64 rows"));
    let (first, total) = (small(group.first)?, small(group.file.rows())?);
    let runs = group.rows.chunk_by(|a, b| a + 1 == *b);
    let ranges = runs.filter_map(|run| Some(first + run.first()?..first + run.last()? + 1));
    Ok(RowSelection::from_consecutive_ranges(ranges, total))
}

pub(super) fn lost(group: &Group) -> LoadError {
    LoadError::internal(format!(
        "{} rows of file {} were asked for, and others read",
        group.rows.len(),
        group.file.task.path
    ))
}
