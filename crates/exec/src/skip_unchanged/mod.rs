//! Source rows without those that say what is stored already, found out before their other columns are read.
//!
//! ```text
//! SkipUnchangedExec: tells_something(id@0, row_hash@12, ..), evaluated=scan     partitions and order of the source
//!   <source>
//!   <stored: keys, compared columns, time, open>
//! ```
//!
//! For loads that are told to trust some columns, such as a hash of the others: the open versions' keys and a fingerprint of
//! those columns are read into memory, and a source row that finds its own there is left out. Where the source is a
//! scan of Parquet files, the scan leaves such rows out itself: of an extract in which one row in fifty has
//! changed, forty-nine are never decoded beyond their key and hash.
//!
//! It is a saving and no more: every row that is let through is treated as it would have been. So rows are let through
//! whenever there is doubt, and all of them when the memory does not suffice. One case only cannot be mended that way:
//! a key that comes in several rows of which one has been left out, as then all have to be looked at. That is an error, if
//! need be at the end of the last partition, after which the statement is planned without this operator. So whoever takes the
//! rows has to take all of them.

mod exec;
mod met;
mod open;
mod place;
mod stream;
mod tells;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

pub use exec::SkipUnchangedExec;

use crate::matching::Printer;
use open::Layout;

/// A source of fewer rows than this part of the stored ones is not worth reading the keys of all of them.
const WORTH: usize = 8;

/// Whether values of a type can be compared here.
pub fn can_compare(data_type: &DataType) -> bool {
    Printer::knows(data_type)
}

/// What a source row has to agree in with an open version, as expressions over the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Agreement {
    /// The key: the first columns of the stored rows.
    pub keys: Vec<Expr>,
    /// The columns that have to be equal: the next columns of the stored rows.
    pub compared: Vec<Expr>,
    /// The time of the row, in microseconds, which must not be before that of the version: the next column, if there
    /// is one.
    pub time: Option<Expr>,
    /// Whether NULL equals NULL in keys.
    pub nulls_equal: bool,
}

/// The rows of a source but for those that an open version agrees with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkipUnchangedNode {
    source: LogicalPlan,
    /// Keys, compared columns, time, and last whether the version is open.
    stored: LogicalPlan,
    agreement: Agreement,
    /// How many rows are stored, as far as is known.
    stored_rows: Option<usize>,
}

impl SkipUnchangedNode {
    /// The rows of `source` that say something else than what is `stored`.
    pub fn new(source: LogicalPlan, stored: LogicalPlan, agreement: Agreement, stored_rows: Option<usize>) -> Self {
        Self {
            source,
            stored,
            agreement,
            stored_rows,
        }
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The operator over the inputs' plans; the source alone where little of the table can be in it.
    pub(crate) fn physical(
        &self,
        source: &Arc<dyn ExecutionPlan>,
        stored: &Arc<dyn ExecutionPlan>,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = StatisticsContext::new()
            .compute(source.as_ref(), &StatisticsArgs::new())?
            .num_rows
            .get_value()
            .copied();
        if let (Some(rows), Some(stored)) = (rows, self.stored_rows)
            && rows < stored / WORTH
        {
            return Ok(Arc::clone(source));
        }
        let schema = self.source.schema();
        let physical = |expr: &Expr| session.create_physical_expr(expr.clone(), schema);
        let exprs = self.agreement.exprs().map(physical);
        let exprs: Vec<Arc<dyn PhysicalExpr>> = exprs.collect::<Result<_>>()?;
        let layout = Layout {
            keys: self.agreement.keys.len(),
            compared: self.agreement.compared.len(),
            timed: self.agreement.time.is_some(),
            nulls_equal: self.agreement.nulls_equal,
        };
        let plan = SkipUnchangedExec::new(Arc::clone(source), Arc::clone(stored), exprs, layout)?;
        Ok(Arc::new(plan))
    }
}

impl Agreement {
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.keys.iter().chain(&self.compared).chain(&self.time)
    }

    /// The same over other expressions, in the order of [`Self::exprs`].
    fn with_exprs(&self, exprs: Vec<Expr>) -> Result<Self> {
        if exprs.len() != self.exprs().count() {
            return Err(LoadError::internal("SkipUnchanged lost an expression").into());
        }
        let mut exprs = exprs.into_iter();
        Ok(Self {
            keys: exprs.by_ref().take(self.keys.len()).collect(),
            compared: exprs.by_ref().take(self.compared.len()).collect(),
            time: exprs.next(),
            nulls_equal: self.nulls_equal,
        })
    }
}

impl PartialOrd for SkipUnchangedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.source.partial_cmp(&other.source) {
            Some(Ordering::Equal) if self != other => None,
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for SkipUnchangedNode {
    fn name(&self) -> &str {
        "SkipUnchanged"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.source, &self.stored]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.source.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.agreement.exprs().cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let shown = |exprs: &[Expr]| exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (keys, compared) = (shown(&self.agreement.keys), shown(&self.agreement.compared));
        write!(f, "SkipUnchanged: on=[{keys}], same=[{compared}]")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [source, stored]: [LogicalPlan; 2] = inputs
            .try_into()
            .map_err(|_| LoadError::internal("SkipUnchanged takes two inputs"))?;
        Ok(Self::new(
            source,
            stored,
            self.agreement.with_exprs(exprs)?,
            self.stored_rows,
        ))
    }

    /// What the parent needs and what is compared; of the stored rows everything.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let source = self.source.schema();
        let read = self.agreement.exprs().flat_map(Expr::column_refs);
        let read = read.filter_map(|column| source.maybe_index_of_column(column));
        let needed: std::collections::BTreeSet<usize> = output_columns.iter().copied().chain(read).collect();
        let stored = (0..self.stored.schema().fields().len()).collect();
        Some(vec![needed.into_iter().collect(), stored])
    }
}
