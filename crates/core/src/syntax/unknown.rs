//! What to say about a word that begins no clause: perhaps it is a clause of another statement, or another system's
//! word for one of ours.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::common::PHRASES as COMMON_PHRASES;
use super::cursor::{Cursor, enumerated, is_word, word};
use crate::error::LoadError;
use crate::registry::Registry;
use crate::sqlstate::SqlState;

/// Other systems' words, and what to write instead. Longer phrases stand before their beginnings.
const FOREIGN: &[(&str, &str)] = &[
    ("UNIQUE_KEY", "Write KEYS (column, ..)."),
    ("MERGE_KEY", "Write KEYS (column, ..)."),
    ("MERGE_KEYS", "Write KEYS (column, ..)."),
    ("PRIMARY_KEY", "Write KEYS (column, ..)."),
    ("PRIMARY KEY", "Write KEYS (column, ..)."),
    ("UNIQUE KEY", "Write KEYS (column, ..)."),
    ("ON CONFLICT", "Write KEYS (column, ..): a match is updated."),
    ("REPLACE WHERE", "Write MERGE OVERWRITE INTO .. WINDOW (predicate)."),
    ("REPLACE_WHERE", "Write MERGE OVERWRITE INTO .. WINDOW (predicate)."),
    ("REPLACEWHERE", "Write MERGE OVERWRITE INTO .. WINDOW (predicate)."),
    ("REPLACE USING", "Write MERGE OVERWRITE INTO .. KEYS (column, ..)."),
    (
        "PARTITION BY",
        "Write KEYS (column, ..) DEDUPLICATE BY expr DESC to keep one row per key.",
    ),
    (
        "ORDER BY",
        "Write DEDUPLICATE BY expr DESC, or SEQUENCE BY expr, to keep one row per key.",
    ),
    ("QUALIFY", "Write DEDUPLICATE BY expr DESC to keep one row per key."),
    ("DEDUP_SORT", "Write DEDUPLICATE BY expr DESC to keep one row per key."),
    ("DEDUP", "Write DEDUPLICATE."),
    ("UPDATED_AT", "Write SEQUENCE BY expr."),
    ("SEQUENCE_BY", "Write SEQUENCE BY expr."),
    (
        "HARD DELETES",
        "Write WHEN NOT MATCHED BY SOURCE THEN .. for rows that the source no longer has.",
    ),
    (
        "HARD_DELETES",
        "Write WHEN NOT MATCHED BY SOURCE THEN .. for rows that the source no longer has.",
    ),
    (
        "HARD_DELETE",
        "Write APPLY AS DELETE WHEN expr for rows that are marked as deleted.",
    ),
    (
        "INVALIDATE_HARD_DELETES",
        "Write WHEN NOT MATCHED BY SOURCE THEN INVALIDATE.",
    ),
    ("DELETE WHEN", "Write APPLY AS DELETE WHEN expr."),
    (
        "WHEN MATCHED",
        "A match is updated without a clause: see UPDATE COLUMNS, UPDATE SET and UPDATE WHEN.",
    ),
    (
        "WHEN NOT MATCHED",
        "A row without a match is inserted without a clause; absent rows are WHEN NOT MATCHED BY SOURCE.",
    ),
    ("TRACK_HISTORY", "Write TRACK HISTORY ON (column, ..)."),
    ("CHECK_COLS", "Write TRACK HISTORY ON (column, ..)."),
    ("STORED AS", "Write SCD2 MERGE INTO for a table that keeps its history."),
    ("WITH SCHEMA EVOLUTION", "WITH SCHEMA EVOLUTION stands before INTO."),
    ("PARTITIONED BY", "PARTITIONED BY stands after CREATE IF NOT EXISTS."),
    ("LOCATION", "LOCATION stands after CREATE IF NOT EXISTS."),
    ("TBLPROPERTIES", "TBLPROPERTIES stands after CREATE IF NOT EXISTS."),
    (
        "WITHIN",
        "WITHIN stands directly after KEYS (..) or WHEN NOT MATCHED BY SOURCE.",
    ),
    ("NULLS", "NULLS [NOT] DISTINCT stands directly after KEYS (..)."),
    ("WITH TIES", "WITH TIES stands after DEDUPLICATE BY .."),
    (
        "WHERE",
        "Filter the source with USING (SELECT .. WHERE ..); KEYS (..) WITHIN (predicate) narrows the target.",
    ),
    ("SET", "Write UPDATE SET column = expr."),
    ("FROM", "Write USING before the source."),
    (
        "THEN",
        "THEN stands after WHEN NOT MATCHED BY SOURCE, and in SCD2 MERGE after APPLY AS DELETE WHEN expr.",
    ),
];

impl Cursor<'_, '_> {
    /// The error about the next token, which begins no clause of `statement`.
    pub(super) fn unknown_clause(&self, statement: &str, expected: &str) -> LoadError {
        let error = self.expected(expected);
        if let Some(hint) = self.foreign() {
            return error.hint(hint);
        }
        if let Some(error) = self.clause_of_another(statement) {
            return error;
        }
        if self.peek("ON") {
            return error.hint("Rows are matched by equal keys: write KEYS (column, ..).");
        }
        if word(&self.token(0).token).is_none() {
            return error;
        }
        let clauses = format!("Clauses of {statement}: {}.", self.own_phrases(statement).join(", "));
        match starts_clause(&self.token(0).token, self.registry()) {
            true => error.hint(format!("{clauses} As an alias this word needs AS before it.")),
            false => error.hint(clauses),
        }
    }

    /// What to write instead of another system's word, unless it only begins a clause of another statement of ours.
    fn foreign(&self) -> Option<&'static str> {
        let (phrase, hint) = FOREIGN.iter().find(|(phrase, _)| self.peek(phrase))?;
        let mut ours = self.registry().kinds().iter().flat_map(|kind| kind.clauses());
        let begins_ours = ours.any(|other| other.len() > phrase.len() && self.peek(other));
        (!begins_ours).then_some(*hint)
    }

    fn clause_of_another(&self, statement: &str) -> Option<LoadError> {
        let phrases = self.registry().kinds().iter().flat_map(|kind| kind.clauses());
        let phrase = phrases.into_iter().find(|phrase| self.begins(phrase))?;
        let owners: Vec<&str> = self
            .registry()
            .kinds()
            .iter()
            .filter(|kind| kind.clauses().iter().any(|other| other == phrase))
            .map(|kind| kind.name())
            .collect();
        if owners.contains(&statement) {
            return None;
        }
        let words = phrase.split_whitespace().count();
        let end = self.token(words - 1).span;
        Some(
            LoadError::new(SqlState::Syntax, format!("{phrase} is not valid in {statement}"))
                .hint(format!("It is a clause of {}.", enumerated(&owners, "and")))
                .at(self.here().union(&end)),
        )
    }

    /// Whether the text begins like `phrase`: its first two words are enough.
    fn begins(&self, phrase: &str) -> bool {
        let start: Vec<&str> = phrase.split_whitespace().take(2).collect();
        self.peek(&start.join(" "))
    }

    fn own_phrases(&self, statement: &str) -> Vec<&'static str> {
        let own = self.registry().find(statement).map_or(&[][..], |kind| kind.clauses());
        COMMON_PHRASES.iter().chain(own).copied().collect()
    }
}

/// Whether some clause begins with this word, in whatever statement. Such words are no bare aliases.
pub(super) fn starts_clause(token: &Token, registry: &Registry) -> bool {
    let own = registry.kinds().iter().flat_map(|kind| kind.clauses());
    let foreign = FOREIGN.iter().map(|(phrase, _)| phrase);
    COMMON_PHRASES
        .iter()
        .chain(own)
        .chain(foreign)
        .filter_map(|phrase| phrase.split_whitespace().next())
        .chain(["KEY"])
        .any(|first| is_word(token, first))
}
