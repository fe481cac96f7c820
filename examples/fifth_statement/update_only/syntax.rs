//! The clauses that only `UPDATE ONLY` has.

use std::fmt::{self, Display, Formatter};

use alluvium_core::syntax::{ClauseSet, Common, Cursor, require_keys};
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::sql::sqlparser::tokenizer::Span;

/// The clauses that only `UPDATE ONLY` has, each at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateOnlyClauses {
    /// `ON UNKNOWN KEY ..`.
    pub unknown: Option<UnknownKey>,
}

/// What happens to a source row whose key is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKey {
    /// It is skipped (the default).
    Skip,
    /// The statement fails.
    Error,
}

impl ClauseSet for UpdateOnlyClauses {
    const VERB: &'static str = "UPDATE ONLY";

    const PHRASES: &'static [&'static str] = &["ON UNKNOWN KEY"];

    fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool> {
        let start = cursor.here();
        if !cursor.eat("ON UNKNOWN") {
            return Ok(false);
        }
        cursor.expect("KEY")?;
        cursor.once(self.unknown.is_some(), "ON UNKNOWN KEY", start)?;
        self.unknown = Some(cursor.expect_one_of(&[("SKIP", UnknownKey::Skip), ("ERROR", UnknownKey::Error)])?);
        Ok(true)
    }

    fn validate(&self, common: &Common, verb: Span) -> Result<()> {
        require_keys(common, Self::VERB, verb)?;
        if common.create.is_some() {
            let error = LoadError::new(SqlState::Syntax, "UPDATE ONLY cannot create a table");
            return Err(error.hint("A new table has no rows to update: see UPSERT.").at(verb));
        }
        if let Some(sequence) = &common.sequence {
            let error = LoadError::new(SqlState::Syntax, "UPDATE ONLY has no SEQUENCE BY");
            return Err(error
                .hint("Write DEDUPLICATE BY expr DESC to keep one row per key.")
                .at(sequence.span));
        }
        Ok(())
    }
}

impl Display for UpdateOnlyClauses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.unknown {
            None => Ok(()),
            Some(UnknownKey::Skip) => f.write_str("ON UNKNOWN KEY SKIP"),
            Some(UnknownKey::Error) => f.write_str("ON UNKNOWN KEY ERROR"),
        }
    }
}
