//! Collecting the rows of each key, and handing whole histories to the arithmetic.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_expr::LexRequirement;

use super::chunk::{Comparison, Comparisons, Line, Lines};
use super::fold::{Event, Folded, Policy, Refusal, Stored, fits_beside, fold, retire};
use super::output::{Output, Roles};
use super::refused::{Refused, outside, unreadable};
use super::{IntervalsSpec, LatePolicy};
use crate::action;
use crate::keys::{by_key, key_order, nulls};
use crate::node::RowSpec;
use crate::row_exec::{Requirements, RowExec, RowOperator, RowStep, StepContext};

/// The physical node.
pub type IntervalsExec = RowExec<IntervalsSpec>;

impl RowOperator for IntervalsSpec {
    fn passes_through(&self) -> bool {
        false
    }

    fn requirements(&self, schema: &Schema, config: &Arc<ConfigOptions>) -> Result<Requirements> {
        Ok(Requirements {
            distribution: by_key(schema, &self.keys, Self::NAME, config)?,
            ordering: LexRequirement::new(key_order(schema, &self.keys, Self::NAME, config)?),
        })
    }

    fn start(&self, context: StepContext<'_>) -> Result<Box<dyn RowStep>> {
        let schema = &context.input_schema;
        Ok(Box::new(Histories {
            keys: Comparison::try_new(schema, &self.keys)?,
            comparisons: Comparisons::try_new(schema, self)?,
            roles: Roles::of(self, schema),
            pending: Vec::new(),
            last: None,
            refused: Refused::default(),
            memory: Room::new(context.partition, context.pool),
            spec: self.clone(),
            input_schema: Arc::clone(schema),
            schema: context.schema,
        }))
    }
}

struct Histories {
    spec: IntervalsSpec,
    keys: Comparison,
    comparisons: Comparisons,
    roles: Roles,
    /// The rows so far of the last key.
    pending: Vec<RecordBatch>,
    /// That key; `None` if no other row can have it.
    last: Option<Vec<u8>>,
    refused: Refused,
    memory: Room,
    input_schema: SchemaRef,
    schema: SchemaRef,
}

/// Memory for some batches is taken before anything runs: the sort below takes all that it can get, and gives none back
/// while its rows are read.
struct Room {
    reservation: MemoryReservation,
    kept: usize,
    used: usize,
}

/// What is kept for the usual batches, if there is so much.
const KEPT: usize = 8 << 20;

impl Room {
    fn new(partition: usize, pool: &Arc<dyn MemoryPool>) -> Self {
        let reservation = MemoryConsumer::new(format!("Intervals[{partition}]")).register(pool);
        let kept = if reservation.try_grow(KEPT).is_ok() { KEPT } else { 0 };
        Self {
            reservation,
            kept,
            used: 0,
        }
    }

    fn claim(&mut self, bytes: usize) -> Result<()> {
        let wanted = self.used.saturating_add(bytes);
        if wanted > self.reservation.size() {
            self.reservation.try_resize(wanted)?;
        }
        self.used = wanted;
        Ok(())
    }

    /// Nothing is used any more.
    fn release(&mut self) {
        self.used = 0;
        self.reservation.resize(self.kept);
    }
}

impl RowStep for Histories {
    fn push(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let mut starts = self.starts(&batch)?;
        let Some(last) = starts.last().copied() else {
            self.hold(batch)?;
            return Ok(());
        };
        // The rows before the last key are complete with what is pending.
        let before: usize = self.pending.iter().map(RecordBatch::num_rows).sum();
        let mut parts = std::mem::take(&mut self.pending);
        parts.push(batch.slice(0, last));
        starts.pop();
        let mut all: Vec<usize> = starts.into_iter().map(|start| start + before).collect();
        if before > 0 {
            all.insert(0, 0);
        }
        self.work(&parts, &all, out)?;
        self.memory.release();
        self.hold(batch.slice(last, batch.num_rows() - last))
    }

    fn finish(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let parts = std::mem::take(&mut self.pending);
        self.work(&parts, &[0], out)?;
        match std::mem::take(&mut self.refused).into_error(&self.spec.table) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Histories {
    fn hold(&mut self, batch: RecordBatch) -> Result<()> {
        self.memory.claim(batch.get_array_memory_size())?;
        self.pending.push(batch);
        Ok(())
    }

    /// Where keys begin.
    fn starts(&mut self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let arrays = self.keys.arrays(batch)?;
        let alone = match self.spec.nulls_equal {
            true => None,
            false => nulls(&arrays),
        };
        let rows = self.keys.rows(batch)?;
        let is_alone = |row: usize| alone.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let first = match &self.last {
            Some(last) => is_alone(0) || last.as_slice() != rows.bytes(0),
            None => true,
        };
        let begins = |row: &usize| match *row {
            0 => first,
            row => is_alone(row) || !rows.eq(row - 1, row),
        };
        let starts = (0..batch.num_rows()).filter(begins).collect();
        let end = batch.num_rows() - 1;
        self.last = (!is_alone(end)).then(|| rows.bytes(end).to_vec());
        Ok(starts)
    }

    /// Computes the complete histories that begin at `starts` of the concatenated parts.
    fn work(&mut self, parts: &[RecordBatch], starts: &[usize], out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let rows: usize = parts.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 || self.refused.is_full() {
            return Ok(());
        }
        let chunk = concat_batches(&self.input_schema, parts)?;
        self.memory.claim(chunk.get_array_memory_size())?;
        let lines = Lines::try_new(&chunk, &self.spec)?;
        let contents = self.comparisons.rows(&chunk)?;
        let policy = self.policy(lines.boundary()?);
        let mut output = Output::default();
        let ends = starts.iter().copied().skip(1).chain([rows]);
        for (start, end) in starts.iter().copied().zip(ends) {
            let Some((history, folded)) = self.history(&chunk, start..end, &lines, &policy, &contents)? else {
                continue;
            };
            for version in folded.versions.iter().filter(|v| v.changed(&contents)) {
                output.version(version, lines.null_flag(version.stored));
            }
            folded
                .unchanged
                .iter()
                .for_each(|row| output.counted(*row, action::UNCHANGED));
            folded
                .skipped
                .iter()
                .chain(&history.losers)
                .for_each(|row| output.counted(*row, action::SKIPPED));
        }
        // After a refusal no more rows pass: the load fails, and an error further down must not hide this one.
        if self.refused.is_empty() {
            out.extend(output.build(&chunk, &self.roles, &self.schema)?);
        }
        Ok(())
    }

    /// Folds the history of one key; `None` if it was refused.
    fn history(
        &mut self,
        chunk: &RecordBatch,
        rows: std::ops::Range<usize>,
        lines: &Lines,
        policy: &Policy,
        contents: &dyn super::fold::Contents,
    ) -> Result<Option<(History, Folded)>> {
        let start = rows.start;
        let mut history = History::default();
        for row in rows {
            match lines.line(row) {
                Line::Stored(stored) => history.stored.push(stored),
                Line::Event(event) => history.events.push(event),
                Line::Loser => history.losers.push(row),
                Line::Outside(from, to) => history.outside.push((from.unwrap_or(i64::MIN), to)),
                Line::Unreadable(what) => {
                    let key = self.keys.shown(chunk, row)?;
                    self.refused.add_error(unreadable(what, &self.spec.table, &key));
                    return Ok(None);
                }
            }
        }
        let present = !history.events.is_empty() || !history.losers.is_empty();
        if present && !history.outside.is_empty() && history.stored.is_empty() {
            let key = self.keys.shown(chunk, start)?;
            self.refused.add_error(outside(&self.spec.table, &key));
            return Ok(None);
        }
        let stored = std::mem::take(&mut history.stored);
        let folded: Result<Folded, Refusal> = match (present, history.events.is_empty()) {
            (false, _) => retire(stored, policy),
            (true, true) => Ok(Folded::default()),
            (true, false) => fold(stored, &history.events, policy, contents),
        };
        match folded {
            Ok(folded) if present && policy.late != LatePolicy::Append && !fits_beside(&folded, &history.outside) => {
                let key = self.keys.shown(chunk, start)?;
                self.refused.add_error(outside(&self.spec.table, &key));
                Ok(None)
            }
            Ok(folded) => Ok(Some((history, folded))),
            Err(refusal) => {
                let key = self.keys.shown(chunk, start)?;
                self.refused.add(refusal, &self.spec.table, &key)?;
                Ok(None)
            }
        }
    }

    fn policy(&self, boundary: i64) -> Policy {
        let spec = &self.spec;
        Policy {
            boundary,
            by_sequence: spec.sequence > 0,
            always: spec.always,
            late: match spec.sequence {
                0 => LatePolicy::Error,
                _ => spec.late,
            },
            delete_records: spec.delete_records,
            absent: spec.absent,
            assume_unique: spec.assume_unique,
            guards: spec.guards,
        }
    }
}

/// The rows of one key.
#[derive(Default)]
struct History {
    stored: Vec<Stored>,
    events: Vec<Event>,
    losers: Vec<usize>,
    /// Start and end of stored versions out of reach.
    outside: Vec<(i64, Option<i64>)>,
}
