//! Handing a stretch of tokens to sqlparser.
//!
//! sqlparser does not know our clauses. Most of the time it stops before them by itself; where it would read on (a
//! table alias, `IGNORE` after a function call, `WITH` after a type), the tokens are cut and it sees only its part.

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use super::cursor::{Cursor, is_end, is_word, shown, word};
use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// How deep expressions and queries may be nested; the same as DataFusion's own default.
pub(crate) const RECURSION_LIMIT: usize = 50;

/// Words after which an operand or a query goes on, so that neither `(SELECT ..)` nor a clause of ours starts there.
const CONTINUING_WORDS: &[&str] = &[
    "ALL",
    "AND",
    "ANY",
    "ARRAY",
    "AS",
    "BETWEEN",
    "BY",
    "CASE",
    "DISTINCT",
    "DIV",
    "ELSE",
    "EXCEPT",
    "EXISTS",
    "FROM",
    "HAVING",
    "ILIKE",
    "IN",
    "INTERSECT",
    "IS",
    "JOIN",
    "LATERAL",
    "LIKE",
    "MATCH",
    "NOT",
    "ON",
    "OR",
    "REGEXP",
    "RLIKE",
    "SELECT",
    "SOME",
    "THEN",
    "TO",
    "UNION",
    "WHEN",
    "WHERE",
    "XOR",
];

impl<'b> Cursor<'_, 'b> {
    /// Runs sqlparser from here.
    pub(super) fn sql<T>(
        &mut self,
        read: impl for<'p, 'd> FnOnce(&'p mut Parser<'d>) -> Result<T, ParserError>,
    ) -> Result<T> {
        let outcome = read(self.parser());
        outcome.map_err(|e| self.sql_error(e, None))
    }

    /// Runs sqlparser on the tokens from here up to index `end`. What it leaves unread is left here too.
    pub(super) fn sql_until<T>(
        &mut self,
        end: usize,
        read: impl for<'p, 'd> FnOnce(&'p mut Parser<'d>) -> Result<T, ParserError>,
    ) -> Result<T> {
        let tokens = self.slice(end);
        self.sql_on(tokens, end, read)
    }

    /// Runs sqlparser on `tokens`, which stand for those from here up to index `end`. What is left unread of them is
    /// left unread here: counted from the end, as there may be more of them than there are here.
    pub(super) fn sql_on<T>(
        &mut self,
        tokens: Vec<TokenWithSpan>,
        end: usize,
        read: impl for<'p, 'd> FnOnce(&'p mut Parser<'d>) -> Result<T, ParserError>,
    ) -> Result<T> {
        let length = tokens.len();
        let mut part = self.part(tokens);
        let outcome = read(&mut part);
        let unread = length.saturating_sub(part.index());
        let value = outcome.map_err(|e| self.sql_error(e, Some(end)))?;
        self.move_to(end.saturating_sub(unread));
        Ok(value)
    }

    /// A parser of its own for `tokens`.
    pub(super) fn part(&self, tokens: Vec<TokenWithSpan>) -> Parser<'b> {
        Parser::new(self.dialect())
            .with_recursion_limit(RECURSION_LIMIT)
            .with_tokens_with_locations(tokens)
    }

    /// Goes on to index `index`.
    pub(super) fn move_to(&mut self, index: usize) {
        while self.parser().index() < index {
            self.parser().next_token_no_skip();
        }
    }

    /// The tokens from here up to index `end`.
    pub(super) fn slice(&self, end: usize) -> Vec<TokenWithSpan> {
        let parser = self.tokens();
        (parser.index()..end).map(|i| parser.token_at(i).clone()).collect()
    }

    /// The index of the first token outside all parentheses for which `test(cursor, index, previous token)` holds,
    /// and the index at which the search ended: that one, the end of the statement, or a closing parenthesis.
    pub(super) fn find_at_top(
        &self,
        test: impl Fn(&Parser<'_>, usize, Option<&Token>) -> bool,
    ) -> (Option<usize>, usize) {
        let parser = self.tokens();
        let mut depth = 0_usize;
        let mut previous = None;
        let mut index = parser.index();
        loop {
            let token = &parser.token_at(index).token;
            match token {
                token if is_end(token) => return (None, index),
                Token::Whitespace(_) => {
                    index += 1;
                    continue;
                }
                _ if depth == 0 && test(parser, index, previous) => return (Some(index), index),
                Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                Token::RParen | Token::RBracket | Token::RBrace if depth == 0 => return (None, index),
                Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
                _ => {}
            }
            previous = Some(token);
            index += 1;
        }
    }

    /// An error of sqlparser in our words: `expected an expression, found "x"`. `end` is where the tokens were cut.
    pub(crate) fn sql_error(&self, e: ParserError, end: Option<usize>) -> LoadError {
        let at_cut = end.map(|end| significant(self.tokens(), end, 0).clone());
        let error = LoadError::from(e);
        let Some((what, found)) = error
            .message()
            .strip_prefix("expected: ")
            .and_then(|rest| rest.rsplit_once(", found: "))
        else {
            return error.at_if_unset(self.here());
        };
        let what = match what.chars().any(char::is_alphabetic) {
            true => what.to_owned(),
            false => format!("\"{what}\""),
        };
        if found == "EOF" {
            let (token, span) = match at_cut.filter(|found| !is_end(&found.token)) {
                Some(found) => (found.token, found.span),
                None => (Token::EOF, self.last_span()),
            };
            let message = format!("expected {what}, found {}", shown(&token));
            return LoadError::new(SqlState::Syntax, message).at(span);
        }
        let token = error.span().and_then(|span| self.token_starting_at(span.start));
        let (found, span) = match token {
            Some(token) => (shown(&token.token), token.span),
            None => (format!("\"{found}\""), error.span().unwrap_or_else(|| self.here())),
        };
        LoadError::new(SqlState::Syntax, format!("expected {what}, found {found}")).at(span)
    }

    fn token_starting_at(&self, location: Location) -> Option<TokenWithSpan> {
        let parser = self.tokens();
        (0..)
            .map(|i| parser.token_at(i))
            .take_while(|token| token.token != Token::EOF)
            .find(|token| token.span.start == location)
            .cloned()
    }

    /// The last token of the statement.
    fn last_span(&self) -> Span {
        let parser = self.tokens();
        let mut last = self.behind();
        for index in parser.index().. {
            let found = parser.token_at(index);
            if is_end(&found.token) {
                break;
            }
            if !matches!(found.token, Token::Whitespace(_)) {
                last = found.span;
            }
        }
        last
    }
}

/// The `n`th token at or after `index` that is not white space.
pub(super) fn significant<'p>(parser: &'p Parser<'_>, index: usize, n: usize) -> &'p TokenWithSpan {
    let mut left = n;
    let mut index = index;
    loop {
        let found = parser.token_at(index);
        match found.token {
            Token::Whitespace(_) => {}
            _ if left == 0 => return found,
            Token::EOF => return found,
            _ => left -= 1,
        }
        index += 1;
    }
}

/// Whether the words of `phrase` stand at `index`.
pub(super) fn phrase_at(parser: &Parser<'_>, index: usize, phrase: &str) -> bool {
    phrase
        .split_whitespace()
        .enumerate()
        .all(|(n, expected)| is_word(&significant(parser, index, n).token, expected))
}

/// Whether an expression or a query can be over after this token.
pub(super) fn can_end(token: &Token) -> bool {
    match token {
        Token::Word(_) => word(token).is_none_or(|w| !CONTINUING_WORDS.iter().any(|c| c.eq_ignore_ascii_case(w))),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::Placeholder(_)
        | Token::RParen
        | Token::RBracket
        | Token::RBrace => true,
        _ => false,
    }
}
