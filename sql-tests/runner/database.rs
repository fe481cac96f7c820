//! One connection of a test file: a session of the facade behind the runner's database trait.

use std::sync::Arc;
use std::time::Duration;

use alluvium::{LoadError, Outcome, Session};
use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput};

use crate::engine::Engine;
use crate::render::rows;
use crate::results::{ColumnKind, check_load_result, kinds, project};
use crate::scratch::Scratch;

/// First line of a record that is a script of several statements; its answer is that of the last one.
const SCRIPT: &str = "-- script";

/// An error as the test files see it.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    code: Option<&'static str>,
    text: String,
}

impl Failure {
    /// An expectation of the runner itself that does not hold. It has no SQLSTATE, so that no record can expect it.
    pub fn broken(text: impl Into<String>) -> Self {
        Self {
            code: None,
            text: text.into(),
        }
    }

    fn of_statement(error: &LoadError, sql: &str, scratch: &Scratch) -> Self {
        Self {
            code: Some(error.code()),
            text: scratch.mask(&alluvium::render_error(error, sql)),
        }
    }
}

/// A session and what is needed to show its answers.
pub struct Database {
    engine: Engine,
    scratch: Arc<Scratch>,
    session: Session,
}

impl Database {
    /// Opens a session on the warehouse of `scratch`.
    pub async fn open(engine: Engine, scratch: Arc<Scratch>) -> Result<Self, Failure> {
        let session = engine.session(scratch.warehouse()).await;
        let session = session.map_err(|e| Failure::of_statement(&e, "", &scratch))?;
        Ok(Self {
            engine,
            scratch,
            session,
        })
    }

    async fn outcome(&self, sql: &str) -> alluvium::Result<Option<Outcome>> {
        if !sql.starts_with(SCRIPT) {
            return self.session.execute(sql).await.map(Some);
        }
        let mut last = None;
        self.session.run_script(sql, |_, outcome| last = Some(outcome)).await?;
        Ok(last)
    }
}

#[async_trait]
impl AsyncDB for Database {
    type Error = Failure;
    type ColumnType = ColumnKind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, Failure> {
        let sql = self.scratch.expand(sql);
        let outcome = self.outcome(&sql).await;
        let outcome = outcome.map_err(|e| Failure::of_statement(&e, &sql, &self.scratch))?;
        let Some(outcome) = outcome.filter(|o| o.returns_rows) else {
            return Ok(DBOutput::StatementComplete(0));
        };
        check_load_result(&outcome)?;
        let (schema, batches) = project(&sql, &outcome)?;
        Ok(DBOutput::Rows {
            types: kinds(&schema),
            rows: rows(&schema, &batches, &self.scratch)?,
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        self.engine.name()
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        error.code.map(str::to_owned)
    }
}
