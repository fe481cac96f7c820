//! The logical node on top of every load.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use alluvium_exec::columns;
use datafusion::common::{DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use uuid::Uuid;

use super::result::result_schema;
use super::spec::LoadSpec;

/// Writes a change stream into a table and commits once.
///
/// The input's columns, found by name: every column of `target.schema`, [`columns::ACTION`], [`columns::FILE`],
/// [`columns::ROW`], an [`columns::old`] per table column when `spec.change_data` is set, a [`columns::returning`] per
/// column of `spec.returning`.
///
/// Two nodes are equal only if they are the same load: a statement must never be merged with an equal one.
#[derive(Debug, Clone)]
pub struct LoadNode {
    spec: Arc<LoadSpec>,
    input: LogicalPlan,
    schema: DFSchemaRef,
    id: Uuid,
}

impl LoadNode {
    /// The load `spec` over the change stream `input`.
    pub fn try_new(spec: Arc<LoadSpec>, input: LogicalPlan) -> Result<Self> {
        check_input(&spec, input.schema())?;
        let schema = spec.returning.clone().unwrap_or_else(result_schema);
        Ok(Self {
            schema: Arc::new(DFSchema::try_from(schema)?),
            spec,
            input,
            id: Uuid::new_v4(),
        })
    }

    /// What the load is asked to do.
    pub fn spec(&self) -> &Arc<LoadSpec> {
        &self.spec
    }

    /// The change stream.
    pub fn input(&self) -> &LogicalPlan {
        &self.input
    }
}

/// Every column that the writers look for is there.
fn check_input(spec: &LoadSpec, input: &DFSchema) -> Result<()> {
    let table = spec.target.schema.fields();
    let fixed = [columns::ACTION, columns::FILE, columns::ROW].map(str::to_owned);
    let old = (0..if spec.change_data { table.len() } else { 0 }).map(columns::old);
    let returning = (0..spec.returning.as_ref().map_or(0, |s| s.fields().len())).map(columns::returning);
    let wanted = table
        .iter()
        .map(|f| f.name().clone())
        .chain(fixed)
        .chain(old)
        .chain(returning);
    for name in wanted {
        match input.fields().iter().filter(|f| *f.name() == name).count() {
            1 => (),
            0 => return plan_err!("the change stream lacks column {name:?}"),
            _ => return plan_err!("the change stream has column {name:?} several times"),
        }
    }
    Ok(())
}

impl PartialEq for LoadNode {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.input == other.input
    }
}

impl Eq for LoadNode {}

impl PartialOrd for LoadNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.id.cmp(&other.id) {
            Ordering::Equal => self.input.partial_cmp(&other.input),
            unequal => Some(unequal),
        }
    }
}

impl Hash for LoadNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for LoadNode {
    fn name(&self) -> &str {
        self.spec.statement
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

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: table={}", self.spec.statement, self.spec.target.name)?;
        for (key, value) in self
            .spec
            .operation
            .parameters
            .iter()
            .filter(|(key, _)| *key != "statement")
        {
            write!(f, ", {key}={value}")?;
        }
        if let Some((app, version)) = &self.spec.transaction {
            write!(f, ", transaction=({app}, {version})")?;
        }
        if self.spec.dry_run {
            write!(f, ", dry run")?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [input]: [LogicalPlan; 1] = match inputs.try_into() {
            Ok(one) => one,
            Err(_) => return plan_err!("{} has exactly one input", self.spec.statement),
        };
        check_input(&self.spec, input.schema())?;
        Ok(Self { input, ..self.clone() })
    }
}
