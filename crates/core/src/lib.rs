//! What every other crate of Alluvium stands on: errors and how they are shown, the clause parser, the statement
//! trait and its registry. It knows DataFusion's SQL layer, but neither Delta Lake nor files.

mod error;
mod foreign;
mod registry;
pub mod report;
pub mod script;
pub mod secrets;
mod sqlstate;
mod statement;
pub mod syntax;

pub use error::{LoadError, Result};
pub use registry::Registry;
pub use sqlstate::{ErrorKind, SqlState};
pub use statement::{Effect, Statement, StatementKind};
