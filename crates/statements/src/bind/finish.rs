//! The last steps: the change stream's columns in order, `RETURNING`, and the load node with everything the commit
//! must know.

use std::collections::BTreeMap;
use std::sync::Arc;

use alluvium_core::syntax::{Common, Dedup, KeyValue, Keys, OnEmpty};
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::write::{CommitOperation, LoadNode, LoadSpec, LoadTarget, OperationKind};
use alluvium_exec::columns as internal;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::SelectItem;

use super::columns::Columns;
use super::control::extension;
use super::expr::{bare, col};
use super::returning::{Returning, visible};
use super::source::SourceRows;
use super::target::TargetTable;

/// What happens to each joined row.
pub struct Changes {
    /// The new value of every table column, in table order.
    pub values: Vec<Expr>,
    /// The values that RETURNING shows, where they differ from `values` (deleted rows show what was stored).
    pub shown: Option<Vec<Expr>>,
    /// The action code.
    pub action: Expr,
    /// The matched row's file and position.
    pub position: (Expr, Expr),
    /// The stored value of every table column, for the change feed.
    pub old: Vec<Expr>,
}

/// Everything around the change stream.
pub struct Finish<'a> {
    /// The node's name in EXPLAIN.
    pub statement: &'static str,
    /// The operation in the log.
    pub kind: OperationKind,
    /// Clauses of every statement.
    pub common: &'a Common,
    /// `DRY RUN`.
    pub dry_run: bool,
    /// `RETURNING` items.
    pub returning: &'a [SelectItem],
    /// The source.
    pub source: &'a SourceRows,
    /// The target.
    pub table: &'a TargetTable,
    /// The columns.
    pub columns: &'a Columns,
    /// Which stored rows were looked at, as SQL; `None`: all.
    pub read_predicate: Option<String>,
    /// Clauses for `operationParameters`, beside those of every statement.
    pub parameters: Vec<(&'static str, String)>,
    /// A sentence for the result row.
    pub notice: Option<String>,
    /// Whether the statement can update or delete, so that a change feed needs the old rows.
    pub changes_rows: bool,
    /// The key columns of the target.
    pub keys: Vec<String>,
    /// Files to drop from metadata without reading them.
    pub removed_files: Vec<u32>,
}

impl Finish<'_> {
    /// Whether rows must carry their stored values for the change feed.
    pub fn change_data(&self) -> bool {
        self.changes_rows && self.table.change_data_feed()
    }

    /// Builds the load over `joined`, whose rows `changes` describes.
    pub fn build(self, state: &SessionState, joined: LogicalPlan, changes: Changes) -> Result<LogicalPlan> {
        let names: Vec<String> = self.columns.schema.fields().iter().map(|f| f.name().clone()).collect();
        let (plan, returning) = match self.returning.is_empty() {
            true => (self.plain(joined, &names, changes)?, None),
            false => {
                let (plan, returning) = self.with_returning(state, joined, &names, changes)?;
                (plan, Some(returning.schema))
            }
        };
        let mut spec = LoadSpec::new(self.statement, self.load_target());
        spec.on_empty = match self.common.on_empty.unwrap_or_default() {
            // An empty source creates no table, so that there is nothing to carry on with.
            OnEmpty::Apply if self.table.base.is_none() => OnEmpty::Skip,
            on_empty => on_empty,
        };
        spec.dry_run = self.dry_run;
        spec.transaction = self.common.transaction.as_ref().map(|t| (t.app.clone(), t.version));
        spec.comment = self.common.comment.clone();
        spec.change_data = self.change_data();
        spec.returning = returning;
        spec.compute_generated = self
            .table
            .generated_columns()?
            .into_iter()
            .filter(|c| !self.columns.lands(c))
            .collect();
        spec.target_file_size = size_option(&self.common.options, "write.target_file_size")?;
        check_count(&self.common.options, "merge.max_attempts")?;
        spec.operation = CommitOperation {
            kind: self.kind,
            read_predicate: self.read_predicate.clone(),
            parameters: self.operation_parameters(),
        };
        spec.keys = self.keys;
        spec.removed_files = self.removed_files;
        spec.notice = self.notice;
        Ok(extension(LoadNode::try_new(Arc::new(spec), plan)?))
    }

    fn plain(&self, joined: LogicalPlan, names: &[String], changes: Changes) -> Result<LogicalPlan> {
        let mut exprs: Vec<Expr> = changes
            .values
            .into_iter()
            .zip(names)
            .map(|(value, name)| value.alias(name))
            .collect();
        exprs.push(changes.action.alias(internal::ACTION));
        exprs.push(changes.position.0.alias(internal::FILE));
        exprs.push(changes.position.1.alias(internal::ROW));
        if self.change_data() {
            exprs.extend(
                changes
                    .old
                    .into_iter()
                    .enumerate()
                    .map(|(i, old)| old.alias(internal::old(i))),
            );
        }
        Ok(LogicalPlanBuilder::from(joined).project(exprs)?.build()?)
    }

    /// Two projections: the first decides and names what RETURNING may see, the second computes its items.
    fn with_returning(
        &self,
        state: &SessionState,
        joined: LogicalPlan,
        names: &[String],
        changes: Changes,
    ) -> Result<(LogicalPlan, Returning)> {
        let shown = changes.shown.clone().unwrap_or_else(|| changes.values.clone());
        let shown: Vec<(String, Expr)> = names.iter().cloned().zip(shown).collect();
        let source_columns = self
            .source
            .names()
            .iter()
            .map(|name| col(&self.source.alias, name))
            .collect();
        let mut first = visible(&shown, &self.table.alias, source_columns, changes.action.clone())?;
        let visible_width = first.len();
        // Helper names, for the target's names are taken by what RETURNING shows.
        let written: Vec<String> = (0..names.len()).map(|i| format!("__load_new_{i}")).collect();
        first.extend(
            changes
                .values
                .into_iter()
                .zip(&written)
                .map(|(value, name)| value.alias(name)),
        );
        first.push(changes.action.alias(internal::ACTION));
        first.push(changes.position.0.alias(internal::FILE));
        first.push(changes.position.1.alias(internal::ROW));
        if self.change_data() {
            first.extend(
                changes
                    .old
                    .into_iter()
                    .enumerate()
                    .map(|(i, old)| old.alias(internal::old(i))),
            );
        }
        let staged = LogicalPlanBuilder::from(joined).project(first)?.build()?;
        let returning = Returning::resolve(
            state,
            self.returning,
            staged.schema(),
            &self.table.alias,
            &self.source.alias,
        )?;

        let rest = staged
            .schema()
            .columns()
            .into_iter()
            .skip(visible_width + names.len())
            .map(Expr::Column);
        let mut second: Vec<Expr> = written
            .iter()
            .zip(names)
            .map(|(helper, name)| bare(helper).alias(name))
            .collect();
        second.extend(rest);
        let items = returning.exprs.iter().enumerate();
        second.extend(items.map(|(i, expr)| expr.clone().alias(internal::returning(i))));
        let plan = LogicalPlanBuilder::from(staged).project(second)?.build()?;
        Ok((plan, returning))
    }

    fn load_target(&self) -> LoadTarget {
        LoadTarget {
            name: self.table.name.clone(),
            handle: Arc::clone(&self.table.handle),
            base: self.table.base.clone(),
            schema: Arc::clone(&self.columns.schema),
            partition_columns: self.table.partition_columns.clone(),
            properties: self.table.properties.clone(),
            evolved: self.columns.evolved,
        }
    }

    /// The clauses as the history shows them. Row values never appear here.
    fn operation_parameters(&self) -> BTreeMap<String, String> {
        let mut parameters: BTreeMap<String, String> = self
            .parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                parameters.insert(key.to_owned(), value);
            }
        };
        add("statement", Some(verb(self.statement)));
        add("keys", self.common.keys.as_ref().map(keys_text));
        add(
            "within",
            self.common
                .keys
                .as_ref()
                .and_then(|keys| keys.within.as_ref())
                .map(ToString::to_string),
        );
        add("sequenceBy", self.common.sequence.as_ref().map(|s| join_text(&s.exprs)));
        add("deduplicate", self.common.dedup.as_ref().map(dedup_text));
        parameters
    }
}

/// The statement's words from its node's name: `MERGE OVERWRITE` for `MergeOverwrite`.
fn verb(node: &str) -> String {
    let mut words = String::new();
    for c in node.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_uppercase());
    }
    words
}

fn keys_text(keys: &Keys) -> String {
    join_text(&keys.columns)
}

fn dedup_text(dedup: &Dedup) -> String {
    dedup.to_string()
}

fn join_text<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The value of an option of `OPTIONS (..)`.
pub(crate) fn option<'a>(options: &'a [KeyValue], key: &str) -> Option<&'a KeyValue> {
    options.iter().find(|kv| kv.key.eq_ignore_ascii_case(key))
}

/// An option that is on or off.
pub fn bool_option(options: &[KeyValue], key: &str, default: bool) -> Result<bool> {
    match option(options, key) {
        None => Ok(default),
        Some(kv) => match kv.value.to_ascii_lowercase().as_str() {
            "true" | "on" => Ok(true),
            "false" | "off" => Ok(false),
            _ => Err(bad_option(kv, "true or false")),
        },
    }
}

/// An option that is a number of bytes.
fn size_option(options: &[KeyValue], key: &str) -> Result<Option<u64>> {
    option(options, key)
        .map(|kv| kv.value.parse().map_err(|_| bad_option(kv, "a number of bytes")))
        .transpose()
}

/// An option that is a count of at least one.
pub(crate) fn count_option(options: &[KeyValue], key: &str) -> Option<usize> {
    option(options, key)
        .and_then(|kv| kv.value.parse().ok())
        .filter(|n| *n > 0)
}

/// Refuses a count that is none, rather than falling back to the default unseen.
fn check_count(options: &[KeyValue], key: &str) -> Result<()> {
    match (option(options, key), count_option(options, key)) {
        (Some(kv), None) => Err(bad_option(kv, "a number of at least 1")),
        _ => Ok(()),
    }
}

pub(crate) fn bad_option(kv: &KeyValue, wanted: &str) -> LoadError {
    LoadError::new(
        SqlState::InvalidParameter,
        format!("option '{}' cannot be '{}'", kv.key, kv.value),
    )
    .hint(format!("It takes {wanted}."))
    .at(kv.span)
}
