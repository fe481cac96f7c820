//! Which names lead to which tables.

use crate::support::{Scratch, failure, rows};

/// Directories become tables, one level of directories schemas.
#[tokio::test]
async fn tables_are_found_by_their_directory() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    for name in ["t", "sales.orders", "\"Mixed Case 50%\"", "\"größe\""] {
        rows(&session, &format!("CREATE TABLE {name} (id BIGINT) USING DELTA")).await;
        rows(&session, &format!("INSERT INTO {name} VALUES (1)")).await;
    }
    assert!(scratch.path("w/Mixed Case 50%/_delta_log").is_dir());
    let other = scratch.session().await;
    for name in ["t", "public.t", "sales.orders", "\"Mixed Case 50%\"", "\"größe\""] {
        assert_eq!(rows(&other, &format!("SELECT * FROM {name}")).await, ["1"], "{name}");
    }
    let names = "SELECT table_schema, table_name FROM information_schema.tables \
                 WHERE table_schema <> 'information_schema' ORDER BY 1, 2";
    assert_eq!(
        rows(&other, names).await,
        ["public|Mixed Case 50%", "public|größe", "public|t", "sales|orders"]
    );
    let shown = rows(&other, "SHOW TABLES").await.join("\n");
    assert!(shown.contains("sales|orders|BASE TABLE"), "{shown}");
    assert_eq!(failure(&other, "SELECT * FROM sales.t").await.0, "42P01");
}

/// A name is a name, not a path: nothing outside the warehouse is reached, whatever the statement.
#[tokio::test]
async fn names_cannot_leave_the_warehouse() {
    let scratch = Scratch::new();
    let outside = Scratch::new();
    {
        let owner = outside.session().await;
        rows(&owner, "CREATE TABLE secret (id BIGINT) USING DELTA").await;
    }
    let session = scratch.session().await;
    rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
    let before = (scratch.files("."), outside.files("."));
    let absolute = outside.text("w/secret");
    let attacks = [
        "..",
        ".",
        "../x",
        "a/../../x",
        "../w/t",
        "t/../t",
        "a\\b",
        "a\0b",
        ".hidden",
        "_delta_log",
        "",
        &absolute,
    ];
    for name in attacks {
        for statement in [
            format!("CREATE TABLE \"{name}\" (id BIGINT) USING DELTA"),
            format!("CREATE TABLE \"{name}\" USING DELTA AS SELECT 1 AS id"),
            format!("CREATE TABLE \"{name}\".t (id BIGINT) USING DELTA"),
            format!("CREATE EXTERNAL TABLE \"{name}\" STORED AS DELTATABLE LOCATION '{absolute}'"),
            format!("SELECT * FROM \"{name}\""),
            format!("INSERT INTO \"{name}\" VALUES (1)"),
            format!("DROP TABLE \"{name}\""),
            format!("DESCRIBE HISTORY \"{name}\""),
        ] {
            let (code, report) = failure(&session, &statement).await;
            assert!(
                ["42602", "42P01", "42601"].contains(&code.as_str()),
                "{statement}: {report}"
            );
        }
    }
    assert_eq!((scratch.files("."), outside.files(".")), before);
}

/// A link is followed to a place inside the warehouse only.
#[tokio::test]
#[cfg(unix)]
async fn links_out_of_the_warehouse_are_refused() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let session = scratch.session().await;
    rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
    rows(
        &session,
        &format!(
            "CREATE TABLE far (id BIGINT) USING DELTA LOCATION '{}'",
            scratch.text("outside")
        ),
    )
    .await;
    symlink(scratch.path("outside"), scratch.path("w/out")).unwrap();
    symlink(scratch.path("w/t"), scratch.path("w/inside")).unwrap();
    for statement in [
        "SELECT * FROM out",
        "DROP TABLE out",
        "CREATE TABLE out (id BIGINT) USING DELTA",
    ] {
        let (code, report) = failure(&session, statement).await;
        assert_eq!(code, "42602", "{statement}: {report}");
        assert!(report.contains("CREATE EXTERNAL TABLE"), "{report}");
    }
    assert!(scratch.path("outside/_delta_log").is_dir());
    assert!(rows(&session, "SELECT * FROM inside").await.is_empty());
    let listed = rows(&session, "SHOW TABLES").await.join("\n");
    assert!(
        listed.contains("public|inside|") && !listed.contains("public|out|"),
        "{listed}"
    );
}

/// Tables do not nest, and a schema is not a table.
#[tokio::test]
async fn a_table_is_no_schema_and_a_schema_no_table() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
    rows(&session, "CREATE TABLE s.t (id BIGINT) USING DELTA").await;
    assert_eq!(
        failure(&session, "CREATE TABLE t.inner_one (id BIGINT) USING DELTA")
            .await
            .0,
        "42602"
    );
    assert_eq!(
        failure(&session, "CREATE TABLE s (id BIGINT) USING DELTA").await.0,
        "42P07"
    );
    assert_eq!(failure(&session, "DROP SCHEMA s").await.0, "0A000");
}

/// A session sees its own commits at once, and those of others from its next statement on.
#[tokio::test]
async fn sessions_see_each_other_at_the_next_statement() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.session().await, scratch.session().await);
    rows(&a, "CREATE TABLE t (id BIGINT) USING DELTA").await;
    for (writer, reader, id) in [(&a, &b, 1), (&b, &a, 2), (&a, &b, 3)] {
        rows(writer, &format!("INSERT INTO t VALUES ({id})")).await;
        for session in [writer, reader] {
            assert_eq!(
                rows(session, "SELECT max(id), count(*) FROM t").await,
                [format!("{id}|{id}")]
            );
        }
    }
    rows(&a, "DROP TABLE t").await;
    assert_eq!(failure(&a, "SELECT * FROM t").await.0, "42P01");
    rows(&a, "CREATE TABLE t (name STRING) USING DELTA").await;
    rows(&a, "INSERT INTO t VALUES ('new')").await;
    assert_eq!(rows(&a, "SELECT * FROM t").await, ["new"]);
}

/// What a session registers itself lives beside the warehouse.
#[tokio::test]
async fn views_and_memory_tables_live_beside_delta_tables() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
    rows(&session, "INSERT INTO t VALUES (1), (2)").await;
    rows(&session, "CREATE TABLE m AS SELECT id + 10 AS id FROM t").await;
    rows(&session, "CREATE VIEW v AS SELECT max(id) AS id FROM t").await;
    rows(&session, "INSERT INTO t VALUES (3)").await;
    assert_eq!(rows(&session, "SELECT id FROM m ORDER BY id").await, ["11", "12"]);
    assert!(!scratch.path("w/m").exists());
    assert_eq!(failure(&session, "DROP TABLE v").await.0, "42P01");
    rows(&session, "DROP VIEW v").await;
    assert_eq!(rows(&session, "DROP TABLE m").await, ["m|dropped from the session"]);
    assert_eq!(failure(&session, "SELECT * FROM m").await.0, "42P01");
    assert_eq!(failure(&session, "DROP TABLE m").await.0, "42P01");
    assert_eq!(rows(&session, "DROP TABLE IF EXISTS m").await, ["m|does not exist"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["3"]);
}

/// CSV, JSON and Parquet by path; text timestamps land in a UTC column without losing digits.
#[tokio::test]
async fn files_are_readable_by_path() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let csv = "id,at,place\n1,2018-02-07T01:26:13Z,Oslo\n2,2018-02-07T01:26:13.840Z,\"a, b\"\n";
    std::fs::write(scratch.path("x.csv"), csv).unwrap();
    std::fs::write(scratch.path("x.ndjson"), "{\"id\": 3}\n{\"id\": 4}\n").unwrap();
    let file = |name: &str| format!("'{}'", scratch.text(name));
    rows(
        &session,
        "CREATE TABLE t (id BIGINT, at TIMESTAMP, place STRING) USING DELTA",
    )
    .await;
    rows(&session, &format!("INSERT INTO t SELECT * FROM {}", file("x.csv"))).await;
    let stored = rows(&session, "SELECT id, at, place FROM t ORDER BY id").await;
    assert_eq!(
        stored,
        ["1|2018-02-07T01:26:13Z|Oslo", "2|2018-02-07T01:26:13.840Z|a, b"]
    );
    assert_eq!(
        rows(&session, &format!("SELECT sum(id) FROM {}", file("x.ndjson"))).await,
        ["7"]
    );
    rows(
        &session,
        &format!("COPY (SELECT 5 AS id) TO {} STORED AS PARQUET", file("x.parquet")),
    )
    .await;
    assert_eq!(
        rows(&session, &format!("SELECT id FROM {}", file("x.parquet"))).await,
        ["5"]
    );
    let zipped = format!(
        "COPY (SELECT 6 AS id) TO {} STORED AS CSV OPTIONS ('format.compression' 'gzip')",
        file("y.csv.gz")
    );
    rows(&session, &zipped).await;
    assert_eq!(
        rows(&session, &format!("SELECT id FROM {}", file("y.csv.gz"))).await,
        ["6"]
    );
    std::fs::write(scratch.path("x2.csv"), "id,at,place\n3,2019-01-01T00:00:00Z,Bergen\n").unwrap();
    assert_eq!(
        rows(&session, &format!("SELECT count(*) FROM {}", file("x*.csv"))).await,
        ["3"]
    );
    let (code, report) = failure(&session, &format!("SELECT * FROM {}", file("missing.csv"))).await;
    assert_eq!(code, "42P01");
    assert!(report.contains("missing.csv"), "{report}");
    assert_eq!(
        failure(&session, &format!("DROP TABLE {}", file("x.csv"))).await.0,
        "42P01"
    );
    assert!(scratch.path("x.csv").exists());
}

/// C11: timestamps are microseconds in plain queries too.
#[tokio::test]
async fn a_far_timestamp_is_a_value() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let sql = "SELECT TIMESTAMP '9999-12-31 00:00:00' AS a, CAST('0001-01-01' AS TIMESTAMP) AS b, \
               arrow_typeof(TIMESTAMP '2024-01-01 00:00:00') AS c, arrow_typeof(CAST('2024-01-01T00:00:00+02:00' AS TIMESTAMPTZ)) AS d";
    assert_eq!(
        rows(&session, sql).await,
        ["9999-12-31T00:00:00|0001-01-01T00:00:00|Timestamp(µs)|Timestamp(µs, \"UTC\")"]
    );
    rows(
        &session,
        "CREATE TABLE t (at TIMESTAMP, naive TIMESTAMP_NTZ) USING DELTA",
    )
    .await;
    rows(
        &session,
        "INSERT INTO t VALUES (TIMESTAMP '9999-12-31 00:00:00', TIMESTAMP '9999-12-31 00:00:00')",
    )
    .await;
    assert_eq!(
        rows(&session, "SELECT * FROM t").await,
        ["9999-12-31T00:00:00Z|9999-12-31T00:00:00"]
    );
}
