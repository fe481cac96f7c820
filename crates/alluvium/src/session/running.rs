//! The statement that is running: how it is driven, and the counters a progress display shows.

use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::Result;
use alluvium_core::script::Stmt;
use alluvium_exec::metrics;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::Session;
use crate::context;
use crate::retry::Mode;

/// What a running statement has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows that came out of scans.
    pub rows_read: usize,
    /// Bytes read from storage.
    pub bytes_read: usize,
    /// Files opened so far.
    pub files_opened: usize,
}

/// Holds the physical plan of the running statement, whose metrics are the progress.
#[derive(Debug, Default)]
pub(super) struct Running {
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

impl Running {
    pub(super) fn progress(&self) -> Progress {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        plan.map_or_else(Progress::default, |plan| Progress {
            rows_read: leaf_rows(plan.as_ref()),
            bytes_read: metrics::sum(plan.as_ref(), "bytes_scanned"),
            files_opened: metrics::sum(plan.as_ref(), "files_opened"),
        })
    }

    fn set(&self, plan: Option<Arc<dyn ExecutionPlan>>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}

/// Forgets the plan when the statement ends in any way, cancelling included.
struct Guard<'a>(&'a Running);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

fn leaf_rows(plan: &dyn ExecutionPlan) -> usize {
    let children = plan.children();
    if children.is_empty() {
        return plan.metrics().and_then(|m| m.output_rows()).unwrap_or(0);
    }
    children.into_iter().map(|child| leaf_rows(child.as_ref())).sum()
}

impl Session {
    /// One try: bind, plan, execute.
    pub(super) async fn attempt(&self, stmt: &Stmt, mode: Mode) -> Result<(SchemaRef, Vec<RecordBatch>, bool)> {
        let frame = context::frame_in_mode(&self.context, stmt, self.options, mode).await?;
        let returns_rows = context::returns_rows(stmt, frame.logical_plan());
        let schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        let _guard = Guard(&self.running);
        self.running.set(Some(Arc::clone(&plan)));
        let batches = collect(plan, task).await?;
        Ok((schema, batches, returns_rows))
    }
}
