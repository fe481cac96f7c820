//! Names, lists of names, literals and key-value lists.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::ast::{ColumnSet, KeyValue};
use super::cursor::Cursor;
use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

impl Cursor<'_, '_> {
    /// Reads one or more of something, with commas between.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_symbol(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads `(item, item, ..)`.
    pub fn parenthesized<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_symbol(&Token::LParen)?;
        let items = self.list(item)?;
        match self.eat_symbol(&Token::RParen) {
            true => Ok(items),
            false => Err(self.expected("\",\" or \")\"")),
        }
    }

    /// Reads a name, quoted or not.
    pub fn ident(&mut self) -> Result<Ident> {
        let found = self.token(0);
        let span = found.span;
        let ident = match &found.token {
            Token::Word(word) => word.clone().into_ident(span),
            Token::DoubleQuotedString(text) => Ident::with_quote_and_span('"', span, text.clone()),
            _ => return Err(self.expected("a name")),
        };
        self.parser().advance_token();
        Ok(ident)
    }

    /// Reads `(a, b, ..)`. A name that occurs twice is an error.
    pub fn idents(&mut self) -> Result<Vec<Ident>> {
        let names = self.parenthesized(Self::ident)?;
        distinct(names.iter())?;
        Ok(names)
    }

    /// Reads `(a, b)` or `* [EXCEPT (a, b)]`.
    pub fn column_set(&mut self) -> Result<ColumnSet> {
        if self.peek_symbol(&Token::LParen) {
            return Ok(ColumnSet::Only(self.idents()?));
        }
        if !self.eat_symbol(&Token::Mul) {
            return Err(self
                .expected("\"(\" or \"*\"")
                .hint("Write (column, ..) or * EXCEPT (column, ..)."));
        }
        match self.eat("EXCEPT") {
            true => Ok(ColumnSet::AllExcept(self.idents()?)),
            false => Ok(ColumnSet::AllExcept(Vec::new())),
        }
    }

    /// Whether a column set comes `n` places ahead.
    pub fn column_set_at(&self, n: usize) -> bool {
        matches!(self.token(n).token, Token::LParen | Token::Mul)
    }

    /// Reads a string literal. `what` names it in the error.
    pub fn string(&mut self, what: &str) -> Result<String> {
        let text = match &self.token(0).token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
            _ => return Err(self.expected(&format!("{what} in single quotes"))),
        };
        self.parser().advance_token();
        Ok(text)
    }

    /// Reads a whole number that is not negative.
    pub fn integer(&mut self) -> Result<i64> {
        let number = match &self.token(0).token {
            Token::Number(digits, _) => digits.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.expected("a whole number from 0 to 9223372036854775807"))?;
        self.parser().advance_token();
        Ok(number)
    }

    /// Reads `('key' = 'value', ..)`, with or without the equals signs. Keys may be dotted words, values numbers or
    /// `true` and `false`.
    pub fn key_values(&mut self) -> Result<Vec<KeyValue>> {
        let pairs = self.parenthesized(|cursor| {
            let span = cursor.token(0).span;
            let key = cursor.key()?;
            cursor.eat_symbol(&Token::Eq);
            let value = cursor.value()?;
            Ok(KeyValue { key, value, span })
        })?;
        for (i, pair) in pairs.iter().enumerate() {
            if pairs.iter().take(i).any(|earlier| earlier.key == pair.key) {
                return Err(
                    LoadError::new(SqlState::Syntax, format!("key '{}' is written twice", pair.key)).at(pair.span),
                );
            }
        }
        Ok(pairs)
    }

    fn key(&mut self) -> Result<String> {
        if !matches!(self.token(0).token, Token::Word(_) | Token::DoubleQuotedString(_)) {
            return self.string("a key");
        }
        let mut key = self.ident()?.value;
        while self.eat_symbol(&Token::Period) {
            key = format!("{key}.{}", self.ident()?.value);
        }
        Ok(key)
    }

    fn value(&mut self) -> Result<String> {
        let text = match &self.token(0).token {
            Token::Number(digits, _) => digits.clone(),
            _ if self.peek("TRUE") => "true".to_owned(),
            _ if self.peek("FALSE") => "false".to_owned(),
            _ => return self.string("a value"),
        };
        self.parser().advance_token();
        Ok(text)
    }
}

/// Fails when a name occurs twice. Two unquoted names are the same whatever their case.
pub fn distinct<'a>(names: impl Iterator<Item = &'a Ident>) -> Result<()> {
    let mut seen: Vec<String> = Vec::new();
    for ident in names {
        let name = match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_lowercase(),
        };
        if seen.contains(&name) {
            return Err(LoadError::new(
                SqlState::DuplicateColumn,
                format!("column \"{}\" is listed twice", ident.value),
            )
            .at(ident.span));
        }
        seen.push(name);
    }
    Ok(())
}
