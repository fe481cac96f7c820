//! Expressions inside our clauses.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::ast::{Assignment, Order};
use super::cursor::{Cursor, is_word};
use super::slice::{can_end, phrase_at, significant};
use super::source::starts_query;
use crate::error::Result;

impl Cursor<'_, '_> {
    /// Reads an expression. It ends before the next clause.
    pub fn expr(&mut self) -> Result<Expr> {
        match self.find_at_top(misread).0 {
            Some(end) => self.sql_until(end, |parser| parser.parse_expr()),
            None => self.sql(|parser| parser.parse_expr()),
        }
    }

    /// Reads `expr, expr, ..`.
    pub fn exprs(&mut self) -> Result<Vec<Expr>> {
        self.list(Self::expr)
    }

    /// Reads `(expr)`.
    pub fn parenthesized_expr(&mut self) -> Result<Expr> {
        self.expect_symbol(&Token::LParen)?;
        let expr = self.expr()?;
        self.expect_symbol(&Token::RParen)?;
        Ok(expr)
    }

    /// Reads an expression and the word after it, where sqlparser may know that word as a part of an expression: the
    /// `TO` of `INTERVAL '1' DAY TO ..`.
    pub fn expr_before(&mut self, stop: &str) -> Result<Expr> {
        let found = self.find_at_top(|parser, index, _| is_word(&parser.token_at(index).token, stop));
        let expr = match found.0 {
            Some(end) => self.sql_until(end, |parser| parser.parse_expr())?,
            None => self.expr()?,
        };
        self.expect(stop)?;
        Ok(expr)
    }

    /// Reads `column = expr, ..`.
    pub fn assignments(&mut self) -> Result<Vec<Assignment>> {
        self.list(|cursor| {
            let column = cursor.ident()?;
            if cursor.peek_symbol(&Token::Period) {
                return Err(cursor
                    .expected("\"=\"")
                    .hint("Only columns of the target are set: leave out the table name before the column."));
            }
            cursor.expect_symbol(&Token::Eq)?;
            let value = cursor.expr()?;
            Ok(Assignment { column, value })
        })
    }

    /// Reads `expr [ASC | DESC] [NULLS FIRST | NULLS LAST], ..`.
    pub fn orders(&mut self) -> Result<Vec<Order>> {
        self.list(|cursor| {
            let expr = cursor.expr()?;
            let descending = !cursor.eat("ASC") && cursor.eat("DESC");
            let nulls_first = match cursor.eat("NULLS") {
                true => cursor.expect_one_of(&[("FIRST", true), ("LAST", false)])?,
                false => false,
            };
            Ok(Order {
                expr,
                descending,
                nulls_first,
            })
        })
    }
}

/// Whether sqlparser would take the start of one of our clauses for a part of the expression: `f(x) IGNORE NULLS`,
/// `x::TIMESTAMP WITH TIME ZONE`, `f (SELECT ..)`.
fn misread(parser: &Parser<'_>, index: usize, previous: Option<&Token>) -> bool {
    if !previous.is_some_and(can_end) {
        return false;
    }
    let token = &parser.token_at(index).token;
    match token {
        Token::LParen => starts_query(&significant(parser, index + 1, 0).token),
        token if is_word(token, "WITH") => !phrase_at(parser, index, "WITH TIME"),
        token if is_word(token, "IGNORE") => !phrase_at(parser, index, "IGNORE NULLS"),
        _ => false,
    }
}
