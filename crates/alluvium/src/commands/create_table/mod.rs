#![doc = include_str!("README.md")]

mod definition;
pub(super) mod syntax;
mod task;
mod types;

use std::fmt::{self, Display};
use std::sync::Arc;

use alluvium_core::syntax::{Cursor, OnEmpty};
use alluvium_core::{Effect, LoadError, Result, SqlState, Statement, StatementKind};
use alluvium_delta::write::{CommitOperation, LoadNode, LoadSpec, LoadTarget, OperationKind, check_new_table};
use alluvium_delta::{TableHandle, TableLocator};
use alluvium_exec::{action, checked_cast, columns};
use async_trait::async_trait;
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::parser::Statement as DFStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement, With};
use datafusion::sql::sqlparser::parser::Parser;

use super::node::CommandNode;
use super::{target, task_of};
use crate::catalog;
use definition::Definition;
use syntax::CreateTable;
use task::{Attach, Create, Created, Maker};

/// `CREATE TABLE .. USING DELTA`.
#[derive(Debug)]
pub(super) struct CreateTableKind;

impl StatementKind for CreateTableKind {
    fn name(&self) -> &'static str {
        "CREATE TABLE"
    }

    fn claims(&self, parser: &Parser<'_>) -> bool {
        syntax::claims(parser)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, _with: Option<With>) -> Result<Arc<dyn Statement>> {
        Ok(Arc::new(syntax::parse(cursor.parser())?))
    }

    fn clauses(&self) -> &'static [&'static str] {
        &[
            "USING DELTA",
            "PARTITIONED BY",
            "LOCATION",
            "COMMENT",
            "TBLPROPERTIES",
            "AS",
            "GENERATED ALWAYS AS",
            "CHECK",
        ]
    }

    fn help(&self) -> &'static str {
        include_str!("README.md")
    }
}

#[async_trait]
impl Statement for CreateTable {
    fn name(&self) -> &'static str {
        "CREATE TABLE"
    }

    fn effect(&self) -> Effect {
        Effect::Ddl
    }

    async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let name = target::reference(state, &self.name)?;
        let table = target::shown(state, &name);
        if let Some(plan) = self.existing(state, &name, &table).await? {
            return Ok(plan);
        }
        let place = Place::of(self, state, &name, &table).await?;
        match (&self.query, self.columns.is_empty()) {
            (Some(_), false) => Err(
                LoadError::new(SqlState::Syntax, "CREATE TABLE .. AS takes no column list")
                    .at(self.span)
                    .hint("Names and types come from the query: use aliases and CAST there."),
            ),
            (Some(query), true) => self.plan_query(state, query, place).await,
            (None, true) => place.attach_existing(self).await,
            (None, false) => {
                let definition = Definition::of_columns(state, self)?;
                match place.attached_if_exists(self).await? {
                    Some(plan) => Ok(plan),
                    None => {
                        let maker = Maker::new(place, definition, state);
                        Ok(CommandNode::plan(Arc::new(Create { maker }), None)?)
                    }
                }
            }
        }
    }
}

impl CreateTable {
    /// The plan when a table of this name is there already.
    async fn existing(&self, state: &SessionState, name: &TableReference, table: &str) -> Result<Option<LogicalPlan>> {
        let found = catalog::find(state, name).await.map_err(|e| e.at_if_unset(self.span))?;
        match (found, self.if_not_exists) {
            (None, _) => Ok(None),
            (Some(_), true) => Ok(Some(task_of(table, "exists already")?)),
            (Some(_), false) => Err(LoadError::new(
                SqlState::DuplicateTable,
                format!("table \"{table}\" exists already"),
            )
            .at(self.span)
            .hint("Use IF NOT EXISTS, or DROP TABLE first.")),
        }
    }

    /// Rows and table in one commit: the query under the ordinary load node, every row an insert.
    async fn plan_query(&self, state: &SessionState, query: &Query, place: Place) -> Result<LogicalPlan> {
        let statement = SqlStatement::Query(Box::new(query.clone()));
        let rows = state
            .statement_to_plan(DFStatement::Statement(Box::new(statement)))
            .await?;
        let definition = Definition::of_query(state, self, rows.schema())?;
        if let Some(plan) = place.attached_if_exists(self).await? {
            return Ok(plan);
        }
        if self.comment.is_some() {
            return Err(LoadError::unsupported("CREATE TABLE .. AS takes no COMMENT")
                .at(self.span)
                .hint("Make the table with a column list and a COMMENT, then fill it with INSERT INTO."));
        }
        place.check_vacant()?;
        let target = LoadTarget {
            name: place.table.clone(),
            handle: Arc::clone(&place.handle),
            base: None,
            schema: Arc::clone(&definition.schema),
            partition_columns: definition.partition_columns.clone(),
            properties: definition.properties.clone(),
            evolved: false,
        };
        check_new_table(&target).map_err(|e| e.at_if_unset(self.span))?;
        let mut spec = LoadSpec::new("CreateTableAs", target);
        spec.on_empty = OnEmpty::Apply;
        spec.operation = CommitOperation {
            kind: OperationKind::Write,
            ..Default::default()
        };
        let input = change_stream(rows, &definition)?;
        let node = Arc::new(LoadNode::try_new(Arc::new(spec), input)?);
        let load = LogicalPlan::Extension(Extension { node });
        Ok(CommandNode::plan(
            Arc::new(Created {
                maker: Maker::new(place, definition, state),
            }),
            Some(load),
        )?)
    }
}

/// Where the new table goes.
#[derive(Debug, Clone)]
struct Place {
    name: TableReference,
    /// The name in messages.
    table: String,
    handle: Arc<TableHandle>,
    locator: Arc<TableLocator>,
    /// Whether a `LOCATION` was written.
    external: bool,
}

impl Place {
    async fn of(statement: &CreateTable, state: &SessionState, name: &TableReference, table: &str) -> Result<Self> {
        let locator = TableLocator::of(state)?;
        let handle = match &statement.location {
            Some(location) => locator.parse_location(location),
            None => locator.place(name).map(|location| locator.handle_at(&location)),
        };
        Ok(Self {
            name: name.clone(),
            table: table.to_owned(),
            handle: handle.map_err(|e| e.at_if_unset(statement.span))?,
            locator,
            external: statement.location.is_some(),
        })
    }

    /// With `IF NOT EXISTS`, a table that lies at the location already is taken as it is.
    async fn attached_if_exists(&self, statement: &CreateTable) -> Result<Option<LogicalPlan>> {
        if self.handle.snapshot().await?.is_none() {
            return Ok(None);
        }
        if statement.if_not_exists {
            return Ok(Some(CommandNode::plan(Arc::new(Attach(self.clone())), None)?));
        }
        Err(LoadError::new(
            SqlState::DuplicateTable,
            format!("the location of \"{}\" holds a Delta table already", self.table),
        )
        .at(statement.span)
        .hint("Attach it with CREATE EXTERNAL TABLE .. STORED AS DELTATABLE LOCATION '..', or use IF NOT EXISTS."))
    }

    /// `CREATE TABLE t USING DELTA LOCATION '..'` without columns: the table must be there.
    async fn attach_existing(&self, statement: &CreateTable) -> Result<LogicalPlan> {
        match self.handle.snapshot().await? {
            Some(_) => Ok(CommandNode::plan(Arc::new(Attach(self.clone())), None)?),
            None => Err(LoadError::new(SqlState::Syntax, "a new table needs columns")
                .at(statement.span)
                .detail("The location holds no Delta table.")
                .hint("Write a column list behind the name, or AS and a query at the end.")),
        }
    }
}

/// The query's rows, cast to what is stored, as inserts.
fn change_stream(rows: LogicalPlan, definition: &Definition) -> Result<LogicalPlan> {
    let mut exprs = Vec::with_capacity(definition.schema.fields().len() + 3);
    for (field, (qualifier, from)) in definition.schema.fields().iter().zip(rows.schema().iter()) {
        let value = Expr::Column(Column::from((qualifier, from)));
        let value = checked_cast::checked_cast(value, field.name(), from.data_type(), field.data_type());
        exprs.push(value.alias(field.name()));
    }
    exprs.push(lit(action::INSERT).alias(columns::ACTION));
    exprs.push(lit(ScalarValue::UInt32(None)).alias(columns::FILE));
    exprs.push(lit(ScalarValue::Int64(None)).alias(columns::ROW));
    Ok(LogicalPlanBuilder::from(rows).project(exprs)?.build()?)
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.external { "external" } else { "managed" };
        write!(f, "table={}, kind={kind}", self.table)
    }
}
