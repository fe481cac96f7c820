//! One source read by several branches of one plan, executed once.
//!
//! ```text
//! UnionExec
//!   ..  SpoolExec: reader=0/2        whichever branch asks first makes the source move
//!         <source>
//!   ..  SpoolExec: reader=1/2        reads what the spool holds; its own copy of the source never runs
//!         <source>
//! ```
//!
//! Every reader carries the source as its input, because either of them may be drained before the other starts (the
//! build side of a hash join). The copies are planned alike, nothing is pushed through a spool, and one of them moves
//! for all. Batches are held until
//! every reader has had them, in memory while the pool allows it, on disk otherwise. Readers of one execution (one
//! `TaskContext`) share its state; running the plan again starts afresh. State is of this process: on a distributed
//! engine the branches must not be cut apart.

mod buffer;
mod exec;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alluvium_core::LoadError;
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::node::{RowNode, RowSpec};

pub use exec::SpoolExec;
use state::Executions;

/// The logical node of one reader.
pub type SpoolNode = RowNode<SpoolSpec>;

/// What several branches of a plan read together.
#[derive(Debug, Clone)]
pub struct Spool {
    shared: Arc<Shared>,
}

/// One reader of a [`Spool`].
#[derive(Debug, Clone)]
pub struct SpoolSpec {
    shared: Arc<Shared>,
    reader: usize,
}

#[derive(Debug)]
struct Shared {
    id: u64,
    readers: usize,
    executions: Executions,
}

impl Spool {
    /// A spool for exactly `readers` readers.
    pub fn new(readers: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = Shared {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            readers,
            executions: Executions::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Reader number `reader`, from 0, over `input`, which must be the same plan for every reader.
    pub fn reader(&self, input: LogicalPlan, reader: usize) -> Result<LogicalPlan> {
        if reader >= self.shared.readers {
            return Err(
                LoadError::internal(format!("a spool of {} readers has no {reader}", self.shared.readers)).into(),
            );
        }
        let spec = SpoolSpec {
            shared: Arc::clone(&self.shared),
            reader,
        };
        Ok(SpoolNode::try_new(input, spec)?.into_plan())
    }
}

impl PartialEq for SpoolSpec {
    fn eq(&self, other: &Self) -> bool {
        self.shared.id == other.shared.id && self.reader == other.reader
    }
}

impl Eq for SpoolSpec {}

impl Hash for SpoolSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shared.id.hash(state);
        self.reader.hash(state);
    }
}

impl fmt::Display for SpoolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.reader, self.shared.readers)
    }
}

impl RowSpec for SpoolSpec {
    const NAME: &'static str = "Spool";
    const EXEC_NAME: &'static str = "SpoolExec";

    fn columns(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The copies of the source have to stay alike.
    fn prunable(&self) -> bool {
        false
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        vec![("reader", self.to_string())]
    }
}
