//! Whether a text that is being typed may be run.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, TokenizerError};

/// Whether a prompt may run `sql`: its last statement ends with a semicolon, or there is no statement in it. A
/// semicolon inside a string, a quoted name or a comment ends nothing.
///
/// ```
/// use alluvium_core::script::is_complete;
/// assert!(is_complete("SELECT ';';"));
/// assert!(!is_complete("SELECT ';"));
/// ```
pub fn is_complete(sql: &str) -> bool {
    let mut tokens = Vec::new();
    let outcome = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    if let Err(e) = outcome {
        // What cannot become right by typing on is run, so that the error is shown.
        return !is_open(&e) && sql.trim_end().ends_with(';');
    }
    let last = tokens
        .iter()
        .rev()
        .map(|found| &found.token)
        .find(|token| !matches!(token, Token::Whitespace(_)));
    last.is_none_or(|token| *token == Token::SemiColon)
}

/// Whether a string, a quoted name or a comment has no end yet.
fn is_open(e: &TokenizerError) -> bool {
    e.message.contains("nterminated") || e.message.contains("EOF")
}
