//! One extra row per distinct key of the source, so that a join deletes by the whole source and each row is still
//! inserted once.
//!
//! ```text
//! HashJoinExec: Left, on keys, filter __probe = 1      probe rows find the target's rows, other rows find nothing
//!   KeyGroupsExec: keys=[id], probe=1                   rows pass; the first row of each key comes a second time
//!     RepartitionExec: Hash([id])
//! ```
//!
//! Ordinary rows have 0 in [`columns::PROBE`], probe rows the number of their key set, from 1. Only the columns of that
//! key set mean anything in a probe row. With several key sets one operator follows another, each over its own
//! partitioning. Distinct keys are held in memory, and running out of it is an error; with `sorted` the input is asked
//! for in key order instead.

mod exec;
#[cfg(test)]
mod tests;

use alluvium_core::LoadError;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::columns;
use crate::node::{RowNode, RowSpec, list};

pub use exec::KeyGroupsExec;

/// The logical node that adds probe rows.
pub type KeyGroupsNode = RowNode<KeyGroupsSpec>;

/// Which probe rows are added.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyGroupsSpec {
    /// The key set.
    pub set: KeySet,
    /// Its number, from 1, as it appears in [`columns::PROBE`]. The operator of the first set adds the column.
    pub number: u8,
    /// Whether to compare neighbours of a sorted input, instead of holding the keys in memory.
    pub sorted: bool,
}

/// One list of key columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeySet {
    /// The columns.
    pub keys: Vec<String>,
    /// Whether NULL equals NULL. If not, rows with a NULL in the key have no probe row.
    pub nulls_equal: bool,
}

/// Probe rows for every set of `sets`, numbered from 1.
pub fn key_groups(input: LogicalPlan, sets: Vec<KeySet>, sorted: bool) -> Result<LogicalPlan> {
    if sets.len() > usize::from(u8::MAX) {
        return Err(LoadError::unsupported("more than 255 key sets").into());
    }
    (1..=u8::MAX).zip(sets).try_fold(input, |plan, (number, set)| {
        Ok(KeyGroupsNode::try_new(plan, KeyGroupsSpec { set, number, sorted })?.into_plan())
    })
}

impl RowSpec for KeyGroupsSpec {
    const NAME: &'static str = "KeyGroups";
    const EXEC_NAME: &'static str = "KeyGroupsExec";

    fn columns(&self) -> Vec<&str> {
        let probe = (self.number > 1).then_some(columns::PROBE);
        self.set.keys.iter().map(String::as_str).chain(probe).collect()
    }

    fn appended(&self) -> Vec<Field> {
        match self.number {
            1 => vec![Field::new(columns::PROBE, DataType::UInt8, false)],
            _ => Vec::new(),
        }
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        let mut arguments = vec![("keys", list(&self.set.keys)), ("probe", self.number.to_string())];
        if !self.set.nulls_equal {
            arguments.push(("nulls", "distinct".into()));
        }
        if self.sorted {
            arguments.push(("sorted", "true".into()));
        }
        arguments
    }
}
