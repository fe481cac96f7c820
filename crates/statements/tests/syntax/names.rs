//! Our words are no reserved words: tables and columns that are named like them still work in plain SQL.

use alluvium_core::script::Stmt;

use crate::support::{parse, script};

fn is_datafusions(sql: &str) -> bool {
    matches!(parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")), Stmt::DataFusion(_))
}

#[test]
fn tables_may_have_our_words_as_names() {
    for name in [
        "upsert",
        "merge",
        "scd2",
        "keys",
        "overwrite",
        "only",
        "track",
        "validity",
        "dry",
        "returning_",
    ] {
        for sql in [
            format!("SELECT * FROM {name}"),
            format!("CREATE TABLE {name} (id INT)"),
            format!("INSERT INTO {name} VALUES (1)"),
            format!("WITH {name} AS (SELECT 1) SELECT * FROM {name}"),
            format!("EXPLAIN SELECT * FROM {name}"),
        ] {
            assert!(is_datafusions(&sql), "{sql}");
        }
    }
    assert!(is_datafusions("SELECT * FROM \"window\""));
}

#[test]
fn columns_may_have_our_words_as_names() {
    for name in [
        "keys",
        "overwrite",
        "dry",
        "upsert",
        "sequence",
        "source",
        "\"returning\"",
        "\"window\"",
    ] {
        let sql = format!("SELECT {name} FROM t WHERE {name} > 1 ORDER BY {name}");
        assert!(is_datafusions(&sql), "{sql}");
        let sql = format!("UPSERT INTO t KEYS ({name}) UPDATE SET {name} = source.{name} SELECT {name} FROM s");
        assert!(matches!(parse(&sql), Ok(Stmt::Ours(_))), "{sql}");
    }
    for name in ["window", "returning", "dry", "using", "keys"] {
        let sql = format!("UPSERT INTO t ({name}) KEYS ({name}) COLUMNS * EXCEPT ({name}) USING s");
        assert!(matches!(parse(&sql), Ok(Stmt::Ours(_))), "{sql}");
    }
}

#[test]
fn statements_that_only_look_like_ours_stay_datafusions() {
    for sql in [
        "INSERT only SELECT 1",
        "INSERT INTO only SELECT 1",
        "MERGE overwrite USING s ON overwrite.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO overwrite USING s ON overwrite.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1)",
        "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "WITH s AS (SELECT 1 AS id) SELECT * FROM s",
        "PREPARE p AS SELECT $1",
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN FORMAT tree SELECT 1",
        "EXPLAIN (ANALYZE) SELECT 1",
        "EXPLAIN (SELECT 1)",
        "EXPLAIN INSERT INTO t SELECT 1",
        "SHOW TABLES",
        "EXECUTE p(1)",
    ] {
        assert!(is_datafusions(sql), "{sql}");
    }
}

#[test]
fn a_table_named_like_a_clause_is_a_source() {
    for sql in [
        "UPSERT INTO keys USING window KEYS (id)",
        "UPSERT INTO upsert USING keys KEYS (id)",
        "UPSERT INTO t USING using AS s KEYS (id)",
        "MERGE OVERWRITE INTO overwrite USING overwrite KEYS (id)",
        "INSERT ONLY INTO only USING only AS only KEYS (id)",
        "SCD2 MERGE INTO scd2 USING merge AS merge KEYS (id)",
        "UPSERT INTO t KEYS (id) SELECT * FROM \"dry\" \"run\"",
        "UPSERT INTO t KEYS (id) SELECT * FROM \"dry\" RETURNING \"dry\"",
    ] {
        let printed = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).to_string();
        assert!(!printed.contains("DRY RUN"), "{printed}");
    }
}

#[test]
fn comments_and_semicolons_in_strings_split_nothing() {
    let items =
        script("SELECT ';'; -- a; b\n/* ; */ UPSERT INTO t KEYS (id) USING s COMMENT 'a;b' -- end;\n;;SELECT 2");
    let texts: Vec<String> = items.into_iter().map(|item| item.unwrap().text).collect();
    assert_eq!(
        texts,
        [
            "SELECT ';'",
            "UPSERT INTO t KEYS (id) USING s COMMENT 'a;b'",
            "SELECT 2"
        ]
    );
}
