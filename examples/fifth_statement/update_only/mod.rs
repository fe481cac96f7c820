#![doc = include_str!("README.md")]

mod bind;
mod syntax;

use alluvium_core::Result;
use alluvium_core::syntax::Load;
use alluvium_statements::kind::{LoadClauses, LoadKind};
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use syntax::UpdateOnlyClauses;

/// The statement.
pub type UpdateOnly = LoadKind<UpdateOnlyClauses>;

#[async_trait]
impl LoadClauses for UpdateOnlyClauses {
    const HELP: &'static str = include_str!("README.md");

    async fn bind(state: &SessionState, load: &Load<Self>) -> Result<LogicalPlan> {
        bind::plan(state, load).await
    }
}
