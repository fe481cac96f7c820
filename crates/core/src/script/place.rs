//! From lines and columns to bytes.

use std::iter::Peekable;
use std::str::CharIndices;

use datafusion::sql::sqlparser::tokenizer::Location;

/// Walks through a text once, as positions only ever move forward.
pub(super) struct Place<'a> {
    chars: Peekable<CharIndices<'a>>,
    length: usize,
    at: Location,
}

impl<'a> Place<'a> {
    pub(super) fn new(sql: &'a str) -> Self {
        Self {
            chars: sql.char_indices().peekable(),
            length: sql.len(),
            at: Location::new(1, 1),
        }
    }

    /// The byte at `location`, which lies not before the one that was asked for last.
    pub(super) fn byte(&mut self, location: Location) -> usize {
        while (self.at.line, self.at.column) < (location.line, location.column) {
            match self.chars.next() {
                None => return self.length,
                Some((_, '\n')) => self.at = Location::new(self.at.line + 1, 1),
                Some(_) => self.at.column += 1,
            }
        }
        self.chars.peek().map_or(self.length, |(byte, _)| *byte)
    }
}
