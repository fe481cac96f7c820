//! From `MERGE OVERWRITE`'s clauses to a plan: stored rows that go, by key or by window, and source rows that come in.

use alluvium_core::syntax::Load;
use alluvium_core::{LoadError, Result};
use alluvium_delta::write::OperationKind;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::syntax::{OverwriteClauses, Window};
use super::{by_key, by_window};
use crate::bind::columns::{Columns, ColumnsRequest};
use crate::bind::finish::Finish;
use crate::bind::keys::{KeySet, plain_column};
use crate::bind::replace::Replacement;
use crate::bind::source::SourceRows;
use crate::bind::target::TargetTable;

/// Everything a plan of `MERGE OVERWRITE` is made from.
pub(super) struct Overwrite<'a> {
    pub state: &'a SessionState,
    pub load: &'a Load<OverwriteClauses>,
    pub table: TargetTable,
    pub source: SourceRows,
    pub columns: Columns,
    pub keys: Vec<KeySet>,
}

/// What the two ways of replacing hand over.
pub(super) struct Replaced {
    /// Rows as [`Replacement::union`] makes them.
    pub rows: LogicalPlan,
    /// The stored rows that were looked at, as SQL.
    pub read_predicate: Option<String>,
    /// Files that lie wholly inside a window.
    pub removed_files: Vec<u32>,
    /// Clauses for the history.
    pub parameters: Vec<(&'static str, String)>,
}

/// Binds `MERGE OVERWRITE`.
pub(super) async fn plan(state: &SessionState, load: &Load<OverwriteClauses>) -> Result<LogicalPlan> {
    let overwrite = Overwrite::resolve(state, load).await?;
    let replaced = match &load.clauses.window {
        Some(window) => by_window::plan(&overwrite, window)?,
        None => by_key::plan(&overwrite)?,
    };
    overwrite.finish(replaced)
}

impl<'a> Overwrite<'a> {
    async fn resolve(state: &'a SessionState, load: &'a Load<OverwriteClauses>) -> Result<Self> {
        let table = TargetTable::resolve(state, &load.target, load.common.create.as_ref()).await?;
        table.refuse_append_only("MERGE OVERWRITE")?;
        let source = SourceRows::resolve(state, &load.source, &load.target, &table).await?;
        let marker = load
            .clauses
            .delete_when
            .as_ref()
            .and_then(|d| plain_column(state, &d.expr));
        let request = ColumnsRequest {
            set: load.common.columns.as_ref(),
            evolve: load.common.evolve,
            marker: marker.as_deref(),
            own: Vec::new(),
        };
        let columns = Columns::resolve(state, &table, &source, &request)?;
        let written = load.common.keys.iter().chain(&load.clauses.or_keys);
        let keys = written.map(|keys| KeySet::resolve(state, keys, &source, &table, &columns));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if keys.is_empty() && load.clauses.window.is_none() {
            return Err(LoadError::internal(
                "MERGE OVERWRITE without KEYS and WINDOW passed the parser",
            ));
        }
        Ok(Self {
            state,
            load,
            table,
            source,
            columns,
            keys,
        })
    }

    /// The rows that go and come as one stream.
    pub fn replacement(&self) -> Replacement<'_> {
        Replacement {
            source: &self.source,
            table: &self.table,
            columns: &self.columns,
        }
    }

    /// The window clause's operation is a write of a predicate, the others are merges.
    fn kind(window: Option<&Window>) -> OperationKind {
        match window {
            Some(_) => OperationKind::Write,
            None => OperationKind::Merge,
        }
    }

    fn finish(&self, replaced: Replaced) -> Result<LogicalPlan> {
        let changes = self.replacement().changes()?;
        let mut parameters = replaced.parameters;
        if let Some(delete) = &self.load.clauses.delete_when {
            parameters.push(("applyAsDeleteWhen", delete.expr.to_string()));
        }
        let finish = Finish {
            statement: "MergeOverwrite",
            kind: Self::kind(self.load.clauses.window.as_ref()),
            common: &self.load.common,
            dry_run: self.load.dry_run,
            returning: &self.load.returning,
            source: &self.source,
            table: &self.table,
            columns: &self.columns,
            read_predicate: replaced.read_predicate,
            parameters,
            notice: None,
            changes_rows: true,
            keys: self.keys.first().map(|keys| keys.columns.clone()).unwrap_or_default(),
            removed_files: replaced.removed_files,
        };
        finish.build(self.state, replaced.rows, changes)
    }
}
