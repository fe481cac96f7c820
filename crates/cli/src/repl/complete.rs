//! Completion with Tab: keywords, the phrases of our statements' clauses, names of tables, commands.

use alluvium::Session;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::{catalog, meta};

/// Words of plain SQL. Those of our own statements come from the registry.
const KEYWORDS: &[&str] = &[
    "ALTER TABLE",
    "AND",
    "AS",
    "BETWEEN",
    "CASE",
    "CAST",
    "COUNT",
    "CREATE EXTERNAL TABLE",
    "CREATE TABLE",
    "CROSS JOIN",
    "DEALLOCATE",
    "DELETE FROM",
    "DESCRIBE",
    "DISTINCT",
    "DROP TABLE",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FROM",
    "FULL JOIN",
    "GROUP BY",
    "HAVING",
    "IN",
    "INNER JOIN",
    "INSERT INTO",
    "INSERT OVERWRITE",
    "INTERSECT",
    "INTERVAL",
    "IS NOT NULL",
    "IS NULL",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MERGE INTO",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "PARTITIONED BY",
    "PREPARE",
    "RETURNING",
    "RIGHT JOIN",
    "SELECT",
    "SET",
    "SHOW TABLES",
    "STORED AS",
    "TBLPROPERTIES",
    "THEN",
    "UNION ALL",
    "UPDATE",
    "USING",
    "USING DELTA",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// What the line editor asks.
pub(super) struct SqlHelper {
    session: Session,
    phrases: Vec<String>,
}

impl SqlHelper {
    /// A helper that knows the statements of `session` and, at each key press, its tables.
    pub(super) fn new(session: Session) -> Self {
        let mut phrases: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
        for kind in session.registry().kinds() {
            phrases.push(kind.name().to_owned());
            phrases.extend(kind.clauses().iter().map(|clause| (*clause).to_owned()));
        }
        phrases.sort();
        phrases.dedup();
        Self { session, phrases }
    }
}

impl Completer for SqlHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..pos).unwrap_or(line);
        if before.starts_with('\\') && !before.contains(' ') {
            return Ok((0, starting_with(before, meta::WORDS.iter().copied())));
        }
        if quoted(before) {
            return Ok((pos, vec![]));
        }
        let word_start = word_start(before);
        let tables = catalog::table_names(self.session.context());
        let mut found = starting_with(&before[word_start..], tables.iter().map(String::as_str));
        if before.starts_with('\\') || (names_a_table(&before[..word_start]) && !found.is_empty()) {
            return Ok((word_start, found));
        }
        let (start, phrases) = phrases_for(before, &self.phrases);
        if start < word_start && !phrases.is_empty() {
            return Ok((start, phrases));
        }
        found.extend(phrases);
        Ok((word_start, found))
    }
}

/// Whether the name of a table is what comes next.
fn names_a_table(before: &str) -> bool {
    let last = before.split_whitespace().next_back().unwrap_or_default();
    ["DESCRIBE", "EXISTS", "FROM", "INTO", "JOIN", "TABLE", "UPDATE", "USING"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(last))
}

/// The phrases that go on from the longest end of `before` that begins one, and where that end begins.
fn phrases_for(before: &str, phrases: &[String]) -> (usize, Vec<String>) {
    let words = word_starts(before);
    // Five words are the longest phrase (`WHEN NOT MATCHED BY SOURCE`).
    let first = words.len().saturating_sub(5);
    for start in &words[first..] {
        let typed: Vec<&str> = before[*start..].split_whitespace().collect();
        let mut typed = typed.join(" ");
        if before.ends_with(char::is_whitespace) && !typed.is_empty() {
            typed.push(' ');
        }
        let found: Vec<String> = starting_with(&typed, phrases.iter().map(String::as_str))
            .into_iter()
            .filter(|p| p.len() > typed.len())
            .collect();
        if !typed.is_empty() && !found.is_empty() {
            return (*start, found);
        }
    }
    (word_start(before), vec![])
}

fn starting_with<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<String> {
    let begins = |c: &&str| {
        c.get(..typed.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(typed))
    };
    match typed.is_empty() {
        true => vec![],
        false => candidates.filter(begins).map(str::to_owned).collect(),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '"')
}

fn word_start(before: &str) -> usize {
    before
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_word(*c))
        .last()
        .map_or(before.len(), |(i, _)| i)
}

/// Where each word begins. A punctuation mark ends a phrase, so words before the last one do not count.
fn word_starts(before: &str) -> Vec<usize> {
    let tail = before
        .rfind(|c: char| !is_word(c) && !c.is_whitespace())
        .map_or(0, |i| i + before[i..].chars().next().map_or(0, char::len_utf8));
    let mut starts = vec![];
    let mut inside = false;
    for (i, c) in before[tail..].char_indices() {
        if !c.is_whitespace() && !inside {
            starts.push(tail + i);
        }
        inside = !c.is_whitespace();
    }
    starts
}

fn quoted(before: &str) -> bool {
    before.matches('\'').count() % 2 == 1
}

impl Helper for SqlHelper {}
impl Highlighter for SqlHelper {}
impl Validator for SqlHelper {}
impl Hinter for SqlHelper {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(before: &str) -> (usize, Vec<String>) {
        let known = [
            "APPLY AS DELETE WHEN",
            "AS",
            "KEYS",
            "SEQUENCE BY",
            "SELECT",
            "WHEN NOT MATCHED BY SOURCE",
        ];
        phrases_for(before, &known.map(str::to_owned))
    }

    #[test]
    fn a_phrase_is_completed_from_its_first_word() {
        assert_eq!(
            phrases("UPSERT INTO t USING s se"),
            (
                22,
                vec!["SELECT".into(), "SEQUENCE BY".into()].into_iter().rev().collect()
            )
        );
        assert_eq!(phrases("USING s apply  as d"), (8, vec!["APPLY AS DELETE WHEN".into()]));
        assert_eq!(
            phrases("KEYS (id) when not "),
            (10, vec!["WHEN NOT MATCHED BY SOURCE".into()])
        );
    }

    #[test]
    fn a_finished_phrase_is_left_alone() {
        assert_eq!(phrases("x KEYS").1, Vec::<String>::new());
        assert_eq!(phrases("").1, Vec::<String>::new());
        assert_eq!(phrases("SELECT 'é").1, Vec::<String>::new());
    }

    #[test]
    fn tables_come_first_where_a_table_is_named() {
        assert!(names_a_table("UPSERT into ") && names_a_table("SELECT * FROM "));
        assert!(!names_a_table("SELECT ") && !names_a_table("") && !names_a_table("FROM t "));
    }

    #[test]
    fn words_hold_dots_and_quotes() {
        assert_eq!(word_start("FROM lake.or"), 5);
        assert_eq!(word_start("FROM "), 5);
        assert_eq!(word_start("(a"), 1);
        assert!(quoted("SELECT 'it") && !quoted("SELECT 'it''s'"));
    }
}
