#![doc = include_str!("drop_table.md")]

use std::fmt::{self, Display};
use std::sync::Arc;

use alluvium_core::syntax::Cursor;
use alluvium_core::{Effect, LoadError, Result, SqlState, Statement, StatementKind};
use alluvium_delta::{DeltaTable, TableLocator};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableType};
use datafusion::sql::sqlparser::ast::{ObjectName, With};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Span;

use super::node::{CommandNode, CommandTask};
use super::words::{are_words, eat, expect};
use super::{target, task_of, words};
use crate::catalog;

/// `DROP TABLE`.
#[derive(Debug)]
pub(super) struct DropTableKind;

impl StatementKind for DropTableKind {
    fn name(&self) -> &'static str {
        "DROP TABLE"
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        are_words(parser, 0, &["DROP", "TABLE"])
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, _with: Option<With>) -> Result<Arc<dyn Statement>> {
        let parser = cursor.parser();
        expect(parser, &["DROP", "TABLE"])?;
        let if_exists = eat(parser, &["IF", "EXISTS"]);
        let (name, span) = words::table_name(parser)?;
        words::expect_end(parser)?;
        Ok(Arc::new(DropTable { name, span, if_exists }))
    }

    fn clauses(&self) -> &'static [&'static str] {
        &["IF EXISTS"]
    }

    fn help(&self) -> &'static str {
        include_str!("drop_table.md")
    }
}

#[derive(Debug)]
struct DropTable {
    name: ObjectName,
    span: Span,
    if_exists: bool,
}

/// What dropping a name means.
#[derive(Debug)]
enum Kind {
    /// Delete the directory in the warehouse.
    Managed(Arc<TableLocator>),
    /// Forget an attachment.
    Attached(Arc<TableLocator>),
    /// Take a registered table out of its schema.
    Registered(Arc<dyn SchemaProvider>),
}

#[async_trait]
impl Statement for DropTable {
    fn name(&self) -> &'static str {
        "DROP TABLE"
    }

    fn effect(&self) -> Effect {
        Effect::Ddl
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let name = target::reference(state, &self.name)?;
        let table = target::shown(state, &name);
        match self.kind(state, &name, &table).await? {
            Some(kind) => Ok(CommandNode::plan(Arc::new(Drop { name, table, kind }), None)?),
            None if self.if_exists => task_of(&table, "does not exist"),
            None => Err(
                LoadError::new(SqlState::UndefinedTable, format!("table \"{table}\" does not exist"))
                    .at(self.span)
                    .hint("Use IF EXISTS to drop it only if it is there."),
            ),
        }
    }
}

impl DropTable {
    async fn kind(&self, state: &SessionState, name: &TableReference, table: &str) -> Result<Option<Kind>> {
        let locator = TableLocator::of(state)?;
        if locator.attachment(name).is_some() {
            return Ok(Some(Kind::Attached(locator)));
        }
        let provider = match catalog::find(state, name).await {
            Ok(provider) => provider,
            // A table whose log cannot be read must still be droppable.
            Err(e) if e.state() != SqlState::InvalidName && locator.knows(name) => {
                return Ok(Some(Kind::Managed(locator)));
            }
            Err(e) => return Err(e.at_if_unset(self.span)),
        };
        let Some(provider) = provider else { return Ok(None) };
        if provider.table_type() == TableType::View {
            return Err(
                LoadError::new(SqlState::UndefinedTable, format!("\"{table}\" is a view, not a table"))
                    .at(self.span)
                    .hint("Use DROP VIEW."),
            );
        }
        if let Some(delta) = provider.downcast_ref::<DeltaTable>() {
            let place = locator.place(name);
            let managed = place.is_ok_and(|place| Arc::ptr_eq(&locator.handle_at(&place), delta.handle()));
            if managed {
                return Ok(Some(Kind::Managed(locator)));
            }
        }
        let schema = name.catalog().and_then(|catalog| state.catalog_list().catalog(catalog));
        let schema = schema.and_then(|catalog| catalog.schema(name.schema().unwrap_or_default()));
        // A file that is read by its path is found, but not in the schema: there is nothing to drop.
        Ok(schema
            .filter(|schema| schema.table_exist(name.table()))
            .map(Kind::Registered))
    }
}

impl Display for DropTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if self.if_exists { "IF EXISTS " } else { "" };
        write!(f, "DROP TABLE {exists}{}", self.name)
    }
}

#[derive(Debug)]
struct Drop {
    name: TableReference,
    table: String,
    kind: Kind,
}

#[async_trait]
impl CommandTask for Drop {
    fn name(&self) -> &'static str {
        "DropTable"
    }

    fn describe(&self) -> String {
        let deletes = matches!(self.kind, Kind::Managed(_));
        format!("table={}, deletes_data={deletes}", self.table)
    }

    fn schema(&self) -> SchemaRef {
        target::status_schema()
    }

    async fn run(&self, _input: Vec<RecordBatch>, context: Arc<TaskContext>) -> Result<RecordBatch> {
        let status = match &self.kind {
            Kind::Managed(locator) => {
                locator.delete(&self.name).await?;
                "dropped, its data was deleted"
            }
            Kind::Attached(locator) => {
                locator.detach(&self.name);
                "forgotten, its data was left alone"
            }
            Kind::Registered(schema) => {
                schema.deregister_table(self.name.table())?;
                forget_files(&self.name, &context)?;
                "dropped from the session"
            }
        };
        target::status(&self.table, status)
    }
}

/// What DataFusion does when it drops a table of files: listings are cached under the name as it was written.
fn forget_files(name: &TableReference, context: &TaskContext) -> Result<()> {
    let runtime = context.runtime_env();
    let table = name.table().to_owned();
    let mut written = vec![name.clone(), TableReference::bare(table.clone())];
    written.extend(
        name.schema()
            .map(|schema| TableReference::partial(schema.to_owned(), table)),
    );
    for name in &written {
        if let Some(cache) = runtime.cache_manager.get_list_files_cache() {
            cache.drop_table_entries(name)?;
        }
        if let Some(cache) = runtime.cache_manager.get_file_statistic_cache() {
            cache.drop_table_entries(name)?;
        }
    }
    Ok(())
}
