//! Copy-on-write where only some row groups of a file have marked rows: the others are copied as they are.

use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::common::stats::Precision;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::parquet::file::metadata::{PageIndexPolicy, RowGroupMetaData};
use futures::StreamExt;
use roaring::RoaringTreemap;

use crate::scan::{ScanDesc, row_group_scan};
use crate::table::{FileTask, footer};

use super::super::files::{Original, SplicedFile, WrittenFile};
use super::super::job::LoadJob;
use super::lost_mark;
use super::rewrite::{Survivors, as_target};

/// A row group and its rows in the file.
struct Group {
    number: usize,
    rows: Range<u64>,
    marked: u64,
}

impl Group {
    fn is_gone(&self) -> bool {
        self.marked == self.rows.end - self.rows.start
    }
}

/// Writes the rows of `task` that are not in `marked`, in their order, and copies what it can. `None`: nothing can be
/// copied, or not safely, or a row group has no room in memory, while a file that is encoded can end one early.
pub(super) async fn splice(
    job: &LoadJob,
    desc: &ScanDesc,
    task: &FileTask,
    marked: &RoaringTreemap,
    context: &Arc<TaskContext>,
) -> Result<Option<WrittenFile>> {
    if task.deletion_vector.is_some() {
        return Ok(None);
    }
    let metadata = footer(job.files.store().as_ref(), job.table(), task, PageIndexPolicy::Optional).await?;
    let groups = groups(metadata.row_groups(), marked);
    if marked.max() >= groups.last().map(|group| group.rows.end) {
        return Err(lost_mark());
    }
    let original = Original {
        path: task.store_path(),
        metadata,
    };
    if groups.iter().all(|group| group.marked > 0) || !original.fits(&job.data)? {
        return Ok(None);
    }
    let held = MemoryConsumer::new("ApplyPositionsExec row group").register(context.memory_pool());
    if held.try_grow(original.largest_group()).is_err() {
        return Ok(None);
    }
    let mut splicing = Splicing {
        file: begin(job, desc, task, &original)?,
        job,
        desc,
        task,
        original,
        rest: Survivors::new(partly(&groups, marked)),
        context,
        held,
    };
    for group in groups.iter().filter(|group| !group.is_gone()) {
        match group.marked {
            0 => splicing.file.copy(&splicing.original, group.number).await?,
            _ => splicing.encode(group).await?,
        }
    }
    splicing.rest.done(job.table())?;
    splicing.file.finish().await.map(Some)
}

/// Begins the new file.
fn begin(job: &LoadJob, desc: &ScanDesc, task: &FileTask, original: &Original) -> Result<SplicedFile> {
    let known = task.statistics();
    let bounded = |name: &str| {
        let column = desc.schema.index_of(name).ok();
        let column = column.and_then(|index| known.column_statistics.get(index));
        column.is_some_and(|column| !matches!(column.max_value, Precision::Absent))
    };
    let values = task.raw_partition_values.clone();
    SplicedFile::create(&job.data, &job.files, values, original, bounded)
}

fn groups(metadata: &[RowGroupMetaData], marked: &RoaringTreemap) -> Vec<Group> {
    let up_to = |row: u64| row.checked_sub(1).map_or(0, |last| marked.rank(last));
    let mut next = 0_u64;
    let group = |(number, group): (usize, &RowGroupMetaData)| {
        let rows = next..next + u64::try_from(group.num_rows()).unwrap_or(0);
        next = rows.end;
        Group {
            number,
            marked: up_to(rows.end) - up_to(rows.start),
            rows,
        }
    };
    metadata.iter().enumerate().map(group).collect()
}

/// The marks in row groups that keep some rows.
fn partly(groups: &[Group], marked: &RoaringTreemap) -> RoaringTreemap {
    let mut partly = marked.clone();
    for group in groups.iter().filter(|group| group.is_gone()) {
        partly.remove_range(group.rows.clone());
    }
    partly
}

struct Splicing<'a> {
    job: &'a LoadJob,
    desc: &'a ScanDesc,
    task: &'a FileTask,
    original: Original,
    rest: Survivors,
    file: SplicedFile,
    context: &'a Arc<TaskContext>,
    held: MemoryReservation,
}

impl Splicing<'_> {
    /// What is kept of a row group is encoded into no more than it was, but for what the encoders hold beside it.
    async fn encode(&mut self, group: &Group) -> Result<()> {
        let metadata = self.original.metadata.row_groups().get(group.number);
        let metadata = metadata.ok_or_else(|| LoadError::internal("a row group is gone"))?;
        let start = metadata.column(0).byte_range().0;
        let start = i64::try_from(start).map_err(|_| LoadError::internal("a file of eight exabytes"))?;
        let mut rows = row_group_scan(self.desc, self.task, start, self.context)?;
        let mut target = self.file.new_row_group()?;
        while let Some(batch) = rows.next().await {
            if let Some(kept) = self.rest.of(&batch?)? {
                let kept = as_target(&kept, &self.job.data.schema)?;
                self.file.write(&mut target, &kept)?;
                self.held.resize(target.memory().max(self.original.largest_group()));
            }
        }
        self.file.end(target).await
    }
}
