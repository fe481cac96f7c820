//! Text to tree to text to tree: printing loses nothing.

use std::str::FromStr;

use alluvium_core::report;
use alluvium_core::script::parse_statement;
use datafusion::config::Dialect;

use crate::support::{parse, registry, shape};

/// Every clause of every statement, in different orders and places. `(text, as printed)`; an empty second text: as
/// written.
const STATEMENTS: &[(&str, &str)] = &[
    ("UPSERT INTO customers KEYS (customer_id) USING staged_customers", ""),
    (
        "upsert into customers using staged_customers key (customer_id);",
        "UPSERT INTO customers KEYS (customer_id) USING staged_customers",
    ),
    (
        "UPSERT WITH SCHEMA EVOLUTION INTO customers AS t USING cdc_batch AS s
         KEYS (customer_id) SEQUENCE BY commit_ts, lsn APPLY AS DELETE WHEN op = 'D'
         COLUMNS * EXCEPT (op) UPDATE COLUMNS * EXCEPT (created_at)
         TRANSACTION ('cdc-customers', 4711) RETURNING merge_action(), t.customer_id;",
        "UPSERT WITH SCHEMA EVOLUTION INTO customers AS t KEYS (customer_id) SEQUENCE BY commit_ts, lsn \
         COLUMNS * EXCEPT (op) TRANSACTION ('cdc-customers', 4711) APPLY AS DELETE WHEN op = 'D' \
         UPDATE COLUMNS * EXCEPT (created_at) USING cdc_batch AS s RETURNING merge_action(), t.customer_id",
    ),
    (
        "UPSERT INTO stock KEYS (sku, region) NULLS NOT DISTINCT
         WHEN NOT MATCHED BY SOURCE WITHIN (region) THEN DELETE
         SELECT sku, region, qty FROM staged_stock DRY RUN;",
        "UPSERT INTO stock KEYS (sku, region) NULLS NOT DISTINCT WHEN NOT MATCHED BY SOURCE WITHIN (region) \
         THEN DELETE SELECT sku, region, qty FROM staged_stock DRY RUN",
    ),
    (
        "UPSERT INTO a.b.t t (id, v) USING (VALUES (1, 2)) s KEYS (id) NULLS DISTINCT WITHIN (id > 0 AND t.v < 9)",
        "UPSERT INTO a.b.t AS t (id, v) KEYS (id) NULLS DISTINCT WITHIN (id > 0 AND t.v < 9) USING (VALUES (1, 2)) AS s",
    ),
    (
        "UPSERT INTO t USING read_csv('a.csv', 1) AS s KEYS (id) NULLS ERROR IGNORE NULL UPDATES ON (a, b)
         ON EMPTY SOURCE ERROR UPDATE SET v = target.v + source.v, w = DEFAULT_W(1)
         TRANSACTION ('a''b', 0) UPDATE WHEN source.ts > target.ts DRY RUN",
        "UPSERT INTO t KEYS (id) ON EMPTY SOURCE ERROR TRANSACTION ('a''b', 0) IGNORE NULL UPDATES ON (a, b) \
         UPDATE SET v = target.v + source.v, w = DEFAULT_W(1) UPDATE WHEN source.ts > target.ts \
         USING read_csv('a.csv', 1) AS s DRY RUN",
    ),
    (
        "UPSERT INTO t KEYS (id) IGNORE NULL UPDATES ON EMPTY SOURCE APPLY USING 'dir/file.parquet' AS s",
        "UPSERT INTO t KEYS (id) ON EMPTY SOURCE APPLY IGNORE NULL UPDATES USING 'dir/file.parquet' AS s",
    ),
    (
        "UPSERT INTO t KEYS (id) IGNORE NULL UPDATES ON * EXCEPT (a) TABLE s",
        "UPSERT INTO t KEYS (id) IGNORE NULL UPDATES ON * EXCEPT (a) SELECT * FROM s",
    ),
    (
        "UPSERT INTO t KEYS (id) WHEN NOT MATCHED BY SOURCE AND target.live THEN UPDATE SET live = false, at = now()
         APPLY AS DELETE WHEN coalesce(op, 'U') IGNORE NULL UPDATES USING s",
        "UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN coalesce(op, 'U') IGNORE NULL UPDATES \
         WHEN NOT MATCHED BY SOURCE AND target.live THEN UPDATE SET live = false, at = now() USING s",
    ),
    (
        "UPSERT INTO t KEYS (id) CREATE IF NOT EXISTS LOCATION 's3://b/t' TBLPROPERTIES ('a.b' '1', 'c' = 'd', x.y = true)
         PARTITIONED BY (region, day) COMMENT 'it''s' OPTIONS ('merge.compare' = 'false', 'write.target_file_size' '1048576')
         USING s",
        "UPSERT INTO t KEYS (id) CREATE IF NOT EXISTS PARTITIONED BY (region, day) LOCATION 's3://b/t' \
         TBLPROPERTIES ('a.b' = '1', 'c' = 'd', 'x.y' = 'true') COMMENT 'it''s' \
         OPTIONS ('merge.compare' 'false', 'write.target_file_size' '1048576') USING s",
    ),
    (
        "WITH a AS (SELECT 1 AS id), b (x) AS (SELECT 2) UPSERT INTO t KEYS (id) USING a",
        "",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM r WHERE id < 9) UPSERT INTO t KEYS (id) TABLE r",
        "WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM r WHERE id < 9) UPSERT INTO t KEYS (id) \
         SELECT * FROM r",
    ),
    ("UPSERT INTO t KEYS (id) WITH a AS (SELECT 1 AS id) SELECT * FROM a RETURNING *", ""),
    (
        "UPSERT INTO t KEYS (id) DEDUPLICATE BY ts WITH ties AS (SELECT 1 AS id, 2 AS ts) SELECT * FROM ties",
        "",
    ),
    ("UPSERT INTO t KEYS (id) DEDUPLICATE BY ts::TIMESTAMP DESC WITH TIES USING s", ""),
    (
        "UPSERT INTO t KEYS (id) SEQUENCE BY ts::TIMESTAMP WITH a AS (SELECT 1) SELECT * FROM a",
        "",
    ),
    ("UPSERT INTO t KEYS (id) SEQUENCE BY lsn (SELECT * FROM s)", ""),
    ("UPSERT INTO t KEYS (id) UPDATE WHEN source.v IN (SELECT v FROM w) (SELECT * FROM s) LIMIT 3", ""),
    (
        "UPSERT INTO t KEYS (id) DEDUPLICATE ON (a, b) BY x NULLS FIRST, y DESC NULLS LAST, z ASC WITH TIES VALUES (1, 2)",
        "UPSERT INTO t KEYS (id) DEDUPLICATE ON (a, b) BY x NULLS FIRST, y DESC, z WITH TIES VALUES (1, 2)",
    ),
    ("UPSERT INTO t KEYS (id) DEDUPLICATE ON EMPTY SOURCE SKIP USING s", ""),
    ("UPSERT INTO t KEYS (id) SEQUENCE BY lsn ASSUME UNIQUE USING s", ""),
    (
        "UPSERT INTO t KEYS (id) SELECT s.returning, \"DRY\" FROM s ORDER BY returning RETURNING id, \"dry\" AS \"RUN\" DRY RUN",
        "",
    ),
    (
        "UPSERT INTO \"My Table\" AS \"keys\" (\"window\", \"Dry\") KEYS (\"window\") USING \"using\" AS \"select\"",
        "",
    ),
    ("INSERT ONLY INTO events KEYS (event_id) USING staged", ""),
    (
        "INSERT ONLY INTO events KEYS (event_id) WITHIN (event_date >= DATE '2026-01-01')
         DEDUPLICATE BY ingested_at ASC IGNORE DELETES WHEN is_deleted
         SELECT * FROM staged RETURNING event_id;",
        "INSERT ONLY INTO events KEYS (event_id) WITHIN (event_date >= DATE '2026-01-01') \
         DEDUPLICATE BY ingested_at IGNORE DELETES WHEN is_deleted SELECT * FROM staged RETURNING event_id",
    ),
    (
        "INSERT ONLY WITH SCHEMA EVOLUTION INTO e USING s IGNORE DELETES WHEN lower(op) IN ('d') KEYS (id) DRY RUN",
        "INSERT ONLY WITH SCHEMA EVOLUTION INTO e KEYS (id) IGNORE DELETES WHEN lower(op) IN ('d') USING s DRY RUN",
    ),
    (
        "INSERT ONLY INTO e USING s SEQUENCE BY f(x) IGNORE DELETES WHEN d KEYS (id)",
        "INSERT ONLY INTO e KEYS (id) SEQUENCE BY f(x) IGNORE DELETES WHEN d USING s",
    ),
    (
        "MERGE OVERWRITE INTO events USING staged_events WINDOW event_date FROM DATE '2026-01-01' TO DATE '2026-01-08'",
        "MERGE OVERWRITE INTO events WINDOW event_date FROM DATE '2026-01-01' TO DATE '2026-01-08' USING staged_events",
    ),
    (
        "MERGE OVERWRITE INTO events USING replay
         WINDOW (event_date >= DATE '2026-01-01' AND event_date < DATE '2026-01-02' AND tenant = 'x')
         ON EMPTY SOURCE APPLY ON OUTSIDE WINDOW IGNORE",
        "MERGE OVERWRITE INTO events ON EMPTY SOURCE APPLY WINDOW (event_date >= DATE '2026-01-01' AND \
         event_date < DATE '2026-01-02' AND tenant = 'x') ON OUTSIDE WINDOW IGNORE USING replay",
    ),
    (
        "MERGE OVERWRITE INTO github_events KEYS (batch_day) OR KEYS (id)
         DEDUPLICATE ON (id) BY created_at DESC APPLY AS DELETE WHEN deleted_at_ts
         SELECT * FROM staged_github_events",
        "MERGE OVERWRITE INTO github_events KEYS (batch_day) OR KEYS (id) DEDUPLICATE ON (id) BY created_at DESC \
         APPLY AS DELETE WHEN deleted_at_ts SELECT * FROM staged_github_events",
    ),
    ("MERGE OVERWRITE INTO t KEYS (a) WITHIN (a > 1) OR KEYS (b, c) NULLS DISTINCT SEQUENCE BY n USING s", ""),
    ("MERGE OVERWRITE INTO t WINDOW d BETWEEN 1 AND 2 + 3 ON OUTSIDE WINDOW INSERT USING s", ""),
    ("MERGE OVERWRITE INTO t WINDOW d FROM SOURCE USING s", ""),
    ("MERGE OVERWRITE INTO t WINDOW d FROM $1 TO SOURCE ON OUTSIDE WINDOW ERROR USING s", ""),
    (
        "MERGE OVERWRITE INTO t WINDOW d FROM now() - INTERVAL '3' DAY TO now() - INTERVAL '1' DAY COMMENT 'x' USING s",
        "MERGE OVERWRITE INTO t COMMENT 'x' WINDOW d FROM now() - INTERVAL '3' DAY TO now() - INTERVAL '1' DAY USING s",
    ),
    ("MERGE OVERWRITE INTO t WINDOW d FROM x - (INTERVAL '1-2' YEAR TO MONTH) TO INTERVAL '3' YEAR USING s", ""),
    ("MERGE OVERWRITE INTO t DEDUPLICATE ON (id) WINDOW \"Day\" FROM CAST('2026-01-01' AS DATE) TO x USING s", ""),
    (
        "SCD2 MERGE INTO dim_customer USING staged KEYS (customer_id) SEQUENCE BY updated_at
         TRACK HISTORY ALWAYS ON LATE ARRIVAL APPEND",
        "SCD2 MERGE INTO dim_customer KEYS (customer_id) SEQUENCE BY updated_at TRACK HISTORY ALWAYS \
         ON LATE ARRIVAL APPEND USING staged",
    ),
    (
        "SCD2 MERGE INTO dim_customer KEYS (customer_key)
         WHEN NOT MATCHED BY SOURCE THEN INVALIDATE EFFECTIVE AT TIMESTAMP '2024-08-21 12:15:00'
         VALIDITY COLUMNS (\"from\", \"to\") ACTIVE UNTIL TIMESTAMP '9999-12-31 00:00:00' TABLE staged_dim",
        "SCD2 MERGE INTO dim_customer KEYS (customer_key) EFFECTIVE AT TIMESTAMP '2024-08-21 12:15:00' \
         VALIDITY COLUMNS (\"from\", \"to\") ACTIVE UNTIL TIMESTAMP '9999-12-31 00:00:00' \
         WHEN NOT MATCHED BY SOURCE THEN INVALIDATE SELECT * FROM staged_dim",
    ),
    (
        "SCD2 MERGE INTO facts USING load_3 TRACK HISTORY ON * WHEN NOT MATCHED BY SOURCE WITHIN (date) THEN INVALIDATE",
        "SCD2 MERGE INTO facts TRACK HISTORY ON * WHEN NOT MATCHED BY SOURCE WITHIN (date) THEN INVALIDATE USING load_3",
    ),
    (
        "SCD2 MERGE INTO dim_customer AS t USING cdc_batch AS s KEYS (customer_id) SEQUENCE BY commit_ts, lsn
         APPLY AS DELETE WHEN op = 'D' THEN NEW RECORD COLUMNS * EXCEPT (op, lsn)
         TRACK HISTORY ON * EXCEPT (last_seen) VALIDITY COLUMNS (valid_from, valid_to, is_current, is_deleted)",
        "SCD2 MERGE INTO dim_customer AS t KEYS (customer_id) SEQUENCE BY commit_ts, lsn COLUMNS * EXCEPT (op, lsn) \
         APPLY AS DELETE WHEN op = 'D' THEN NEW RECORD TRACK HISTORY ON * EXCEPT (last_seen) \
         VALIDITY COLUMNS (valid_from, valid_to, is_current, is_deleted) USING cdc_batch AS s",
    ),
    (
        "SCD2 MERGE INTO d KEYS (k) EFFECTIVE AT now() AT TIME ZONE 'UTC' ACTIVE UNTIL NULL
         VALIDITY COLUMNS (f, t, c) APPLY AS DELETE WHEN gone THEN INVALIDATE USING s",
        "SCD2 MERGE INTO d KEYS (k) APPLY AS DELETE WHEN gone EFFECTIVE AT now() AT TIME ZONE 'UTC' \
         VALIDITY COLUMNS (f, t, c) ACTIVE UNTIL NULL USING s",
    ),
    (
        "SCD2 MERGE INTO d KEYS (k) SEQUENCE BY ts WHEN NOT MATCHED BY SOURCE AND target.a = 1 THEN NEW RECORD
         EFFECTIVE AT TIMESTAMP '2026-01-01 00:00:00' ON LATE ARRIVAL REORDER TRACK HISTORY ON (row_hash)
         ACTIVE UNTIL '9999-12-31'::TIMESTAMP ON EMPTY SOURCE APPLY USING s",
        "SCD2 MERGE INTO d KEYS (k) SEQUENCE BY ts ON EMPTY SOURCE APPLY TRACK HISTORY ON (row_hash) \
         EFFECTIVE AT TIMESTAMP '2026-01-01 00:00:00' ACTIVE UNTIL '9999-12-31'::TIMESTAMP \
         WHEN NOT MATCHED BY SOURCE AND target.a = 1 THEN NEW RECORD ON LATE ARRIVAL REORDER USING s",
    ),
    ("SCD2 MERGE INTO d SELECT * FROM s", ""),
    ("SCD2 MERGE INTO d (SELECT * FROM s)", ""),
    ("SCD2 MERGE INTO d (a, b) (SELECT 1, 2)", ""),
    ("SCD2 MERGE INTO d KEYS (k) SEQUENCE BY ts ON LATE ARRIVAL IGNORE USING s", ""),
    ("SCD2 MERGE INTO d KEYS (k) SEQUENCE BY ts ON LATE ARRIVAL ERROR USING s", ""),
    ("EXPLAIN UPSERT INTO t KEYS (id) USING s", ""),
    ("EXPLAIN ANALYZE VERBOSE FORMAT tree UPSERT INTO t KEYS (id) USING s DRY RUN", ""),
    (
        "EXPLAIN (ANALYZE, VERBOSE false, FORMAT 'indent') WITH a AS (SELECT 1 AS id) UPSERT INTO t KEYS (id) USING a",
        "EXPLAIN ANALYZE FORMAT indent WITH a AS (SELECT 1 AS id) UPSERT INTO t KEYS (id) USING a",
    ),
    ("PREPARE p AS UPSERT INTO t KEYS (id) SELECT * FROM s WHERE id > $1", ""),
    ("PREPARE p (BIGINT, DATE) AS INSERT ONLY INTO t KEYS (id) USING (SELECT * FROM s WHERE d = $2) AS s", ""),
];

#[test]
fn printing_parses_back_to_the_same_tree() {
    for (sql, printed) in STATEMENTS {
        let expected = if printed.is_empty() { sql } else { printed };
        let first = parse(sql).unwrap_or_else(|e| panic!("{sql}\n{}", report::render(&e, sql)));
        let text = first.to_string();
        assert_eq!(&text, expected);
        let second = parse(&text).unwrap_or_else(|e| panic!("{text}\n{}", report::render(&e, &text)));
        assert_eq!(shape(&first), shape(&second), "{sql}");
        assert_eq!(second.to_string(), text);
    }
}

#[test]
fn clauses_stand_in_any_order_before_or_after_using() {
    let clauses = [
        "KEYS (id) NULLS NOT DISTINCT",
        "SEQUENCE BY f(ts)",
        "IGNORE NULL UPDATES",
        "APPLY AS DELETE WHEN op = 'D'",
        "ON EMPTY SOURCE SKIP",
        "UPDATE COLUMNS *",
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "COMMENT 'c'",
    ];
    let expected = parse(&format!("UPSERT INTO t {} USING s AS x", clauses.join(" "))).unwrap();
    for turn in 0..clauses.len() {
        let mut turned = clauses;
        turned.rotate_left(turn);
        for before in 0..=turned.len() {
            let (head, tail) = turned.split_at(before);
            let sql = format!("UPSERT INTO t {} USING s x {}", head.join(" "), tail.join(" "));
            let found = parse(&sql).unwrap_or_else(|e| panic!("{}", report::render(&e, &sql)));
            assert_eq!(shape(&found), shape(&expected), "{sql}");
        }
    }
}

#[test]
fn every_dialect_reads_the_statements() {
    let dialects =
        "generic mysql postgresql hive sqlite snowflake redshift mssql clickhouse bigquery ansi duckdb databricks";
    for name in dialects.split(' ') {
        let dialect = Dialect::from_str(name).unwrap();
        for (sql, _) in STATEMENTS {
            // How these are written differs between dialects.
            if sql.contains(['"', '$', ':', '\'']) || sql.contains("INTERVAL") {
                continue;
            }
            let found = parse_statement(sql, &registry(), dialect);
            assert!(found.is_ok(), "{name}: {sql}\n{found:?}");
        }
    }
}
