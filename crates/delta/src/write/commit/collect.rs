//! Draining the action rows and putting them together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::metrics::{SKIPPED_ROWS, SOURCE_ROWS, UNCHANGED_ROWS, sum};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use deltalake::kernel::{Add, AddCDCFile};
use futures::StreamExt;

use crate::scan::FILES_SKIPPED;
use crate::table::{FileTask, footer_rows};

use super::super::actions::{ActionRow, Origin, TaskCounts, receive};
use super::super::job::LoadJob;
use super::super::result::LoadCounts;
use super::super::spec::{LoadSpec, OperationKind};
use super::returning::ReturnedRows;

/// Everything that the operators below have done.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) adds: Vec<Add>,
    pub(super) changes: Vec<AddCDCFile>,
    pub(super) removes: Vec<FileTask>,
    /// Files that stay with another deletion vector: taken out and put in again.
    pub(super) masks: Vec<Mask>,
    pub(super) counts: LoadCounts,
    pub(super) tasks: TaskCounts,
}

/// A file with a new deletion vector.
#[derive(Debug)]
pub(super) struct Mask {
    pub(super) before: FileTask,
    pub(super) after: Add,
}

impl Collected {
    /// Whether there is anything to commit but a transaction.
    pub(super) fn changes(&self, spec: &LoadSpec) -> bool {
        let files =
            !self.adds.is_empty() || !self.removes.is_empty() || !self.masks.is_empty() || !self.changes.is_empty();
        let created = spec.target.base.is_none() && self.counts.source > 0;
        files || created || (spec.target.base.is_some() && spec.target.evolved)
    }
}

/// Runs `input` to its end.
pub(super) async fn collect(
    job: &LoadJob,
    input: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    rows: &mut ReturnedRows,
) -> Result<Collected> {
    let mut collected = Collected::default();
    let mut removed: BTreeSet<u32> = job.spec.removed_files.iter().copied().collect();
    let mut masked = BTreeMap::new();
    let mut attempts = BTreeMap::new();
    let mut stream = input.execute(0, Arc::clone(context))?;
    while let Some(batch) = stream.next().await {
        let received = receive(&batch?)?;
        for (origin, action) in received.actions {
            require_one_attempt(job, &mut attempts, origin)?;
            collected.take(action, &mut removed, &mut masked);
        }
        if let Some(returned) = &received.returning {
            rows.keep(returned)?;
        }
    }
    drop(stream);
    collected.sort();
    collected.remove(job, &removed, masked).await?;
    collected.count(job, input.as_ref()).await?;
    Ok(collected)
}

/// A task that ran twice has done everything twice.
fn require_one_attempt(job: &LoadJob, attempts: &mut BTreeMap<String, String>, origin: Origin) -> Result<()> {
    if origin.statement != job.statement.to_string() {
        return Err(LoadError::internal("action rows of another statement have arrived"));
    }
    match attempts.get(&origin.task) {
        Some(known) if *known != origin.attempt => {
            Err(LoadError::internal(format!("task {} has run twice", origin.task)))
        }
        Some(_) => Ok(()),
        None => {
            attempts.insert(origin.task, origin.attempt);
            Ok(())
        }
    }
}

impl Collected {
    fn take(&mut self, action: ActionRow, removed: &mut BTreeSet<u32>, masked: &mut BTreeMap<u32, Add>) {
        match action {
            ActionRow::Add(add) => self.adds.push(add),
            ActionRow::Change(change) => self.changes.push(change),
            ActionRow::Remove(file) => {
                removed.insert(file);
            }
            ActionRow::Mask(file, add) => {
                masked.insert(file, add);
            }
            ActionRow::Counts(counts) => self.tasks.add(&counts),
            ActionRow::Updated(..) | ActionRow::Deleted(..) => (),
        }
    }

    /// The log must not depend on which task was faster.
    fn sort(&mut self) {
        self.adds.sort_by(|a, b| a.path.cmp(&b.path));
        self.changes.sort_by(|a, b| a.path.cmp(&b.path));
    }

    async fn remove(&mut self, job: &LoadJob, removed: &BTreeSet<u32>, masked: BTreeMap<u32, Add>) -> Result<()> {
        let Some(base) = job.spec.target.base.as_ref() else {
            return Ok(());
        };
        let files = base.files().await?;
        for ordinal in removed {
            let file = file_of(&files, *ordinal)?;
            if !file.removable {
                return Err(LoadError::unsupported(format!(
                    "a file of table {:?} has a path that cannot be removed from the log safely",
                    job.table()
                ))
                .hint("Another engine wrote the path in an unusual way: run OPTIMIZE there once."));
            }
            self.removes.push(file.clone());
        }
        for (ordinal, after) in masked {
            let before = file_of(&files, ordinal)?.clone();
            if removed.contains(&ordinal) {
                return Err(LoadError::internal(format!("file {ordinal} is to stay and to go")));
            }
            self.masks.push(Mask { before, after });
        }
        Ok(())
    }

    async fn count(&mut self, job: &LoadJob, plan: &dyn ExecutionPlan) -> Result<()> {
        let spec = &job.spec;
        let metric = |name| u64::try_from(sum(plan, name)).unwrap_or(u64::MAX);
        let tasks = &self.tasks;
        let mut counts = LoadCounts {
            inserted: tasks.inserted,
            updated: tasks.updated,
            deleted: tasks.deleted,
            unchanged: tasks.unchanged + metric(UNCHANGED_ROWS),
            skipped: tasks.skipped + metric(SKIPPED_ROWS),
            source: metric(SOURCE_ROWS),
            files_added: u64::try_from(self.adds.len()).unwrap_or(u64::MAX),
            files_removed: u64::try_from(self.removes.len()).unwrap_or(u64::MAX),
            files_skipped: spec.files_skipped + metric(FILES_SKIPPED),
            deletion_vectors: u64::try_from(self.masks.len()).unwrap_or(u64::MAX),
        };
        let mut unread = 0;
        for file in self
            .removes
            .iter()
            .filter(|file| spec.removed_files.contains(&file.ordinal))
        {
            unread += live_rows(job, file).await?;
        }
        match spec.operation.kind {
            OperationKind::Optimize => require_moved(job, unread, std::mem::take(&mut counts.inserted))?,
            OperationKind::Merge | OperationKind::Write => counts.deleted += unread,
        }
        self.counts = counts;
        Ok(())
    }
}

/// Files that are put together hold every row once more, or nothing is committed.
fn require_moved(job: &LoadJob, wanted: u64, moved: u64) -> Result<()> {
    match wanted == moved {
        true => Ok(()),
        false => Err(LoadError::internal(format!(
            "the files of table {:?} hold {wanted} rows, and {moved} were written",
            job.table()
        ))),
    }
}

fn file_of(files: &[FileTask], ordinal: u32) -> Result<&FileTask> {
    let file = usize::try_from(ordinal).ok().and_then(|index| files.get(index));
    file.ok_or_else(|| LoadError::internal(format!("there is no file {ordinal}")))
}

/// The rows of a file that are not deleted, from its footer if the log does not tell.
async fn live_rows(job: &LoadJob, file: &FileTask) -> Result<u64> {
    let rows = match file.num_records {
        Some(rows) => rows,
        None => footer_rows(&job.log_store.object_store(Some(job.statement)), job.table(), file).await?,
    };
    let deleted = file
        .deletion_vector
        .as_ref()
        .map_or(0, |dv| u64::try_from(dv.cardinality).unwrap_or(0));
    Ok(rows.saturating_sub(deleted))
}
