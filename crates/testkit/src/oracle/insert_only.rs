//! `INSERT ONLY INTO`: keys the target lacks come in, everything else stays.

use super::clauses::{Common, DeleteMarker, Keys};
use super::{Answer, Counts, SYNTAX, finished, skipped, source, target};
use crate::values::Table;

/// The statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InsertOnly {
    /// Shared clauses.
    pub common: Common,
    /// `IGNORE DELETES WHEN`.
    pub ignore_deletes: Option<DeleteMarker>,
}

impl InsertOnly {
    /// The statement as SQL.
    pub fn to_sql(&self, target: &str, source: &str) -> String {
        let clauses = self
            .ignore_deletes
            .iter()
            .map(|m| format!("IGNORE DELETES WHEN {}", m.to_sql()))
            .collect();
        self.common.to_sql("INSERT ONLY", target, source, clauses)
    }

    /// What it does.
    pub fn apply(&self, before: Option<&Table>, source: &Table) -> Answer {
        let [keys] = self.common.keys.as_slice() else {
            return Err(SYNTAX);
        };
        let marker = self.ignore_deletes.as_ref();
        source::check_clauses(&self.common)?;
        source::check_names(&self.common, source, before, marker)?;
        let landing = source::landing(&self.common, source, before, marker)?;
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
        let mut table = target::prepared(before, source, &landing);
        source::check_outside(keys, source, &winners.rows, &table)?;
        let mut counts = Counts {
            skipped: winners.skipped,
            source: source_rows(source),
            ..Counts::default()
        };
        let stored = table.clone();
        for row in &winners.rows {
            let marked = marker.is_some_and(|m| m.marks(source, row));
            if marked || knows(keys, &stored, keys.of(source, row)) {
                counts.skipped += 1;
                continue;
            }
            let new = target::landed(&table, source, row, &landing);
            target::check_written(&table, &new)?;
            table.rows.push(new);
            counts.inserted += 1;
        }
        Ok(finished(before, table, counts))
    }
}

/// Whether the target holds the key.
fn knows(keys: &Keys, table: &Table, key: Option<Vec<crate::Value>>) -> bool {
    key.is_some()
        && table
            .rows
            .iter()
            .any(|row| keys.looks_at(table, row) && keys.of(table, row) == key)
}

/// `num_source_rows`.
pub(crate) fn source_rows(source: &Table) -> u64 {
    source.rows.len().try_into().unwrap_or(u64::MAX)
}
