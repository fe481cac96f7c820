//! The rows that pass the filters, by row group, with the columns that the filters need.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::columns;
use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef, UInt32Type};
use datafusion::common::cast::as_boolean_array;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::Count;
use futures::TryStreamExt;

use super::file::LateFile;
use crate::scan::reader::Reader;
use crate::scan::tasks::ScanTask;

/// Rows of a row group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) file: Arc<LateFile>,
    pub(super) number: usize,
    /// Their places in the row group; they ascend.
    pub(super) rows: Vec<usize>,
    /// Their columns that are known already.
    pub(super) early: RecordBatch,
    /// How many of the late columns are among them by now.
    pub(super) done: usize,
    /// The first row of the row group in its file.
    pub(super) first: u64,
}

/// The rows of `batch` that pass all filters.
pub(super) fn passing(filters: &[Arc<dyn PhysicalExpr>], mut batch: RecordBatch) -> Result<RecordBatch> {
    for filter in filters {
        let rows = batch.num_rows();
        if rows == 0 {
            break;
        }
        let passes = filter.evaluate(&batch)?.into_array(rows)?;
        let passes = as_boolean_array(&passes)?;
        if passes.null_count() > 0 || passes.true_count() < rows {
            batch = filter_record_batch(&batch, passes)?;
        }
    }
    Ok(batch)
}

/// The files of a scan's tasks.
pub(super) struct Files {
    pub(super) tasks: HashMap<u32, ScanTask>,
    pub(super) reader: Reader,
    pub(super) late: SchemaRef,
    pub(super) context: Arc<TaskContext>,
    pub(super) current: Option<(u32, Arc<LateFile>)>,
}

impl Files {
    async fn get(&mut self, ordinal: u32) -> Result<Arc<LateFile>> {
        if let Some((current, file)) = &self.current
            && *current == ordinal
        {
            return Ok(Arc::clone(file));
        }
        let task = self.tasks.get(&ordinal).cloned();
        let task = task.ok_or_else(|| LoadError::internal(format!("there is no file {ordinal}")))?;
        let metadata = self.reader.metadata(&task, &self.context).await?;
        let file = Arc::new(LateFile::new(task, metadata, &self.late));
        self.current = Some((ordinal, Arc::clone(&file)));
        Ok(file)
    }
}

/// How many rows passed, and how many did not.
pub(super) struct Passing {
    pub(super) matched: Count,
    pub(super) pruned: Count,
}

/// Reads the early columns, and deals rows that pass to their row groups.
pub(super) struct Groups {
    rows: SendableRecordBatchStream,
    /// Over the columns of `rows`.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    files: Files,
    places: (usize, usize),
    passing: Passing,
    open: Option<Open>,
    ready: VecDeque<Group>,
}

impl Groups {
    pub(super) fn new(
        rows: SendableRecordBatchStream,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        files: Files,
        passing: Passing,
    ) -> Result<Self> {
        let schema = rows.schema();
        Ok(Self {
            places: (schema.index_of(columns::FILE)?, schema.index_of(columns::ROW)?),
            rows,
            filters,
            files,
            passing,
            open: None,
            ready: VecDeque::new(),
        })
    }

    /// The rows of the next row group that has any. `None`: there is none.
    pub(super) async fn next(&mut self) -> Result<Option<Group>> {
        loop {
            if let Some(group) = self.ready.pop_front() {
                return Ok(Some(group));
            }
            match self.rows.try_next().await? {
                Some(batch) => {
                    let passed = self.passed(batch)?;
                    self.deal(&passed).await?;
                }
                None => return self.open.take().map(Open::close).transpose(),
            }
        }
    }

    /// The rows of `batch` that pass. The filters may have become sharper since the batch before.
    fn passed(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let all = batch.num_rows();
        let batch = passing(&self.filters, batch)?;
        self.passing.matched.add(batch.num_rows());
        self.passing.pruned.add(all - batch.num_rows());
        Ok(batch)
    }

    async fn deal(&mut self, batch: &RecordBatch) -> Result<()> {
        let files = batch.column(self.places.0).as_primitive::<UInt32Type>();
        let rows = batch.column(self.places.1).as_primitive::<Int64Type>();
        let mut from = 0;
        for same in files.values().chunk_by(|a, b| a == b) {
            let (Some(ordinal), to) = (same.first(), from + same.len()) else {
                continue;
            };
            let file = self.files.get(*ordinal).await?;
            while let Some(row) = rows.values().get(from).filter(|_| from < to) {
                let (number, first) = file.group_of(position(*row)?)?;
                let beyond = first.saturating_add(u64::try_from(file.group_rows(number)).unwrap_or(0));
                let mine = rows.values().get(from..to).unwrap_or_default();
                let count = mine.partition_point(|row| u64::try_from(*row).is_ok_and(|row| row < beyond));
                let part = batch.slice(from, count.max(1));
                self.add(&file, (number, first), part)?;
                from += count.max(1);
            }
        }
        Ok(())
    }

    /// Adds rows to the row group that is open, or opens theirs.
    fn add(&mut self, file: &Arc<LateFile>, (number, first): (usize, u64), part: RecordBatch) -> Result<()> {
        let same = |open: &Open| Arc::ptr_eq(&open.file, file) && open.number == number;
        if !self.open.as_ref().is_some_and(same) {
            if let Some(before) = self.open.take() {
                self.ready.push_back(before.close()?);
            }
            self.open = Some(Open {
                file: Arc::clone(file),
                number,
                first,
                rows: Vec::new(),
                parts: Vec::new(),
            });
        }
        let rows = part.column(self.places.1).as_primitive::<Int64Type>();
        let open = self.open.as_mut();
        let open = open.ok_or_else(|| LoadError::internal("no row group is open"))?;
        add_places(rows, first, &mut open.rows)?;
        open.parts.push(part);
        Ok(())
    }
}

/// A row group of which more rows may come.
struct Open {
    file: Arc<LateFile>,
    number: usize,
    first: u64,
    rows: Vec<usize>,
    parts: Vec<RecordBatch>,
}

impl Open {
    fn close(self) -> Result<Group> {
        let schema = self.parts.first().map(RecordBatch::schema);
        let schema = schema.ok_or_else(|| LoadError::internal("a row group without rows"))?;
        Ok(Group {
            early: concat_batches(&schema, &self.parts)?,
            file: self.file,
            number: self.number,
            rows: self.rows,
            done: 0,
            first: self.first,
        })
    }
}

/// The places of `rows` of a file in the row group that begins with row `first`, behind those that are known.
pub(super) fn add_places(rows: &Int64Array, first: u64, known: &mut Vec<usize>) -> Result<()> {
    for row in rows.values() {
        let row = position(*row)?
            .checked_sub(first)
            .and_then(|row| usize::try_from(row).ok());
        let row = row.filter(|row| known.last().is_none_or(|last| last < row));
        known.push(row.ok_or_else(|| LoadError::internal("rows of a file are out of order"))?);
    }
    Ok(())
}

fn position(row: i64) -> Result<u64> {
    u64::try_from(row).map_err(|_| LoadError::internal("a row before the first"))
}
