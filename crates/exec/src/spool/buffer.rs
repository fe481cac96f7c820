//! The batches of one partition between the source and its readers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;

/// Where one batch is.
#[derive(Clone)]
pub(super) enum Held {
    /// In memory.
    Memory(RecordBatch),
    /// The batch at `index` of a spilled run.
    Spilled { file: Arc<dyn SpillFile>, index: usize },
}

/// Batches that some reader has yet to read, the oldest first.
pub(super) struct Buffer {
    held: VecDeque<Held>,
    /// How many batches have been let go before those in `held`.
    dropped: usize,
    /// What each reader reads next; `None` once it has read all or gone away.
    positions: Vec<Option<usize>>,
    /// How many batches some reader has asked for.
    wanted: usize,
    memory: MemoryReservation,
    spill: SpillManager,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer {{ {} of {} batches }}", self.held.len(), self.len())
    }
}

impl Buffer {
    pub(super) fn new(readers: usize, memory: MemoryReservation, spill: SpillManager) -> Self {
        Self {
            held: VecDeque::new(),
            dropped: 0,
            positions: vec![Some(0); readers],
            wanted: 0,
            memory,
            spill,
        }
    }

    /// How many batches have come from the source.
    pub(super) fn len(&self) -> usize {
        self.dropped + self.held.len()
    }

    /// Whether a reader waits for a batch that has not come.
    pub(super) fn wants_more(&self) -> bool {
        self.wanted > self.len()
    }

    /// The next batch of `reader`. If it has not come yet, it is asked for.
    pub(super) fn next(&mut self, reader: usize) -> Option<Held> {
        let position = self.positions.get_mut(reader)?;
        let at = (*position)?;
        let Some(held) = self.held.get(at.checked_sub(self.dropped)?).cloned() else {
            self.wanted = self.wanted.max(at + 1);
            return None;
        };
        *position = Some(at + 1);
        self.release();
        Some(held)
    }

    /// `reader` needs nothing any more.
    pub(super) fn leave(&mut self, reader: usize) {
        if let Some(position) = self.positions.get_mut(reader) {
            *position = None;
        }
        self.release();
    }

    /// Whether no reader is left.
    pub(super) fn abandoned(&self) -> bool {
        self.positions.iter().all(Option::is_none)
    }

    /// Takes a batch from the source. What the pool has no room for goes to disk, together with all that is in memory.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let size = get_record_batch_memory_size(&batch);
        let fits = self.memory.try_grow(size).is_ok();
        self.held.push_back(Held::Memory(batch));
        match fits {
            true => Ok(()),
            false => self.spill(),
        }
    }

    fn spill(&mut self) -> Result<()> {
        let mut batches = Vec::new();
        for held in &self.held {
            if let Held::Memory(batch) = held {
                batches.push(batch.clone());
            }
        }
        let Some(file) = self.spill.spill_record_batch_and_finish(&batches, "Spool")? else {
            return Ok(());
        };
        let in_memory = self.held.iter_mut().filter(|held| matches!(held, Held::Memory(_)));
        for (index, held) in in_memory.enumerate() {
            *held = Held::Spilled {
                file: Arc::clone(&file),
                index,
            };
        }
        self.memory.free();
        Ok(())
    }

    /// Lets go of what every reader has read.
    fn release(&mut self) {
        let Some(oldest) = self.positions.iter().flatten().min().copied() else {
            self.dropped += self.held.len();
            self.held.clear();
            self.memory.free();
            return;
        };
        while self.dropped < oldest {
            if let Some(Held::Memory(batch)) = self.held.pop_front() {
                self.memory.shrink(get_record_batch_memory_size(&batch));
            }
            self.dropped += 1;
        }
    }
}
