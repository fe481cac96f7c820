//! A registry of the four statements that stops after parsing, and ways to look at what was parsed.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use alluvium_core::script::{ScriptItem, Stmt, parse_script, parse_statement};
use alluvium_core::syntax::{ClauseSet, Cursor, Load, claims, parse_load};
use alluvium_core::{Effect, LoadError, Registry, Result, Statement, StatementKind, report};
use alluvium_statements::insert_only::syntax::InsertClauses;
use alluvium_statements::merge_overwrite::syntax::OverwriteClauses;
use alluvium_statements::scd2::syntax::Scd2Clauses;
use alluvium_statements::upsert::syntax::UpsertClauses;
use async_trait::async_trait;
use datafusion::config::Dialect;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::With;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A statement that can be parsed and printed, but not planned.
struct Kind<C>(PhantomData<fn() -> C>);

#[derive(Debug)]
struct Parsed<C>(Load<C>);

/// What the tests ask of the clauses of a statement.
trait Clauses: ClauseSet + fmt::Debug + Send + Sync + 'static {}

impl<C: ClauseSet + fmt::Debug + Send + Sync + 'static> Clauses for C {}

impl<C: Clauses> fmt::Debug for Kind<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(C::VERB)
    }
}

impl<C: Clauses> StatementKind for Kind<C> {
    fn name(&self) -> &'static str {
        C::VERB
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        claims(parser, C::VERB)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, with: Option<With>) -> Result<Arc<dyn Statement>> {
        Ok(Arc::new(Parsed(parse_load::<C>(cursor, with)?)))
    }

    fn clauses(&self) -> &'static [&'static str] {
        C::PHRASES
    }

    fn help(&self) -> &'static str {
        ""
    }
}

impl<C: Clauses> fmt::Display for Parsed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl<C: Clauses> Statement for Parsed<C> {
    fn name(&self) -> &'static str {
        C::VERB
    }

    fn effect(&self) -> Effect {
        Effect::Dml
    }

    async fn plan(&self, _: &SessionState) -> Result<LogicalPlan> {
        Err(LoadError::internal("not planned in these tests"))
    }
}

pub fn registry() -> Registry {
    Registry::new(vec![
        Arc::new(Kind::<UpsertClauses>(PhantomData)),
        Arc::new(Kind::<InsertClauses>(PhantomData)),
        Arc::new(Kind::<OverwriteClauses>(PhantomData)),
        Arc::new(Kind::<Scd2Clauses>(PhantomData)),
    ])
}

pub fn parse(sql: &str) -> Result<Stmt> {
    parse_statement(sql, &registry(), Dialect::Generic)
}

pub fn script(sql: &str) -> Vec<Result<ScriptItem>> {
    parse_script(sql, &registry(), Dialect::Generic)
}

/// Parses one load statement, to look into its tree.
pub fn load<C: ClauseSet>(sql: &str) -> Load<C> {
    let registry = registry();
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(sql).unwrap();
    parse_load(&mut Cursor::new(&mut parser, &dialect, &registry), None)
        .unwrap_or_else(|e| panic!("{}", report::render(&e, sql)))
}

/// The error of a text, as people see it.
pub fn error(sql: &str) -> String {
    match parse(sql) {
        Ok(stmt) => panic!("no error in {sql}\nread as {stmt}"),
        Err(e) => report::render(&e, sql),
    }
}

/// A tree without its positions.
pub fn shape(tree: &impl fmt::Debug) -> String {
    let text = format!("{tree:?}");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("Span(") {
        let (head, tail) = rest.split_at(at);
        out.push_str(head);
        rest = tail.find("))").map_or("", |end| &tail[end + 2..]);
    }
    out + rest
}
