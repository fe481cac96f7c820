//! Any text is read or refused, and what is printed can be read again.

use alluvium_core::report;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{parse, script, shape};

const TOKENS: &[&str] = &[
    "UPSERT",
    "MERGE",
    "OVERWRITE",
    "INSERT",
    "ONLY",
    "SCD2",
    "INTO",
    "WITH",
    "SCHEMA",
    "EVOLUTION",
    "t",
    "s",
    "AS",
    "(",
    ")",
    ",",
    ";",
    "a",
    "b",
    "KEYS",
    "KEY",
    "NULLS",
    "NOT",
    "DISTINCT",
    "ERROR",
    "WITHIN",
    "OR",
    "SEQUENCE",
    "BY",
    "DEDUPLICATE",
    "ON",
    "TIES",
    "ASC",
    "DESC",
    "FIRST",
    "LAST",
    "ASSUME",
    "UNIQUE",
    "COLUMNS",
    "*",
    "EXCEPT",
    "EMPTY",
    "SOURCE",
    "SKIP",
    "APPLY",
    "CREATE",
    "IF",
    "EXISTS",
    "PARTITIONED",
    "LOCATION",
    "'x'",
    "TBLPROPERTIES",
    "=",
    "TRANSACTION",
    "1",
    "COMMENT",
    "OPTIONS",
    "'merge.compare'",
    "DELETE",
    "WHEN",
    "IGNORE",
    "NULL",
    "UPDATES",
    "UPDATE",
    "SET",
    "MATCHED",
    "AND",
    "THEN",
    "WINDOW",
    "FROM",
    "TO",
    "BETWEEN",
    "OUTSIDE",
    "DELETES",
    "TRACK",
    "HISTORY",
    "ALWAYS",
    "EFFECTIVE",
    "AT",
    "VALIDITY",
    "ACTIVE",
    "UNTIL",
    "INVALIDATE",
    "NEW",
    "RECORD",
    "LATE",
    "ARRIVAL",
    "REORDER",
    "APPEND",
    "RETURNING",
    "DRY",
    "RUN",
    "USING",
    "SELECT",
    "VALUES",
    "TABLE",
    "EXPLAIN",
    "ANALYZE",
    "PREPARE",
    "p",
    "CASE",
    "END",
    "INTERVAL",
    "DAY",
    "TIMESTAMP",
    "DATE",
    "::",
    "IN",
    "IS",
    "\"q\"",
    "[",
    "]",
    "$1",
    "-",
    ".",
    "{",
    "}",
];

const HEADS: &[&str] = &[
    "UPSERT INTO t",
    "UPSERT INTO t KEYS (a)",
    "INSERT ONLY INTO t KEYS (a) USING s",
    "MERGE OVERWRITE INTO t USING s",
    "MERGE OVERWRITE INTO t WINDOW",
    "SCD2 MERGE INTO t USING s",
    "EXPLAIN",
    "WITH x AS (SELECT 1)",
    "PREPARE p AS",
    "",
];

const CLAUSES: &[&str] = &[
    "KEYS (a)",
    "KEYS (a, b) NULLS DISTINCT WITHIN (a > 1)",
    "OR KEYS (b)",
    "SEQUENCE BY a, f(b)",
    "DEDUPLICATE",
    "DEDUPLICATE ON (a) BY b DESC WITH TIES",
    "ASSUME UNIQUE",
    "COLUMNS * EXCEPT (a)",
    "ON EMPTY SOURCE APPLY",
    "CREATE IF NOT EXISTS LOCATION 'l'",
    "TRANSACTION ('a', 1)",
    "COMMENT 'c'",
    "OPTIONS ('merge.compare' 'true')",
    "APPLY AS DELETE WHEN f(a)",
    "IGNORE NULL UPDATES",
    "UPDATE COLUMNS (a)",
    "UPDATE SET a = b + 1",
    "UPDATE WHEN a IS NULL",
    "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE WITHIN (a) AND b THEN INVALIDATE",
    "WINDOW a FROM 1 TO SOURCE",
    "WINDOW a BETWEEN 1 AND 2",
    "WINDOW (a OR b)",
    "ON OUTSIDE WINDOW INSERT",
    "IGNORE DELETES WHEN a",
    "THEN NEW RECORD",
    "TRACK HISTORY ON *",
    "TRACK HISTORY ALWAYS",
    "EFFECTIVE AT now()",
    "VALIDITY COLUMNS (f, t, c, d)",
    "ACTIVE UNTIL NULL",
    "ON LATE ARRIVAL APPEND",
    "USING s AS x",
    "USING (SELECT 1 AS a)",
];

const ENDS: &[&str] = &[
    "USING s",
    "SELECT 1 AS a",
    "TABLE s",
    "VALUES (1)",
    "SELECT * FROM s RETURNING a DRY RUN",
    "",
    "DRY RUN",
];

/// Reads `sql` and, if it is a statement, what it prints.
fn check(sql: &str) {
    for item in script(sql) {
        match item {
            Err(e) => {
                assert_ne!(e.code(), "XX000", "{sql}");
                report::render(&e, sql);
            }
            Ok(item) => drop(item.stmt.to_string()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_tokens_never_panic(head in select(HEADS), tokens in prop::collection::vec(select(TOKENS), 0..24)) {
        check(&format!("{head} {}", tokens.join(" ")));
    }

    #[test]
    fn random_texts_never_panic(text in ".{0,60}", head in select(HEADS)) {
        check(&text);
        check(&format!("{head} {text}"));
    }

    #[test]
    fn random_clauses_print_what_they_mean(
        head in select(&["UPSERT INTO t", "INSERT ONLY INTO t", "MERGE OVERWRITE INTO t", "SCD2 MERGE INTO t"][..]),
        clauses in prop::collection::vec(select(CLAUSES), 0..5),
        end in select(ENDS),
    ) {
        let sql = format!("{head} {} {end}", clauses.join(" "));
        check(&sql);
        if let Ok(stmt) = parse(&sql) {
            let printed = stmt.to_string();
            let again = parse(&printed);
            prop_assert!(again.is_ok(), "{sql}\n{printed}\n{again:?}");
            prop_assert_eq!(shape(&stmt), shape(&again.unwrap()), "{}\n{}", sql, printed);
        }
    }
}
