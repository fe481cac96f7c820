//! The one error type of the project.
//!
//! It follows PostgreSQL's error report: a code, one primary line, detail, hint, position. A struct rather than an
//! enum of causes, because statements are added without touching this crate and each brings its own messages; what
//! callers branch on is the [`SqlState`].

use std::error::Error;
use std::fmt;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sqlstate::{ErrorKind, SqlState};

/// Result of everything that can fail with a [`LoadError`].
pub type Result<T, E = LoadError> = std::result::Result<T, E>;

/// An error as a user sees it.
///
/// ```
/// use alluvium_core::{LoadError, SqlState};
/// let e = LoadError::new(SqlState::NotNullViolation, "key column \"id\" is NULL")
///     .detail("Row (NULL, 'Oslo') of the source has no id.")
///     .hint("Filter such rows out, or add NULLS NOT DISTINCT.");
/// assert_eq!(e.code(), "23502");
/// ```
#[derive(Debug)]
pub struct LoadError {
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    // Boxed to keep results small.
    span: Option<Box<Span>>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl LoadError {
    /// An error with its code and primary line: one short fact, lower case, no full stop.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            span: None,
            source: None,
        }
    }

    /// A state that cannot happen. A user must never be able to reach it.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::Internal, message)
            .hint("This is a bug in Alluvium: please report it together with the statement.")
    }

    /// A feature that is refused by name.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(SqlState::FeatureNotSupported, message)
    }

    /// Adds the values behind the fact, in whole sentences.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Points at the text at fault. An empty span (of a token that was made up) is left out.
    pub fn at(mut self, span: Span) -> Self {
        self.span = (span.start.line > 0).then(|| Box::new(span));
        self
    }

    /// Points at the text at fault unless the error points somewhere already.
    pub fn at_if_unset(self, span: Span) -> Self {
        if self.span.is_some() { self } else { self.at(span) }
    }

    /// Keeps the error that led to this one.
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The five characters of the SQLSTATE.
    pub fn code(&self) -> &'static str {
        self.state.code()
    }

    /// The SQLSTATE.
    pub fn state(&self) -> SqlState {
        self.state
    }

    /// Who has to act.
    pub fn kind(&self) -> ErrorKind {
        self.state.kind()
    }

    /// Whether running the same statement again can succeed.
    pub fn retryable(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }

    /// The primary line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The values behind the fact.
    pub fn detail_text(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What to do next.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Where in the statement's text the fault lies.
    pub fn span(&self) -> Option<Span> {
        self.span.as_deref().copied()
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| {
            let e: &(dyn Error + 'static) = e;
            e
        })
    }
}

impl From<LoadError> for DataFusionError {
    fn from(e: LoadError) -> Self {
        DataFusionError::External(Box::new(e))
    }
}
