//! Source rows beside the stored rows of the same key.
//!
//! ```text
//! MatchExec: keep=pairs, on=[id = id], unique=true     partitions: as many as the plan wants
//!   <source: read wholly, held in memory>
//!   <stored rows: streamed, after a dynamic filter that knows the source's keys>
//! ```
//!
//! A left join, made for loads: the source stays in the batches it came in and is never dealt out by key, neither for
//! the join nor for finding duplicate keys, which the table of keys finds on the way. Matches leave in the order of the
//! stored rows, so in the order of their files; source rows without a match follow, an equal share from every
//! partition. A source that does not fit into memory is an error, which a plan with sorts and a merge join answers.

mod block;
mod build;
mod equal;
mod exec;
mod filter;
mod gather;
mod index;
mod keys;
mod near;
mod output;
mod parts;
mod prime;
mod prints;
mod ranked;
mod settle;
mod table;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, Result, TableReference};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

pub use exec::MatchExec;
pub(crate) use exec::MatchSpec;
pub(crate) use index::KeyTable;
pub(crate) use parts::KeyParts;
pub(crate) use prints::Printer;
pub(crate) use settle::Found;
pub use settle::{AbsentVersions, SettleSpec};

/// What a match node delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Every pair of equal keys, and every source row without one, with NULL for the stored columns.
    Pairs,
    /// Every source row once, with a column [`MARK`] that tells whether its key is stored.
    Mark,
    /// The stored versions of the source's keys and the source rows, in columns that both have, without those that the
    /// load does not change.
    Unsettled,
}

/// TRUE in source rows whose key is stored.
pub const MARK: &str = "__load_mark";

/// Source rows beside the stored rows of the same key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MatchNode {
    source: LogicalPlan,
    stored: LogicalPlan,
    /// Columns of the source, and the columns of the stored rows that they must equal.
    on: Vec<(Column, Column)>,
    keep: Keep,
    /// Whether NULL equals NULL.
    nulls_equal: bool,
    settle: Option<Arc<SettleSpec>>,
    schema: DFSchemaRef,
}

impl MatchNode {
    /// Matches `source` and `stored` where all pairs of `on` are equal. They must be of equal types, floats with one zero
    /// and one NaN.
    pub fn try_new(
        source: LogicalPlan,
        stored: LogicalPlan,
        on: Vec<(Column, Column)>,
        keep: Keep,
        nulls_equal: bool,
    ) -> Result<Self> {
        for (ours, theirs) in &on {
            let (ours, theirs) = (
                source.schema().field_from_column(ours)?,
                stored.schema().field_from_column(theirs)?,
            );
            if ours.data_type() != theirs.data_type() {
                let text = format!(
                    "keys of types {} and {} are matched",
                    ours.data_type(),
                    theirs.data_type()
                );
                return Err(LoadError::internal(text).into());
            }
        }
        let schema = output_schema(source.schema(), stored.schema(), keep)?;
        Ok(Self {
            source,
            stored,
            on,
            keep,
            nulls_equal,
            settle: None,
            schema: Arc::new(schema),
        })
    }

    /// The stored versions that can matter to the source rows, and the source rows that can matter to them. Both inputs
    /// have the same columns.
    pub fn unsettled(
        source: LogicalPlan,
        stored: LogicalPlan,
        spec: impl Into<Arc<SettleSpec>>,
        nulls_equal: bool,
    ) -> Result<Self> {
        let spec = spec.into();
        let key = |name: &String| (Column::new_unqualified(name), Column::new_unqualified(name));
        let on = spec.keys.iter().map(key).collect();
        let node = Self::try_new(source, stored, on, Keep::Unsettled, nulls_equal)?;
        Ok(Self {
            settle: Some(spec),
            ..node
        })
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }

    pub(crate) fn settle(&self) -> Option<&Arc<SettleSpec>> {
        self.settle.as_ref()
    }

    pub(crate) fn nulls_equal(&self) -> bool {
        self.nulls_equal
    }

    /// Where the key columns are in both inputs.
    pub(crate) fn key_indices(&self) -> Result<(Vec<usize>, Vec<usize>)> {
        let of = |schema: &DFSchema, column: &Column| schema.index_of_column(column);
        let ours = self.on.iter().map(|(column, _)| of(self.source.schema(), column));
        let theirs = self.on.iter().map(|(_, column)| of(self.stored.schema(), column));
        Ok((ours.collect::<Result<_>>()?, theirs.collect::<Result<_>>()?))
    }
}

fn output_schema(source: &DFSchema, stored: &DFSchema, keep: Keep) -> Result<DFSchema> {
    let qualified = |schema: &DFSchema| -> Vec<(Option<TableReference>, FieldRef)> {
        let fields = schema.iter();
        fields
            .map(|(relation, field)| (relation.cloned(), Arc::clone(field)))
            .collect()
    };
    let mut fields = qualified(source);
    match keep {
        Keep::Unsettled => fields = either(fields, qualified(stored)),
        Keep::Mark => fields.push((None, Arc::new(Field::new(MARK, DataType::Boolean, false)))),
        Keep::Pairs => fields.extend(
            qualified(stored)
                .into_iter()
                .map(|(relation, field)| (relation, Arc::new(field.as_ref().clone().with_nullable(true)))),
        ),
    }
    DFSchema::new_with_metadata(fields, source.metadata().clone())
}

/// The columns of rows that are of one kind or of another.
fn either(
    ours: Vec<(Option<TableReference>, FieldRef)>,
    theirs: Vec<(Option<TableReference>, FieldRef)>,
) -> Vec<(Option<TableReference>, FieldRef)> {
    let both = ours.into_iter().zip(theirs);
    let field = |((relation, ours), (_, theirs)): (_, (_, FieldRef))| -> (Option<TableReference>, FieldRef) {
        let ours: FieldRef = ours;
        let nullable = ours.is_nullable() || theirs.is_nullable();
        (relation, Arc::new(ours.as_ref().clone().with_nullable(nullable)))
    };
    both.map(field).collect()
}

impl PartialOrd for MatchNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.source.partial_cmp(&other.source) {
            Some(Ordering::Equal) if self != other => None,
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for MatchNode {
    fn name(&self) -> &str {
        "Match"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.source, &self.stored]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let on: Vec<String> = self
            .on
            .iter()
            .map(|(ours, theirs)| format!("{ours} = {theirs}"))
            .collect();
        write!(f, "Match: keep={}, on=[{}]", self.keep, on.join(", "))
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [source, stored]: [LogicalPlan; 2] = inputs
            .try_into()
            .map_err(|_| LoadError::internal("Match takes two inputs"))?;
        let node = Self::try_new(source, stored, self.on.clone(), self.keep, self.nulls_equal)?;
        Ok(Self {
            settle: self.settle.clone(),
            ..node
        })
    }

    /// What the parent needs, and the keys.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        if self.keep == Keep::Unsettled {
            return None;
        }
        let (ours, theirs) = self.key_indices().ok()?;
        let width = self.source.schema().fields().len();
        let mut source: BTreeSet<usize> = ours.into_iter().collect();
        let mut stored: BTreeSet<usize> = theirs.into_iter().collect();
        for column in output_columns {
            match (column.checked_sub(width), self.keep) {
                (None, _) => _ = source.insert(*column),
                (Some(column), Keep::Pairs) => _ = stored.insert(column),
                (Some(_), Keep::Mark | Keep::Unsettled) => (),
            }
        }
        Some(vec![source.into_iter().collect(), stored.into_iter().collect()])
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Pairs => "pairs",
            Self::Mark => "mark",
            Self::Unsettled => "unsettled",
        })
    }
}
