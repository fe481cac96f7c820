//! Replacing rows: source rows that come in beside stored rows that go, as one change stream.
//!
//! ```text
//! Projection: source columns, target columns, position, code
//!   Union
//!     source rows   (target columns NULL)
//!     stored rows   (source columns NULL, code DELETE)
//! ```

use alluvium_core::Result;
use alluvium_exec::{action, columns as internal};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::columns::Columns;
use super::control::source_column;
use super::expr::{bare, case, col, null_of};
use super::finish::Changes;
use super::source::SourceRows;
use super::target::TargetTable;

/// The action code of a row, decided in its branch.
const CODE: &str = "__load_code";

/// The two sides of a replacement.
pub(crate) struct Replacement<'a> {
    /// The source.
    pub source: &'a SourceRows,
    /// The target.
    pub table: &'a TargetTable,
    /// The columns.
    pub columns: &'a Columns,
}

impl Replacement<'_> {
    /// Source rows with their action code and stored rows to delete, as one plan.
    pub fn union(&self, incoming: LogicalPlan, code: Expr, outgoing: LogicalPlan) -> Result<LogicalPlan> {
        let incoming = self.incoming(incoming, code)?;
        let outgoing = self.outgoing(outgoing)?;
        let union = LogicalPlanBuilder::from(incoming).union(outgoing)?.build()?;
        Ok(LogicalPlanBuilder::from(union).project(self.qualified())?.build()?)
    }

    /// What happens to the rows of [`Replacement::union`].
    pub fn changes(&self) -> Result<Changes> {
        let mut values = Vec::new();
        let mut shown = Vec::new();
        let mut old = Vec::new();
        for field in self.columns.schema.fields() {
            let value = match self.columns.lands(field.name()) {
                true => source_column(self.source, field.name()),
                false => null_of(field.data_type())?,
            };
            let stored = col(&self.table.alias, field.name());
            let deleted = bare(CODE).eq(lit(action::DELETE));
            shown.push(case(vec![(deleted, stored.clone())], value.clone())?);
            values.push(value);
            old.push(stored);
        }
        Ok(Changes {
            values,
            shown: Some(shown),
            action: bare(CODE),
            position: (
                col(&self.table.alias, internal::FILE),
                col(&self.table.alias, internal::ROW),
            ),
            old,
        })
    }

    fn source_names(&self) -> Vec<(String, DataType)> {
        let schema = self.source.plan.schema();
        let typed = |f: &datafusion::arrow::datatypes::FieldRef| {
            let cast = self.columns.target_type(f.name()).cloned();
            (f.name().clone(), cast.unwrap_or_else(|| f.data_type().clone()))
        };
        schema.fields().iter().map(typed).collect()
    }

    fn target_names(&self) -> Vec<(String, DataType)> {
        let table = self
            .columns
            .schema
            .fields()
            .iter()
            .map(|f| (f.name().clone(), f.data_type().clone()));
        let position = [(internal::FILE, DataType::UInt32), (internal::ROW, DataType::Int64)];
        table
            .chain(position.map(|(name, data_type)| (name.to_owned(), data_type)))
            .collect()
    }

    fn incoming(&self, plan: LogicalPlan, code: Expr) -> Result<LogicalPlan> {
        let source = self.source_names().into_iter().enumerate();
        let mut exprs: Vec<Expr> = source
            .map(|(i, (name, _))| col(&self.source.alias, &name).alias(source_helper(i)))
            .collect();
        for (i, (_, data_type)) in self.target_names().iter().enumerate() {
            exprs.push(null_of(data_type)?.alias(target_helper(i)));
        }
        exprs.push(code.alias(CODE));
        Ok(LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
    }

    fn outgoing(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let mut exprs = Vec::new();
        for (i, (_, data_type)) in self.source_names().iter().enumerate() {
            exprs.push(null_of(data_type)?.alias(source_helper(i)));
        }
        let target = self.target_names().into_iter().enumerate();
        exprs.extend(target.map(|(i, (name, _))| col(&self.table.alias, &name).alias(target_helper(i))));
        exprs.push(lit(action::DELETE).alias(CODE));
        Ok(LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
    }

    /// The names back under their relations: a union keeps none.
    fn qualified(&self) -> Vec<Expr> {
        let source = self.source_names().into_iter().enumerate();
        let source =
            source.map(|(i, (name, _))| bare(&source_helper(i)).alias_qualified(Some(self.source.alias.clone()), name));
        let target = self.target_names().into_iter().enumerate();
        let target =
            target.map(|(i, (name, _))| bare(&target_helper(i)).alias_qualified(Some(self.table.alias.clone()), name));
        source.chain(target).chain([bare(CODE)]).collect()
    }
}

fn source_helper(i: usize) -> String {
    format!("__load_s_{i}")
}

fn target_helper(i: usize) -> String {
    format!("__load_t_{i}")
}
