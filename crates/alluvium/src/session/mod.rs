//! A session: DataFusion's context with our statements in it.

mod builder;
mod running;

use std::sync::Arc;
use std::time::Instant;

use alluvium_core::script::{ScriptItem, Stmt};
use alluvium_core::{Registry, Result};
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::prelude::DataFrame;

pub use builder::SessionBuilder;
pub use running::Progress;

use crate::context;
use crate::outcome::Outcome;
use crate::retry::{Mode, with_retry};
use running::Running;

/// How often a statement starts again after a concurrent commit, unless `merge.max_attempts` says otherwise.
pub(crate) const DEFAULT_MAX_ATTEMPTS: usize = 10;

/// A session with our statements, a catalog of Delta tables, and everything DataFusion offers.
///
/// ```no_run
/// # async fn demo() -> alluvium::Result<()> {
/// let session = alluvium::Session::builder().with_warehouse("warehouse").build().await?;
/// session.execute("CREATE TABLE stock (sku BIGINT, qty BIGINT) USING DELTA").await?;
/// let outcome = session.execute("UPSERT INTO stock KEYS (sku) VALUES (1, 10), (2, 20)").await?;
/// assert_eq!(outcome.num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    context: SessionContext,
    options: SQLOptions,
    running: Arc<Running>,
}

impl Session {
    /// A builder with DataFusion's defaults and no warehouse.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    pub(crate) fn new(context: SessionContext) -> Self {
        Self {
            context,
            options: SQLOptions::new(),
            running: Arc::default(),
        }
    }

    /// The same session, refusing what `options` do not allow.
    pub fn with_sql_options(mut self, options: SQLOptions) -> Self {
        self.options = options;
        self
    }

    /// DataFusion's context behind this session.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The statements of this session: names, help, clause phrases.
    pub fn registry(&self) -> Arc<Registry> {
        context::registry(&self.context.state())
    }

    /// Counters of the statement that is running, for progress displays.
    pub fn progress(&self) -> Progress {
        self.running.progress()
    }

    /// Plans one statement. A load commits when the returned frame is executed: once, and a concurrent commit makes
    /// it fail with 40001 (see [`Session::execute`] for tries). Like DataFusion, DDL runs at once.
    ///
    /// # Errors
    ///
    /// 42601 when `sql` is not exactly one statement; every error of parsing and binding.
    pub async fn sql(&self, sql: &str) -> Result<DataFrame> {
        let stmt = self.parse_one(sql)?;
        context::frame(&self.context, &stmt, self.options).await
    }

    /// Runs one statement to its end. After a concurrent commit it starts again on the new snapshot, up to
    /// `merge.max_attempts` times; after memory ran out it is planned again with operators that spill.
    ///
    /// # Errors
    ///
    /// Every error of the statement. Nothing was changed then.
    pub async fn execute(&self, sql: &str) -> Result<Outcome> {
        let stmt = self.parse_one(sql)?;
        self.execute_statement(&stmt).await
    }

    /// Runs the statements of a script in order and hands each outcome to `each`, up to the first error.
    ///
    /// # Errors
    ///
    /// A syntax error anywhere is reported when its statement is reached, so what stands before it has run.
    pub async fn run_script(&self, sql: &str, mut each: impl FnMut(&str, Outcome)) -> Result<()> {
        for item in self.parse_script(sql) {
            let item = item?;
            let outcome = self.execute_statement(&item.stmt).await?;
            each(&item.text, outcome);
        }
        Ok(())
    }

    /// The statements of a script. A syntax error stands where its statement would, as the last item.
    pub fn parse_script(&self, sql: &str) -> Vec<Result<ScriptItem>> {
        context::parse(&self.context.state(), sql)
    }

    /// Runs one parsed statement; see [`Session::execute`].
    pub async fn execute_statement(&self, stmt: &Stmt) -> Result<Outcome> {
        let started = Instant::now();
        let max_attempts = context::max_attempts(stmt);
        let first = match context::is_spilling(&self.context.state()) {
            true => Mode::Spilling,
            false => Mode::InMemory,
        };
        let run = |mode| self.attempt(stmt, mode);
        let (schema, batches, returns_rows) = with_retry(max_attempts, first, run).await?;
        Ok(Outcome {
            schema,
            batches,
            returns_rows,
            elapsed: started.elapsed(),
        })
    }

    fn parse_one(&self, sql: &str) -> Result<Stmt> {
        context::parse_one(&self.context.state(), sql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_can_be_shared_between_threads() {
        fn shared<T: Send + Sync + Clone>() {}
        shared::<Session>();
    }
}
