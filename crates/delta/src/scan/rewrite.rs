//! One file for a copy-on-write rewrite.

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
    let columns = desc.schema.fields().len();
    let projection: Vec<usize> = (0..columns).chain([columns + 1]).collect();
    let reader = Reader::try_new(Arc::new(desc.clone()), &projection)?;
    Ok(reader.stream(vec![ScanTask::from(task)], Vec::new(), false, 0, ctx))
}
