//! The gate through which the source enters a load: counts its rows, checks columns, gives every row its place in
//! the source's order.
//!
//! ```text
//! SourceGateExec: checks=[id is not null], ordinal=true     same partitions, same order
//!   ProjectionExec: casts, checks' columns
//! ```
//!
//! A check that fails is reported at the end of the input, with the number of offending rows and the first of them.

mod exec;
#[cfg(test)]
mod tests;

use alluvium_core::SqlState;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;

use crate::columns;
use crate::node::{RowNode, RowSpec};

pub use exec::SourceGateExec;

/// The logical node of the gate.
pub type SourceGateNode = RowNode<GateSpec>;

/// What the gate does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GateSpec {
    /// The target table, as the statement names it.
    pub table: String,
    /// The columns that make a sample row recognisable in messages.
    pub key_columns: Vec<String>,
    /// The checks, in the order in which they are reported.
    pub checks: Vec<RowCheck>,
    /// Whether to append [`columns::ORDINAL`].
    pub ordinal: bool,
    /// Whether the rows are not the source's own, so that they are checked but not counted as such.
    pub checks_only: bool,
}

/// One condition on every row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowCheck {
    /// The column that is looked at.
    pub column: String,
    /// The condition.
    pub rule: Rule,
    /// A Boolean column that is TRUE where the check does not apply.
    pub exempt: Option<String>,
}

/// The condition of a [`RowCheck`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The column is not NULL.
    NotNull {
        /// What the column is, with its name as the user knows it: `key column "id"`.
        subject: String,
        /// What to do about it.
        hint: String,
    },
    /// The Boolean column is TRUE; NULL is a violation.
    IsTrue {
        /// The code of the error.
        state: SqlState,
        /// The primary line of the error.
        message: String,
        /// What to do about it.
        hint: String,
    },
}

impl RowCheck {
    /// A key column is not NULL.
    pub fn key(column: impl Into<String>) -> Self {
        let column = column.into();
        let rule = Rule::NotNull {
            subject: format!("key column \"{column}\""),
            hint: "Filter such rows out, or write NULLS NOT DISTINCT or NULLS DISTINCT after the keys.".into(),
        };
        Self {
            column,
            rule,
            exempt: None,
        }
    }

    /// A part of SEQUENCE BY, written `text`, is not NULL.
    pub fn sequence(column: impl Into<String>, text: &str) -> Self {
        let rule = Rule::NotNull {
            subject: format!("sequence expression \"{text}\""),
            hint: "Filter such rows out, or give them a value with coalesce().".into(),
        };
        Self {
            column: column.into(),
            rule,
            exempt: None,
        }
    }

    /// A Boolean column is TRUE.
    pub fn is_true(
        column: impl Into<String>,
        state: SqlState,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let rule = Rule::IsTrue {
            state,
            message: message.into(),
            hint: hint.into(),
        };
        Self {
            column: column.into(),
            rule,
            exempt: None,
        }
    }

    /// Leaves out rows for which the Boolean `column` is TRUE.
    pub fn unless(mut self, column: impl Into<String>) -> Self {
        self.exempt = Some(column.into());
        self
    }
}

/// Keeps the optimizer from dealing the source's rows to partitions in another order than the source's, which it does
/// to the batches of a table in memory. For plans whose gate numbers the rows.
pub fn keep_source_order(options: &mut ConfigOptions) {
    options.optimizer.enable_round_robin_repartition = false;
    options.optimizer.repartition_file_scans = false;
}

impl RowSpec for GateSpec {
    const NAME: &'static str = "SourceGate";
    const EXEC_NAME: &'static str = "SourceGateExec";

    fn columns(&self) -> Vec<&str> {
        let checked = self.checks.iter().flat_map(|c| {
            let exempt = c.exempt.as_deref();
            std::iter::once(c.column.as_str()).chain(exempt)
        });
        self.key_columns.iter().map(String::as_str).chain(checked).collect()
    }

    fn appended(&self) -> Vec<Field> {
        match self.ordinal {
            true => vec![Field::new(columns::ORDINAL, DataType::UInt64, false)],
            false => Vec::new(),
        }
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        let mut arguments = Vec::new();
        if !self.checks.is_empty() {
            let checks: Vec<String> = self.checks.iter().map(shown).collect();
            arguments.push(("checks", crate::node::list(&checks)));
        }
        if self.ordinal {
            arguments.push(("ordinal", "true".into()));
        }
        arguments
    }
}

fn shown(check: &RowCheck) -> String {
    let condition = match &check.rule {
        Rule::NotNull { .. } => "is not null",
        Rule::IsTrue { .. } => "is true",
    };
    match &check.exempt {
        Some(exempt) => format!("{} {condition} unless {exempt}", check.column),
        None => format!("{} {condition}", check.column),
    }
}
