//! The list of statements a session knows. Parser dispatch, help and completion read it; nothing else lists statements.

use std::sync::Arc;

use datafusion::sql::sqlparser::parser::Parser;

use crate::statement::StatementKind;

/// The statements of a session, in the order in which they are asked for a text.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: Vec<Arc<dyn StatementKind>>,
}

impl Registry {
    /// A registry of these kinds.
    pub fn new(kinds: Vec<Arc<dyn StatementKind>>) -> Self {
        Self { kinds }
    }

    /// Adds a kind. It is asked after those that are there already.
    pub fn register(&mut self, kind: Arc<dyn StatementKind>) {
        self.kinds.push(kind);
    }

    /// All kinds.
    pub fn kinds(&self) -> &[Arc<dyn StatementKind>] {
        &self.kinds
    }

    /// The kind whose statement stands at the parser's position.
    pub fn claimant(&self, parser: &Parser<'_>) -> Option<&Arc<dyn StatementKind>> {
        self.kinds.iter().find(|kind| kind.claims(parser))
    }

    /// The kind of this name, compared without case.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn StatementKind>> {
        self.kinds
            .iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name.trim()))
    }
}
