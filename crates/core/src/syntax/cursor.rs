//! Reading tokens, one word at a time, with errors that say what was expected and what was found.
//!
//! Our words are not keywords of sqlparser, so they are matched as unquoted words, whatever their case. A phrase such
//! as `ON EMPTY SOURCE` is written as one text and matched word by word.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{LoadError, Result};
use crate::registry::Registry;
use crate::sqlstate::SqlState;

/// A position in the text of one statement.
pub struct Cursor<'a, 'b> {
    parser: &'a mut Parser<'b>,
    dialect: &'b dyn Dialect,
    registry: &'a Registry,
}

impl<'a, 'b> Cursor<'a, 'b> {
    /// Reads on from where `parser` stands. `dialect` is the one the parser was made with; `registry` is asked which
    /// statement a misplaced clause belongs to.
    pub fn new(parser: &'a mut Parser<'b>, dialect: &'b dyn Dialect, registry: &'a Registry) -> Self {
        Self {
            parser,
            dialect,
            registry,
        }
    }

    /// sqlparser's own parser, for what this cursor has no method for.
    pub fn parser(&mut self) -> &mut Parser<'b> {
        self.parser
    }

    /// The parser, to look around in its tokens.
    pub(super) fn tokens(&self) -> &Parser<'b> {
        self.parser
    }

    pub(super) fn dialect(&self) -> &'b dyn Dialect {
        self.dialect
    }

    pub(super) fn registry(&self) -> &'a Registry {
        self.registry
    }

    /// The token `n` places ahead.
    pub fn token(&self, n: usize) -> &TokenWithSpan {
        self.parser.peek_nth_token_ref(n)
    }

    /// Whether this symbol comes next.
    pub fn peek_symbol(&self, symbol: &Token) -> bool {
        self.token(0).token == *symbol
    }

    /// Reads this symbol if it comes next.
    pub fn eat_symbol(&mut self, symbol: &Token) -> bool {
        self.parser.consume_token(symbol)
    }

    /// Reads this symbol, or fails.
    pub fn expect_symbol(&mut self, symbol: &Token) -> Result<()> {
        match self.eat_symbol(symbol) {
            true => Ok(()),
            false => Err(self.expected(&quoted(symbol))),
        }
    }

    /// Whether the words of `phrase` come next.
    pub fn peek(&self, phrase: &str) -> bool {
        words_at(self.parser, 0, phrase)
    }

    /// Whether the words of `phrase` come `n` places ahead.
    pub fn peek_at(&self, n: usize, phrase: &str) -> bool {
        words_at(self.parser, n, phrase)
    }

    /// Reads the words of `phrase` if all of them come next.
    pub fn eat(&mut self, phrase: &str) -> bool {
        let found = self.peek(phrase);
        if found {
            phrase.split_whitespace().for_each(|_| self.parser.advance_token());
        }
        found
    }

    /// Reads the words of `phrase`, or fails at the first one that is missing.
    pub fn expect(&mut self, phrase: &str) -> Result<()> {
        for word in phrase.split_whitespace() {
            if !self.eat(word) {
                return Err(self.expected(word));
            }
        }
        Ok(())
    }

    /// Reads one of several phrases and gives what it stands for.
    pub fn expect_one_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T> {
        match choices.iter().find(|(phrase, _)| self.eat(phrase)) {
            Some((_, value)) => Ok(*value),
            None => {
                let phrases: Vec<&str> = choices.iter().map(|(phrase, _)| *phrase).collect();
                Err(self.expected(&one_of(&phrases)))
            }
        }
    }

    /// Whether the statement ends here.
    pub fn at_end(&self) -> bool {
        is_end(&self.token(0).token)
    }

    /// The statement must end here.
    pub fn expect_end(&self) -> Result<()> {
        match self.at_end() {
            true => Ok(()),
            false => Err(self.expected("end of statement")),
        }
    }

    /// Where the next token stands; at the end of the statement, where the last one does.
    pub fn here(&self) -> Span {
        match self.at_end() {
            true => self.behind(),
            false => self.token(0).span,
        }
    }

    /// Where the token that was read last stands.
    pub fn behind(&self) -> Span {
        (0..self.parser.index())
            .rev()
            .map(|i| self.parser.token_at(i))
            .find(|found| !matches!(found.token, Token::Whitespace(_) | Token::EOF))
            .map_or_else(Span::empty, |found| found.span)
    }

    /// From `start` to the token that was read last.
    pub fn since(&self, start: Span) -> Span {
        start.union(&self.behind())
    }

    /// A syntax error about the next token: `expected INTO, found "x"`.
    pub fn expected(&self, what: &str) -> LoadError {
        self.expected_at(0, what)
    }

    /// A syntax error about the token `n` places ahead.
    pub fn expected_at(&self, n: usize, what: &str) -> LoadError {
        let found = self.token(n);
        let span = match is_end(&found.token) {
            false => found.span,
            true if n > 0 => self.token(n - 1).span,
            true => self.behind(),
        };
        LoadError::new(
            SqlState::Syntax,
            format!("expected {what}, found {}", shown(&found.token)),
        )
        .at(span)
    }
}

/// The unquoted word that a token is.
pub(super) fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

/// Whether a token is this unquoted word.
pub(super) fn is_word(token: &Token, expected: &str) -> bool {
    word(token).is_some_and(|found| found.eq_ignore_ascii_case(expected))
}

/// Whether the words of `phrase` come `n` places ahead of `parser`.
pub(crate) fn words_at(parser: &Parser<'_>, n: usize, phrase: &str) -> bool {
    phrase
        .split_whitespace()
        .enumerate()
        .all(|(i, expected)| is_word(&parser.peek_nth_token_ref(n + i).token, expected))
}

/// Whether a statement ends before this token.
pub(super) fn is_end(token: &Token) -> bool {
    matches!(token, Token::EOF | Token::SemiColon)
}

/// A token as errors show it. Long ones are cut: the caret shows the place anyway.
pub(super) fn shown(token: &Token) -> String {
    const LONGEST: usize = 40;
    if is_end(token) {
        return "end of statement".to_owned();
    }
    let text = match token {
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => return "a string".to_owned(),
        other => other.to_string(),
    };
    match text.chars().count() > LONGEST {
        true => format!("\"{}..\"", text.chars().take(LONGEST).collect::<String>()),
        false => format!("\"{text}\""),
    }
}

fn quoted(symbol: &Token) -> String {
    format!("\"{symbol}\"")
}

/// `A, B or C`.
pub(super) fn one_of(names: &[&str]) -> String {
    enumerated(names, "or")
}

/// `A, B and C`, with the given last word.
pub(super) fn enumerated(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;
    use crate::report;

    fn with_cursor<T>(sql: &str, read: impl FnOnce(&mut Cursor<'_, '_>) -> T) -> T {
        let registry = Registry::default();
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(sql).unwrap();
        read(&mut Cursor::new(&mut parser, &dialect, &registry))
    }

    #[test]
    fn words_match_in_any_case_unless_they_are_quoted() {
        with_cursor("on /* c */ Empty SOURCE \"KEYS\"", |cursor| {
            assert!(cursor.peek("ON EMPTY"));
            assert!(!cursor.eat("ON EMPTY TARGET"));
            assert!(cursor.eat("ON EMPTY SOURCE"));
            assert!(!cursor.peek("KEYS"));
            assert_eq!(cursor.ident().unwrap().value, "KEYS");
            assert!(cursor.at_end());
        });
    }

    #[test]
    fn a_missing_word_is_named_where_it_should_stand() {
        let shown = |sql: &str| with_cursor(sql, |cursor| report::render(&cursor.expect("A B C").unwrap_err(), sql));
        assert_eq!(
            shown("a b x"),
            "ERROR 42601: expected C, found \"x\"\nLINE 1: a b x\n            ^"
        );
        assert_eq!(
            shown("a b ; c"),
            "ERROR 42601: expected C, found end of statement\nLINE 1: a b ; c\n          ^"
        );
        assert_eq!(shown(""), "ERROR 42601: expected A, found end of statement");
    }

    #[test]
    fn choices_are_listed_when_none_is_there() {
        let choices = [("SKIP", 1), ("NEW RECORD", 2), ("ERROR", 3)];
        assert_eq!(with_cursor("new record", |c| c.expect_one_of(&choices).unwrap()), 2);
        let error = with_cursor("new", |c| c.expect_one_of(&choices).unwrap_err());
        assert_eq!(error.message(), "expected SKIP, NEW RECORD or ERROR, found \"new\"");
    }

    #[test]
    fn keys_and_values_come_with_and_without_equals_signs() {
        let pairs = with_cursor("('a.b' 'c', 'd' = 1, e.f = TRUE)", |cursor| {
            cursor.key_values().unwrap()
        });
        let pairs: Vec<_> = pairs.iter().map(|p| (p.key.as_str(), p.value.as_str())).collect();
        assert_eq!(pairs, [("a.b", "c"), ("d", "1"), ("e.f", "true")]);
    }

    #[test]
    fn an_expression_ends_before_what_sqlparser_would_misread() {
        for (sql, expr, rest) in [
            ("f(a) IGNORE NULL UPDATES", "f(a)", "IGNORE NULL UPDATES"),
            (
                "first_value(a) IGNORE NULLS OVER () WITH",
                "first_value(a) IGNORE NULLS OVER ()",
                "WITH",
            ),
            ("a::TIMESTAMP WITH x", "a::TIMESTAMP", "WITH X"),
            (
                "a::TIMESTAMP WITH TIME ZONE WITH TIES",
                "a::TIMESTAMP WITH TIME ZONE",
                "WITH TIES",
            ),
            (
                "a BETWEEN b AND c AND d UPDATE SET",
                "a BETWEEN b AND c AND d",
                "UPDATE SET",
            ),
            ("a IS NOT NULL THEN", "a IS NOT NULL", "THEN"),
            ("INTERVAL '3' DAY TRANSACTION", "INTERVAL '3' DAY", "TRANSACTION"),
            (
                "now() AT TIME ZONE 'UTC' ON EMPTY",
                "now() AT TIME ZONE 'UTC'",
                "ON EMPTY",
            ),
            ("x COLUMNS", "x", "COLUMNS"),
        ] {
            with_cursor(sql, |cursor| {
                assert_eq!(cursor.expr().unwrap().to_string(), expr, "{sql}");
                assert!(cursor.peek(rest), "{sql}");
            });
        }
    }
}
