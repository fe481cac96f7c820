//! The shape all row operators share as logical nodes: one input, and output that is the input plus some columns.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// What one kind of row operator does, in plain column names and literals.
pub trait RowSpec: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// The name in logical plans.
    const NAME: &'static str;
    /// The name in physical plans.
    const EXEC_NAME: &'static str;

    /// The input columns that the operator reads.
    fn columns(&self) -> Vec<&str>;

    /// The columns that the operator appends to its input.
    fn appended(&self) -> Vec<Field> {
        Vec::new()
    }

    /// Whether a parent that needs fewer columns may leave the others out of the input.
    fn prunable(&self) -> bool {
        true
    }

    /// What EXPLAIN shows, as name and value.
    fn arguments(&self) -> Vec<(&'static str, String)>;
}

/// The logical node of a row operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowNode<S: RowSpec> {
    spec: Arc<S>,
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl<S: RowSpec> RowNode<S> {
    /// The node over `input`. Fails if `input` lacks a column that the operator reads.
    pub fn try_new(input: LogicalPlan, spec: impl Into<Arc<S>>) -> Result<Self> {
        let spec = spec.into();
        for column in spec.columns() {
            position(input.schema(), column).ok_or_else(|| missing(S::NAME, column))?;
        }
        let schema = output_schema(input.schema(), spec.appended())?;
        Ok(Self { spec, input, schema })
    }

    /// What the operator does.
    pub fn spec(&self) -> &Arc<S> {
        &self.spec
    }

    /// The input.
    pub fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl<S: RowSpec> PartialOrd for RowNode<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) if self != other => None,
            order => order,
        }
    }
}

impl<S: RowSpec> UserDefinedLogicalNodeCore for RowNode<S> {
    fn name(&self) -> &str {
        S::NAME
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(S::NAME)?;
        fmt_arguments(self.spec.as_ref(), f)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Self::try_new(input, Arc::clone(&self.spec)),
            _ => Err(LoadError::internal(format!("{} takes one input", S::NAME)).into()),
        }
    }

    /// What the parent needs and what the operator reads.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        if !self.spec.prunable() {
            return None;
        }
        let input = self.input.schema();
        let mut needed: BTreeSet<usize> = output_columns
            .iter()
            .copied()
            .filter(|i| *i < input.fields().len())
            .collect();
        for column in self.spec.columns() {
            needed.insert(position(input, column)?);
        }
        Some(vec![needed.into_iter().collect()])
    }
}

/// Writes `: name=value, name=value`, or nothing without arguments.
pub(crate) fn fmt_arguments<S: RowSpec>(spec: &S, f: &mut fmt::Formatter) -> fmt::Result {
    for (i, (name, value)) in spec.arguments().into_iter().enumerate() {
        write!(f, "{} {name}={value}", if i == 0 { ":" } else { "," })?;
    }
    Ok(())
}

/// `[a, b]`.
pub(crate) fn list(names: &[String]) -> String {
    format!("[{}]", names.join(", "))
}

/// `fields` after those of `input`, for the physical plan.
pub(crate) fn appended_schema(input: &Schema, fields: Vec<Field>) -> Schema {
    let all: Vec<_> = input
        .fields()
        .iter()
        .cloned()
        .chain(fields.into_iter().map(Arc::new))
        .collect();
    Schema::new_with_metadata(all, input.metadata().clone())
}

/// The index of the only column called `name`, whatever its qualifier.
fn position(schema: &DFSchema, name: &str) -> Option<usize> {
    let mut found = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, f)| f.name() == name)
        .map(|(i, _)| i);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn output_schema(input: &DFSchemaRef, appended: Vec<Field>) -> Result<DFSchemaRef> {
    if appended.is_empty() {
        return Ok(Arc::clone(input));
    }
    let fields = input
        .iter()
        .map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)))
        .chain(appended.into_iter().map(|field| (None, Arc::new(field))))
        .collect();
    Ok(Arc::new(DFSchema::new_with_metadata(fields, input.metadata().clone())?))
}

pub(crate) fn missing(operator: &str, column: &str) -> DataFusionError {
    LoadError::internal(format!(
        "the input of {operator} has no column \"{column}\", or several"
    ))
    .into()
}
