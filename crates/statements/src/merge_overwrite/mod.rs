#![doc = include_str!("README.md")]

mod bind;
mod by_key;
mod by_window;
pub mod syntax;
pub(crate) mod window;

use alluvium_core::Result;
use alluvium_core::syntax::Load;
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::kind::{LoadClauses, LoadKind};
use syntax::OverwriteClauses;

/// The statement.
pub type MergeOverwrite = LoadKind<OverwriteClauses>;

#[async_trait]
impl LoadClauses for OverwriteClauses {
    const HELP: &'static str = include_str!("README.md");

    async fn bind(state: &SessionState, load: &Load<Self>) -> Result<LogicalPlan> {
        bind::plan(state, load).await
    }
}
