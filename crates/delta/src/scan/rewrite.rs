//! One file for a copy-on-write rewrite, or one of its row groups.

use std::sync::Arc;

use alluvium_core::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};

use crate::scan::ScanDesc;
use crate::scan::reader::Reader;
use crate::scan::tasks::ScanTask;
use crate::table::FileTask;

/// Streams one file: the table's columns in declared order, partition columns included, then `__row`, in file order
/// and without the rows of its deletion vector. The session behind `ctx` must hold the store of the table, see
/// [`crate::scan::register_store`].
pub fn rewrite_scan(desc: &ScanDesc, task: &FileTask, ctx: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    stream(desc, ScanTask::from(task), ctx)
}

/// The same for the row group that begins at byte `start` of the file.
pub(crate) fn row_group_scan(
    desc: &ScanDesc,
    task: &FileTask,
    start: i64,
    ctx: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    stream(desc, ScanTask::of_row_group(task, start), ctx)
}

fn stream(desc: &ScanDesc, task: ScanTask, ctx: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    let columns = desc.schema.fields().len();
    let projection: Vec<usize> = (0..columns).chain([columns + 1]).collect();
    let reader = Reader::try_new(Arc::new(desc.clone()), &projection)?;
    Ok(reader.stream(vec![task], Vec::new(), false, 0, ctx))
}
