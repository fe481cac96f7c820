//! Telling a statement that is prepared for later from one that runs now.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as StatementPlan};
use datafusion::sql::parser::Statement as DFStatement;
use datafusion::sql::sqlparser::ast::{DataType, Ident, Query, Statement};

/// Lies in the session's configuration while `PREPARE` binds a statement.
struct Preparing {
    /// The types of the parameters, as far as they are written.
    types: Vec<DataType>,
}

/// `state`, binding plans that are kept: they must not hold anything that is only true of today's snapshot. `types` are
/// those of the parameters.
pub fn preparing(mut state: SessionState, types: &[DataType]) -> SessionState {
    let types = types.to_vec();
    state.config_mut().set_extension(Arc::new(Preparing { types }));
    state
}

/// Whether the plan is kept and run on later snapshots.
pub(crate) fn is_preparing(state: &SessionState) -> bool {
    state.config().get_extension::<Preparing>().is_some()
}

/// Plans a source's query. Parameters get their types before the query is planned: an operator that brings its inputs to
/// one type, such as `UNION`, would not know theirs.
pub(crate) async fn plan_query(state: &SessionState, query: Query) -> datafusion::common::Result<LogicalPlan> {
    let query = Statement::Query(Box::new(query));
    let types = state.config().get_extension::<Preparing>().map(|p| p.types.clone());
    let statement = match types.filter(|types| !types.is_empty()) {
        Some(data_types) => Statement::Prepare {
            name: Ident::new("source"),
            data_types,
            statement: Box::new(query),
        },
        None => query,
    };
    let plan = state
        .statement_to_plan(DFStatement::Statement(Box::new(statement)))
        .await?;
    Ok(match plan {
        LogicalPlan::Statement(StatementPlan::Prepare(prepare)) => Arc::unwrap_or_clone(prepare.input),
        plan => plan,
    })
}
