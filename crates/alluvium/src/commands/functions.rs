//! `table_history('t')` and `table_files('t')`: what the log tells, usable in any query.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::{TableSnapshot, history};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result as DataFusionResult, ScalarValue, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::tokenizer::Span;

use super::target;
use crate::catalog;

/// One of the table functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFunction {
    /// The commits, newest first.
    History,
    /// The data files of the newest version.
    Files,
}

impl LogFunction {
    pub(super) const ALL: &[Self] = &[Self::History, Self::Files];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::History => "table_history",
            Self::Files => "table_files",
        }
    }

    /// The rows about table `name`, read when the table is scanned.
    pub(super) fn of(self, name: TableReference) -> Arc<dyn TableProvider> {
        Arc::new(LogTable { function: self, name })
    }

    async fn read(self, snapshot: &TableSnapshot, limit: Option<usize>) -> Result<RecordBatch> {
        match self {
            Self::History => history::history(snapshot, limit).await,
            Self::Files => history::files(snapshot).await,
        }
    }
}

impl TableFunctionImpl for LogFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DataFusionResult<Arc<dyn TableProvider>> {
        let wrong = || {
            LoadError::new(
                SqlState::Syntax,
                format!("{} takes the name of a table as a string", self.name()),
            )
            .hint(format!("Write {}('t').", self.name()))
        };
        let [Expr::Literal(value, _)] = args.exprs() else {
            return Err(wrong().into());
        };
        let (ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)) | ScalarValue::LargeUtf8(Some(name))) =
            value
        else {
            return Err(wrong().into());
        };
        Ok(self.of(TableReference::parse_str(name)))
    }
}

/// A table function's answer.
#[derive(Debug)]
struct LogTable {
    function: LogFunction,
    name: TableReference,
}

#[async_trait]
impl TableProvider for LogTable {
    fn schema(&self) -> SchemaRef {
        match self.function {
            LogFunction::History => history::history_schema(),
            LogFunction::Files => history::files_schema(),
        }
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let state = state
            .as_any()
            .downcast_ref::<SessionState>()
            .ok_or_else(|| LoadError::internal("a table function was planned without a session"))?;
        let name = catalog::resolve(state, &self.name);
        let table = target::delta_table(state, &name, Span::empty()).await?;
        let rows = self.function.read(table.snapshot(), limit).await?;
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![rows]],
            self.schema(),
            projection.cloned(),
        )?)
    }
}
