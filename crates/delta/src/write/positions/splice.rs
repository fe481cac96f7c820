//! Copy-on-write where row groups of a file can stay nearly as they are: those without marked rows are copied, those whose
//! marked rows all have new versions get them in place. The others are encoded.

use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::parquet::file::metadata::{PageIndexPolicy, RowGroupMetaData};
use futures::StreamExt;
use roaring::RoaringTreemap;

use crate::scan::{ScanDesc, row_group_scan};
use crate::table::{FileTask, footer};

use super::super::files::{NewRowGroup, Original, SplicedFile, WrittenFile};
use super::super::job::LoadJob;
use super::lost_mark;
use super::rewrite::{Survivors, as_target};
use super::versions::FileVersions;

/// A row group of fewer rows is worth being put together with others.
const SMALL: u64 = 8 * 1024;

/// A row group and its rows in the file.
struct Group {
    number: usize,
    rows: Range<u64>,
    marked: u64,
    /// New versions of its rows.
    new: u64,
}

impl Group {
    fn keeps_rows(&self) -> bool {
        self.marked < self.rows.end - self.rows.start
    }

    fn is_gone(&self) -> bool {
        !self.keeps_rows() && self.new == 0
    }

    /// Whether it keeps all its rows, perhaps as new versions.
    fn is_whole(&self) -> bool {
        self.marked == self.new
    }
}

/// Writes the rows of `task` that are not in `marked`, in their order, with the `new` versions of those that are, and copies
/// what it can. `None`: nothing can be copied, or not safely, or a row group has no room in memory, while a file that is
/// encoded can end one early.
pub(super) async fn splice(
    job: &LoadJob,
    desc: &ScanDesc,
    task: &FileTask,
    marked: &RoaringTreemap,
    new: &FileVersions,
    context: &Arc<TaskContext>,
) -> Result<Option<WrittenFile>> {
    if task.deletion_vector.is_some() {
        return Ok(None);
    }
    let metadata = footer(job.files.store().as_ref(), job.table(), task, PageIndexPolicy::Optional).await?;
    let groups = groups(metadata.row_groups(), marked, new);
    if marked.max() >= groups.last().map(|group| group.rows.end) {
        return Err(lost_mark());
    }
    let original = Original {
        path: task.store_path(),
        metadata,
    };
    let stays = |group: &Group| group.is_whole() && (group.marked == 0 || original.patchable(group.number));
    if !groups.iter().any(stays) || !original.fits(&job.data)? {
        return Ok(None);
    }
    let held = MemoryConsumer::new("ApplyPositionsExec row group").register(context.memory_pool());
    // A patched row group stands beside the one it was.
    if held.try_grow(original.largest_group().saturating_mul(2)).is_err() {
        return Ok(None);
    }
    let splicing = Splicing {
        file: begin(job, desc, task, &original)?,
        job,
        desc,
        task,
        original,
        marked,
        new,
        context,
        held,
    };
    splicing.run(&groups).await.map(Some)
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

fn groups(metadata: &[RowGroupMetaData], marked: &RoaringTreemap, new: &FileVersions) -> Vec<Group> {
    let up_to = |row: u64| row.checked_sub(1).map_or(0, |last| marked.rank(last));
    let mut next = 0_u64;
    let group = |(number, group): (usize, &RowGroupMetaData)| {
        let rows = next..next + u64::try_from(group.num_rows()).unwrap_or(0);
        next = rows.end;
        Group {
            number,
            marked: up_to(rows.end) - up_to(rows.start),
            new: u64::try_from(new.positions(&rows).count()).unwrap_or(0),
            rows,
        }
    };
    metadata.iter().enumerate().map(group).collect()
}

struct Splicing<'a> {
    job: &'a LoadJob,
    desc: &'a ScanDesc,
    task: &'a FileTask,
    original: Original,
    marked: &'a RoaringTreemap,
    new: &'a FileVersions,
    file: SplicedFile,
    context: &'a Arc<TaskContext>,
    held: MemoryReservation,
}

impl Splicing<'_> {
    async fn run(mut self, groups: &[Group]) -> Result<WrittenFile> {
        // New versions that found no room in place, and rows that are added, come last.
        let mut moved = Vec::new();
        let mut tail = None;
        for group in groups.iter().filter(|group| !group.is_gone()) {
            if self.is_absorbed(group, groups) {
                let mut target = self.file.new_row_group()?;
                self.read_into(group, &mut target).await?;
                tail = Some(target);
                moved.extend(self.new.rows(&group.rows)?);
            } else if group.marked == 0 {
                self.file.copy(&self.original, group.number).await?;
            } else {
                moved.extend(self.renew(group).await?);
            }
        }
        moved.extend(self.new.added()?);
        self.append(tail, &moved).await?;
        self.file.finish().await
    }

    /// Whether the rows of the last row group go into one with those that are added: loads that add few rows would
    /// leave a row group each.
    fn is_absorbed(&self, group: &Group, groups: &[Group]) -> bool {
        let last = groups.len() > 1 && group.number + 1 == groups.len();
        last && self.new.adds_rows() && group.rows.end - group.rows.start < SMALL
    }

    /// Writes a row group with its new versions. Gives back those that found no room in it.
    async fn renew(&mut self, group: &Group) -> Result<Option<RecordBatch>> {
        let new = self.new.rows(&group.rows)?;
        if let Some(new) = &new
            && group.is_whole()
            && self.patch(group, new).await?
        {
            return Ok(None);
        }
        if group.keeps_rows() {
            let mut target = self.file.new_row_group()?;
            self.read_into(group, &mut target).await?;
            self.file.end(target).await?;
        }
        Ok(new)
    }

    /// Puts new versions into a row group, if that can be done.
    async fn patch(&mut self, group: &Group, new: &RecordBatch) -> Result<bool> {
        if !self.original.patchable(group.number) {
            return Ok(false);
        }
        let positions = self.new.positions(&group.rows);
        let within = positions.map(|position| usize::try_from(position - group.rows.start).unwrap_or(usize::MAX));
        let within: Vec<usize> = within.collect();
        let keys = &self.job.spec.keys;
        self.file.patch(&self.original, group.number, &within, new, keys).await
    }

    /// What is kept of a row group is encoded into no more than it was, but for what the encoders hold beside it.
    async fn read_into(&mut self, group: &Group, target: &mut NewRowGroup) -> Result<()> {
        let metadata = self.original.metadata.row_groups().get(group.number);
        let metadata = metadata.ok_or_else(|| LoadError::internal("a row group is gone"))?;
        let start = metadata.column(0).byte_range().0;
        let start = i64::try_from(start).map_err(|_| LoadError::internal("a file of eight exabytes"))?;
        let mut rows = row_group_scan(self.desc, self.task, start, self.context)?;
        let mut rest = Survivors::new(self.marks(group));
        while let Some(batch) = rows.next().await {
            if let Some(kept) = rest.of(&batch?)? {
                let kept = as_target(&kept, &self.job.data.schema)?;
                self.file.write(target, &kept)?;
                self.held.resize(target.memory().max(self.original.largest_group()));
            }
        }
        rest.done(self.job.table())
    }

    /// The marks in a row group.
    fn marks(&self, group: &Group) -> RoaringTreemap {
        let mut marks = self.marked.clone();
        marks.remove_range(..group.rows.start);
        marks.remove_range(group.rows.end..);
        marks
    }

    /// Ends with a row group of rows that have no place.
    async fn append(&mut self, tail: Option<NewRowGroup>, rows: &[RecordBatch]) -> Result<()> {
        let mut target = match tail {
            Some(tail) => tail,
            None if rows.is_empty() => return Ok(()),
            None => self.file.new_row_group()?,
        };
        for batch in rows {
            self.file.write(&mut target, batch)?;
        }
        self.file.end(target).await
    }
}
