//! Refuses texts whose trees would be too deep for the stack.
//!
//! sqlparser limits how deep most constructs may be nested, but not all of them, and a chain of operators such as
//! `a OR b OR c ..` makes a tree as deep as it is long without any nesting. Building such a tree does no harm; dropping
//! or printing it recurses. So three lengths are measured before parsing.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// Open brackets.
const DEEPEST_NESTING: usize = 200;
/// Operators and keywords in a row: `NOT NOT NOT ..`, `EXPLAIN EXPLAIN ..`.
const LONGEST_RUN: usize = 200;
/// Operators and keywords between two commas, outside the brackets among them.
const LONGEST_CHAIN: usize = 16_000;

/// Measures the statement that `parser` stands at.
pub(super) fn check(parser: &Parser<'_>) -> Result<()> {
    let mut chains = vec![0_usize];
    let mut run = 0_usize;
    for index in parser.index().. {
        let found = parser.token_at(index);
        match &found.token {
            Token::EOF | Token::SemiColon => break,
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => {
                run = 0;
                chains.push(0);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                run = 0;
                chains.pop();
            }
            Token::Comma => {
                run = 0;
                if let Some(chain) = chains.last_mut() {
                    *chain = 0;
                }
            }
            token if is_operand(token) => run = 0,
            _ => {
                run += 1;
                if let Some(chain) = chains.last_mut() {
                    *chain += 1;
                }
            }
        }
        let chain = chains.last().copied().unwrap_or_default();
        if chains.len() > DEEPEST_NESTING || run > LONGEST_RUN {
            return Err(too_complex("the statement is nested too deeply", found.span)
                .hint("Split it into several statements, or flatten the expression."));
        }
        if chain > LONGEST_CHAIN {
            return Err(too_complex("the statement has too many operators in a row", found.span)
                .hint("Put the values into a table or a VALUES list, or split the statement."));
        }
    }
    Ok(())
}

fn is_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword == Keyword::NoKeyword,
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Period => true,
        _ => false,
    }
}

fn too_complex(message: &str, at: Span) -> LoadError {
    LoadError::new(SqlState::TooComplex, message).at(at)
}
