//! The projections below the writers: generated columns get their values, constraints become boolean columns.
//!
//! Rows that are not written are exempt from both: a deleted row need not satisfy anything.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::{action, columns};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit, when};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use deltalake::kernel::StructTypeExt;

use super::checks::Check;
use super::delta_sql::parse;
use super::job::table_properties;
use super::schema::kernel_schema;
use super::spec::LoadSpec;

/// A change stream that carries everything the writers check.
pub(super) struct Guarded {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// What the columns `__check_<i>` stand for, in their order.
    pub(super) checks: Arc<[Check]>,
}

/// The rules of a table.
#[derive(Default)]
struct Rules {
    /// Column, expression, type.
    generated: Vec<(String, String, DataType)>,
    checks: Vec<Check>,
}

impl Rules {
    fn of(spec: &LoadSpec) -> Result<Self> {
        let schema = kernel_schema(&spec.target)?;
        let unreadable =
            |e| LoadError::unsupported(format!("the rules of table {:?} cannot be read: {e}", spec.target.name));
        let mut rules = Self::default();
        for column in schema.get_generated_columns().map_err(unreadable)? {
            let field = spec.target.schema.field_with_name(&column.name)?;
            rules.generated.push((
                column.name.clone(),
                column.generation_expr.clone(),
                field.data_type().clone(),
            ));
        }
        for invariant in schema.get_invariants().map_err(unreadable)? {
            rules.checks.push(Check::Invariant {
                column: invariant.field_name,
                text: invariant.invariant_sql,
            });
        }
        for (key, text) in table_properties(spec) {
            if let Some(name) = key.strip_prefix("delta.constraints.") {
                rules.checks.push(Check::Constraint {
                    name: name.to_owned(),
                    text: text.clone(),
                });
            }
        }
        rules.generated.sort_by(|a, b| a.0.cmp(&b.0));
        rules.checks.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
        Ok(rules)
    }
}

/// Puts the projections on top of `input`.
pub(super) fn guard(spec: &LoadSpec, input: Arc<dyn ExecutionPlan>, session: &dyn Session) -> Result<Guarded> {
    let rules = Rules::of(spec)?;
    let context = ExprContext {
        table: DFSchema::try_from(spec.target.schema.as_ref().clone())?,
        session,
    };
    let computed: Vec<_> = rules
        .generated
        .iter()
        .filter(|(name, ..)| spec.compute_generated.contains(name))
        .collect();
    let plan = compute(&context, input, &computed)?;
    let mut checks = rules.checks;
    let mut conditions = Vec::new();
    for check in &checks {
        conditions.push(context.condition(check)?);
    }
    for (column, text, data_type) in rules.generated {
        let value = context.generated(&column, &text, &data_type)?;
        let stored = Expr::Column(Column::from_name(&column));
        conditions.push(Expr::BinaryExpr(BinaryExpr::new(
            Box::new(stored),
            Operator::IsNotDistinctFrom,
            Box::new(value),
        )));
        checks.push(Check::Generated { column, text });
    }
    Ok(Guarded {
        plan: add_checks(&context, plan, conditions)?,
        checks: checks.into(),
    })
}

struct ExprContext<'a> {
    /// The table's columns: a rule sees nothing else.
    table: DFSchema,
    session: &'a dyn Session,
}

impl ExprContext<'_> {
    fn condition(&self, check: &Check) -> Result<Expr> {
        let (what, text) = match check {
            Check::Constraint { name, text } => (format!("check constraint {name:?}"), text),
            Check::Invariant { column, text } => (format!("the invariant of column {column:?}"), text),
            Check::Generated { column, text } => (format!("generated column {column:?}"), text),
        };
        Ok(parse(&what, text, &self.table, self.session)?.is_true())
    }

    fn generated(&self, column: &str, text: &str, data_type: &DataType) -> Result<Expr> {
        let expr = parse(&format!("generated column {column:?}"), text, &self.table, self.session)?;
        Ok(expr.cast_to(data_type, &self.table)?)
    }

    /// `expr` for rows that are written, `otherwise` for the others.
    fn for_written(&self, expr: Expr, otherwise: ScalarValue, input: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let code = Expr::Column(Column::from_name(columns::ACTION));
        let written = code.in_list(vec![lit(action::INSERT), lit(action::UPDATE)], false);
        let expr = when(written, expr).otherwise(Expr::Literal(otherwise, None))?;
        Ok(self
            .session
            .create_physical_expr(expr, &DFSchema::try_from(input.clone())?)?)
    }
}

/// Gives generated columns their values where they have none.
fn compute(
    context: &ExprContext<'_>,
    input: Arc<dyn ExecutionPlan>,
    computed: &[&(String, String, DataType)],
) -> Result<Arc<dyn ExecutionPlan>> {
    if computed.is_empty() {
        return Ok(input);
    }
    let schema = input.schema();
    let mut exprs = all_columns(&schema);
    for (column, text, data_type) in computed {
        let value = context.generated(column, text, data_type)?;
        let given = Expr::Column(Column::from_name(column));
        let value = when(given.clone().is_null(), value).otherwise(given)?;
        let value = context.for_written(value, ScalarValue::try_new_null(data_type)?, &schema)?;
        if let Some(slot) = exprs.iter_mut().find(|(_, name)| name == column) {
            slot.0 = value;
        }
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, input)?))
}

/// Appends a `__check_<i>` column per condition.
fn add_checks(
    context: &ExprContext<'_>,
    input: Arc<dyn ExecutionPlan>,
    conditions: Vec<Expr>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if conditions.is_empty() {
        return Ok(input);
    }
    let schema = input.schema();
    let mut exprs = all_columns(&schema);
    for (index, condition) in conditions.into_iter().enumerate() {
        let holds = context.for_written(condition, ScalarValue::from(true), &schema)?;
        exprs.push((holds, columns::check(index)));
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, input)?))
}

fn all_columns(schema: &SchemaRef) -> Vec<(Arc<dyn PhysicalExpr>, String)> {
    let fields = schema.fields().iter().enumerate();
    fields
        .map(|(index, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(field.name(), index));
            (column, field.name().clone())
        })
        .collect()
}
