//! From a parsed statement to a logical plan.

use std::str::FromStr;
use std::sync::Arc;

use alluvium_core::script::Stmt;
use alluvium_core::{Effect, LoadError, Result, SqlState};
use alluvium_statements::preparing;
use datafusion::common::DFSchema;
use datafusion::common::format::ExplainFormat;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ExplainOption, LogicalPlan, LogicalPlanBuilder, Prepare, Statement as StatementPlan};

/// Resolves `stmt` against the session and builds its plan. Nothing is executed.
pub(crate) async fn plan(state: &SessionState, stmt: &Stmt) -> Result<LogicalPlan> {
    match stmt {
        Stmt::Ours(statement) => statement.plan(state).await,
        Stmt::Prepare { name, types, inner } => {
            let fields = crate::prepared::parameter_fields(state, types)?;
            let input = Arc::new(inner.plan(&preparing(state.clone(), types)).await?);
            let name = name.value.clone();
            Ok(LogicalPlan::Statement(StatementPlan::Prepare(Prepare {
                name,
                fields,
                input,
            })))
        }
        Stmt::Explain {
            analyze,
            verbose,
            format,
            inner,
        } => {
            let input = Box::pin(plan(state, inner)).await?;
            explain(state, *analyze, *verbose, format.as_deref(), input)
        }
        Stmt::DataFusion(statement) => {
            let plan = state.statement_to_plan(statement.as_ref().clone()).await?;
            Ok(nullable_values(plan)?)
        }
    }
}

/// What running `stmt` may change. Statements of DataFusion's answer for themselves.
pub(crate) fn effect(stmt: &Stmt) -> Effect {
    match stmt {
        Stmt::Ours(statement) => statement.effect(),
        Stmt::Prepare { inner, .. } => inner.effect(),
        Stmt::Explain {
            analyze: true, inner, ..
        } => effect(inner),
        Stmt::Explain { .. } | Stmt::DataFusion(_) => Effect::Read,
    }
}

/// The same checks as DataFusion makes for its own EXPLAIN.
fn explain(
    state: &SessionState,
    analyze: bool,
    verbose: bool,
    format: Option<&str>,
    input: LogicalPlan,
) -> Result<LogicalPlan> {
    if verbose && format.is_some() {
        return Err(LoadError::new(SqlState::Syntax, "EXPLAIN VERBOSE takes no FORMAT").hint("Leave one of them out."));
    }
    let format = match format {
        Some(name) => ExplainFormat::from_str(name).map_err(LoadError::from)?,
        None if verbose || analyze => ExplainFormat::Indent,
        None => state.config_options().explain.format.clone(),
    };
    if analyze && matches!(format, ExplainFormat::Tree | ExplainFormat::Graphviz) {
        return Err(
            LoadError::unsupported(format!("EXPLAIN ANALYZE cannot use FORMAT {format}"))
                .hint("Use FORMAT indent or FORMAT pgjson."),
        );
    }
    let option = ExplainOption {
        verbose,
        analyze,
        format,
        ..Default::default()
    };
    Ok(LogicalPlanBuilder::from(input).explain_option_format(option)?.build()?)
}

/// `INSERT .. VALUES` takes its types from the table, and DataFusion then refuses a NULL for a NOT NULL column in words of
/// its own. With nullable values the row comes to our write path, which names the column.
fn nullable_values(plan: LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
    let LogicalPlan::Dml(mut dml) = plan else {
        return Ok(plan);
    };
    let input = Arc::unwrap_or_clone(dml.input).transform_up(|node| match node {
        LogicalPlan::Values(mut values) => {
            let fields = values
                .schema
                .iter()
                .map(|(relation, field)| (relation.cloned(), Arc::new(field.as_ref().clone().with_nullable(true))));
            values.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), Default::default())?);
            Ok(Transformed::yes(LogicalPlan::Values(values)))
        }
        other if other.inputs().is_empty() => Ok(Transformed::no(other)),
        other => other.recompute_schema().map(Transformed::yes),
    })?;
    dml.input = Arc::new(input.data);
    Ok(LogicalPlan::Dml(dml))
}
