#![doc = include_str!("describe.md")]

use std::fmt::{self, Display};
use std::sync::Arc;

use alluvium_core::syntax::Cursor;
use alluvium_core::{Effect, Result, Statement, StatementKind};
use alluvium_delta::{DeltaTable, history};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{ObjectName, With};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::functions::LogFunction;
use super::node::{CommandNode, CommandTask};
use super::words::{eat, expected, is_word};
use super::{target, words};

/// `DESCRIBE HISTORY`.
#[derive(Debug)]
pub(super) struct DescribeHistoryKind;

/// `DESCRIBE DETAIL`.
#[derive(Debug)]
pub(super) struct DescribeDetailKind;

/// `DESCRIBE what` is ours only with a name behind it: a table may be called `history`.
fn claims(parser: &Parser<'_>, what: &str) -> bool {
    (is_word(parser, 0, "DESCRIBE") || is_word(parser, 0, "DESC"))
        && is_word(parser, 1, what)
        && matches!(parser.peek_nth_token_ref(2).token, Token::Word(_))
}

fn parse_head(parser: &mut Parser<'_>) -> Result<(ObjectName, Span)> {
    parser.advance_token();
    parser.advance_token();
    words::table_name(parser)
}

impl StatementKind for DescribeHistoryKind {
    fn name(&self) -> &'static str {
        "DESCRIBE HISTORY"
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        claims(parser, "HISTORY")
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, _with: Option<With>) -> Result<Arc<dyn Statement>> {
        let parser = cursor.parser();
        let (name, span) = parse_head(parser)?;
        let limit = match eat(parser, &["LIMIT"]) {
            true => Some(limit(parser)?),
            false => None,
        };
        words::expect_end(parser)?;
        Ok(Arc::new(DescribeHistory { name, span, limit }))
    }

    fn clauses(&self) -> &'static [&'static str] {
        &["LIMIT"]
    }

    fn help(&self) -> &'static str {
        include_str!("describe.md")
    }
}

fn limit(parser: &mut Parser<'_>) -> Result<usize> {
    let number = match &parser.peek_token_ref().token {
        Token::Number(digits, _) => digits.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| expected(parser, "a number"))?;
    parser.advance_token();
    Ok(number)
}

impl StatementKind for DescribeDetailKind {
    fn name(&self) -> &'static str {
        "DESCRIBE DETAIL"
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        claims(parser, "DETAIL")
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, _with: Option<With>) -> Result<Arc<dyn Statement>> {
        let parser = cursor.parser();
        let (name, span) = parse_head(parser)?;
        words::expect_end(parser)?;
        Ok(Arc::new(DescribeDetail { name, span }))
    }

    fn clauses(&self) -> &'static [&'static str] {
        &[]
    }

    fn help(&self) -> &'static str {
        include_str!("describe.md")
    }
}

#[derive(Debug)]
struct DescribeHistory {
    name: ObjectName,
    span: Span,
    limit: Option<usize>,
}

#[async_trait]
impl Statement for DescribeHistory {
    fn name(&self) -> &'static str {
        "DESCRIBE HISTORY"
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let name = target::reference(state, &self.name)?;
        target::delta_table(state, &name, self.span).await?;
        let source = provider_as_source(LogFunction::History.of(name));
        let rows = LogicalPlanBuilder::scan(LogFunction::History.name(), source, None)?;
        Ok(rows.limit(0, self.limit)?.build()?)
    }
}

impl Display for DescribeHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE HISTORY {}", self.name)?;
        match self.limit {
            Some(limit) => write!(f, " LIMIT {limit}"),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct DescribeDetail {
    name: ObjectName,
    span: Span,
}

#[async_trait]
impl Statement for DescribeDetail {
    fn name(&self) -> &'static str {
        "DESCRIBE DETAIL"
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let name = target::reference(state, &self.name)?;
        let table = target::delta_table(state, &name, self.span).await?;
        let task = Detail {
            shown: target::shown(state, &name),
            table,
        };
        Ok(CommandNode::plan(Arc::new(task), None)?)
    }
}

impl Display for DescribeDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE DETAIL {}", self.name)
    }
}

#[derive(Debug)]
struct Detail {
    shown: String,
    table: DeltaTable,
}

#[async_trait]
impl CommandTask for Detail {
    fn name(&self) -> &'static str {
        "DescribeDetail"
    }

    fn describe(&self) -> String {
        format!("table={}", self.shown)
    }

    fn schema(&self) -> SchemaRef {
        history::detail_schema()
    }

    async fn run(&self, _input: Vec<RecordBatch>, _context: Arc<TaskContext>) -> Result<RecordBatch> {
        history::detail(self.table.snapshot()).await
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    #[test]
    fn tables_called_history_and_detail_stay_describable() {
        let claimed = |text: &str| {
            let parser = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap();
            DescribeHistoryKind.claims(&parser) || DescribeDetailKind.claims(&parser)
        };
        for ours in [
            "DESCRIBE HISTORY t",
            "desc history s.t limit 3",
            "DESCRIBE DETAIL \"T\"",
        ] {
            assert!(claimed(ours), "{ours}");
        }
        for other in [
            "DESCRIBE history",
            "DESCRIBE history;",
            "DESCRIBE history.t",
            "DESCRIBE \"history\"",
            "DESCRIBE t",
        ] {
            assert!(!claimed(other), "{other}");
        }
    }
}
