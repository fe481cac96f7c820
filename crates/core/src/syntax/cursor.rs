//! Reading tokens, one word at a time, with errors that say what was expected and what was found.

use datafusion::sql::sqlparser::parser::Parser;

/// A position in the text of one statement.
pub struct Cursor<'a, 'b> {
    parser: &'a mut Parser<'b>,
}

impl<'a, 'b> Cursor<'a, 'b> {
    /// Reads on from where `parser` stands.
    pub fn new(parser: &'a mut Parser<'b>) -> Self {
        Self { parser }
    }

    /// sqlparser's own parser, for expressions and queries.
    pub fn parser(&mut self) -> &mut Parser<'b> {
        self.parser
    }
}
