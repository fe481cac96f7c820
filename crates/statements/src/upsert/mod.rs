#![doc = include_str!("README.md")]

mod bind;
mod compare;
pub mod syntax;

use alluvium_core::Result;
use alluvium_core::syntax::Load;
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::kind::{LoadClauses, LoadKind};
use syntax::UpsertClauses;

/// The statement.
pub type Upsert = LoadKind<UpsertClauses>;

#[async_trait]
impl LoadClauses for UpsertClauses {
    const HELP: &'static str = include_str!("README.md");

    async fn bind(state: &SessionState, load: &Load<Self>) -> Result<LogicalPlan> {
        bind::plan(state, load).await
    }
}
