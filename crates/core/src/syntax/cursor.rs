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
