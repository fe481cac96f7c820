//! The clauses that only `SCD2 MERGE` has.

use std::fmt::{self, Display, Formatter};

use alluvium_core::syntax::{
    Absent, ClauseSet, ColumnSet, Common, Cursor, DeleteWhen, comma_separated, distinct, joined,
};
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, Ident, UnaryOperator, Value};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

/// The clauses that only `SCD2 MERGE` has, each at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scd2Clauses {
    /// `APPLY AS DELETE WHEN ..`.
    pub delete_when: Option<DeleteWhen>,
    /// The `THEN ..` of `APPLY AS DELETE WHEN`.
    pub delete_then: RetireAction,
    /// `TRACK HISTORY ..`.
    pub track: Option<Track>,
    /// `EFFECTIVE AT ..`.
    pub effective_at: Option<EffectiveAt>,
    /// `VALIDITY COLUMNS ..`.
    pub validity: Option<ValidityColumns>,
    /// `ACTIVE UNTIL ..`.
    pub active_until: Option<ActiveUntil>,
    /// `WHEN NOT MATCHED BY SOURCE ..`.
    pub absent: Option<Absent<RetireAction>>,
    /// `ON LATE ARRIVAL ..`.
    pub late: Option<OnLate>,
}

/// How a key is retired: by a delete marker, or because the source lacks it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RetireAction {
    /// The open version is closed (the default).
    #[default]
    Invalidate,
    /// The open version is closed and one flagged as deleted is opened.
    NewRecord,
}

/// Which changes open a version.
#[derive(Debug, Clone, PartialEq)]
pub enum Track {
    /// `TRACK HISTORY ON ..`: changes in these columns.
    On {
        /// The columns.
        columns: ColumnSet,
        /// The whole clause.
        span: Span,
    },
    /// `TRACK HISTORY ALWAYS`: every newer row.
    Always {
        /// The whole clause.
        span: Span,
    },
}

/// `EFFECTIVE AT ..`: the boundary of the load.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveAt {
    /// A constant expression.
    pub expr: Expr,
    /// The whole clause.
    pub span: Span,
}

/// `VALIDITY COLUMNS (..)`.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidityColumns {
    /// Where a version starts.
    pub from: Ident,
    /// Where it ends.
    pub to: Ident,
    /// Whether it is open.
    pub is_current: Option<Ident>,
    /// Whether it records a deletion.
    pub is_deleted: Option<Ident>,
    /// The whole clause.
    pub span: Span,
}

/// `ACTIVE UNTIL ..`: what stands in the end column of an open version.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveUntil {
    /// The literal; `None`: NULL.
    pub value: Option<Expr>,
    /// The whole clause.
    pub span: Span,
}

/// `ON LATE ARRIVAL ..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnLate {
    /// What happens.
    pub action: LateArrival,
    /// The whole clause.
    pub span: Span,
}

/// What a row older than the open version does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LateArrival {
    /// It is spliced into the history (the default).
    #[default]
    Reorder,
    /// It is dropped.
    Ignore,
    /// The statement fails.
    Error,
    /// It is inserted open, and closes nothing.
    Append,
}

impl ClauseSet for Scd2Clauses {
    const VERB: &'static str = "SCD2 MERGE";

    const PHRASES: &'static [&'static str] = &[
        "APPLY AS DELETE WHEN",
        "TRACK HISTORY",
        "EFFECTIVE AT",
        "VALIDITY COLUMNS",
        "ACTIVE UNTIL",
        "WHEN NOT MATCHED BY SOURCE",
        "ON LATE ARRIVAL",
    ];

    fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool> {
        let start = cursor.here();
        if cursor.eat("APPLY") {
            cursor.once(self.delete_when.is_some(), "APPLY AS DELETE WHEN", start)?;
            self.delete_when = Some(cursor.delete_when(start)?);
            if cursor.eat("THEN") {
                self.delete_then = retire_action(cursor)?;
            }
        } else if cursor.eat("TRACK") {
            cursor.expect("HISTORY")?;
            cursor.once(self.track.is_some(), "TRACK HISTORY", start)?;
            self.track = Some(track(cursor, start)?);
        } else if cursor.peek("WHEN NOT MATCHED BY") && cursor.eat("WHEN") {
            cursor.once(self.absent.is_some(), "WHEN NOT MATCHED BY SOURCE", start)?;
            self.absent = Some(cursor.absent(start, retire_action)?);
        } else if cursor.eat("ON LATE") {
            cursor.expect("ARRIVAL")?;
            cursor.once(self.late.is_some(), "ON LATE ARRIVAL", start)?;
            self.late = Some(on_late(cursor, start)?);
        } else {
            return self.parse_time_clause(cursor, start);
        }
        Ok(true)
    }

    fn validate(&self, common: &Common, _verb: Span) -> Result<()> {
        self.validate_mode(common)?;
        self.validate_deletion_column()
    }
}

impl Scd2Clauses {
    /// The clauses about validity: where it is kept and where it begins and ends.
    fn parse_time_clause(&mut self, cursor: &mut Cursor<'_, '_>, start: Span) -> Result<bool> {
        if cursor.eat("EFFECTIVE") {
            cursor.expect("AT")?;
            cursor.once(self.effective_at.is_some(), "EFFECTIVE AT", start)?;
            let expr = cursor.expr()?;
            let span = cursor.since(start);
            self.effective_at = Some(EffectiveAt { expr, span });
        } else if cursor.eat("VALIDITY") {
            cursor.expect("COLUMNS")?;
            cursor.once(self.validity.is_some(), "VALIDITY COLUMNS", start)?;
            self.validity = Some(validity(cursor, start)?);
        } else if cursor.eat("ACTIVE") {
            cursor.expect("UNTIL")?;
            cursor.once(self.active_until.is_some(), "ACTIVE UNTIL", start)?;
            self.active_until = Some(active_until(cursor, start)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// With `SEQUENCE BY` each row has its own time, without it the load has one.
    fn validate_mode(&self, common: &Common) -> Result<()> {
        let Some(sequence) = &common.sequence else {
            return match (&self.track, self.late) {
                (Some(Track::Always { span }), _) => Err(refuse("TRACK HISTORY ALWAYS needs SEQUENCE BY", *span)
                    .hint("Add SEQUENCE BY with the time of each row, or track columns with TRACK HISTORY ON.")),
                (_, Some(late)) => Err(refuse("ON LATE ARRIVAL needs SEQUENCE BY", late.span)
                    .hint("Rows are late by their own time; without SEQUENCE BY all have the time of the load.")),
                _ => Ok(()),
            };
        };
        if common.keys.is_none() {
            return Err(refuse("SEQUENCE BY needs KEYS in SCD2 MERGE", sequence.span)
                .hint("Add KEYS (column, ..), or leave out SEQUENCE BY to identify rows by their tracked columns."));
        }
        match (&self.effective_at, &self.absent) {
            (Some(effective), None) => Err(
                refuse("EFFECTIVE AT cannot be combined with SEQUENCE BY", effective.span)
                    .hint("Rows begin at their own time; EFFECTIVE AT only dates WHEN NOT MATCHED BY SOURCE there."),
            ),
            _ => Ok(()),
        }
    }

    /// `NEW RECORD` writes rows that are flagged as deleted. When the columns are named, the flag must be among them.
    fn validate_deletion_column(&self) -> Result<()> {
        let absent = self
            .absent
            .as_ref()
            .filter(|absent| absent.action == RetireAction::NewRecord);
        let deleted = self
            .delete_when
            .as_ref()
            .filter(|_| self.delete_then == RetireAction::NewRecord);
        let retires = absent.is_some() || deleted.is_some();
        match &self.validity {
            Some(validity) if retires && validity.is_deleted.is_none() => {
                Err(refuse("NEW RECORD needs a column that flags deletions", validity.span)
                    .hint("Name it as the fourth one: VALIDITY COLUMNS (from, to, is_current, is_deleted)."))
            }
            _ => Ok(()),
        }
    }
}

fn refuse(message: &str, at: Span) -> LoadError {
    LoadError::new(SqlState::Syntax, message).at(at)
}

fn retire_action(cursor: &mut Cursor<'_, '_>) -> Result<RetireAction> {
    cursor.expect_one_of(&[
        ("INVALIDATE", RetireAction::Invalidate),
        ("NEW RECORD", RetireAction::NewRecord),
    ])
}

fn track(cursor: &mut Cursor<'_, '_>, start: Span) -> Result<Track> {
    match cursor.expect_one_of(&[("ON", false), ("ALWAYS", true)])? {
        true => Ok(Track::Always {
            span: cursor.since(start),
        }),
        false => {
            let columns = cursor.column_set()?;
            let span = cursor.since(start);
            Ok(Track::On { columns, span })
        }
    }
}

fn on_late(cursor: &mut Cursor<'_, '_>, start: Span) -> Result<OnLate> {
    let action = cursor.expect_one_of(&[
        ("REORDER", LateArrival::Reorder),
        ("IGNORE", LateArrival::Ignore),
        ("ERROR", LateArrival::Error),
        ("APPEND", LateArrival::Append),
    ])?;
    let span = cursor.since(start);
    Ok(OnLate { action, span })
}

fn validity(cursor: &mut Cursor<'_, '_>, start: Span) -> Result<ValidityColumns> {
    cursor.expect_symbol(&Token::LParen)?;
    let from = cursor.ident()?;
    cursor.expect_symbol(&Token::Comma)?;
    let to = cursor.ident()?;
    let is_current = following(cursor)?;
    let is_deleted = match is_current {
        Some(_) => following(cursor)?,
        None => None,
    };
    cursor.expect_symbol(&Token::RParen)?;
    distinct([&from, &to].into_iter().chain(&is_current).chain(&is_deleted))?;
    Ok(ValidityColumns {
        from,
        to,
        is_current,
        is_deleted,
        span: cursor.since(start),
    })
}

fn following(cursor: &mut Cursor<'_, '_>) -> Result<Option<Ident>> {
    match cursor.eat_symbol(&Token::Comma) {
        true => Ok(Some(cursor.ident()?)),
        false => Ok(None),
    }
}

fn active_until(cursor: &mut Cursor<'_, '_>, start: Span) -> Result<ActiveUntil> {
    let expr = cursor.expr()?;
    let span = cursor.since(start);
    let value = match &expr {
        Expr::Value(value) if value.value == Value::Null => None,
        expr if is_literal(expr) => Some(expr.clone()),
        _ => {
            return Err(refuse("ACTIVE UNTIL takes NULL or a literal", span)
                .hint("For example ACTIVE UNTIL TIMESTAMP '9999-12-31 00:00:00'."));
        }
    };
    Ok(ActiveUntil { value, span })
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        }
        | Expr::Cast { expr, .. } => is_literal(expr),
        _ => false,
    }
}

impl Display for Scd2Clauses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let delete = self.delete_when.as_ref().map(|marker| match self.delete_then {
            RetireAction::Invalidate => marker.to_string(),
            action => format!("{marker} THEN {action}"),
        });
        f.write_str(&joined([
            delete,
            self.track.as_ref().map(ToString::to_string),
            self.effective_at.as_ref().map(|at| format!("EFFECTIVE AT {}", at.expr)),
            self.validity.as_ref().map(ToString::to_string),
            self.active_until.as_ref().map(ToString::to_string),
            self.absent.as_ref().map(ToString::to_string),
            self.late.as_ref().map(ToString::to_string),
        ]))
    }
}

impl Display for RetireAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalidate => "INVALIDATE",
            Self::NewRecord => "NEW RECORD",
        })
    }
}

impl Display for Track {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::On { columns, .. } => write!(f, "TRACK HISTORY ON {columns}"),
            Self::Always { .. } => f.write_str("TRACK HISTORY ALWAYS"),
        }
    }
}

impl Display for ValidityColumns {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut columns = vec![&self.from, &self.to];
        columns.extend(&self.is_current);
        columns.extend(&self.is_deleted);
        write!(f, "VALIDITY COLUMNS ({})", comma_separated(&columns))
    }
}

impl Display for ActiveUntil {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "ACTIVE UNTIL {value}"),
            None => f.write_str("ACTIVE UNTIL NULL"),
        }
    }
}

impl Display for OnLate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            LateArrival::Reorder => "ON LATE ARRIVAL REORDER",
            LateArrival::Ignore => "ON LATE ARRIVAL IGNORE",
            LateArrival::Error => "ON LATE ARRIVAL ERROR",
            LateArrival::Append => "ON LATE ARRIVAL APPEND",
        })
    }
}
