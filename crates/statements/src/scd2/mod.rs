#![doc = include_str!("README.md")]

mod bind;
mod history;
mod marker;
mod sides;
pub mod syntax;
mod times;
mod tracked;
mod unchanged;
mod validity;

use alluvium_core::Result;
use alluvium_core::syntax::Load;
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::kind::{LoadClauses, LoadKind};
use syntax::Scd2Clauses;

/// The statement.
pub type Scd2Merge = LoadKind<Scd2Clauses>;

#[async_trait]
impl LoadClauses for Scd2Clauses {
    const HELP: &'static str = include_str!("README.md");

    async fn bind(state: &SessionState, load: &Load<Self>) -> Result<LogicalPlan> {
        bind::plan(state, load).await
    }
}
