//! Which of several source rows with one key wins.
//!
//! ```text
//! WinnerExec: keys=[id], order=[__seq_0 DESC], mode=sequence
//!   SortExec: id, __seq_0 DESC, __ordinal           per partition, spills
//!     RepartitionExec: Hash([id])
//! ```
//!
//! The first row of each key in the given order wins. In mode `first`, source order ([`crate::columns::ORDINAL`], which
//! the input must have) breaks ties the same way at any parallelism.

mod exec;
#[cfg(test)]
mod tests;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field};

use crate::columns;
use crate::node::{RowNode, RowSpec, list};

pub use exec::WinnerExec;

/// The logical node that chooses winners.
pub type WinnerNode = RowNode<WinnerSpec>;

/// How winners are chosen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WinnerSpec {
    /// The target table, as the statement names it.
    pub table: String,
    /// The columns whose values make rows rivals. Without any, all rows are rivals.
    pub keys: Vec<String>,
    /// Whether NULL equals NULL. If not, a row with a NULL in the key has no rivals.
    pub nulls_equal: bool,
    /// Columns to order rivals by, the best first.
    pub order: Vec<(String, SortOptions)>,
    /// What happens to ties.
    pub mode: WinnerMode,
    /// Name of a Boolean column that tells winners (TRUE) from losers. Without it losers are dropped, and counted as
    /// [`crate::metrics::SKIPPED_ROWS`]; with it, counting them is up to whoever reads the flag.
    pub flag: Option<String>,
}

/// What happens to rows that tie for the first place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WinnerMode {
    /// The first in source order wins.
    First,
    /// All of them win.
    WithTies,
    /// One of them wins, and it is an error if they differ in a column of `content`.
    Sequence {
        /// The columns that have to be equal.
        content: Vec<String>,
    },
}

impl WinnerSpec {
    /// The last column of the order.
    fn tie_breaker(&self) -> Option<&'static str> {
        (self.mode == WinnerMode::First).then_some(columns::ORDINAL)
    }
}

impl RowSpec for WinnerSpec {
    const NAME: &'static str = "Winner";
    const EXEC_NAME: &'static str = "WinnerExec";

    fn columns(&self) -> Vec<&str> {
        let order = self.order.iter().map(|(name, _)| name);
        let content: &[String] = match &self.mode {
            WinnerMode::Sequence { content } => content,
            WinnerMode::First | WinnerMode::WithTies => &[],
        };
        let named = self.keys.iter().chain(order).chain(content).map(String::as_str);
        named.chain(self.tie_breaker()).collect()
    }

    fn appended(&self) -> Vec<Field> {
        let flag = self.flag.iter();
        flag.map(|name| Field::new(name, DataType::Boolean, false)).collect()
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        let mut arguments = vec![("keys", list(&self.keys))];
        if !self.nulls_equal {
            arguments.push(("nulls", "distinct".into()));
        }
        if !self.order.is_empty() {
            let order: Vec<String> = self.order.iter().map(|(name, o)| format!("{name} {o}")).collect();
            arguments.push(("order", list(&order)));
        }
        let mode = match self.mode {
            WinnerMode::First => "first",
            WinnerMode::WithTies => "ties",
            WinnerMode::Sequence { .. } => "sequence",
        };
        arguments.push(("mode", mode.into()));
        if let Some(flag) = &self.flag {
            arguments.push(("flag", flag.clone()));
        }
        arguments
    }
}
