//! The grammar of `CREATE TABLE .. USING DELTA`.

use std::fmt::{self, Display};

use alluvium_core::secrets::redact;
use alluvium_core::syntax::KeyValue;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::types::ColumnType;
use crate::commands::words::{self, are_words, eat, expect, expected, is_word, quoted, twice};

/// The statement as written. Its text forms leave the signature of a location out.
#[derive(Clone)]
pub(super) struct CreateTable {
    pub name: ObjectName,
    pub span: Span,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDef>,
    pub checks: Vec<Check>,
    pub partitioned_by: Vec<Ident>,
    pub location: Option<String>,
    pub comment: Option<String>,
    pub properties: Vec<KeyValue>,
    pub query: Option<Box<Query>>,
}

/// One column of the list.
#[derive(Debug, Clone)]
pub(super) struct ColumnDef {
    pub name: Ident,
    pub data_type: ColumnType,
    pub not_null: bool,
    pub comment: Option<String>,
    /// `GENERATED ALWAYS AS (expr)`.
    pub generated: Option<Expr>,
}

/// `CONSTRAINT name CHECK (expr)`.
#[derive(Debug, Clone)]
pub(super) struct Check {
    pub name: Ident,
    pub expr: Expr,
    pub span: Span,
}

/// Whether `CREATE [OR REPLACE] TABLE .. USING DELTA` stands here. Without `USING DELTA` the statement is DataFusion's.
pub(super) fn claims(parser: &Parser<'_>) -> bool {
    let head =
        are_words(parser, 0, &["CREATE", "TABLE"]) || are_words(parser, 0, &["CREATE", "OR", "REPLACE", "TABLE"]);
    head && outer_words(parser, "USING", "DELTA")
}

/// Whether the words `first second` stand in the statement outside of brackets and before `AS`.
pub(in crate::commands) fn outer_words(parser: &Parser<'_>, first: &str, second: &str) -> bool {
    let mut depth = 0_usize;
    for n in 0.. {
        match &parser.peek_nth_token_ref(n).token {
            Token::EOF | Token::SemiColon => return false,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth > 0 => (),
            _ if is_word(parser, n, "AS") && !is_word(parser, n.saturating_sub(1), "STORED") => return false,
            _ if is_word(parser, n, first) && is_word(parser, n + 1, second) => return true,
            _ => (),
        }
    }
    false
}

/// Reads the statement.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<CreateTable> {
    expect(parser, &["CREATE"])?;
    if is_word(parser, 0, "OR") {
        let error = LoadError::unsupported("CREATE OR REPLACE TABLE is not supported").at(parser.peek_token_ref().span);
        return Err(error.hint("Use DROP TABLE IF EXISTS first, or INSERT OVERWRITE to replace the rows."));
    }
    expect(parser, &["TABLE"])?;
    let if_not_exists = eat(parser, &["IF", "NOT", "EXISTS"]);
    let (name, span) = words::table_name(parser)?;
    let mut statement = CreateTable {
        name,
        span,
        if_not_exists,
        columns: Vec::new(),
        checks: Vec::new(),
        partitioned_by: Vec::new(),
        location: None,
        comment: None,
        properties: Vec::new(),
        query: None,
    };
    if parser.consume_token(&Token::LParen) {
        parse_columns(parser, &mut statement)?;
    }
    parse_clauses(parser, &mut statement)?;
    words::expect_end(parser)?;
    if statement.columns.is_empty() && statement.query.is_none() && statement.location.is_none() {
        return Err(LoadError::new(SqlState::Syntax, "a new table needs columns")
            .at(span)
            .hint("Write a column list behind the name, or AS and a query at the end."));
    }
    Ok(statement)
}

fn parse_columns(parser: &mut Parser<'_>, statement: &mut CreateTable) -> Result<()> {
    loop {
        let span = parser.peek_token_ref().span;
        if eat(parser, &["CONSTRAINT"]) {
            let name = parser.parse_identifier()?;
            let expr = check(parser)?;
            statement.checks.push(Check { name, expr, span });
        } else {
            refuse_keys(parser)?;
            parse_column(parser, statement)?;
        }
        if !parser.consume_token(&Token::Comma) {
            return words::expect_token(parser, &Token::RParen);
        }
    }
}

fn check(parser: &mut Parser<'_>) -> Result<Expr> {
    refuse_keys(parser)?;
    expect(parser, &["CHECK"])?;
    parenthesized(parser)
}

fn parenthesized(parser: &mut Parser<'_>) -> Result<Expr> {
    words::expect_token(parser, &Token::LParen)?;
    let expr = parser.parse_expr()?;
    words::expect_token(parser, &Token::RParen)?;
    Ok(expr)
}

fn parse_column(parser: &mut Parser<'_>, statement: &mut CreateTable) -> Result<()> {
    let name = parser.parse_identifier()?;
    let data_type = ColumnType::parse(parser)?;
    let mut column = ColumnDef {
        name,
        data_type,
        not_null: false,
        comment: None,
        generated: None,
    };
    loop {
        let span = parser.peek_token_ref().span;
        refuse_keys(parser)?;
        if eat(parser, &["NOT", "NULL"]) {
            column.not_null = true;
        } else if eat(parser, &["NULL"]) {
            column.not_null = false;
        } else if eat(parser, &["COMMENT"]) {
            column.comment = Some(words::string(parser, "the comment")?);
        } else if eat(parser, &["GENERATED", "ALWAYS", "AS"]) {
            if is_word(parser, 0, "IDENTITY") {
                return Err(refused("identity columns are not supported", span));
            }
            column.generated = Some(parenthesized(parser)?);
        } else if is_word(parser, 0, "GENERATED") {
            return Err(refused("only GENERATED ALWAYS AS (expression) is supported", span));
        } else if is_word(parser, 0, "DEFAULT") {
            return Err(refused("column defaults are not supported", span));
        } else if is_word(parser, 0, "CHECK") {
            let name = Ident::with_quote('"', format!("{}_check", column.name.value));
            statement.checks.push(Check {
                name,
                expr: check(parser)?,
                span,
            });
        } else {
            break;
        }
    }
    statement.columns.push(column);
    Ok(())
}

fn refused(message: &str, span: Span) -> LoadError {
    LoadError::unsupported(message).at(span)
}

/// Delta Lake enforces no keys, so a table must not look as if it did.
fn refuse_keys(parser: &Parser<'_>) -> Result<()> {
    let named = [&["PRIMARY", "KEY"], &["FOREIGN", "KEY"]]
        .iter()
        .any(|words| are_words(parser, 0, *words));
    let ends = matches!(
        parser.peek_nth_token_ref(1).token,
        Token::LParen | Token::Comma | Token::RParen
    );
    let found = named || is_word(parser, 0, "UNIQUE") && ends || is_word(parser, 0, "REFERENCES");
    match found {
        false => Ok(()),
        true => Err(refused("a Delta table enforces no keys", parser.peek_token_ref().span)
            .hint("Leave it out, and name the key columns in each load: UPSERT INTO t KEYS (..).")),
    }
}

fn parse_clauses(parser: &mut Parser<'_>, statement: &mut CreateTable) -> Result<()> {
    let mut using = false;
    loop {
        if eat(parser, &["USING", "DELTA"]) {
            if std::mem::replace(&mut using, true) {
                return Err(twice(parser, "USING DELTA"));
            }
        } else if eat(parser, &["PARTITIONED", "BY"]) {
            if !statement.partitioned_by.is_empty() {
                return Err(twice(parser, "PARTITIONED BY"));
            }
            statement.partitioned_by = partition_columns(parser)?;
        } else if eat(parser, &["LOCATION"]) {
            let location = words::string(parser, "the location as a string")?;
            set(parser, &mut statement.location, location, "LOCATION")?;
        } else if eat(parser, &["COMMENT"]) {
            let comment = words::string(parser, "the comment")?;
            set(parser, &mut statement.comment, comment, "COMMENT")?;
        } else if eat(parser, &["TBLPROPERTIES"]) {
            if !statement.properties.is_empty() {
                return Err(twice(parser, "TBLPROPERTIES"));
            }
            statement.properties = words::key_values(parser, "TBLPROPERTIES")?;
        } else if eat(parser, &["AS"]) {
            statement.query = Some(parser.parse_query()?);
            return Ok(());
        } else if matches!(parser.peek_token_ref().token, Token::EOF | Token::SemiColon) {
            return Ok(());
        } else {
            let clauses = "USING DELTA, PARTITIONED BY, LOCATION, COMMENT, TBLPROPERTIES or AS";
            return Err(expected(parser, clauses));
        }
    }
}

fn set(parser: &Parser<'_>, slot: &mut Option<String>, value: String, clause: &str) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(parser, clause)),
    }
}

fn partition_columns(parser: &mut Parser<'_>) -> Result<Vec<Ident>> {
    let typed = matches!(parser.peek_nth_token_ref(2).token, Token::Word(_));
    if typed {
        let error = LoadError::new(SqlState::Syntax, "PARTITIONED BY takes column names only");
        return Err(error
            .at(parser.peek_nth_token_ref(2).span)
            .hint("Define the column in the column list."));
    }
    words::names(parser)
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        write!(f, "CREATE TABLE {exists}{}", self.name)?;
        let items: Vec<String> = self
            .columns
            .iter()
            .map(ToString::to_string)
            .chain(self.checks.iter().map(ToString::to_string))
            .collect();
        if !items.is_empty() {
            write!(f, " ({})", items.join(", "))?;
        }
        write!(f, " USING DELTA")?;
        if !self.partitioned_by.is_empty() {
            let names: Vec<String> = self.partitioned_by.iter().map(ToString::to_string).collect();
            write!(f, " PARTITIONED BY ({})", names.join(", "))?;
        }
        if let Some(location) = &self.location {
            write!(f, " LOCATION {}", quoted(&redact(location)))?;
        }
        if let Some(comment) = &self.comment {
            write!(f, " COMMENT {}", quoted(comment))?;
        }
        if !self.properties.is_empty() {
            let pairs: Vec<String> = self
                .properties
                .iter()
                .map(|p| format!("{} = {}", quoted(&p.key), quoted(&p.value)))
                .collect();
            write!(f, " TBLPROPERTIES ({})", pairs.join(", "))?;
        }
        match &self.query {
            Some(query) => write!(f, " AS {query}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for CreateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Display for ColumnDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.data_type)?;
        if self.not_null {
            write!(f, " NOT NULL")?;
        }
        if let Some(comment) = &self.comment {
            write!(f, " COMMENT {}", quoted(comment))?;
        }
        match &self.generated {
            Some(expr) => write!(f, " GENERATED ALWAYS AS ({expr})"),
            None => Ok(()),
        }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CONSTRAINT {} CHECK ({})", self.name, self.expr)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn parser(text: &str) -> Parser<'static> {
        Parser::new(&GenericDialect {}).try_with_sql(text).unwrap()
    }

    #[test]
    fn only_using_delta_is_claimed() {
        for ours in [
            "CREATE TABLE t (a INT) USING DELTA",
            "create table a.b location 'x' using delta as select 1",
        ] {
            assert!(claims(&parser(ours)), "{ours}");
        }
        let others = [
            "CREATE TABLE t (a INT)",
            "CREATE TABLE t AS SELECT * FROM a JOIN b USING (delta)",
            "CREATE TABLE t AS SELECT 1; CREATE TABLE u (a INT) USING DELTA",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x'",
            "CREATE VIEW v AS SELECT 1",
        ];
        for other in others {
            assert!(!claims(&parser(other)), "{other}");
        }
    }

    #[test]
    fn clauses_come_in_any_order_and_print_what_was_read() {
        let texts = [
            "CREATE TABLE IF NOT EXISTS s.t (\"Id\" BIGINT NOT NULL COMMENT 'it''s', d DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), \
             m MAP<STRING, ARRAY<STRUCT<a INT NOT NULL>>>, CONSTRAINT pos CHECK (\"Id\" > 0)) TBLPROPERTIES ('delta.appendOnly' = 'true', a.b c) \
             PARTITIONED BY (d) COMMENT 'hi' USING DELTA LOCATION '/x/y'",
            "CREATE TABLE t USING DELTA PARTITIONED BY (b) AS WITH q AS (SELECT 1 AS a, 2 AS b) SELECT * FROM q",
        ];
        for text in texts {
            let printed = parse(&mut parser(text)).unwrap().to_string();
            assert_eq!(parse(&mut parser(&printed)).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let cases = [
            ("CREATE TABLE t (a INT PRIMARY KEY) USING DELTA", "0A000"),
            ("CREATE TABLE t (a INT, PRIMARY KEY (a)) USING DELTA", "0A000"),
            ("CREATE TABLE t (a INT DEFAULT 3) USING DELTA", "0A000"),
            (
                "CREATE TABLE t (a BIGINT GENERATED ALWAYS AS IDENTITY) USING DELTA",
                "0A000",
            ),
            ("CREATE OR REPLACE TABLE t (a INT) USING DELTA", "0A000"),
            ("CREATE TABLE t USING DELTA", "42601"),
            ("CREATE TABLE t (a INT) USING DELTA PARTITIONED BY (b INT)", "42601"),
            ("CREATE TABLE t (a INT) USING DELTA USING DELTA", "42601"),
            ("CREATE TABLE t (a INT) USING DELTA CLUSTER BY (a)", "42601"),
            ("CREATE TABLE t (a INT) USING DELTA TBLPROPERTIES (1)", "42601"),
        ];
        for (text, code) in cases {
            assert_eq!(parse(&mut parser(text)).unwrap_err().code(), code, "{text}");
        }
    }
}
