//! The target, the source and what follows a source: `RETURNING` and `DRY RUN`.
//!
//! sqlparser takes almost any word after a table for its alias. So names and aliases are read here, and a query at the
//! end of the statement is cut off before `RETURNING` or `DRY RUN` before sqlparser sees it.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, SelectItem, TableFactor, TableFunctionArgs, With};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{Source, SourceRelation, Target};
use super::cursor::{Cursor, is_end, is_word, word};
use super::slice::{can_end, phrase_at, significant};
use super::unknown::starts_clause;
use crate::error::Result;

/// Words that begin a query.
const QUERY_WORDS: &[&str] = &["SELECT", "VALUES", "WITH", "TABLE"];

impl Cursor<'_, '_> {
    /// Reads the `WITH` clause before the verb, which stands at index `end`.
    pub(crate) fn leading_with(&mut self, end: usize) -> Result<With> {
        let tokens = select_from_tables(self.slice(end));
        self.sql_on(tokens, end, |parser| {
            let with_token = parser.expect_keyword(Keyword::WITH)?.into();
            let recursive = parser.parse_keyword(Keyword::RECURSIVE);
            let cte_tables = parser.parse_comma_separated(Parser::parse_cte)?;
            Ok(With {
                with_token,
                recursive,
                cte_tables,
            })
        })
    }

    /// Reads `name [[AS] alias] [(column, ..)]`.
    pub(super) fn target(&mut self) -> Result<Target> {
        let start = self.here();
        let name = self.object_name("a table name")?;
        let span = self.since(start);
        let alias = self.alias()?;
        let columns = match self.peek_symbol(&Token::LParen) && !self.query_next() {
            true => self.idents()?,
            false => Vec::new(),
        };
        Ok(Target {
            name,
            alias,
            columns,
            span,
        })
    }

    /// Reads what stands after `USING`.
    pub(super) fn using(&mut self, with: Option<With>) -> Result<Source> {
        let start = self.here();
        let relation = SourceRelation::Using(Box::new(self.relation()?));
        let span = self.since(start);
        let alias = self.alias()?;
        if alias.is_some() && self.peek_symbol(&Token::LParen) {
            return Err(self
                .expected("a clause")
                .hint("A source alias takes no column list: name the columns after INTO, or inside the query."));
        }
        Ok(Source {
            with,
            relation,
            alias,
            span,
        })
    }

    /// Reads the query at the end of a statement.
    pub(super) fn trailing(&mut self, with: Option<With>) -> Result<Source> {
        let start = self.here();
        let end = self.find_at_top(starts_tail).1;
        let query = self.query(end)?;
        if !self.at_end() && !self.peek("RETURNING") && !self.peek("DRY RUN") {
            let error = self.expected("RETURNING, DRY RUN or end of statement");
            return Err(match starts_clause(&self.token(0).token, self.registry()) {
                true => error.hint("Clauses stand before the query."),
                false => error,
            });
        }
        Ok(Source {
            with,
            relation: SourceRelation::Trailing(query),
            alias: None,
            span: self.since(start),
        })
    }

    /// Reads `[RETURNING ..] [DRY RUN]` and the end of the statement.
    pub(super) fn tail(&mut self) -> Result<(Vec<SelectItem>, bool)> {
        let returning = match self.eat("RETURNING") {
            true => self.returning()?,
            false => Vec::new(),
        };
        let dry_run = self.eat("DRY RUN");
        if dry_run && self.peek("RETURNING") {
            return Err(self
                .expected("end of statement")
                .hint("RETURNING stands before DRY RUN."));
        }
        self.expect_end()?;
        Ok((returning, dry_run))
    }

    /// Whether a query begins here, in parentheses or not.
    pub(super) fn query_next(&self) -> bool {
        let parser = self.tokens();
        let first = (parser.index()..)
            .find(|i| !matches!(parser.token_at(*i).token, Token::LParen | Token::Whitespace(_)))
            .unwrap_or_default();
        starts_query(&parser.token_at(first).token)
            && !matches!(
                significant(parser, first, 1).token,
                Token::Comma | Token::RParen | Token::Period
            )
    }

    fn returning(&mut self) -> Result<Vec<SelectItem>> {
        let end = self.find_at_top(starts_dry_run).1;
        let items = self.sql_until(end, |parser| parser.parse_comma_separated(Parser::parse_select_item))?;
        if !self.at_end() && !self.peek("DRY RUN") {
            return Err(self
                .expected("DRY RUN or end of statement")
                .hint("RETURNING comes after all clauses, and only DRY RUN may follow it."));
        }
        Ok(items)
    }

    fn relation(&mut self) -> Result<TableFactor> {
        if self.eat_symbol(&Token::LParen) {
            let end = self.find_at_top(|_, _, _| false).1;
            let subquery = self.query(end)?;
            self.expect_symbol(&Token::RParen)?;
            return Ok(TableFactor::Derived {
                lateral: false,
                subquery,
                alias: None,
                sample: None,
            });
        }
        if self.token(1).token == Token::LParen && starts_clause(&self.token(0).token, self.registry()) {
            return Err(self.expected("a table, a table function or a query in parentheses"));
        }
        let name = self.object_name("a table, a table function or a query in parentheses")?;
        let args = match self.eat_symbol(&Token::LParen) {
            true => Some(TableFunctionArgs {
                args: self.sql(|parser| parser.parse_optional_args())?,
                settings: None,
            }),
            false => None,
        };
        Ok(TableFactor::Table {
            name,
            alias: None,
            args,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        })
    }

    fn object_name(&mut self, what: &str) -> Result<ObjectName> {
        match self.token(0).token {
            Token::Word(_) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {
                self.sql(|parser| parser.parse_object_name(true))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads a query from the tokens up to `end`.
    fn query(&mut self, end: usize) -> Result<Box<Query>> {
        let tokens = select_from_tables(self.slice(end));
        self.sql_on(tokens, end, |parser| parser.parse_query())
    }

    fn alias(&mut self) -> Result<Option<Ident>> {
        if self.eat("AS") {
            return Ok(Some(self.ident()?));
        }
        let next = &self.token(0).token;
        let named = matches!(next, Token::Word(_) | Token::DoubleQuotedString(_));
        match named && !is_reserved(next) && !starts_clause(next, self.registry()) {
            true => Ok(Some(self.ident()?)),
            false => Ok(None),
        }
    }
}

/// Whether a query begins with this token.
pub(super) fn starts_query(token: &Token) -> bool {
    QUERY_WORDS.iter().any(|query_word| is_word(token, query_word))
}

/// Whether this token, after a name, is never its alias.
fn is_reserved(token: &Token) -> bool {
    const RESERVED: &[&str] = &["USING", "RETURNING", "DRY", "AS"];
    starts_query(token) || word(token).is_some_and(|w| RESERVED.iter().any(|r| r.eq_ignore_ascii_case(w)))
}

/// Whether the query at the end of a statement is over at `index`.
fn starts_tail(parser: &Parser<'_>, index: usize, previous: Option<&Token>) -> bool {
    let returning = is_word(&parser.token_at(index).token, "RETURNING")
        && !matches!(significant(parser, index, 1).token, Token::Period | Token::Comma);
    previous.is_some_and(can_end) && (returning || ends_in_dry_run(parser, index))
}

/// Whether the list of `RETURNING` is over at `index`.
fn starts_dry_run(parser: &Parser<'_>, index: usize, previous: Option<&Token>) -> bool {
    let complete = previous.is_some_and(|token| can_end(token) || *token == Token::Mul);
    complete && ends_in_dry_run(parser, index)
}

fn ends_in_dry_run(parser: &Parser<'_>, index: usize) -> bool {
    let next = &significant(parser, index, 2).token;
    phrase_at(parser, index, "DRY RUN") && (is_end(next) || is_word(next, "RETURNING"))
}

/// DataFusion does not plan the query `TABLE name`, and sqlparser forgets its quotes: `SELECT * FROM name` means the
/// same.
fn select_from_tables(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const BEFORE: &[&str] = &["UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT"];
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut previous: Option<Token> = None;
    for found in tokens {
        let starts = match &previous {
            None | Some(Token::LParen | Token::RParen) => true,
            Some(token) => BEFORE.iter().any(|before| is_word(token, before)),
        };
        if !matches!(found.token, Token::Whitespace(_)) {
            previous = Some(found.token.clone());
        }
        if starts && is_word(&found.token, "TABLE") {
            let span = found.span;
            let replacement = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            out.extend(replacement.map(|token| TokenWithSpan { token, span }));
        } else {
            out.push(found);
        }
    }
    out
}
