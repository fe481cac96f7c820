//! What the readers of one partition share while a plan runs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use alluvium_core::LoadError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use tokio::sync::Notify;

use super::buffer::{Buffer, Held};

/// The running executions of one spool. One runs from its first reader's start until its last reader has joined; from
/// then on only the readers hold it.
#[derive(Debug, Default)]
pub(super) struct Executions {
    open: Mutex<Vec<Open>>,
    /// The copy of the source that moves in each execution: one for all partitions, because those of a file scan share
    /// their work, and partitions of two copies would read everything twice.
    moving: Mutex<Vec<Moving>>,
}

/// An execution, and the copy of the source that moves in it.
type Moving = (Weak<TaskContext>, Arc<dyn ExecutionPlan>);

#[derive(Debug)]
struct Open {
    context: Weak<TaskContext>,
    partition: usize,
    partitions: usize,
    joined: BTreeSet<usize>,
    state: Arc<Partition>,
}

impl Executions {
    /// The copy that moves in the execution of `context`: the first that is offered.
    pub(super) fn moving(
        &self,
        context: &Arc<TaskContext>,
        offered: &Arc<dyn ExecutionPlan>,
    ) -> Arc<dyn ExecutionPlan> {
        let mut moving = lock(&self.moving);
        moving.retain(|(context, _)| context.strong_count() > 0);
        let mine = moving.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(context));
        if let Some((_, plan)) = mine {
            return Arc::clone(plan);
        }
        moving.push((Arc::downgrade(context), Arc::clone(offered)));
        Arc::clone(offered)
    }

    /// The state that the reader shares with the others, made by `start` if it is the first of this execution. A
    /// reader that comes a second time starts a new execution.
    pub(super) fn join(
        &self,
        context: &Arc<TaskContext>,
        seat: Seat,
        start: impl FnOnce() -> Result<Partition>,
    ) -> Result<Arc<Partition>> {
        let mut open = lock(&self.open);
        // The weak pointer keeps the address from being used again.
        open.retain(|o| o.context.strong_count() > 0);
        let same = |o: &Open| {
            o.context.as_ptr() == Arc::as_ptr(context)
                && o.partition == seat.partition
                && !o.joined.contains(&seat.reader)
        };
        let at = match open.iter().position(same) {
            Some(at) => at,
            None => {
                open.push(Open {
                    context: Arc::downgrade(context),
                    partition: seat.partition,
                    partitions: seat.partitions,
                    joined: BTreeSet::new(),
                    state: Arc::new(start()?),
                });
                open.len() - 1
            }
        };
        if open[at].partitions != seat.partitions {
            return Err(LoadError::internal("the readers of a spool have different partitions").into());
        }
        open[at].joined.insert(seat.reader);
        match open[at].joined.len() == seat.readers {
            true => Ok(open.swap_remove(at).state),
            false => Ok(Arc::clone(&open[at].state)),
        }
    }
}

/// Which reader of how many, and which partition of how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) reader: usize,
    pub(super) readers: usize,
    pub(super) partition: usize,
    pub(super) partitions: usize,
}

/// One partition of the source in one execution.
pub(super) struct Partition {
    inner: Arc<Inner>,
    source: Mutex<Source>,
}

struct Inner {
    state: Mutex<State>,
    /// The source has moved.
    moved: Notify,
    /// A reader wants more, or has gone.
    asked: Notify,
}

struct State {
    buffer: Buffer,
    end: Option<Result<(), Arc<DataFusionError>>>,
}

/// The source moves in a task of its own: a reader that is not polled any more must not hold up the others.
enum Source {
    Waiting(Option<SendableRecordBatchStream>),
    Running(#[expect(dead_code, reason = "dropping it stops the source")] SpawnedTask<()>),
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition {{ {:?} }}", lock(&self.inner.state).buffer)
    }
}

impl Partition {
    pub(super) fn new(source: SendableRecordBatchStream, buffer: Buffer) -> Self {
        let inner = Inner {
            state: Mutex::new(State { buffer, end: None }),
            moved: Notify::new(),
            asked: Notify::new(),
        };
        Self {
            inner: Arc::new(inner),
            source: Mutex::new(Source::Waiting(Some(source))),
        }
    }

    /// The next batch of `reader`, `None` after the last.
    pub(super) async fn next(&self, reader: usize) -> Result<Option<Held>> {
        self.start();
        loop {
            let moved = self.inner.moved.notified();
            {
                let mut state = lock(&self.inner.state);
                if let Some(held) = state.buffer.next(reader) {
                    return Ok(Some(held));
                }
                match &state.end {
                    Some(Ok(())) => return Ok(None),
                    Some(Err(e)) => return Err(DataFusionError::Shared(Arc::clone(e))),
                    None => {}
                }
            }
            self.inner.asked.notify_one();
            moved.await;
        }
    }

    /// `reader` will not ask again.
    pub(super) fn leave(&self, reader: usize) {
        lock(&self.inner.state).buffer.leave(reader);
        self.inner.asked.notify_one();
    }

    fn start(&self) {
        let mut source = lock(&self.source);
        if let Source::Waiting(stream) = &mut *source
            && let Some(stream) = stream.take()
        {
            *source = Source::Running(SpawnedTask::spawn(drive(stream, Arc::clone(&self.inner))));
        }
    }
}

/// Moves the source whenever a reader has nothing left to read.
async fn drive(mut source: SendableRecordBatchStream, inner: Arc<Inner>) {
    while inner.wanted().await {
        let next = source.next().await;
        let mut state = lock(&inner.state);
        let pushed = match next {
            Some(Ok(batch)) if batch.num_rows() == 0 => Ok(()),
            Some(Ok(batch)) => state.buffer.push(batch),
            Some(Err(e)) => Err(e),
            None => {
                state.end = Some(Ok(()));
                Ok(())
            }
        };
        if let Err(e) = pushed {
            state.end = Some(Err(Arc::new(e)));
        }
        let ended = state.end.is_some();
        drop(state);
        inner.moved.notify_waiters();
        if ended {
            return;
        }
    }
}

impl Inner {
    /// Waits until a batch is wanted; false if no reader is left.
    async fn wanted(&self) -> bool {
        loop {
            let asked = self.asked.notified();
            {
                let state = lock(&self.state);
                if state.buffer.abandoned() {
                    return false;
                }
                if state.buffer.wants_more() {
                    return true;
                }
            }
            asked.await;
        }
    }
}

/// A panic elsewhere leaves nothing half done that would matter here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
