//! The clauses that only `UPSERT` has.

use std::fmt::{self, Display, Formatter};

use alluvium_core::syntax::{
    Absent, Assignment, ClauseSet, ColumnSet, Common, Cursor, DeleteWhen, comma_separated, joined, require_keys,
};
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::tokenizer::Span;

/// The clauses that only `UPSERT` has, each at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpsertClauses {
    /// `APPLY AS DELETE WHEN ..`.
    pub delete_when: Option<DeleteWhen>,
    /// `IGNORE NULL UPDATES ..`.
    pub ignore_nulls: Option<IgnoreNulls>,
    /// `UPDATE COLUMNS ..` or `UPDATE SET ..`.
    pub update: Option<UpdateColumns>,
    /// `UPDATE WHEN ..`.
    pub update_when: Option<Expr>,
    /// `WHEN NOT MATCHED BY SOURCE ..`.
    pub absent: Option<Absent<AbsentAction>>,
}

/// `IGNORE NULL UPDATES [ON ..]`: a NULL in the source keeps the stored value.
#[derive(Debug, Clone, PartialEq)]
pub struct IgnoreNulls {
    /// The columns it holds for; `None`: all.
    pub on: Option<ColumnSet>,
    /// The whole clause.
    pub span: Span,
}

/// What a match changes.
#[derive(Debug, Clone, PartialEq)]
pub enum UpdateColumns {
    /// `UPDATE COLUMNS ..`: these take the source's values.
    Columns(ColumnSet),
    /// `UPDATE SET ..`: these are computed, nothing else changes.
    Set(Vec<Assignment>),
}

/// What happens to a target row whose key the source lacks.
#[derive(Debug, Clone, PartialEq)]
pub enum AbsentAction {
    /// `THEN DELETE`.
    Delete,
    /// `THEN UPDATE SET ..`.
    Update(Vec<Assignment>),
}

impl ClauseSet for UpsertClauses {
    const VERB: &'static str = "UPSERT";

    const PHRASES: &'static [&'static str] = &[
        "APPLY AS DELETE WHEN",
        "IGNORE NULL UPDATES",
        "UPDATE COLUMNS",
        "UPDATE SET",
        "UPDATE WHEN",
        "WHEN NOT MATCHED BY SOURCE",
    ];

    fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool> {
        let start = cursor.here();
        if cursor.eat("APPLY") {
            cursor.once(self.delete_when.is_some(), "APPLY AS DELETE WHEN", start)?;
            self.delete_when = Some(cursor.delete_when(start)?);
        } else if cursor.eat("IGNORE NULL") {
            cursor.expect("UPDATES")?;
            cursor.once(self.ignore_nulls.is_some(), "IGNORE NULL UPDATES", start)?;
            let on = cursor.on_columns()?;
            let span = cursor.since(start);
            self.ignore_nulls = Some(IgnoreNulls { on, span });
        } else if cursor.eat("UPDATE WHEN") {
            cursor.once(self.update_when.is_some(), "UPDATE WHEN", start)?;
            self.update_when = Some(cursor.expr()?);
        } else if cursor.eat("UPDATE") {
            self.update = Some(self.new_update(cursor, start)?);
        } else if cursor.peek("WHEN NOT MATCHED BY") && cursor.eat("WHEN") {
            cursor.once(self.absent.is_some(), "WHEN NOT MATCHED BY SOURCE", start)?;
            self.absent = Some(cursor.absent(start, absent_action)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn validate(&self, common: &Common, verb: Span) -> Result<()> {
        require_keys(common, Self::VERB, verb).map(|_| ())
    }
}

impl UpsertClauses {
    /// Reads `COLUMNS ..` or `SET ..` after `UPDATE`.
    fn new_update(&self, cursor: &mut Cursor<'_, '_>, start: Span) -> Result<UpdateColumns> {
        let set = cursor.expect_one_of(&[("COLUMNS", false), ("SET", true)])?;
        match (set, &self.update) {
            (true, Some(UpdateColumns::Columns(_))) | (false, Some(UpdateColumns::Set(_))) => {
                return Err(
                    LoadError::new(SqlState::Syntax, "UPDATE COLUMNS cannot be combined with UPDATE SET")
                        .hint("UPDATE SET changes what it lists; write column = source.column for the others.")
                        .at(cursor.since(start)),
                );
            }
            (true, earlier) => cursor.once(earlier.is_some(), "UPDATE SET", start)?,
            (false, earlier) => cursor.once(earlier.is_some(), "UPDATE COLUMNS", start)?,
        }
        Ok(match set {
            true => UpdateColumns::Set(cursor.assignments()?),
            false => UpdateColumns::Columns(cursor.column_set()?),
        })
    }
}

fn absent_action(cursor: &mut Cursor<'_, '_>) -> Result<AbsentAction> {
    match cursor.expect_one_of(&[("DELETE", false), ("UPDATE SET", true)])? {
        true => Ok(AbsentAction::Update(cursor.assignments()?)),
        false => Ok(AbsentAction::Delete),
    }
}

impl Display for UpsertClauses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&joined([
            self.delete_when.as_ref().map(ToString::to_string),
            self.ignore_nulls.as_ref().map(ToString::to_string),
            self.update.as_ref().map(ToString::to_string),
            self.update_when.as_ref().map(|expr| format!("UPDATE WHEN {expr}")),
            self.absent.as_ref().map(ToString::to_string),
        ]))
    }
}

impl Display for IgnoreNulls {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.on {
            Some(columns) => write!(f, "IGNORE NULL UPDATES ON {columns}"),
            None => f.write_str("IGNORE NULL UPDATES"),
        }
    }
}

impl Display for UpdateColumns {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns(columns) => write!(f, "UPDATE COLUMNS {columns}"),
            Self::Set(assignments) => write!(f, "UPDATE SET {}", comma_separated(assignments)),
        }
    }
}

impl Display for AbsentAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete => f.write_str("DELETE"),
            Self::Update(assignments) => write!(f, "UPDATE SET {}", comma_separated(assignments)),
        }
    }
}
