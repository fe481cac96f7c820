//! `UPSERT INTO`: matches update, misses insert, marked rows delete, absent rows on request.

use super::clauses::{Absent, ColumnSet, Common, DeleteMarker, Keys, assignments};
use super::expr::{Cond, Expr, Scope};
use super::insert_only::source_rows;
use super::{Answer, Counts, ErrorCode, NO_COLUMN, SYNTAX, finished, skipped, source, target};
use crate::values::{Row, Table, Value};

/// What a match updates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpdateColumns {
    /// Every non-key source column (no clause).
    #[default]
    All,
    /// `UPDATE COLUMNS ..`.
    Only(ColumnSet),
    /// `UPDATE SET ..`: these columns and no others.
    Set(Vec<(String, Expr)>),
}

/// What happens to a row the source lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbsentRows {
    /// `DELETE`.
    Delete,
    /// `UPDATE SET ..`.
    Set(Vec<(String, Expr)>),
}

/// The statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upsert {
    /// Shared clauses.
    pub common: Common,
    /// `APPLY AS DELETE WHEN`.
    pub delete_when: Option<DeleteMarker>,
    /// `IGNORE NULL UPDATES [ON ..]`.
    pub ignore_nulls: Option<ColumnSet>,
    /// `UPDATE COLUMNS` or `UPDATE SET`.
    pub update: UpdateColumns,
    /// `UPDATE WHEN`. It holds back updates only, never deletes.
    pub update_when: Option<Cond>,
    /// `WHEN NOT MATCHED BY SOURCE`.
    pub absent: Option<Absent<AbsentRows>>,
}

/// What becomes of one stored row.
enum Fate {
    Keep,
    Unchanged,
    Skipped,
    Update(Row),
    Delete,
}

impl Upsert {
    /// The statement as SQL.
    pub fn to_sql(&self, target: &str, source: &str) -> String {
        let mut clauses = Vec::new();
        clauses.extend(
            self.delete_when
                .as_ref()
                .map(|m| format!("APPLY AS DELETE WHEN {}", m.to_sql())),
        );
        clauses.extend(self.ignore_nulls.as_ref().map(|set| match set {
            ColumnSet::AllExcept(except) if except.is_empty() => "IGNORE NULL UPDATES".to_owned(),
            set => format!("IGNORE NULL UPDATES ON {}", set.to_sql()),
        }));
        match &self.update {
            UpdateColumns::All => {}
            UpdateColumns::Only(set) => clauses.push(format!("UPDATE COLUMNS {}", set.to_sql())),
            UpdateColumns::Set(set) => clauses.push(format!("UPDATE SET {}", assignments(set))),
        }
        clauses.extend(self.update_when.as_ref().map(|c| format!("UPDATE WHEN {c}")));
        clauses.extend(self.absent.as_ref().map(|absent| match &absent.action {
            AbsentRows::Delete => absent.to_sql("DELETE"),
            AbsentRows::Set(set) => absent.to_sql(&format!("UPDATE SET {}", assignments(set))),
        }));
        self.common.to_sql("UPSERT", target, source, clauses)
    }

    /// What it does.
    pub fn apply(&self, before: Option<&Table>, source: &Table) -> Answer {
        let [keys] = self.common.keys.as_slice() else {
            return Err(SYNTAX);
        };
        let marker = self.delete_when.as_ref();
        source::check_clauses(&self.common)?;
        source::check_names(&self.common, source, before, marker)?;
        let landing = source::landing(&self.common, source, before, marker)?;
        let mut table = target::prepared(before, source, &landing);
        self.check_targets(keys, &table)?;
        self.check_listed(&landing)?;
        if source::ends_empty(&self.common, source, before)? {
            return Ok(skipped(before));
        }
        source::check_keys(keys, source)?;
        let content = source::Content {
            source,
            landing: &landing,
            marker,
        };
        let winners = source::one_per_key(&self.common, keys, &content)?;
        source::check_outside(keys, source, &winners.rows, &table)?;
        let mut counts = Counts {
            skipped: winners.skipped,
            source: source_rows(source),
            ..Counts::default()
        };

        let statement = Running {
            spec: self,
            keys,
            source,
            table: &table,
            landing: &landing,
            before,
        };
        let mut rows = Vec::new();
        for old in &table.rows {
            match statement.fate(&winners.rows, old) {
                Fate::Keep => rows.push(old.clone()),
                Fate::Delete => counts.deleted += 1,
                Fate::Unchanged => {
                    counts.unchanged += 1;
                    rows.push(old.clone());
                }
                Fate::Skipped => {
                    counts.skipped += 1;
                    rows.push(old.clone());
                }
                Fate::Update(new) => {
                    target::check_written(&table, &new)?;
                    counts.updated += 1;
                    rows.push(new);
                }
            }
        }
        for row in winners.rows.iter().filter(|row| !statement.has_match(row)) {
            if marker.is_some_and(|m| m.marks(source, row)) {
                counts.unchanged += 1;
                continue;
            }
            let new = target::landed(&table, source, row, &landing);
            target::check_written(&table, &new)?;
            counts.inserted += 1;
            rows.push(new);
        }
        table.rows = rows;
        Ok(finished(before, table, counts))
    }

    /// Columns that are listed for updates land; what `EXCEPT` leaves out need not.
    fn check_listed(&self, landing: &[String]) -> Result<(), ErrorCode> {
        let update = match &self.update {
            UpdateColumns::Only(set) => Some(set),
            UpdateColumns::All | UpdateColumns::Set(_) => None,
        };
        let sets = update.into_iter().chain(&self.ignore_nulls);
        let mut listed = sets
            .filter(|set| matches!(set, ColumnSet::Only(_)))
            .flat_map(ColumnSet::named);
        if listed.all(|column| landing.contains(column)) {
            Ok(())
        } else {
            Err(NO_COLUMN)
        }
    }

    /// Assigned columns exist and are no keys.
    fn check_targets(&self, keys: &Keys, table: &Table) -> Result<(), ErrorCode> {
        let update: &[(String, Expr)] = if let UpdateColumns::Set(set) = &self.update {
            set
        } else {
            &[]
        };
        let absent: &[(String, Expr)] = match &self.absent {
            Some(Absent {
                action: AbsentRows::Set(set),
                ..
            }) => set,
            _ => &[],
        };
        let mut columns = update.iter().chain(absent).map(|(column, _)| column);
        if columns.clone().any(|column| !table.has(column)) {
            return Err(NO_COLUMN);
        }
        if columns.any(|column| keys.columns.contains(column)) {
            Err(SYNTAX)
        } else {
            Ok(())
        }
    }
}

struct Running<'a> {
    spec: &'a Upsert,
    keys: &'a Keys,
    source: &'a Table,
    table: &'a Table,
    landing: &'a [String],
    before: Option<&'a Table>,
}

impl Running<'_> {
    fn matches(&self, row: &Row, old: &Row) -> bool {
        let key = self.keys.of(self.source, row);
        key.is_some() && self.keys.looks_at(self.table, old) && key == self.keys.of(self.table, old)
    }

    fn has_match(&self, row: &Row) -> bool {
        self.table.rows.iter().any(|old| self.matches(row, old))
    }

    fn fate(&self, winners: &[Row], old: &Row) -> Fate {
        match winners.iter().find(|row| self.matches(row, old)) {
            Some(row) => self.matched(row, old),
            None => self.absent(old),
        }
    }

    fn matched(&self, row: &Row, old: &Row) -> Fate {
        if self.guarded(row, old) {
            return Fate::Skipped;
        }
        if self
            .spec
            .delete_when
            .as_ref()
            .is_some_and(|m| m.marks(self.source, row))
        {
            return Fate::Delete;
        }
        let scope = Scope {
            source: Some((self.source, row)),
            target: Some((self.table, old)),
        };
        if self.spec.update_when.as_ref().is_some_and(|cond| !cond.holds(scope)) {
            return Fate::Skipped;
        }
        let mut new = old.clone();
        for (column, value) in self.assigned(row, scope) {
            target::set(self.table, &mut new, &column, value);
        }
        self.compared(old, new)
    }

    /// The stored sequence is greater. Off when the target does not store all of its columns; a stored NULL is lowest.
    fn guarded(&self, row: &Row, old: &Row) -> bool {
        let sequence = &self.spec.common.sequence;
        let stored = self.before.is_some_and(|before| sequence.iter().all(|c| before.has(c)));
        let on = !sequence.is_empty() && stored;
        on && source::tuple(self.table, old, sequence) > source::tuple(self.source, row, sequence)
    }

    fn assigned(&self, row: &Row, scope: Scope<'_>) -> Vec<(String, Value)> {
        let set = match &self.spec.update {
            UpdateColumns::Set(set) => return set.iter().map(|(c, e)| (c.clone(), e.eval(scope))).collect(),
            UpdateColumns::Only(set) => Some(set),
            UpdateColumns::All => None,
        };
        let updates = |c: &&String| !self.keys.columns.contains(c) && set.is_none_or(|set| set.has(c));
        let ignores = |c: &str| self.spec.ignore_nulls.as_ref().is_some_and(|set| set.has(c));
        let columns = self.landing.iter().filter(updates);
        let values = columns.map(|c| (c.clone(), self.source.get(row, c)));
        values.filter(|(c, value)| !(value.is_null() && ignores(c))).collect()
    }

    fn absent(&self, old: &Row) -> Fate {
        let Some(absent) = &self.spec.absent else {
            return Fate::Keep;
        };
        let key = self.keys.of(self.table, old);
        let in_source = key.is_some() && self.source.rows.iter().any(|row| self.keys.of(self.source, row) == key);
        let outside = !self.keys.looks_at(self.table, old);
        if in_source || outside || !absent.concerns(self.table, old, self.source) {
            return Fate::Keep;
        }
        let AbsentRows::Set(set) = &absent.action else {
            return Fate::Delete;
        };
        let mut new = old.clone();
        for (column, value) in set {
            target::set(self.table, &mut new, column, value.eval(Scope::target(self.table, old)));
        }
        match self.compared(old, new) {
            Fate::Unchanged => Fate::Keep, // only source rows are counted as unchanged
            fate => fate,
        }
    }

    fn compared(&self, old: &Row, new: Row) -> Fate {
        if *old == new && !self.spec.common.no_compare {
            Fate::Unchanged
        } else {
            Fate::Update(new)
        }
    }
}
