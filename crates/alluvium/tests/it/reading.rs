//! How much of a table a load reads: no column beyond the keys that is not needed to tell a change.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::support::{Scratch, rows};
use alluvium::Session;

/// A table of 3,000 rows, with or without statistics in its log.
async fn table(scratch: &Scratch, properties: &str) -> Session {
    let session = scratch.session().await;
    for sql in [
        format!("CREATE TABLE t (id BIGINT, day DATE, qty INT, v STRING) USING DELTA TBLPROPERTIES ({properties})"),
        format!("INSERT INTO t {}", source("qty")),
    ] {
        session.execute(&sql).await.unwrap();
    }
    session
}

/// The rows of the table, with another expression for `qty`.
fn source(qty: &str) -> String {
    format!(
        "SELECT id, DATE '2024-01-01' AS day, CAST({qty} AS INT) AS qty, 'v' || id AS v FROM \
         (SELECT value AS id, 7 AS qty FROM generate_series(1, 3000))"
    )
}

/// What the comparison counted while `sql` ran.
async fn counted(session: &Session, sql: &str, counter: &str) -> usize {
    counted_by("CompareStoredExec", session, sql, counter).await
}

/// What an operator counted while `sql` ran.
async fn counted_by(operator: &str, session: &Session, sql: &str, counter: &str) -> usize {
    let plan = rows(session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
    let operator = plan.lines().find(|line| line.contains(operator));
    let operator = operator.unwrap_or_else(|| panic!("{plan}"));
    let value = operator.split(&format!("{counter}=")).nth(1);
    let value = value.unwrap_or_else(|| panic!("{counter}: {operator}"));
    let text: String = value.chars().take_while(|c| !",]".contains(*c)).collect();
    match text.trim().split_once(' ') {
        Some((number, "K")) => (number.parse::<f64>().unwrap() * 1000.0)
            .round()
            .to_string()
            .parse()
            .unwrap(),
        _ => text.trim().parse().unwrap(),
    }
}

const UPSERT: &str = "UPSERT INTO t USING";

#[tokio::test]
async fn values_outside_the_bounds_of_a_file_are_changes_without_reading() {
    let scratch = Scratch::new();
    let session = table(&scratch, "'a' = 'b'").await;
    let sql = format!("{UPSERT} ({}) KEYS (id)", source("8"));
    assert_eq!(counted(&session, &sql, "values_read").await, 0);
    let sql = format!("{UPSERT} ({}) KEYS (id)", source("NULL"));
    assert_eq!(counted(&session, &sql, "rows_proven_different").await, 3000);
    let stored = rows(&session, "SELECT count(*), count(qty) FROM t").await;
    assert_eq!(stored, ["3000|0"]);
}

#[tokio::test]
async fn comparing_stops_where_rows_differ() {
    let scratch = Scratch::new();
    let session = table(&scratch, "'delta.dataSkippingNumIndexedCols' = '0'").await;
    // Three columns of 3,000 rows are equal.
    let replay = format!("{UPSERT} ({}) KEYS (id)", source("qty"));
    assert_eq!(counted(&session, &replay, "values_read").await, 9000);
    // Dates are looked at first; after the numbers nothing is left but one row in ten.
    let some = format!(
        "{UPSERT} ({}) KEYS (id)",
        source("CASE WHEN id % 10 = 0 THEN 7 ELSE 8 END")
    );
    assert_eq!(counted(&session, &some, "values_read").await, 3000 + 3000 + 300);
    let stored = rows(&session, "SELECT qty, count(*) FROM t GROUP BY qty ORDER BY qty").await;
    assert_eq!(stored, ["7|300", "8|2700"]);
    // Rows that were moved by the load are found where they are now.
    let replay = source("CASE WHEN id % 10 = 0 THEN 7 ELSE 8 END");
    let outcome = rows(&session, &format!("{UPSERT} ({replay}) KEYS (id)")).await;
    assert!(outcome[0].contains("NO CHANGES"), "{outcome:?}");
}

#[tokio::test]
async fn a_row_proven_newer_is_not_compared() {
    let scratch = Scratch::new();
    let session = table(&scratch, "'delta.dataSkippingNumIndexedCols' = '0'").await;
    let half = "CASE WHEN id % 2 = 0 THEN 7 ELSE 8 END";
    let sql = format!("{UPSERT} ({}) KEYS (id) SEQUENCE BY qty", source(half));
    // The other half is equal in two more columns: the sequence has been compared by the guard.
    assert_eq!(counted(&session, &sql, "values_read").await, 3000);
}

/// A history in which years lie in files of their own: versions closed in 2020, in 2021, and open since 2022.
async fn history(scratch: &Scratch) -> Session {
    let session = scratch.session().await;
    let day = |from: i32, to: &str| {
        format!(
            "INSERT INTO h SELECT value, 'v{from}', TIMESTAMP '{from}-01-01 00:00:00', CAST({to} AS TIMESTAMP), {} \
             FROM generate_series(1, 100)",
            to == "NULL"
        )
    };
    for sql in [
        "CREATE TABLE h (id BIGINT, v STRING, \"from\" TIMESTAMP_NTZ, \"to\" TIMESTAMP_NTZ, cur BOOLEAN) USING DELTA",
        &day(2020, "'2021-01-01'"),
        &day(2021, "'2022-01-01'"),
        &day(2022, "NULL"),
    ] {
        session.execute(sql).await.unwrap();
    }
    session
}

fn changes(at: &str) -> String {
    format!(
        "SCD2 MERGE INTO h KEYS (id) SEQUENCE BY at COLUMNS * EXCEPT (at) VALIDITY COLUMNS (\"from\", \"to\", cur) \
         SELECT 7 AS id, 'new' AS v, TIMESTAMP '{at} 00:00:00' AS at"
    )
}

#[tokio::test]
async fn rows_in_order_read_no_versions_that_are_closed() {
    for (at, opened) in [
        ("2023-01-01", 1),
        ("2022-01-01", 2),
        ("2021-06-01", 2),
        ("2020-06-01", 3),
    ] {
        let scratch = Scratch::new();
        let session = history(&scratch).await;
        let sql = changes(at);
        let skipped = counted_by("LoadDeltaScanExec", &session, &sql, "files_skipped").await;
        assert_eq!(3 - skipped, opened, "{at}");
        let versions = format!("SELECT count(*) FROM h WHERE id = 7 AND v = 'new' AND \"from\" = '{at}'");
        assert_eq!(rows(&session, &versions).await, ["1"], "{at}");
    }
}

#[tokio::test]
async fn a_window_of_the_sources_own_bounds_reads_no_files_outside() {
    let scratch = Scratch::new();
    let session = history(&scratch).await;
    let sql = "MERGE OVERWRITE INTO h WINDOW \"from\" FROM SOURCE \
               SELECT 1 AS id, 'x' AS v, TIMESTAMP '2021-01-01 00:00:00' AS \"from\", \
               CAST(NULL AS TIMESTAMP) AS \"to\", true AS cur";
    assert_eq!(counted_by("LoadDeltaScanExec", &session, sql, "files_skipped").await, 2);
    assert_eq!(rows(&session, "SELECT count(*) FROM h").await, ["201"]);
    let to_source = sql.replace("FROM SOURCE", "FROM TIMESTAMP '2020-01-01 00:00:00' TO SOURCE");
    rows(&session, &to_source).await;
    assert_eq!(rows(&session, "SELECT count(*) FROM h").await, ["101"]);
}

#[tokio::test]
async fn files_inside_a_window_of_the_sources_own_bounds_are_replaced_unread() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    session.execute("CREATE TABLE n (id BIGINT) USING DELTA").await.unwrap();
    for first in [1, 101, 201] {
        let sql = format!("INSERT INTO n SELECT value FROM generate_series({first}, {first} + 99)");
        session.execute(&sql).await.unwrap();
    }
    // One file has lost a row: what is left of it is read.
    rows(
        &session,
        "UPSERT INTO n KEYS (id) APPLY AS DELETE WHEN true COLUMNS (id) SELECT 250 AS id",
    )
    .await;
    let sql = "MERGE OVERWRITE INTO n WINDOW id FROM SOURCE VALUES (101), (300)";
    assert_eq!(
        counted_by(
            "LoadDeltaScanExec",
            &session,
            &format!("{sql} DRY RUN"),
            "files_skipped"
        )
        .await,
        2
    );
    let outcome = rows(&session, sql).await;
    assert!(outcome[0].starts_with("201|2|0|199|"), "{outcome:?}");
    assert_eq!(rows(&session, "SELECT count(*), sum(id) FROM n").await, ["102|5451"]);
    let sql = "MERGE OVERWRITE INTO n WINDOW id FROM 50 TO SOURCE VALUES (60), (299)";
    rows(&session, sql).await;
    assert_eq!(rows(&session, "SELECT count(*), sum(id) FROM n").await, ["52|1884"]);
}

/// Conditions on the table's columns leave out files as a `WHERE` would.
#[tokio::test]
async fn windows_and_within_open_no_files_outside() {
    let row = "SELECT 1 AS id, 'x' AS v, TIMESTAMP '2021-01-01 00:00:00' AS \"from\", \
               CAST(NULL AS TIMESTAMP) AS \"to\", true AS cur";
    let within = "WITHIN (\"from\" >= TIMESTAMP '2020-06-01 00:00:00' AND \"from\" < TIMESTAMP '2021-06-01 00:00:00')";
    let statements = [
        "MERGE OVERWRITE INTO h WINDOW \"from\" FROM TIMESTAMP '2020-06-01 00:00:00' TO TIMESTAMP '2021-01-01 00:00:01'",
        "MERGE OVERWRITE INTO h WINDOW (\"from\" = TIMESTAMP '2021-01-01 00:00:00' AND id < 50) ON OUTSIDE WINDOW INSERT",
        &format!("UPSERT INTO h KEYS (id, \"from\") {within}"),
        &format!("INSERT ONLY INTO h KEYS (id, \"from\") {within}"),
        &format!("MERGE OVERWRITE INTO h KEYS (id, \"from\") {within}"),
    ];
    for statement in statements {
        let scratch = Scratch::new();
        let session = history(&scratch).await;
        let plan = rows(&session, &format!("EXPLAIN {statement} {row}")).await.join("\n");
        // Two of three files lie outside; one that lies wholly inside a window need not be read either.
        let left = ["files=1, pruned=2", "files=0, pruned=3"];
        assert!(left.iter().any(|left| plan.contains(left)), "{statement}: {plan}");
    }
}
