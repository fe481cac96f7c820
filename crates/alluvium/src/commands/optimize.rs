#![doc = include_str!("optimize.md")]

use std::fmt::{self, Display};
use std::sync::Arc;

use alluvium_core::syntax::Cursor;
use alluvium_core::{Effect, LoadError, Result, SqlState, Statement, StatementKind};
use alluvium_delta::write::optimize::Optimize;
use alluvium_statements::bind::bind_condition;
use async_trait::async_trait;
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, With};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::words::{are_words, eat, expect, is_word};
use super::{target, words};

/// `OPTIMIZE`.
#[derive(Debug)]
pub(super) struct OptimizeKind;

impl StatementKind for OptimizeKind {
    fn name(&self) -> &'static str {
        "OPTIMIZE"
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        is_word(parser, 0, "OPTIMIZE") && matches!(parser.peek_nth_token_ref(1).token, Token::Word(_))
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, _with: Option<With>) -> Result<Arc<dyn Statement>> {
        let parser = cursor.parser();
        expect(parser, &["OPTIMIZE"])?;
        let (name, span) = words::table_name(parser)?;
        let predicate = match eat(parser, &["WHERE"]) {
            true => Some(predicate(parser)?),
            false => None,
        };
        if are_words(parser, 0, &["ZORDER"]) {
            return Err(LoadError::unsupported("OPTIMIZE .. ZORDER BY is not supported")
                .at(parser.peek_token_ref().span)
                .hint("TBLPROPERTIES ('alluvium.keys' = 'id') keeps the rows of each file in the order of a key."));
        }
        words::expect_end(parser)?;
        Ok(Arc::new(OptimizeTable { name, span, predicate }))
    }

    fn clauses(&self) -> &'static [&'static str] {
        &["WHERE"]
    }

    fn help(&self) -> &'static str {
        include_str!("optimize.md")
    }
}

/// An expression and where it is.
fn predicate(parser: &mut Parser<'_>) -> Result<(Expr, Span)> {
    let first = parser.peek_token_ref().span;
    let expr = parser.parse_expr()?;
    Ok((expr, first.union(&parser.get_current_token().span)))
}

#[derive(Debug)]
struct OptimizeTable {
    name: ObjectName,
    span: Span,
    predicate: Option<(Expr, Span)>,
}

#[async_trait]
impl Statement for OptimizeTable {
    fn name(&self) -> &'static str {
        "OPTIMIZE"
    }

    fn effect(&self) -> Effect {
        Effect::Dml
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let name = target::reference(state, &self.name)?;
        let table = target::delta_table(state, &name, self.span).await?;
        let schema = DFSchema::try_from(Arc::clone(table.snapshot().schema()))?;
        let predicate = self.predicate.as_ref();
        let planned = predicate.map(|(expr, span)| planned(state, expr, &schema).map_err(|e| e.at_if_unset(*span)));
        let optimize = Optimize {
            table: target::shown(state, &name),
            predicate: planned.transpose()?,
            predicate_text: predicate.map(|(expr, _)| expr.to_string()),
        };
        optimize.plan(&table, state)
    }
}

/// The condition as it stands: the scan finds the files that it leaves out in a comparison, not in what wraps one.
fn planned(state: &SessionState, expr: &Expr, schema: &DFSchema) -> Result<datafusion::logical_expr::Expr> {
    let bound = bind_condition(state, "WHERE", expr, schema).map_err(|e| match e.state() {
        SqlState::FeatureNotSupported => e.hint("WHERE picks files by the values of their rows, row by row."),
        _ => e,
    })?;
    Ok(match bound {
        datafusion::logical_expr::Expr::IsTrue(condition) => *condition,
        other => other,
    })
}

impl Display for OptimizeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OPTIMIZE {}", self.name)?;
        match &self.predicate {
            Some((predicate, _)) => write!(f, " WHERE {predicate}"),
            None => Ok(()),
        }
    }
}
