//! `WHEN NOT MATCHED BY SOURCE ..`, which several statements have with actions of their own.

use datafusion::sql::sqlparser::tokenizer::Span;

use super::ast::Absent;
use super::cursor::Cursor;
use crate::error::Result;

impl Cursor<'_, '_> {
    /// Reads what follows `WHEN`, which began at `start`. `action` reads what follows `THEN`.
    pub fn absent<A>(&mut self, start: Span, action: impl FnOnce(&mut Self) -> Result<A>) -> Result<Absent<A>> {
        self.expect("NOT MATCHED BY SOURCE")?;
        let within = match self.eat("WITHIN") {
            true => self.idents()?,
            false => Vec::new(),
        };
        let condition = match self.eat("AND") {
            true => Some(self.expr()?),
            false => None,
        };
        self.expect("THEN")?;
        let action = action(self)?;
        let span = self.since(start);
        Ok(Absent {
            within,
            condition,
            action,
            span,
        })
    }
}
