//! What a statement is to the rest of the project. A statement is one folder that implements these two traits; parser
//! dispatch, EXPLAIN, PREPARE, planning, help and completion only know the traits.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::With;
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::Result;
use crate::syntax::Cursor;

/// One kind of statement: how its text begins, how it is read, what help says.
pub trait StatementKind: Debug + Send + Sync {
    /// The name in messages, such as `MERGE OVERWRITE`.
    fn name(&self) -> &'static str;

    /// Whether the statement at the parser's position is of this kind. The parser is not moved.
    fn claims(&self, parser: &Parser<'_>) -> bool;

    /// Reads the statement, its verb included. `with` is a leading `WITH` clause that was read already.
    fn parse(&self, cursor: &mut Cursor<'_, '_>, with: Option<With>) -> Result<Arc<dyn Statement>>;

    /// The phrases that begin this kind's own clauses, such as `APPLY AS DELETE WHEN`: for completion, and for
    /// telling a clause of another statement from a typing error.
    fn clauses(&self) -> &'static [&'static str];

    /// The text of `\h name` and of the module documentation, in Markdown.
    fn help(&self) -> &'static str;
}

/// A parsed statement. `Display` prints SQL that parses back to the same statement.
#[async_trait]
pub trait Statement: Debug + Display + Send + Sync {
    /// The name of its kind.
    fn name(&self) -> &'static str;

    /// Whether it changes tables or the catalog, so that read-only sessions refuse it.
    fn effect(&self) -> Effect;

    /// How often it may start again after a concurrent commit, where the statement says so.
    fn max_attempts(&self) -> Option<usize> {
        None
    }

    /// Resolves names and types against the session and its tables, and builds the plan.
    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan>;
}

/// What running a statement changes, in the terms of DataFusion's `SQLOptions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Read,
    /// Rows of a table.
    Dml,
    /// Which tables there are, and what they look like.
    Ddl,
}
