//! What makes a set of clauses a statement: its help text and how it is bound. Everything else is shared.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use alluvium_core::syntax::{ClauseSet, Cursor, Load, claims, parse_load};
use alluvium_core::{Effect, Result, Statement, StatementKind};
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::With;
use datafusion::sql::sqlparser::parser::Parser;

use crate::bind::finish::count_option;

/// Clauses that can be bound to a plan.
#[async_trait]
pub trait LoadClauses: ClauseSet + fmt::Debug + Send + Sync + 'static {
    /// The statement's README.
    const HELP: &'static str;

    /// Resolves names and types, and builds the plan.
    async fn bind(state: &SessionState, load: &Load<Self>) -> Result<LogicalPlan>
    where
        Self: Sized;
}

/// The kind of load statement whose own clauses are `C`.
pub struct LoadKind<C>(PhantomData<fn() -> C>);

impl<C> LoadKind<C> {
    /// The kind, to be registered.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<C> Default for LoadKind<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: LoadClauses> fmt::Debug for LoadKind<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadKind({})", C::VERB)
    }
}

impl<C: LoadClauses> StatementKind for LoadKind<C> {
    fn name(&self) -> &'static str {
        C::VERB
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        claims(parser, C::VERB)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, with: Option<With>) -> Result<Arc<dyn Statement>> {
        Ok(Arc::new(LoadStatement(parse_load::<C>(cursor, with)?)))
    }

    fn clauses(&self) -> &'static [&'static str] {
        C::PHRASES
    }

    fn help(&self) -> &'static str {
        C::HELP
    }
}

/// A parsed load statement.
#[derive(Debug)]
struct LoadStatement<C>(Load<C>);

impl<C: LoadClauses> fmt::Display for LoadStatement<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl<C: LoadClauses> Statement for LoadStatement<C> {
    fn name(&self) -> &'static str {
        C::VERB
    }

    fn effect(&self) -> Effect {
        Effect::Dml
    }

    fn max_attempts(&self) -> Option<usize> {
        count_option(&self.0.common.options, "merge.max_attempts")
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        C::bind(state, &self.0).await
    }
}
