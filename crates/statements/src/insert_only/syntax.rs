//! The clauses that only `INSERT ONLY` has.

use std::fmt::{self, Display, Formatter};

use alluvium_core::Result;
use alluvium_core::syntax::{ClauseSet, Common, Cursor, DeleteWhen, require_keys};
use datafusion::sql::sqlparser::tokenizer::Span;

/// The clauses that only `INSERT ONLY` has, each at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InsertClauses {
    /// `IGNORE DELETES WHEN ..`: marked rows are dropped.
    pub ignore_deletes: Option<DeleteWhen>,
}

impl ClauseSet for InsertClauses {
    const VERB: &'static str = "INSERT ONLY";

    const PHRASES: &'static [&'static str] = &["IGNORE DELETES WHEN"];

    fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool> {
        let start = cursor.here();
        if !cursor.eat("IGNORE DELETES") {
            return Ok(false);
        }
        cursor.expect("WHEN")?;
        cursor.once(self.ignore_deletes.is_some(), "IGNORE DELETES WHEN", start)?;
        let expr = cursor.expr()?;
        let span = cursor.since(start);
        self.ignore_deletes = Some(DeleteWhen { expr, span });
        Ok(true)
    }

    fn validate(&self, common: &Common, verb: Span) -> Result<()> {
        require_keys(common, Self::VERB, verb).map(|_| ())
    }
}

impl Display for InsertClauses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.ignore_deletes {
            Some(marker) => write!(f, "IGNORE DELETES WHEN {}", marker.expr),
            None => Ok(()),
        }
    }
}
