//! The validity columns: their names and types.

use std::sync::Arc;

use alluvium_core::syntax::Load;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::tokenizer::Span;

use super::syntax::{RetireAction, Scd2Clauses};
use crate::bind::columns::{Columns, find};
use crate::bind::source::{SourceRows, ident_name};
use crate::bind::target::TargetTable;

/// The names of the validity columns.
#[derive(Debug, Clone)]
pub(super) struct Validity {
    pub from: String,
    pub to: String,
    pub is_current: Option<String>,
    pub is_deleted: Option<String>,
    /// Where they are named, or the statement's target.
    span: Span,
}

impl Validity {
    /// The names of the clause, or the defaults.
    pub fn named(state: &SessionState, load: &Load<Scd2Clauses>) -> Self {
        let Some(clause) = &load.clauses.validity else {
            return Self {
                from: "__valid_from".to_owned(),
                to: "__valid_to".to_owned(),
                is_current: Some("__is_current".to_owned()),
                is_deleted: records_deletions(load).then(|| "__is_deleted".to_owned()),
                span: load.target.span,
            };
        };
        let name = |ident| ident_name(state, ident);
        Self {
            from: name(&clause.from),
            to: name(&clause.to),
            is_current: clause.is_current.as_ref().map(name),
            is_deleted: clause.is_deleted.as_ref().map(name),
            span: clause.span,
        }
    }

    /// All of them, in order.
    pub fn names(&self) -> Vec<String> {
        let flags = self.is_current.iter().chain(&self.is_deleted);
        [&self.from, &self.to].into_iter().chain(flags).cloned().collect()
    }

    /// Whether this is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.names().iter().any(|own| own == name)
    }

    /// The columns of a table that the statement creates.
    pub fn fields(&self) -> Vec<FieldRef> {
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let flags = self
            .is_current
            .iter()
            .chain(&self.is_deleted)
            .map(|name| (name, DataType::Boolean));
        let times = [&self.from, &self.to].into_iter().map(|name| (name, time.clone()));
        times
            .chain(flags)
            .map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)))
            .collect()
    }

    /// No source column is called like one of them.
    pub fn check_source(&self, source: &SourceRows) -> Result<()> {
        let own = self.names();
        let is_own = |name: &String| own.iter().any(|own| own.eq_ignore_ascii_case(name));
        match source.names().into_iter().find(|name| is_own(name)) {
            None => Ok(()),
            Some(name) => Err(LoadError::new(
                SqlState::DuplicateColumn,
                format!("source column \"{name}\" is named like a validity column"),
            )
            .hint("Leave it out of the source query or rename it, or name other columns in VALIDITY COLUMNS.")
            .at(source.span)),
        }
    }

    /// A stored table has all of them, with types that can hold what they mean.
    pub fn check_target(&self, state: &SessionState, table: &TargetTable) -> Result<()> {
        let schema = table.stored_schema();
        let stored: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        for name in self.names() {
            let ident = datafusion::sql::sqlparser::ast::Ident::with_quote('"', &name);
            find(state, &ident, &stored, &format!("table \"{}\"", table.name))
                .map_err(|_| self.missing(&name, table))?;
            let data_type = schema
                .field_with_name(&name)
                .map_err(|_| self.missing(&name, table))?
                .data_type()
                .clone();
            let is_time = name == self.from || name == self.to;
            let fits = match is_time {
                true => matches!(
                    data_type,
                    DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Date32
                ),
                false => data_type == DataType::Boolean,
            };
            if !fits {
                let wanted = if is_time { "a timestamp or a date" } else { "a boolean" };
                return Err(LoadError::new(
                    SqlState::DatatypeMismatch,
                    format!(
                        "validity column \"{name}\" of table \"{}\" has type {data_type}",
                        table.name
                    ),
                )
                .hint(format!(
                    "It must be {wanted}; name the right columns with VALIDITY COLUMNS (from, to, ..)."
                ))
                .at(self.span));
            }
        }
        Ok(())
    }

    fn missing(&self, name: &str, table: &TargetTable) -> LoadError {
        LoadError::new(
            SqlState::UndefinedColumn,
            format!("validity column \"{name}\" does not exist in table \"{}\"", table.name),
        )
        .hint("Name the table's own columns with VALIDITY COLUMNS (from, to [, is_current [, is_deleted]]).")
        .at(self.span)
    }

    /// The type of one of the two times.
    pub fn time_type(&self, columns: &Columns, name: &str) -> Result<DataType> {
        let found = columns.target_type(name).cloned();
        found.ok_or_else(|| LoadError::internal(format!("validity column {name} without a type")))
    }
}

/// Whether versions are flagged as deleted.
pub(super) fn records_deletions(load: &Load<Scd2Clauses>) -> bool {
    let clauses = &load.clauses;
    let marked = clauses.delete_when.is_some() && clauses.delete_then == RetireAction::NewRecord;
    marked
        || clauses
            .absent
            .as_ref()
            .is_some_and(|absent| absent.action == RetireAction::NewRecord)
}
