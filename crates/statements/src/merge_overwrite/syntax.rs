//! The clauses that only `MERGE OVERWRITE` has.

use std::fmt::{self, Display, Formatter};

use alluvium_core::syntax::{ClauseSet, Common, Cursor, DeleteWhen, Keys, joined};
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

/// The clauses that only `MERGE OVERWRITE` has, each at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OverwriteClauses {
    /// The key sets after `OR`; the first one is the common `KEYS`.
    pub or_keys: Vec<Keys>,
    /// `WINDOW ..`.
    pub window: Option<Window>,
    /// `ON OUTSIDE WINDOW ..`.
    pub on_outside: Option<OnOutside>,
    /// `APPLY AS DELETE WHEN ..`.
    pub delete_when: Option<DeleteWhen>,
}

/// `WINDOW ..`: the target rows that are replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// How the window is written.
    pub kind: WindowKind,
    /// The whole clause.
    pub span: Span,
}

/// The ways to write a window.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one in a statement")]
pub enum WindowKind {
    /// `(predicate)` over columns of the target.
    Predicate(Expr),
    /// A range of one column.
    Range {
        /// The column.
        column: Ident,
        /// The lower bound, always inside.
        from: WindowBound,
        /// The upper bound.
        to: WindowBound,
        /// Whether the upper bound is inside: `BETWEEN`, `FROM SOURCE` and `TO SOURCE`.
        closed: bool,
    },
}

/// One end of a range.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one in a statement")]
pub enum WindowBound {
    /// A constant expression.
    Expr(Expr),
    /// The source's minimum or maximum.
    Source,
}

/// `ON OUTSIDE WINDOW ..`: what a source row outside the window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnOutside {
    /// What happens.
    pub action: OutsideAction,
    /// The whole clause.
    pub span: Span,
}

/// What a source row outside the window does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutsideAction {
    /// The statement fails (the default).
    #[default]
    Error,
    /// The row is dropped.
    Ignore,
    /// The row is inserted all the same.
    Insert,
}

impl ClauseSet for OverwriteClauses {
    const VERB: &'static str = "MERGE OVERWRITE";

    const PHRASES: &'static [&'static str] = &["WINDOW", "OR KEYS", "APPLY AS DELETE WHEN", "ON OUTSIDE WINDOW"];

    fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool> {
        let start = cursor.here();
        if cursor.eat("WINDOW") {
            cursor.once(self.window.is_some(), "WINDOW", start)?;
            let kind = window(cursor)?;
            let span = cursor.since(start);
            self.window = Some(Window { kind, span });
        } else if cursor.eat("ON OUTSIDE") {
            cursor.expect("WINDOW")?;
            cursor.once(self.on_outside.is_some(), "ON OUTSIDE WINDOW", start)?;
            let action = cursor.expect_one_of(&[
                ("ERROR", OutsideAction::Error),
                ("IGNORE", OutsideAction::Ignore),
                ("INSERT", OutsideAction::Insert),
            ])?;
            let span = cursor.since(start);
            self.on_outside = Some(OnOutside { action, span });
        } else if cursor.eat("APPLY") {
            cursor.once(self.delete_when.is_some(), "APPLY AS DELETE WHEN", start)?;
            self.delete_when = Some(cursor.delete_when(start)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn parse_after_keys(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<()> {
        loop {
            let start = cursor.here();
            if !cursor.eat("OR KEYS") && !cursor.eat("OR KEY") {
                return Ok(());
            }
            self.or_keys.push(cursor.keys(start)?);
        }
    }

    fn fmt_after_keys(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.or_keys.iter().try_for_each(|keys| write!(f, " OR {keys}"))
    }

    fn validate(&self, common: &Common, verb: Span) -> Result<()> {
        match (&self.window, &common.keys) {
            (None, None) => {
                return Err(refuse("MERGE OVERWRITE needs KEYS (..) or WINDOW ..", verb)
                    .hint("KEYS replaces the rows of each key in the source, WINDOW the rows of a range."));
            }
            (Some(window), Some(keys)) => {
                let later = if window.span.start < keys.span.start {
                    keys.span
                } else {
                    window.span
                };
                return Err(refuse("WINDOW cannot be combined with KEYS", later).hint(
                    "A window is replaced whole. To drop repeats in the source, use DEDUPLICATE ON (column, ..).",
                ));
            }
            _ => {}
        }
        match (&self.window, &common.sequence, &self.on_outside) {
            (Some(_), Some(sequence), _) => Err(refuse("WINDOW cannot be combined with SEQUENCE BY", sequence.span)
                .hint("To keep one row per key, use DEDUPLICATE ON (column, ..) BY expr DESC.")),
            (None, _, Some(outside)) => {
                Err(refuse("ON OUTSIDE WINDOW needs WINDOW", outside.span)
                    .hint("With KEYS every source row is inside."))
            }
            _ => Ok(()),
        }
    }
}

fn refuse(message: &str, at: Span) -> LoadError {
    LoadError::new(SqlState::Syntax, message).at(at)
}

/// Reads what follows `WINDOW`.
fn window(cursor: &mut Cursor<'_, '_>) -> Result<WindowKind> {
    if cursor.peek_symbol(&Token::LParen) {
        return Ok(WindowKind::Predicate(cursor.parenthesized_expr()?));
    }
    if cursor.peek_at(1, "BETWEEN") {
        return window_between(cursor);
    }
    let column = cursor.ident()?;
    if !cursor.eat("FROM") {
        let forms = "Write WINDOW (predicate), WINDOW column FROM a TO b, or WINDOW column BETWEEN a AND b.";
        return Err(cursor.expected("FROM or BETWEEN").hint(forms));
    }
    if at_source(cursor) {
        cursor.expect("SOURCE")?;
        if cursor.peek("TO") {
            let hint = "FROM SOURCE reaches from the source's minimum to its maximum: leave out TO.";
            return Err(cursor.expected("a clause").hint(hint));
        }
        return Ok(WindowKind::Range {
            column,
            from: WindowBound::Source,
            to: WindowBound::Source,
            closed: true,
        });
    }
    let from = WindowBound::Expr(cursor.expr_before("TO")?);
    let to_source = at_source(cursor) && cursor.eat("SOURCE");
    let to = match to_source {
        true => WindowBound::Source,
        false => WindowBound::Expr(cursor.expr()?),
    };
    Ok(WindowKind::Range {
        column,
        from,
        to,
        closed: to_source,
    })
}

/// Whether the word `SOURCE` comes next, and not a column `source.x` or a function `source(..)`.
fn at_source(cursor: &Cursor<'_, '_>) -> bool {
    cursor.peek("SOURCE") && !matches!(cursor.token(1).token, Token::Period | Token::LParen)
}

/// Reads `column BETWEEN a AND b` as the expression that it also is, so that its bounds end where SQL ends them.
fn window_between(cursor: &mut Cursor<'_, '_>) -> Result<WindowKind> {
    let start = cursor.here();
    let expr = cursor.expr()?;
    if let Expr::Between {
        expr,
        negated: false,
        low,
        high,
    } = expr
        && let Expr::Identifier(column) = *expr
    {
        return Ok(WindowKind::Range {
            column,
            from: WindowBound::Expr(*low),
            to: WindowBound::Expr(*high),
            closed: true,
        });
    }
    Err(
        refuse("WINDOW takes one column BETWEEN two bounds", cursor.since(start))
            .hint("Write any other condition in parentheses: WINDOW (predicate)."),
    )
}

impl Display for OverwriteClauses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&joined([
            self.window.as_ref().map(ToString::to_string),
            self.on_outside.as_ref().map(ToString::to_string),
            self.delete_when.as_ref().map(ToString::to_string),
        ]))
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            WindowKind::Predicate(predicate) => write!(f, "WINDOW ({predicate})"),
            WindowKind::Range {
                column,
                from: WindowBound::Source,
                ..
            } => write!(f, "WINDOW {column} FROM SOURCE"),
            WindowKind::Range {
                column,
                from: WindowBound::Expr(from),
                to,
                closed,
            } => match (to, closed) {
                (WindowBound::Source, _) => write!(f, "WINDOW {column} FROM {from} TO SOURCE"),
                (WindowBound::Expr(to), false) => write!(f, "WINDOW {column} FROM {from} TO {to}"),
                (WindowBound::Expr(to), true) => write!(f, "WINDOW {column} BETWEEN {from} AND {to}"),
            },
        }
    }
}

impl Display for OnOutside {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            OutsideAction::Error => "ON OUTSIDE WINDOW ERROR",
            OutsideAction::Ignore => "ON OUTSIDE WINDOW IGNORE",
            OutsideAction::Insert => "ON OUTSIDE WINDOW INSERT",
        })
    }
}
