//! Reading commands word by word. Commands are few and short, so they need only this much of a parser.

use alluvium_core::syntax::KeyValue;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

/// Whether the token `n` places ahead is the unquoted word `word`.
pub(super) fn is_word(parser: &Parser<'_>, n: usize, word: &str) -> bool {
    matches!(&parser.peek_nth_token_ref(n).token,
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Whether `words` come next, from `n` places ahead.
pub(super) fn are_words(parser: &Parser<'_>, n: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(i, word)| is_word(parser, n + i, word))
}

/// Reads `words` if they come next.
pub(super) fn eat(parser: &mut Parser<'_>, words: &[&str]) -> bool {
    let found = are_words(parser, 0, words);
    if found {
        for _ in words {
            parser.advance_token();
        }
    }
    found
}

/// Reads `words`, or fails.
pub(super) fn expect(parser: &mut Parser<'_>, words: &[&str]) -> Result<()> {
    for word in words {
        if !eat(parser, &[word]) {
            return Err(expected(parser, word));
        }
    }
    Ok(())
}

/// Reads the token `token`, or fails.
pub(super) fn expect_token(parser: &mut Parser<'_>, token: &Token) -> Result<()> {
    match parser.consume_token(token) {
        true => Ok(()),
        false => Err(expected(parser, &token.to_string())),
    }
}

/// The statement must end here.
pub(super) fn expect_end(parser: &Parser<'_>) -> Result<()> {
    match parser.peek_token_ref().token {
        Token::EOF | Token::SemiColon => Ok(()),
        _ => Err(expected(parser, "the end of the statement")),
    }
}

/// Reads a table's name.
pub(super) fn table_name(parser: &mut Parser<'_>) -> Result<(ObjectName, Span)> {
    let first = parser.peek_token_ref().span;
    let name = parser.parse_object_name(false)?;
    Ok((name, first.union(&parser.get_current_token().span)))
}

/// Reads a quoted string.
pub(super) fn string(parser: &mut Parser<'_>, what: &str) -> Result<String> {
    match &parser.peek_token_ref().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            let text = text.clone();
            parser.advance_token();
            Ok(text)
        }
        _ => Err(expected(parser, what)),
    }
}

/// Reads `(a, b)`.
pub(super) fn names(parser: &mut Parser<'_>) -> Result<Vec<Ident>> {
    expect_token(parser, &Token::LParen)?;
    let names = parser.parse_comma_separated(|p| p.parse_identifier())?;
    expect_token(parser, &Token::RParen)?;
    Ok(names)
}

/// Reads `('key' = 'value', ..)`; the equals sign may be missing, keys may be dotted words. `clause` names the clause
/// in errors, which never repeat what was read: values can be credentials.
pub(super) fn key_values(parser: &mut Parser<'_>, clause: &str) -> Result<Vec<KeyValue>> {
    let wrong = || {
        LoadError::new(SqlState::Syntax, format!("{clause} takes a list of keys and values"))
            .hint(format!("Write {clause} ('key' = 'value', 'key' = 'value')."))
    };
    if !parser.consume_token(&Token::LParen) {
        return Err(wrong());
    }
    let mut pairs: Vec<KeyValue> = Vec::new();
    while !parser.consume_token(&Token::RParen) {
        let span = parser.peek_token_ref().span;
        let key = key(parser).ok_or_else(wrong)?;
        let _ = parser.consume_token(&Token::Eq);
        let value = value(parser).ok_or_else(wrong)?;
        if pairs.iter().any(|pair| pair.key == key) {
            return Err(LoadError::new(
                SqlState::Syntax,
                format!("{clause} has key '{key}' twice"),
            ));
        }
        pairs.push(KeyValue { key, value, span });
        if !parser.consume_token(&Token::Comma) && parser.peek_token_ref().token != Token::RParen {
            return Err(wrong());
        }
    }
    Ok(pairs)
}

fn key(parser: &mut Parser<'_>) -> Option<String> {
    let mut key = match parser.next_token().token {
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => return Some(text),
        Token::Word(word) => word.value,
        _ => return None,
    };
    while parser.consume_token(&Token::Period) {
        match parser.next_token().token {
            Token::Word(word) => key = format!("{key}.{}", word.value),
            _ => return None,
        }
    }
    Some(key)
}

fn value(parser: &mut Parser<'_>) -> Option<String> {
    match parser.next_token().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(text),
        Token::Number(digits, _) => Some(digits),
        Token::Word(word) if word.quote_style.is_none() => Some(word.value),
        _ => None,
    }
}

/// "expected this, found that" at the parser's position.
pub(super) fn expected(parser: &Parser<'_>, what: &str) -> LoadError {
    let found = parser.peek_token_ref();
    let shown = match &found.token {
        Token::EOF => "the end of the text".to_owned(),
        token => token.to_string(),
    };
    LoadError::new(SqlState::Syntax, format!("expected {what}, found {shown}")).at(found.span)
}

/// A clause that was read twice.
pub(super) fn twice(parser: &Parser<'_>, clause: &str) -> LoadError {
    LoadError::new(SqlState::Syntax, format!("{clause} is written twice")).at(parser.get_current_token().span)
}

/// `text` as a string literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
