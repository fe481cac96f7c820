//! Incremental loading into Delta Lake as SQL, inside DataFusion.

mod catalog;
mod commands;
mod context;
mod limits;
mod outcome;
mod plan;
mod planner;
mod prepared;
mod retry;
mod session;

pub use alluvium_core::report::render as render_error;
pub use alluvium_core::{ErrorKind, LoadError, Registry, Result, SqlState, Statement, StatementKind, script};
pub use context::LoadContext;
pub use outcome::Outcome;
pub use session::{Progress, Session, SessionBuilder};
