//! From text to statements.
//!
//! One tokenization and one parser serve a whole script, so comments and semicolons in strings are no concern of ours,
//! and every position is one in the text that was given. A statement that the registry claims is ours; everything else
//! goes to DataFusion's parser untouched.

mod ahead;
mod complete;
mod complexity;
mod place;
mod roomy;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::config::Dialect as DialectName;
use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement as DFStatement};
use datafusion::sql::sqlparser::ast::{DataType, Ident, With};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

pub use complete::is_complete;

use crate::error::{LoadError, Result};
use crate::registry::Registry;
use crate::sqlstate::SqlState;
use crate::statement::Statement;
use crate::syntax::{Cursor, RECURSION_LIMIT, comma_separated};

/// One statement of a script.
#[derive(Debug, Clone)]
pub struct ScriptItem {
    /// The statement.
    pub stmt: Stmt,
    /// Its text, without the semicolon.
    pub text: String,
    /// Where the text stands in the script, in bytes.
    pub range: Range<usize>,
    /// Where it stands in lines and columns, as errors count them.
    pub span: Span,
}

/// A parsed statement, ours or DataFusion's.
#[derive(Debug, Clone)]
pub enum Stmt {
    /// A statement of the registry.
    Ours(Arc<dyn Statement>),
    /// EXPLAIN over one of ours.
    Explain {
        /// Run it and show what happened.
        analyze: bool,
        /// Show more.
        verbose: bool,
        /// The format, if one is named.
        format: Option<String>,
        /// What is explained.
        inner: Box<Stmt>,
    },
    /// PREPARE of one of ours.
    Prepare {
        /// The name for EXECUTE.
        name: Ident,
        /// The types of the parameters.
        types: Vec<DataType>,
        /// What is prepared.
        inner: Arc<dyn Statement>,
    },
    /// A statement of DataFusion's.
    DataFusion(Box<DFStatement>),
}

impl fmt::Display for Stmt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(statement) => write!(f, "{statement}"),
            Self::Explain {
                analyze,
                verbose,
                format,
                inner,
            } => {
                let analyze = if *analyze { " ANALYZE" } else { "" };
                let verbose = if *verbose { " VERBOSE" } else { "" };
                write!(f, "EXPLAIN{analyze}{verbose}")?;
                if let Some(format) = format {
                    write!(f, " FORMAT {format}")?;
                }
                write!(f, " {inner}")
            }
            Self::Prepare { name, types, inner } if types.is_empty() => write!(f, "PREPARE {name} AS {inner}"),
            Self::Prepare { name, types, inner } => {
                write!(f, "PREPARE {name} ({}) AS {inner}", comma_separated(types))
            }
            Self::DataFusion(statement) => write!(f, "{statement}"),
        }
    }
}

/// How deep statements may be nested on the caller's stack.
const SHALLOW: usize = 6;

/// Parses the statements of a script. A syntax error stands where its statement would, as the last item: what stands
/// before it can be run all the same.
pub fn parse_script(sql: &str, registry: &Registry, dialect: DialectName) -> Vec<Result<ScriptItem>> {
    let (tokens, broken) = tokenize(sql, dialect);
    let deepest = complexity::deepest(&tokens);
    let parse = || match Script::parse(sql, registry, dialect, tokens) {
        Ok(items) => items,
        Err(e) => vec![Err(e)],
    };
    let mut items = match deepest <= SHALLOW {
        true => parse(),
        false => roomy::run(parse).unwrap_or_else(|e| vec![Err(e)]),
    };
    if let (Some(e), false) = (broken, items.last().is_some_and(Result::is_err)) {
        items.push(Err(e));
    }
    items
}

/// Parses a text that holds exactly one statement.
pub fn parse_statement(sql: &str, registry: &Registry, dialect: DialectName) -> Result<Stmt> {
    let mut items = parse_script(sql, registry, dialect).into_iter();
    let first = items
        .next()
        .ok_or_else(|| LoadError::new(SqlState::Syntax, "there is no statement"))??;
    match items.next() {
        None => Ok(first.stmt),
        Some(Err(e)) => Err(e),
        Some(Ok(second)) => Err(LoadError::new(SqlState::Syntax, "there is more than one statement").at(second.span)),
    }
}

/// The tokens of a text. Where it cannot be split into tokens, those of the statements before that place, and the error.
fn tokenize(sql: &str, dialect: DialectName) -> (Vec<TokenWithSpan>, Option<LoadError>) {
    let mut tokens = Vec::new();
    let outcome = Tokenizer::new(named(dialect).as_ref(), sql).tokenize_with_location_into_buf(&mut tokens);
    let Err(e) = outcome else {
        return (tokens, None);
    };
    let complete = tokens.iter().rposition(|found| found.token == Token::SemiColon);
    tokens.truncate(complete.map_or(0, |last| last + 1));
    (tokens, Some(LoadError::from(ParserError::from(e))))
}

fn named(dialect: DialectName) -> Box<dyn Dialect> {
    dialect_from_str(dialect).unwrap_or_else(|| Box::new(GenericDialect {}))
}

/// The parser of one script.
struct Script<'a> {
    sql: &'a str,
    registry: &'a Registry,
    dialect: &'a dyn Dialect,
    parser: DFParser<'a>,
}

impl Script<'_> {
    fn parse(
        sql: &str,
        registry: &Registry,
        dialect: DialectName,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<Vec<Result<ScriptItem>>> {
        let dialect = named(dialect);
        let parser = DFParserBuilder::new(tokens)
            .with_dialect(dialect.as_ref())
            .with_recursion_limit(RECURSION_LIMIT)
            .build()?;
        let script = Script {
            sql,
            registry,
            dialect: dialect.as_ref(),
            parser,
        };
        Ok(script.items())
    }
}

impl<'a> Script<'a> {
    fn items(mut self) -> Vec<Result<ScriptItem>> {
        let mut items = Vec::new();
        let mut place = place::Place::new(self.sql);
        loop {
            while self.parser.parser.consume_token(&Token::SemiColon) {}
            let start = self.parser.parser.peek_token_ref().clone();
            if start.token == Token::EOF {
                return items;
            }
            let outcome = self.statement();
            let failed = outcome.is_err();
            items.push(outcome.map(|stmt| {
                let span = start.span.union(&self.cursor().behind());
                let range = place.byte(span.start)..place.byte(span.end);
                let text = self.sql.get(range.clone()).unwrap_or_default().to_owned();
                ScriptItem {
                    stmt,
                    text,
                    range,
                    span,
                }
            }));
            if failed {
                return items;
            }
        }
    }

    fn cursor(&mut self) -> Cursor<'_, 'a> {
        Cursor::new(&mut self.parser.parser, self.dialect, self.registry)
    }

    /// Reads one statement up to its semicolon.
    fn statement(&mut self) -> Result<Stmt> {
        let parser = &self.parser.parser;
        complexity::check((parser.index()..).map(|i| parser.token_at(i)))?;
        let start = ahead::mark(&mut self.parser.parser);
        let stmt = if self.cursor().eat("EXPLAIN") {
            self.explain()?
        } else if self.cursor().eat("PREPARE") {
            self.prepare()?
        } else {
            self.ours()?.map(Stmt::Ours)
        };
        let stmt = match stmt {
            Some(stmt) => stmt,
            None => {
                ahead::rewind(&mut self.parser.parser, start);
                self.datafusion()?
            }
        };
        self.cursor().expect_end()?;
        Ok(stmt)
    }

    /// Reads what follows EXPLAIN, if it is ours.
    fn explain(&mut self) -> Result<Option<Stmt>> {
        let Some(options) = ahead::explain_options(&mut self.parser.parser) else {
            return Ok(None);
        };
        let inner = self.ours()?;
        Ok(inner.map(|inner| Stmt::Explain {
            analyze: options.analyze,
            verbose: options.verbose,
            format: options.format,
            inner: Box::new(Stmt::Ours(inner)),
        }))
    }

    /// Reads what follows PREPARE, if it is ours.
    fn prepare(&mut self) -> Result<Option<Stmt>> {
        let Ok((name, types)) = ahead::prepare_head(&mut self.parser.parser) else {
            return Ok(None);
        };
        let inner = self.ours()?;
        Ok(inner.map(|inner| Stmt::Prepare { name, types, inner }))
    }

    /// Reads a statement that the registry claims, if one stands here, with or without a `WITH` clause before it.
    fn ours(&mut self) -> Result<Option<Arc<dyn Statement>>> {
        let registry = self.registry;
        if let Some(kind) = registry.claimant(&self.parser.parser) {
            return kind.parse(&mut self.cursor(), None).map(Some);
        }
        let Some(verb) = ahead::behind_with(&self.parser.parser) else {
            return Ok(None);
        };
        let start = ahead::mark(&mut self.parser.parser);
        ahead::forward(&mut self.parser.parser, verb);
        let claimant = registry.claimant(&self.parser.parser);
        ahead::rewind(&mut self.parser.parser, start);
        let Some(kind) = claimant else {
            return Ok(None);
        };
        let with: With = self.cursor().leading_with(verb)?;
        kind.parse(&mut self.cursor(), Some(with)).map(Some)
    }

    fn datafusion(&mut self) -> Result<Stmt> {
        let verb = self.verb_without_into();
        match self.parser.parse_statement() {
            Ok(statement) => Ok(Stmt::DataFusion(Box::new(statement))),
            Err(e) => Err(match verb {
                Some(error) => error,
                None => self.datafusion_error(e),
            }),
        }
    }

    fn datafusion_error(&mut self, e: DataFusionError) -> LoadError {
        match e {
            DataFusionError::SQL(inner, _) => self.cursor().sql_error(*inner, None),
            DataFusionError::Diagnostic(_, inner) => self.datafusion_error(*inner),
            other => LoadError::from(other).at_if_unset(self.cursor().here()),
        }
    }

    /// The error for a load statement that lacks its `INTO`, should DataFusion not know the statement either.
    fn verb_without_into(&mut self) -> Option<LoadError> {
        let registry = self.registry;
        let cursor = self.cursor();
        let kind = registry
            .kinds()
            .iter()
            .find(|kind| !kind.clauses().is_empty() && cursor.peek(kind.name()))?;
        let words = kind.name().split_whitespace().count();
        Some(
            cursor
                .expected_at(words, "INTO")
                .hint(format!("Write {} [WITH SCHEMA EVOLUTION] INTO table ..", kind.name())),
        )
    }
}

/// Whether the parser stands at the unquoted words of `phrase`.
fn peek(parser: &Parser<'_>, phrase: &str) -> bool {
    crate::syntax::words_at(parser, 0, phrase)
}
