#![doc = include_str!("create_external.md")]

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use alluvium_core::secrets::is_secret_key;
use alluvium_core::syntax::{Cursor, KeyValue};
use alluvium_core::{Effect, LoadError, Result, SqlState, Statement, StatementKind};
use alluvium_delta::{TableHandle, TableLocator};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{ObjectName, With};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::create_table::syntax::outer_words;
use super::node::{CommandNode, CommandTask};
use super::words::{are_words, eat, expect, expected, quoted, twice};
use super::{target, task_of, words};
use crate::catalog;

/// `CREATE EXTERNAL TABLE .. STORED AS DELTATABLE`.
#[derive(Debug)]
pub(super) struct CreateExternalTableKind;

impl StatementKind for CreateExternalTableKind {
    fn name(&self) -> &'static str {
        "CREATE EXTERNAL TABLE"
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        let head = are_words(parser, 0, &["CREATE", "EXTERNAL", "TABLE"])
            || are_words(parser, 0, &["CREATE", "OR", "REPLACE", "EXTERNAL", "TABLE"]);
        head && ["DELTATABLE", "DELTA"]
            .iter()
            .any(|format| outer_words(parser, "AS", format))
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, _with: Option<With>) -> Result<Arc<dyn Statement>> {
        // A report of an error shows the line it points at, and OPTIONS may hold credentials there.
        let statement = parse(cursor.parser()).map_err(without_position)?;
        Ok(Arc::new(statement))
    }

    fn clauses(&self) -> &'static [&'static str] {
        &["STORED AS DELTATABLE", "LOCATION", "OPTIONS"]
    }

    fn help(&self) -> &'static str {
        include_str!("create_external.md")
    }
}

fn without_position(e: LoadError) -> LoadError {
    let mut plain = LoadError::new(e.state(), e.message());
    if let Some(detail) = e.detail_text() {
        plain = plain.detail(detail);
    }
    match e.hint_text() {
        Some(hint) => plain.hint(hint),
        None => plain,
    }
}

/// The statement as written. Its text forms leave the values of secrets out.
struct CreateExternalTable {
    name: ObjectName,
    if_not_exists: bool,
    location: String,
    options: Vec<KeyValue>,
}

fn parse(parser: &mut Parser<'_>) -> Result<CreateExternalTable> {
    expect(parser, &["CREATE"])?;
    if eat(parser, &["OR", "REPLACE"]) {
        let error = LoadError::unsupported("CREATE OR REPLACE EXTERNAL TABLE is not supported for Delta tables");
        return Err(error.hint("Use DROP TABLE IF EXISTS first: it only forgets the name of an attached table."));
    }
    expect(parser, &["EXTERNAL", "TABLE"])?;
    let if_not_exists = eat(parser, &["IF", "NOT", "EXISTS"]);
    let (name, _) = words::table_name(parser)?;
    if parser.peek_token_ref().token == Token::LParen {
        return Err(LoadError::new(
            SqlState::Syntax,
            "the columns of an existing Delta table cannot be listed",
        )
        .hint("Leave the list out: they come from the table. CREATE TABLE .. USING DELTA LOCATION makes a new one."));
    }
    let (mut stored, mut location, mut options) = (false, None, None);
    loop {
        if eat(parser, &["STORED", "AS"]) {
            if !eat(parser, &["DELTATABLE"]) {
                return Err(expected(parser, "DELTATABLE").hint("The format's name is DELTATABLE."));
            }
            stored = true;
        } else if eat(parser, &["LOCATION"]) {
            if location
                .replace(words::string(parser, "the location as a string")?)
                .is_some()
            {
                return Err(twice(parser, "LOCATION"));
            }
        } else if eat(parser, &["OPTIONS"]) {
            if options.replace(words::key_values(parser, "OPTIONS")?).is_some() {
                return Err(twice(parser, "OPTIONS"));
            }
        } else if matches!(parser.peek_token_ref().token, Token::EOF | Token::SemiColon) {
            break;
        } else if are_words(parser, 0, &["PARTITIONED", "BY"]) {
            return Err(LoadError::new(
                SqlState::Syntax,
                "the partitions of an existing Delta table cannot be listed",
            )
            .hint("Leave PARTITIONED BY out: it comes from the table."));
        } else {
            return Err(LoadError::new(
                SqlState::Syntax,
                "expected STORED AS DELTATABLE, LOCATION or OPTIONS",
            ));
        }
    }
    let location = location.filter(|_| stored).ok_or_else(|| {
        LoadError::new(SqlState::Syntax, "a LOCATION is missing")
            .hint("Write CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION 'path or URL'.")
    })?;
    Ok(CreateExternalTable {
        name,
        if_not_exists,
        location,
        options: options.unwrap_or_default(),
    })
}

#[async_trait]
impl Statement for CreateExternalTable {
    fn name(&self) -> &'static str {
        "CREATE EXTERNAL TABLE"
    }

    fn effect(&self) -> Effect {
        Effect::Ddl
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let name = target::reference(state, &self.name)?;
        let table = target::shown(state, &name);
        match (catalog::find(state, &name).await?, self.if_not_exists) {
            (Some(_), true) => return task_of(&table, "exists already"),
            (Some(_), false) => {
                return Err(
                    LoadError::new(SqlState::DuplicateTable, format!("table \"{table}\" exists already"))
                        .hint("Use IF NOT EXISTS, or DROP TABLE first."),
                );
            }
            (None, _) => (),
        }
        let locator = TableLocator::of(state)?;
        let options: HashMap<_, _> = self.options.iter().map(|o| (o.key.clone(), o.value.clone())).collect();
        let handle = locator.parse_location_with(&self.location, options)?;
        let task = AttachExternal {
            name,
            table,
            handle,
            locator,
        };
        Ok(CommandNode::plan(Arc::new(task), None)?)
    }
}

impl Display for CreateExternalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        let location = alluvium_core::secrets::redact(&self.location);
        write!(
            f,
            "CREATE EXTERNAL TABLE {exists}{} STORED AS DELTATABLE LOCATION {}",
            self.name,
            quoted(&location)
        )?;
        if self.options.is_empty() {
            return Ok(());
        }
        let pairs = self.options.iter().map(|option| {
            let value = if is_secret_key(&option.key) {
                "***"
            } else {
                &option.value
            };
            format!("{} {}", quoted(&option.key), quoted(value))
        });
        write!(f, " OPTIONS ({})", pairs.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for CreateExternalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// Attaches a location that must hold a table.
#[derive(Debug)]
struct AttachExternal {
    name: TableReference,
    table: String,
    handle: Arc<TableHandle>,
    locator: Arc<TableLocator>,
}

#[async_trait]
impl CommandTask for AttachExternal {
    fn name(&self) -> &'static str {
        "AttachTable"
    }

    fn describe(&self) -> String {
        format!("table={}, kind=external", self.table)
    }

    fn schema(&self) -> SchemaRef {
        target::status_schema()
    }

    async fn run(&self, _input: Vec<RecordBatch>, _context: Arc<TaskContext>) -> Result<RecordBatch> {
        if self.handle.snapshot().await?.is_none() {
            let message = format!("there is no Delta table at the location of \"{}\"", self.table);
            return Err(LoadError::new(SqlState::UndefinedTable, message)
                .hint("Check the path, or make the table with CREATE TABLE .. USING DELTA LOCATION '..'."));
        }
        self.locator.attach(&self.name, Arc::clone(&self.handle))?;
        target::status(&self.table, "attached")
    }
}

#[cfg(test)]
mod tests {
    use alluvium_core::Registry;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn parser(text: &str) -> Parser<'static> {
        Parser::new(&GenericDialect {}).try_with_sql(text).unwrap()
    }

    #[test]
    fn only_delta_is_claimed() {
        let kind = CreateExternalTableKind;
        assert!(kind.claims(&parser("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION 'x'")));
        assert!(kind.claims(&parser("create external table t location 'x' stored as delta")));
        assert!(!kind.claims(&parser("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x'")));
        assert!(!kind.claims(&parser("CREATE TABLE t (a INT) USING DELTA")));
    }

    #[test]
    fn secrets_are_in_no_text() {
        let text = "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION 's3://b/t?sig=SECRETSIG' \
                    OPTIONS ('aws_secret_access_key' 'SECRETKEY', 'aws_region' 'eu-north-1')";
        let statement = parse(&mut parser(text)).unwrap();
        let shown = format!("{statement} {statement:?}");
        assert!(
            shown.contains("eu-north-1") && !shown.contains("SECRETKEY") && !shown.contains("SECRETSIG"),
            "{shown}"
        );
    }

    #[test]
    fn errors_around_options_repeat_nothing_and_point_nowhere() {
        let head = "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION 'x' OPTIONS";
        for options in [
            "('k' 'SECRETKEY'",
            "('k' = = 'SECRETKEY')",
            "('k' 'v') 'SECRETKEY'",
            "('k' 'v' 'SECRETKEY')",
        ] {
            let text = format!("{head} {options}");
            let mut parser = parser(&text);
            let error = CreateExternalTableKind
                .parse(
                    &mut Cursor::new(&mut parser, &GenericDialect {}, &Registry::default()),
                    None,
                )
                .unwrap_err();
            assert_eq!((error.code(), error.span()), ("42601", None), "{text}");
            assert!(!format!("{error:?}").contains("SECRETKEY"), "{error:?}");
        }
    }
}
