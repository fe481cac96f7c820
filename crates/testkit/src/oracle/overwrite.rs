//! `MERGE OVERWRITE INTO`: the rows of whole keys, or of a window, are replaced by the source.

use super::clauses::{Common, DeleteMarker, Keys, Unique};
use super::expr::{Cond, Expr, Scope};
use super::insert_only::source_rows;
use super::source::{Winners, check_columns, deduplicated};
use super::{Answer, BAD_VALUE, Counts, ErrorCode, NO_COLUMN, OUTSIDE, SYNTAX, finished, skipped, source, target};
use crate::rows::ident;
use crate::values::{Row, Table, Value};

/// The window that is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// `WINDOW (predicate)`.
    Predicate(Cond),
    /// `WINDOW column FROM a TO b`: half-open.
    FromTo(String, Expr, Expr),
    /// `WINDOW column BETWEEN a AND b`: closed.
    Between(String, Expr, Expr),
    /// `WINDOW column FROM SOURCE`: from the source's smallest to its largest value, closed.
    FromSource(String),
    /// `WINDOW column FROM a TO SOURCE`: to the source's largest value, closed.
    ToSource(String, Expr),
}

impl Window {
    fn to_sql(&self) -> String {
        let text = match self {
            Self::Predicate(cond) => format!("({cond})"),
            Self::FromTo(column, from, to) => format!("{} FROM {from} TO {to}", ident(column)),
            Self::Between(column, from, to) => format!("{} BETWEEN {from} AND {to}", ident(column)),
            Self::FromSource(column) => format!("{} FROM SOURCE", ident(column)),
            Self::ToSource(column, from) => format!("{} FROM {from} TO SOURCE", ident(column)),
        };
        format!("WINDOW {text}")
    }

    /// The columns it reads.
    pub fn columns(&self) -> Vec<String> {
        match self {
            Self::Predicate(cond) => cond.columns(),
            Self::FromTo(c, ..) | Self::Between(c, ..) | Self::FromSource(c) | Self::ToSource(c, _) => vec![c.clone()],
        }
    }

    /// Constant bounds must not be NULL, nor the lower above the upper.
    fn check(&self) -> Result<(), ErrorCode> {
        let constants = match self {
            Self::FromTo(_, from, to) | Self::Between(_, from, to) => vec![from, to],
            Self::ToSource(_, from) => vec![from],
            Self::Predicate(_) | Self::FromSource(_) => Vec::new(),
        };
        let values: Vec<Value> = constants.iter().map(|e| e.eval(Scope::default())).collect();
        let ordered = values.windows(2).all(|pair| pair[0] <= pair[1]);
        if values.iter().any(Value::is_null) || !ordered {
            Err(BAD_VALUE)
        } else {
            Ok(())
        }
    }

    /// The window as a condition; `None` if it takes its bounds from a source that has none.
    fn condition(&self, source: &Table) -> Option<Cond> {
        let values = |column: &str| -> Vec<Value> {
            source
                .rows
                .iter()
                .map(|row| source.get(row, column))
                .filter(|v| !v.is_null())
                .collect()
        };
        let closed = |column: &str, from: Expr, to: Expr| {
            Cond::GtEq(Expr::col(column), from).and(Cond::LtEq(Expr::col(column), to))
        };
        Some(match self {
            Self::Predicate(cond) => cond.clone(),
            Self::FromTo(column, from, to) => {
                Cond::GtEq(Expr::col(column), from.clone()).and(Cond::Lt(Expr::col(column), to.clone()))
            }
            Self::Between(column, from, to) => closed(column, from.clone(), to.clone()),
            Self::FromSource(column) => closed(
                column,
                Expr::lit(values(column).into_iter().min()?),
                Expr::lit(values(column).into_iter().max()?),
            ),
            Self::ToSource(column, from) => closed(column, from.clone(), Expr::lit(values(column).into_iter().max()?)),
        })
    }
}

/// What happens to a source row outside the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOutside {
    /// `ERROR`, which is also the default.
    Error,
    /// `IGNORE`: it is dropped.
    Ignore,
    /// `INSERT`: it comes in.
    Insert,
}

/// The statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overwrite {
    /// Shared clauses; either its keys (any number of sets) or `window`.
    pub common: Common,
    /// `WINDOW ..`.
    pub window: Option<Window>,
    /// `APPLY AS DELETE WHEN`.
    pub delete_when: Option<DeleteMarker>,
    /// `ON OUTSIDE WINDOW ..`.
    pub on_outside: Option<OnOutside>,
}

impl Overwrite {
    /// The statement as SQL.
    pub fn to_sql(&self, target: &str, source: &str) -> String {
        let mut clauses: Vec<String> = self.window.iter().map(Window::to_sql).collect();
        clauses.extend(
            self.delete_when
                .iter()
                .map(|m| format!("APPLY AS DELETE WHEN {}", m.to_sql())),
        );
        clauses.extend(self.on_outside.map(|on| match on {
            OnOutside::Error => "ON OUTSIDE WINDOW ERROR".to_owned(),
            OnOutside::Ignore => "ON OUTSIDE WINDOW IGNORE".to_owned(),
            OnOutside::Insert => "ON OUTSIDE WINDOW INSERT".to_owned(),
        }));
        self.common.to_sql("MERGE OVERWRITE", target, source, clauses)
    }

    /// What it does.
    pub fn apply(&self, before: Option<&Table>, source: &Table) -> Answer {
        self.check_clauses()?;
        let marker = self.delete_when.as_ref();
        source::check_names(&self.common, source, before, marker)?;
        let landing = source::landing(&self.common, source, before, marker)?;
        let table = target::prepared(before, source, &landing);
        if let Some(window) = &self.window {
            check_columns(source, &window.columns())?;
            if window.columns().iter().any(|c| !table.has(c)) {
                return Err(NO_COLUMN);
            }
            window.check()?;
        }
        if source::ends_empty(&self.common, source, before)? {
            return Ok(skipped(before));
        }
        match &self.window {
            Some(window) => self.replace_window(window, before, table, source, &landing),
            None => self.replace_keys(before, table, source, &landing),
        }
    }

    fn check_clauses(&self) -> Result<(), ErrorCode> {
        source::check_clauses(&self.common)?;
        let legal = match self.window {
            None => !self.common.keys.is_empty() && self.on_outside.is_none(),
            Some(_) => {
                let on_known = !matches!(&self.common.unique, Unique::Dedup(dedup) if dedup.on.is_empty());
                self.common.keys.is_empty() && self.common.sequence.is_empty() && on_known
            }
        };
        if legal { Ok(()) } else { Err(SYNTAX) }
    }

    fn replace_keys(&self, before: Option<&Table>, table: Table, source: &Table, landing: &[String]) -> Answer {
        let keys = &self.common.keys;
        for set in keys {
            source::check_keys(set, source)?;
            source::check_outside(set, source, &source.rows, &table)?;
        }
        let hits = |row: &Row, old: &Row| {
            let hit = |set: &Keys| {
                let key = set.of(source, row);
                key.is_some() && set.looks_at(&table, old) && key == set.of(&table, old)
            };
            keys.iter().any(hit)
        };
        let goes = |old: &Row| source.rows.iter().any(|row| hits(row, old));
        let winners = self.winners(source)?;
        let unmatched_marks = winners.rows.iter().filter(|row| self.marks(source, row));
        let unmatched_marks = unmatched_marks
            .filter(|row| !table.rows.iter().any(|old| hits(row, old)))
            .count();
        let kept = table.rows.iter().filter(|old| !goes(old)).cloned().collect();
        let counts = Counts {
            unchanged: count(unmatched_marks),
            skipped: winners.skipped,
            source: source_rows(source),
            ..Counts::default()
        };
        self.replaced(before, &table, source, landing, (kept, winners.rows), counts)
    }

    fn replace_window(
        &self,
        window: &Window,
        before: Option<&Table>,
        table: Table,
        source: &Table,
        landing: &[String],
    ) -> Answer {
        let mut counts = Counts {
            source: source_rows(source),
            ..Counts::default()
        };
        let condition = window.condition(source);
        if source.rows.is_empty() && condition.is_none() {
            return Ok(finished(before, table, counts)); // no window without a source
        }
        let inside = |row: &Row| condition.as_ref().is_some_and(|c| c.holds(Scope::source(source, row)));
        let replaced = |old: &Row| condition.as_ref().is_some_and(|c| c.holds(Scope::target(&table, old)));
        let outside = |row: &&Row| !inside(row);
        let may_stay =
            |row: &Row| inside(row) || self.on_outside == Some(OnOutside::Insert) && !self.marks(source, row);
        let strays = source.rows.iter().filter(outside).any(|row| !self.marks(source, row));
        if strays && matches!(self.on_outside, None | Some(OnOutside::Error)) {
            return Err(OUTSIDE);
        }
        let admitted: Vec<Row> = source.rows.iter().filter(|row| may_stay(row)).cloned().collect();
        counts.skipped = count(source.rows.len() - admitted.len());
        let admitted = Table::new(source.columns.clone(), admitted);
        let winners = self.winners(&admitted)?;
        counts.skipped += winners.skipped + count(winners.rows.iter().filter(|row| self.marks(source, row)).count());
        let kept = table.rows.iter().filter(|old| !replaced(old)).cloned().collect();
        self.replaced(before, &table, source, landing, (kept, winners.rows), counts)
    }

    /// The stored rows that stay and the new rows that come, in one table.
    fn replaced(
        &self,
        before: Option<&Table>,
        table: &Table,
        source: &Table,
        landing: &[String],
        (mut rows, winners): (Vec<Row>, Vec<Row>),
        mut counts: Counts,
    ) -> Answer {
        counts.deleted = count(table.rows.len() - rows.len());
        for row in winners.iter().filter(|row| !self.marks(source, row)) {
            let new = target::landed(table, source, row, landing);
            target::check_written(table, &new)?;
            rows.push(new);
            counts.inserted += 1;
        }
        Ok(finished(before, Table::new(table.columns.clone(), rows), counts))
    }

    fn marks(&self, source: &Table, row: &Row) -> bool {
        self.delete_when.as_ref().is_some_and(|m| m.marks(source, row))
    }

    /// All rows, or those that `DEDUPLICATE` and `SEQUENCE BY` let through. Rows tied for the highest sequence all stay:
    /// a key group may have many rows.
    fn winners(&self, source: &Table) -> Result<Winners, ErrorCode> {
        let mut winners = match &self.common.unique {
            Unique::Dedup(dedup) => deduplicated(dedup, self.common.keys.first(), source),
            Unique::Check | Unique::Assume => Winners {
                rows: source.rows.clone(),
                skipped: 0,
            },
        };
        if let (Some(keys), false) = (self.common.keys.first(), self.common.sequence.is_empty()) {
            source::check_sequence(&self.common, source)?;
            let sequence = |row: &Row| source::tuple(source, row, &self.common.sequence);
            let rivals = |a: &Row, b: &Row| {
                let key = keys.of(source, a);
                key.is_some() && key == keys.of(source, b)
            };
            let all = winners.rows.clone();
            winners.rows.retain(|row| {
                !all.iter()
                    .any(|other| rivals(row, other) && sequence(other) > sequence(row))
            });
            winners.skipped += count(all.len() - winners.rows.len());
        }
        Ok(winners)
    }
}

fn count(rows: usize) -> u64 {
    rows.try_into().unwrap_or(u64::MAX)
}
