//! Looking ahead: whether a statement of ours stands behind `EXPLAIN`, `PREPARE` or `WITH`. When it does not, the
//! parser goes back to where it stood.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, UtilityOption, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::peek;

/// What `EXPLAIN` was asked for.
#[derive(Debug, Default)]
pub(super) struct ExplainOptions {
    pub(super) analyze: bool,
    pub(super) verbose: bool,
    pub(super) format: Option<String>,
}

/// Moves over white space and gives the position, for [`rewind`].
pub(super) fn mark(parser: &mut Parser<'_>) -> usize {
    parser.advance_token();
    parser.prev_token();
    parser.index()
}

/// Goes back to a position that [`mark`] gave.
pub(super) fn rewind(parser: &mut Parser<'_>, position: usize) {
    while parser.index() > position {
        parser.prev_token();
    }
}

/// Goes on to the token at `position`.
pub(super) fn forward(parser: &mut Parser<'_>, position: usize) {
    while parser.index() < position {
        parser.next_token_no_skip();
    }
}

/// Reads `[ANALYZE] [VERBOSE] [FORMAT name]`, or the list in parentheses that PostgreSQL has. `None`: something else
/// stands here, which DataFusion may understand.
pub(super) fn explain_options(parser: &mut Parser<'_>) -> Option<ExplainOptions> {
    if parser.peek_token_ref().token == Token::LParen {
        return listed_options(&parser.parse_utility_options().ok()?);
    }
    let analyze = eat(parser, "ANALYZE");
    let verbose = eat(parser, "VERBOSE");
    let format = match eat(parser, "FORMAT") {
        true => Some(format_name(parser.next_token().token)?),
        false => None,
    };
    Some(ExplainOptions {
        analyze,
        verbose,
        format,
    })
}

fn listed_options(listed: &[UtilityOption]) -> Option<ExplainOptions> {
    let mut options = ExplainOptions::default();
    for option in listed {
        let argument = option.arg.as_ref().map(argument);
        match option.name.value.to_ascii_uppercase().as_str() {
            "ANALYZE" => options.analyze = is_on(argument)?,
            "VERBOSE" => options.verbose = is_on(argument)?,
            "FORMAT" => options.format = Some(argument??),
            _ => return None,
        }
    }
    Some(options)
}

fn argument(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            Value::Number(digits, _) => Some(digits.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        _ => None,
    }
}

fn is_on(argument: Option<Option<String>>) -> Option<bool> {
    let Some(text) = argument else {
        return Some(true);
    };
    match text?.to_ascii_uppercase().as_str() {
        "TRUE" | "ON" | "1" => Some(true),
        "FALSE" | "OFF" | "0" => Some(false),
        _ => None,
    }
}

fn format_name(token: Token) -> Option<String> {
    match token {
        Token::Word(word) => Some(word.value),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Some(text),
        _ => None,
    }
}

/// Reads `name [(types)] AS` after `PREPARE`.
pub(super) fn prepare_head(parser: &mut Parser<'_>) -> Result<(Ident, Vec<DataType>), ParserError> {
    let name = parser.parse_identifier()?;
    let mut types = Vec::new();
    if parser.consume_token(&Token::LParen) {
        types = parser.parse_comma_separated(Parser::parse_data_type)?;
        parser.expect_token(&Token::RParen)?;
    }
    match eat(parser, "AS") {
        true => Ok((name, types)),
        false => parser.expected_ref("AS", parser.peek_token_ref()),
    }
}

/// The index of the token behind the list of a `WITH` clause that stands here: the first one after a closing
/// parenthesis that does not go on with the list.
pub(super) fn behind_with(parser: &Parser<'_>) -> Option<usize> {
    if !peek(parser, "WITH") {
        return None;
    }
    let mut depth = 0_usize;
    let mut closed = false;
    for index in parser.index().. {
        let token = &parser.token_at(index).token;
        match token {
            Token::Whitespace(_) => continue,
            Token::EOF | Token::SemiColon => return None,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            Token::Comma if depth == 0 => {}
            Token::Word(_) if depth == 0 && closed && !is_as(token) => return Some(index),
            _ => {}
        }
        closed = depth == 0 && *token == Token::RParen;
    }
    None
}

fn is_as(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("AS"))
}

fn eat(parser: &mut Parser<'_>, word: &str) -> bool {
    let found = peek(parser, word);
    if found {
        parser.advance_token();
    }
    found
}
