//! Refuses texts that would take too much stack or time, before they are parsed.
//!
//! sqlparser limits how deep most constructs may be nested, but not all of them. It reads `NOT ..`, `CAST(..)` and the
//! like a second time, as names and functions, when there is an error inside: nested, that takes exponential time. And a chain of operators such as
//! `a OR b OR c ..` makes a tree as deep as it is long without any nesting: building it does no harm, but dropping or
//! printing it recurses.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// Open brackets and `CASE`s, and the prefix operators before them.
const DEEPEST_NESTING: usize = 200;
/// Prefix operators in a row: `NOT NOT NOT ..`.
const LONGEST_RUN: usize = 50;
/// What sqlparser may read twice, inside each other.
const MOST_READ_TWICE: usize = 12;
/// Operators between two commas, outside the brackets among them.
const LONGEST_CHAIN: usize = 16_000;
/// `EXPLAIN`s, which recurse without a limit.
const MOST_EXPLAINS: usize = 32;

/// Measures a statement, given from its first token on, and gives the depth of its nesting.
pub(super) fn check<'t>(tokens: impl Iterator<Item = &'t TokenWithSpan>) -> Result<usize> {
    let mut measure = Measure::default();
    for found in tokens.take_while(|found| !matches!(found.token, Token::EOF | Token::SemiColon)) {
        measure.take(&found.token);
        measure.judge(found.span)?;
    }
    Ok(measure.deepest.max(measure.statements))
}

/// The depth of the most nested statement of a script, but for those that [`check`] refuses.
pub(super) fn deepest(tokens: &[TokenWithSpan]) -> usize {
    tokens
        .split(|found| found.token == Token::SemiColon)
        .filter_map(|statement| check(statement.iter()).ok())
        .max()
        .unwrap_or_default()
}

/// What the tokens so far amount to.
#[derive(Debug, Default)]
struct Measure {
    open: Vec<Level>,
    depth: usize,
    deepest: usize,
    run: usize,
    before: (usize, usize),
    chain: usize,
    prefixes: usize,
    read_twice: usize,
    explains: usize,
    statements: usize,
    last: Option<Keyword>,
}

/// Something that is open: a bracket, a `CASE` or the `<` of a type.
#[derive(Debug)]
struct Level {
    closer: Closer,
    weight: usize,
    read_twice: usize,
    outer_chain: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closer {
    Bracket,
    End,
    Angle,
}

impl Measure {
    fn take(&mut self, token: &Token) {
        let last = self.last;
        match token {
            Token::Whitespace(_) => return,
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.push(Closer::Bracket, last.is_some_and(is_special_function));
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.pop(Closer::Bracket),
            Token::Lt if last.is_some_and(is_generic_type) => self.push(Closer::Angle, false),
            Token::Gt | Token::ShiftRight => {
                self.operator();
                self.pop(Closer::Angle);
            }
            Token::Comma => {
                self.clear();
                self.chain = 0;
            }
            Token::Word(word) if word.quote_style.is_none() => self.take_word(word.keyword),
            token if is_operand(token) => self.operand(),
            _ => self.operator(),
        }
        self.last = match token {
            Token::Word(word) => Some(word.keyword),
            _ => None,
        };
        self.deepest = self.deepest.max(self.depth + self.run);
    }

    fn take_word(&mut self, keyword: Keyword) {
        match keyword {
            Keyword::CASE => self.push(Closer::End, false),
            Keyword::END => self.pop(Closer::End),
            keyword if is_prefix(keyword) => {
                self.operator();
                self.prefixes += 1;
                self.explains += usize::from(keyword == Keyword::EXPLAIN);
                self.statements += usize::from(keyword == Keyword::EXPLAIN);
            }
            keyword => {
                self.statements += usize::from(takes_statement(keyword));
                self.chain += usize::from(is_infix(keyword));
                self.operand();
            }
        }
    }

    fn operator(&mut self) {
        self.before = (0, 0);
        self.run += 1;
        self.chain += 1;
    }

    /// The end of a run of prefix operators. It still counts when the operand is the name of a function.
    fn operand(&mut self) {
        if self.run > 0 {
            self.before = (self.run, self.prefixes);
        }
        self.run = 0;
        self.prefixes = 0;
    }

    fn clear(&mut self) {
        self.before = (0, 0);
        self.run = 0;
        self.prefixes = 0;
    }

    fn push(&mut self, closer: Closer, special: bool) {
        self.operand();
        let (run, prefixes) = self.before;
        let level = Level {
            closer,
            weight: run + 1,
            read_twice: prefixes + usize::from(special),
            outer_chain: self.chain,
        };
        self.depth += level.weight;
        self.read_twice += level.read_twice;
        self.open.push(level);
        self.clear();
        self.chain = 0;
    }

    fn pop(&mut self, closer: Closer) {
        if let Some(level) = self.open.pop_if(|level| level.closer == closer) {
            self.depth -= level.weight;
            self.read_twice -= level.read_twice;
            self.clear();
            self.chain = level.outer_chain;
        }
    }

    fn judge(&self, at: Span) -> Result<()> {
        let deep = self.depth > DEEPEST_NESTING
            || self.run > LONGEST_RUN
            || self.read_twice + self.prefixes > MOST_READ_TWICE
            || self.explains > MOST_EXPLAINS;
        if deep {
            return Err(too_complex("the statement is nested too deeply", at)
                .hint("Split it into several statements, or flatten the expression."));
        }
        if self.chain > LONGEST_CHAIN {
            return Err(too_complex("the statement has too many operators in a row", at)
                .hint("Put the values into a table or a VALUES list, or split the statement."));
        }
        Ok(())
    }
}

fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
    )
}

/// Words that may stand before an operand again and again.
fn is_prefix(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(keyword, NOT | INTERVAL | EXPLAIN | PRIOR | BINARY)
}

/// Words behind which a whole statement may stand.
fn takes_statement(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(keyword, PREPARE | IF | WHILE | BEGIN | THEN | ELSE | DESCRIBE | DESC)
}

/// Words that join two operands into a tree.
fn is_infix(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        AND | OR
            | XOR
            | IS
            | IN
            | LIKE
            | ILIKE
            | RLIKE
            | REGEXP
            | SIMILAR
            | BETWEEN
            | OVERLAPS
            | DIV
            | AT
            | COLLATE
            | NOTNULL
            | UNION
            | EXCEPT
            | INTERSECT
            | MINUS
    )
}

/// Functions with a grammar of their own, which sqlparser reads again as ordinary functions when that fails.
fn is_special_function(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        CAST | TRY_CAST
            | SAFE_CAST
            | CONVERT
            | TRY_CONVERT
            | EXTRACT
            | CEIL
            | FLOOR
            | POSITION
            | SUBSTR
            | SUBSTRING
            | OVERLAY
            | TRIM
            | EXISTS
            | ARRAY
            | STRUCT
            | MATCH
            | LAMBDA
    )
}

fn is_generic_type(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP | Keyword::NESTED | Keyword::TUPLE
    )
}

fn too_complex(message: &str, at: Span) -> LoadError {
    LoadError::new(SqlState::TooComplex, message).at(at)
}
