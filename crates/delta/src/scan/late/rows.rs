//! Late columns beside the early ones, in the order of the files.

use std::collections::VecDeque;
use std::sync::Arc;

use alluvium_core::Result;
use alluvium_exec::columns;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::TryStreamExt;

use super::chunk::Scratch;
use super::groups::{Group, Groups, add_places, passing};
use super::part::{Done, Part};
use super::source::{Job, Reading, Source, lost};

/// Parts that are worked on at once: while one is unpacked, another is fetched.
const AHEAD: usize = 2;

/// All rows of a scan.
pub(super) struct Rows {
    groups: Groups,
    source: Source,
    /// What is done next.
    jobs: VecDeque<Job>,
    ended: bool,
    /// The late columns that the row group at hand has already.
    gathered: Vec<ArrayRef>,
    reading: Option<Reading>,
    ready: VecDeque<RecordBatch>,
    /// What parts that are done have left behind.
    scratch: Vec<Scratch>,
    held: MemoryReservation,
}

impl Rows {
    pub(super) fn new(groups: Groups, source: Source) -> Self {
        let held = MemoryConsumer::new("LoadDeltaScanExec late columns").register(source.context.memory_pool());
        Self {
            groups,
            source,
            jobs: VecDeque::new(),
            ended: false,
            gathered: Vec::new(),
            reading: None,
            ready: VecDeque::new(),
            scratch: Vec::new(),
            held,
        }
    }

    /// The next rows. `None`: there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if let Some(batch) = self.read().await? {
                return Ok(Some(batch));
            }
            self.look_ahead().await?;
            match self.jobs.pop_front() {
                Some(Job::Gather(part)) => self.gather(part).await?,
                Some(Job::Sift(group)) => self.sift(&group).await?,
                Some(Job::Read(group)) => self.reading = Some(self.source.read(group)?),
                None => return Ok(None),
            }
        }
    }

    /// Finds row groups until there is enough to do, and begins with what comes first. What is held of it is the
    /// least there has to be when memory is short.
    async fn look_ahead(&mut self) -> Result<()> {
        while self.jobs.len() < AHEAD && !self.ended {
            match self.groups.next().await? {
                Some(group) => self.jobs.extend(self.source.jobs(group)),
                None => self.ended = true,
            }
        }
        for (ahead, job) in self.jobs.iter_mut().take(AHEAD).enumerate() {
            let Job::Gather(part) = job else {
                continue;
            };
            if part.is_begun() {
                continue;
            }
            match ahead {
                0 => self.held.grow(part.bytes()),
                _ if self.held.try_grow(part.bytes()).is_ok() => {}
                _ => break,
            }
            let late = &self.source.late.all;
            let path = late.path(&part.group.file.task)?;
            part.begin(
                &self.source.store,
                path,
                late.output(),
                self.scratch.pop().unwrap_or_default(),
            );
            self.source.counters.bytes.add(part.bytes());
        }
        Ok(())
    }

    async fn gather(&mut self, mut part: Part) -> Result<()> {
        let Done {
            gathered,
            scratch,
            grown,
        } = part.done().await?;
        self.scratch.push(scratch);
        self.held.grow(grown);
        self.held.shrink(part.bytes());
        let group = &part.group;
        let Some(gathered) = gathered else {
            tracing::debug!(file = group.file.task.path, "late columns are read, not gathered");
            return self.give_up(group);
        };
        self.gathered.extend(gathered.arrays);
        self.source.counters.pages.add(gathered.pages);
        if group.done + self.gathered.len() == self.source.late.all.output().fields().len() {
            self.source.counters.rows.add(group.rows.len());
            let late = std::mem::take(&mut self.gathered);
            let all = self.source.batch(group, &group.early, &late)?;
            let size = self.source.context.session_config().batch_size().max(1);
            let starts = (0..all.num_rows()).step_by(size);
            self.ready
                .extend(starts.map(|from| all.slice(from, size.min(all.num_rows() - from))));
        }
        Ok(())
    }

    /// Reads a row group, part of which could not be gathered.
    fn give_up(&mut self, group: &Arc<Group>) -> Result<()> {
        self.gathered.clear();
        while let Some(Job::Gather(part)) = self.jobs.pop_front_if(|job| job.is_of(group)) {
            if part.is_begun() {
                self.held.shrink(part.bytes());
            }
        }
        self.reading = Some(self.source.read(Arc::clone(group))?);
        Ok(())
    }

    /// Reads the columns that filters need, and goes on with the rows that pass.
    async fn sift(&mut self, group: &Arc<Group>) -> Result<()> {
        let late = &self.source.late;
        let read: Vec<RecordBatch> = self.source.stream(group, &late.middle)?.try_collect().await?;
        let middle = concat_batches(late.middle.output(), &read)?;
        if middle.num_rows() != group.rows.len() {
            return Err(lost(group));
        }
        let columns = group.early.columns().iter().chain(middle.columns()).cloned().collect();
        let all = RecordBatch::try_new(Arc::clone(&late.known), columns)?;
        let early = passing(&late.filters, all)?;
        let mut rows = Vec::with_capacity(early.num_rows());
        let places = early.column(late.known.index_of(columns::ROW)?);
        add_places(places.as_primitive::<Int64Type>(), group.first, &mut rows)?;
        let group = Group {
            file: Arc::clone(&group.file),
            number: group.number,
            rows,
            early,
            done: middle.num_columns(),
            first: group.first,
        };
        let jobs = self.source.jobs(group);
        jobs.into_iter().rev().for_each(|job| self.jobs.push_front(job));
        Ok(())
    }

    /// The next rows of the row group that is being read.
    async fn read(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reading) = &mut self.reading else {
            return Ok(None);
        };
        let (group, done) = (&reading.group, reading.done);
        if let Some(late) = reading.late.try_next().await? {
            let rows = late.num_rows();
            if done + rows > group.rows.len() {
                return Err(lost(group));
            }
            let batch = self
                .source
                .batch(group, &group.early.slice(done, rows), late.columns())?;
            reading.done += rows;
            return Ok(Some(batch));
        }
        if done != group.rows.len() {
            return Err(lost(group));
        }
        self.reading = None;
        Ok(None)
    }
}
