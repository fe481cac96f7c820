#![doc = include_str!("README.md")]

mod bind;
pub mod syntax;

use alluvium_core::Result;
use alluvium_core::syntax::Load;
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::kind::{LoadClauses, LoadKind};
use syntax::InsertClauses;

/// The statement.
pub type InsertOnly = LoadKind<InsertClauses>;

#[async_trait]
impl LoadClauses for InsertClauses {
    const HELP: &'static str = include_str!("README.md");

    async fn bind(state: &SessionState, load: &Load<Self>) -> Result<LogicalPlan> {
        bind::plan(state, load).await
    }
}
