//! Rows within bounds that only another input knows: the times of the source's rows, say, for the versions that can
//! matter to them.
//!
//! ```text
//! BoundedExec: end@3 IS NULL OR end@3 >= low@0      partitions and order of the rows
//!   <bounds: one row>
//!   <rows>
//! ```
//!
//! The condition is over the columns of both inputs. The row of bounds is read before the first of the rows, and the
//! condition, with the bounds put in as literals, becomes a dynamic filter: a scan below leaves out the files and row
//! groups that cannot hold such rows. A join with a filter would read them all.

mod exec;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

pub use exec::BoundedExec;

/// The rows of one input for which a condition holds, over their columns and the only row of another input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundedNode {
    bounds: LogicalPlan,
    rows: LogicalPlan,
    condition: Expr,
}

impl BoundedNode {
    /// Keeps the rows of `rows` for which `condition` is true. `bounds` must deliver exactly one row.
    pub fn new(bounds: LogicalPlan, rows: LogicalPlan, condition: Expr) -> Self {
        Self {
            bounds,
            rows,
            condition,
        }
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(crate) fn condition(&self) -> &Expr {
        &self.condition
    }

    /// The columns that the condition is over.
    pub(crate) fn joined_schema(&self) -> Result<DFSchema> {
        self.bounds.schema().join(self.rows.schema())
    }
}

impl PartialOrd for BoundedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.rows.partial_cmp(&other.rows) {
            Some(Ordering::Equal) if self != other => None,
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for BoundedNode {
    fn name(&self) -> &str {
        "Bounded"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.bounds, &self.rows]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.rows.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.condition.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Bounded: {}", self.condition)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let parts: ([Expr; 1], [LogicalPlan; 2]) = match (exprs.try_into(), inputs.try_into()) {
            (Ok(condition), Ok(inputs)) => (condition, inputs),
            _ => return Err(LoadError::internal("Bounded takes one condition and two inputs").into()),
        };
        let ([condition], [bounds, rows]) = parts;
        Ok(Self::new(bounds, rows, condition))
    }

    /// All bounds; of the rows what the parent needs and what the condition reads.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let rows = self.rows.schema();
        let read = self.condition.column_refs();
        let read = read.into_iter().filter_map(|c| rows.maybe_index_of_column(c));
        let needed: BTreeSet<usize> = output_columns.iter().copied().chain(read).collect();
        let bounds = (0..self.bounds.schema().fields().len()).collect();
        Some(vec![bounds, needed.into_iter().collect()])
    }
}
