//! Incremental loading into Delta Lake as SQL, inside DataFusion.
//!
//! A text becomes a commit in five steps:
//!
//! 1. **Parse.** [`script`] reads it with DataFusion's parser and the session's [`Registry`] of statements.
//! 2. **Bind.** [`Statement::plan`] resolves names against one snapshot and builds an ordinary DataFusion plan under one
//!    node of ours (`alluvium_statements`).
//! 3. **Plan.** Our query planner, in front of the session's own, plans that node and the operators below it
//!    (`alluvium_exec`, `alluvium_delta`).
//! 4. **Execute.** Writers run on every partition; one commit operator drains them all.
//! 5. **Commit** once or not at all. After a conflict [`Session::execute`] starts again at step 2.

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
pub use alluvium_delta::LoadOptions;
pub use alluvium_exec::checked_cast::sql_type_name;
pub use context::LoadContext;
pub use outcome::Outcome;
pub use session::{Progress, Session, SessionBuilder};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
