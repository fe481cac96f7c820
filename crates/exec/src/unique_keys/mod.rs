//! Duplicate keys in the source, found while its rows pass through.
//!
//! ```text
//! UniqueKeysExec: keys=[id]                         rows pass unchanged
//!   RepartitionExec: Hash([id])                     all rows of a key meet in one partition
//! ```
//!
//! By hash, the distinct keys are held in memory, and running out of memory is an error. With `sorted` the input is
//! asked for in key order instead, and neighbours are compared: the sort below spills. Duplicates are reported at the
//! end of the input, so that their counts are right.

mod exec;
#[cfg(test)]
mod tests;

use datafusion::sql::sqlparser::tokenizer::Span;

use crate::node::{RowNode, RowSpec, list};

pub use exec::UniqueKeysExec;

/// The logical node of the duplicate check.
pub type UniqueKeysNode = RowNode<UniqueKeysSpec>;

/// What the duplicate check looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UniqueKeysSpec {
    /// The target table, as the statement names it.
    pub table: String,
    /// The key columns.
    pub keys: Vec<String>,
    /// Whether NULL equals NULL. If not, rows with a NULL in the key are never duplicates.
    pub nulls_equal: bool,
    /// Whether to compare neighbours of a sorted input, instead of holding the keys in memory.
    pub sorted: bool,
    /// A Boolean column that is TRUE for rows that are not looked at.
    pub exempt: Option<String>,
    /// What to do about duplicates; a default that names SEQUENCE BY and DEDUPLICATE BY if empty.
    pub hint: String,
    /// Where the statement's text names the key.
    pub span: Option<Span>,
}

impl UniqueKeysSpec {
    /// The check of `keys` by hash, NULL keys being equal.
    pub fn new(table: impl Into<String>, keys: Vec<String>) -> Self {
        Self {
            table: table.into(),
            keys,
            nulls_equal: true,
            sorted: false,
            exempt: None,
            hint: String::new(),
            span: None,
        }
    }
}

impl RowSpec for UniqueKeysSpec {
    const NAME: &'static str = "UniqueKeys";
    const EXEC_NAME: &'static str = "UniqueKeysExec";

    fn columns(&self) -> Vec<&str> {
        let exempt = self.exempt.iter();
        self.keys.iter().chain(exempt).map(String::as_str).collect()
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        let mut arguments = vec![("keys", list(&self.keys))];
        if !self.nulls_equal {
            arguments.push(("nulls", "distinct".into()));
        }
        if self.sorted {
            arguments.push(("sorted", "true".into()));
        }
        if let Some(exempt) = &self.exempt {
            arguments.push(("unless", exempt.clone()));
        }
        arguments
    }
}
