//! Making, attaching, dropping and describing tables.

use crate::support::{Scratch, failure, rows};

/// Every type survives a trip through the table.
#[tokio::test]
async fn all_types_round_trip() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let columns = [
        ("b", "BOOLEAN", "true", "true"),
        ("i8", "TINYINT", "-128", "-128"),
        ("i16", "SMALLINT", "32767", "32767"),
        ("i32", "INT", "-2147483648", "-2147483648"),
        ("i64", "BIGINT", "9223372036854775807", "9223372036854775807"),
        ("f32", "FLOAT", "1.5", "1.5"),
        ("f64", "DOUBLE", "-0.25", "-0.25"),
        (
            "d",
            "DECIMAL(38, 10)",
            "CAST('1234567890.0123456789' AS DECIMAL(38, 10))",
            "1234567890.0123456789",
        ),
        ("s", "STRING", "'it''s ø'", "it's ø"),
        ("x", "BINARY", "X'00FF'", "00ff"),
        ("day", "DATE", "DATE '2024-02-29'", "2024-02-29"),
        (
            "at",
            "TIMESTAMP",
            "TIMESTAMP '2024-01-01 12:00:00.123456'",
            "2024-01-01T12:00:00.123456Z",
        ),
        (
            "naive",
            "TIMESTAMP_NTZ",
            "TIMESTAMP '2024-01-01 12:00:00.123456'",
            "2024-01-01T12:00:00.123456",
        ),
        ("a", "ARRAY<INT>", "[1, NULL, 3]", "[1, , 3]"),
        (
            "st",
            "STRUCT<x: INT, y: ARRAY<STRING>>",
            "{x: 1, y: ['q']}",
            "{x: 1, y: [q]}",
        ),
        ("m", "MAP<STRING, INT>", "MAP {'k': 1}", "{k: 1}"),
    ];
    let list: Vec<_> = columns.iter().map(|(name, ty, ..)| format!("{name} {ty}")).collect();
    rows(
        &session,
        &format!("CREATE TABLE t (id INT, {}) USING DELTA", list.join(", ")),
    )
    .await;
    for (i, (name, ty, literal, shown)) in columns.iter().enumerate() {
        rows(&session, &format!("INSERT INTO t (id, {name}) VALUES ({i}, {literal})")).await;
        let stored = rows(&session, &format!("SELECT {name} FROM t WHERE id = {i}")).await;
        assert_eq!(stored, [*shown], "{ty}");
    }
    let nulls: Vec<_> = columns.iter().map(|(name, ..)| format!("count({name})")).collect();
    let ones: Vec<_> = columns.iter().map(|_| "1").collect();
    assert_eq!(
        rows(&session, &format!("SELECT {} FROM t", nulls.join(", "))).await,
        [ones.join("|")]
    );
}

/// Managed tables are deleted, external ones forgotten, and DROP says which.
#[tokio::test]
async fn drop_deletes_only_managed_tables() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let outside = scratch.text("outside");
    assert_eq!(
        rows(&session, "CREATE TABLE m (id BIGINT) USING DELTA").await,
        ["m|created"]
    );
    rows(
        &session,
        &format!("CREATE TABLE e (id BIGINT) USING DELTA LOCATION '{outside}'"),
    )
    .await;
    rows(&session, "INSERT INTO e VALUES (1)").await;
    let plan = rows(&session, "EXPLAIN FORMAT INDENT DROP TABLE m").await.join("\n");
    assert!(plan.contains("DropTable: table=m, deletes_data=true"), "{plan}");
    assert!(scratch.path("w/m/_delta_log").is_dir());
    assert_eq!(
        rows(&session, "DROP TABLE m").await,
        ["m|dropped, its data was deleted"]
    );
    assert_eq!(
        rows(&session, "DROP TABLE e").await,
        ["e|forgotten, its data was left alone"]
    );
    assert!(scratch.files("w").is_empty());
    assert_eq!(failure(&session, "SELECT * FROM e").await.0, "42P01");
    rows(
        &session,
        &format!("CREATE EXTERNAL TABLE back STORED AS DELTATABLE LOCATION '{outside}'"),
    )
    .await;
    assert_eq!(rows(&session, "SELECT * FROM back").await, ["1"]);
}

/// EXPLAIN of a command shows it and does nothing.
#[tokio::test]
async fn explain_executes_no_command() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    for statement in [
        "CREATE TABLE t (id BIGINT NOT NULL) USING DELTA",
        "CREATE TABLE t USING DELTA AS SELECT 1 AS id",
        "CREATE TABLE IF NOT EXISTS t (id BIGINT) USING DELTA",
    ] {
        let plan = rows(&session, &format!("EXPLAIN FORMAT INDENT {statement}"))
            .await
            .join("\n");
        assert!(plan.contains("CreateTable: table=t, kind=managed"), "{plan}");
        assert_eq!(failure(&session, "SELECT * FROM t").await.0, "42P01");
    }
    assert!(scratch.files("w").is_empty());
}

/// Table and rows are one commit, with types that Delta Lake has.
#[tokio::test]
async fn create_as_is_one_commit() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let query = "SELECT arrow_cast(7, 'UInt32') AS u, arrow_cast('x', 'Utf8View') AS v, \
                 arrow_cast('y', 'Dictionary(Int32, Utf8)') AS d, arrow_cast(0, 'Timestamp(Nanosecond, Some(\"UTC\"))') AS n";
    let created = rows(
        &session,
        &format!("CREATE TABLE t USING DELTA PARTITIONED BY (v) AS {query}"),
    )
    .await;
    assert_eq!(created, ["t|created with 1 row"]);
    assert_eq!(
        rows(&session, "SELECT u, v, d, n FROM t").await,
        ["7|x|y|1970-01-01T00:00:00Z"]
    );
    let types = rows(
        &session,
        "SELECT arrow_typeof(u), arrow_typeof(v), arrow_typeof(n) FROM t",
    )
    .await;
    assert_eq!(types, ["Int64|Utf8|Timestamp(µs, \"UTC\")"]);
    assert_eq!(rows(&session, "SELECT version FROM table_history('t')").await, ["0"]);
    let empty = rows(&session, "CREATE TABLE e USING DELTA AS SELECT 1 AS id WHERE false").await;
    assert_eq!(empty, ["e|created with 0 rows"]);
    assert!(rows(&session, "SELECT * FROM e").await.is_empty());
    let (code, report) = failure(&session, "CREATE TABLE n USING DELTA AS SELECT 1 AS id, NULL AS what").await;
    assert!(code == "42804" && report.contains("\"what\""), "{report}");
    let (code, report) = failure(&session, "CREATE TABLE n USING DELTA AS SELECT 1 AS a, 2 AS \"A\"").await;
    assert_eq!(code, "42701", "{report}");
    assert!(!scratch.path("w/n").exists());
}

/// What is there is not overwritten.
#[tokio::test]
async fn existing_tables_and_files_are_left_alone() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
    rows(&session, "INSERT INTO t VALUES (1)").await;
    assert_eq!(
        failure(&session, "CREATE TABLE t (other STRING) USING DELTA").await.0,
        "42P07"
    );
    let kept = rows(&session, "CREATE TABLE IF NOT EXISTS t (other STRING) USING DELTA").await;
    assert_eq!(kept, ["t|exists already"]);
    assert_eq!(rows(&session, "SELECT id FROM t").await, ["1"]);
    let location = scratch.text("w/t");
    let twice = format!("CREATE TABLE u (id BIGINT) USING DELTA LOCATION '{location}'");
    assert_eq!(failure(&session, &twice).await.0, "42P07");
    rows(&session, &twice.replace("TABLE u", "TABLE IF NOT EXISTS u")).await;
    assert_eq!(rows(&session, "SELECT id FROM u").await, ["1"]);
    std::fs::create_dir_all(scratch.path("w/full/deep")).unwrap();
    std::fs::write(scratch.path("w/full/deep/precious.txt"), "x").unwrap();
    for statement in [
        "CREATE TABLE \"full\" (id BIGINT) USING DELTA",
        "CREATE TABLE \"full\" USING DELTA AS SELECT 1 AS id",
    ] {
        assert_eq!(failure(&session, statement).await.0, "42P07");
    }
    assert_eq!(scratch.files("w/full").len(), 1);
}

/// NOT NULL, CHECK and generated columns reach the table and are enforced by INSERT.
#[tokio::test]
async fn constraints_are_stored_and_enforced() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let create = "CREATE TABLE t (\"Y\" INT NOT NULL COMMENT 'year', at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), \
                  n INT CHECK (n > 0), CONSTRAINT modern CHECK (\"Y\" > 1900)) USING DELTA COMMENT 'things' \
                  TBLPROPERTIES ('delta.appendOnly' = 'true')";
    rows(&session, create).await;
    rows(
        &session,
        "INSERT INTO t (\"Y\", at, n) VALUES (2024, TIMESTAMP '2024-01-02 03:04:05', 1)",
    )
    .await;
    assert_eq!(
        rows(&session, "SELECT \"Y\", day, n FROM t").await,
        ["2024|2024-01-02|1"]
    );
    assert_eq!(
        failure(&session, "INSERT INTO t (\"Y\", n) VALUES (1800, 1)").await.0,
        "23514"
    );
    assert_eq!(
        failure(&session, "INSERT INTO t (\"Y\", n) VALUES (2000, 0)").await.0,
        "23514"
    );
    assert_eq!(failure(&session, "INSERT INTO t (n) VALUES (1)").await.0, "23502");
    let detail = rows(&session, "DESCRIBE DETAIL t").await.join("\n");
    for part in ["delta.appendOnly", "delta.constraints.modern", "things", "delta"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
}

/// Expressions and partitions are checked before anything is made.
#[tokio::test]
async fn wrong_definitions_make_nothing() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let cases = [
        ("CREATE TABLE t (a INT, A INT) USING DELTA", "42701"),
        ("CREATE TABLE t (a INT, \"A\" INT) USING DELTA", "42701"),
        ("CREATE TABLE t (__row INT) USING DELTA", "42602"),
        ("CREATE TABLE t (a INT, CHECK (b > 0)) USING DELTA", "42601"),
        (
            "CREATE TABLE t (a INT, CONSTRAINT c CHECK (b > 0)) USING DELTA",
            "42703",
        ),
        (
            "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a + 1)) USING DELTA",
            "42804",
        ),
        (
            "CREATE TABLE t (a INT, CONSTRAINT c CHECK (random() < 0.5)) USING DELTA",
            "0A000",
        ),
        (
            "CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (c + 1)) USING DELTA",
            "42703",
        ),
        ("CREATE TABLE t (a INT) USING DELTA PARTITIONED BY (b)", "42703"),
        ("CREATE TABLE t (a INT) USING DELTA PARTITIONED BY (a)", "0A000"),
        (
            "CREATE TABLE t (a INT, b INT[]) USING DELTA PARTITIONED BY (b)",
            "0A000",
        ),
        ("CREATE TABLE t (a VARCHAR(10)) USING DELTA", "0A000"),
        ("CREATE TABLE t (a INT PRIMARY KEY) USING DELTA", "0A000"),
        ("CREATE TABLE t USING DELTA AS SELECT a FROM missing", "42P01"),
        (
            "CREATE TABLE t (a INT) USING DELTA TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "0A000",
        ),
        ("CREATE TABLE t (a INT) USING DELTA LOCATION 'nowhere://x/y'", "0A000"),
        ("CREATE TABLE t (a INT) USING DELTA LOCATION ''", "22023"),
    ];
    for (statement, expected) in cases {
        let (code, report) = failure(&session, statement).await;
        assert_eq!(code, expected, "{statement}: {report}");
    }
    assert!(scratch.files("w").is_empty());
}

/// History and files as tables.
#[tokio::test]
async fn the_log_can_be_queried() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    rows(
        &session,
        "CREATE TABLE t (id BIGINT, p STRING) USING DELTA PARTITIONED BY (p)",
    )
    .await;
    rows(&session, "INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, NULL)").await;
    rows(&session, "INSERT INTO t VALUES (4, 'b')").await;
    let versions = rows(
        &session,
        "SELECT version, operation FROM table_history('t') ORDER BY version",
    )
    .await;
    assert_eq!(versions.len(), 3);
    assert_eq!(versions[0], "0|CREATE TABLE");
    assert!(versions[2].starts_with("2|"), "{versions:?}");
    let latest = rows(&session, "DESCRIBE HISTORY t LIMIT 1").await;
    assert!(latest.len() == 1 && latest[0].starts_with("2|"), "{latest:?}");
    let recent = "SELECT count(*) FROM table_history('public.t') WHERE timestamp > now() - INTERVAL '1' HOUR AND operation_parameters LIKE '{%'";
    assert_eq!(rows(&session, recent).await, ["3"]);
    let files = "SELECT partition_values, num_records, deletion_vector, size > 0 FROM table_files('t') ORDER BY 1";
    assert_eq!(
        rows(&session, files).await,
        [
            "{\"p\":\"a\"}|2|false|true",
            "{\"p\":\"b\"}|1|false|true",
            "{\"p\":null}|1|false|true",
        ]
    );
    assert_eq!(
        failure(&session, "SELECT * FROM table_files('missing')").await.0,
        "42P01"
    );
    assert_eq!(failure(&session, "SELECT * FROM table_files(1)").await.0, "42601");
    assert_eq!(
        failure(&session, "SELECT * FROM table_history('../t')").await.0,
        "42602"
    );
    let columns = rows(&session, "DESCRIBE t").await;
    assert_eq!(columns, ["id|Int64|YES", "p|Utf8|YES"]);
}

/// FI-124, FI-125: options of a store are shown nowhere.
#[tokio::test]
async fn store_options_are_shown_nowhere() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    let location = scratch.text("t");
    rows(
        &session,
        &format!("CREATE TABLE made (id BIGINT) USING DELTA LOCATION '{location}'"),
    )
    .await;
    let options = "OPTIONS ('aws_secret_access_key' 'SECRETKEY', 'azure_storage_sas_token' 'sig=SECRETSIG')";
    let attach = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{location}' {options}");
    let mut shown = rows(&session, &format!("EXPLAIN VERBOSE {attach}")).await;
    rows(&session, &attach).await;
    for statement in [
        "SHOW TABLES",
        "DESCRIBE DETAIL t",
        "DESCRIBE HISTORY t",
        "EXPLAIN VERBOSE SELECT * FROM t",
        "DESCRIBE t",
    ] {
        shown.extend(rows(&session, statement).await);
    }
    shown.push(failure(&session, &attach).await.1);
    for broken in [
        attach.replace("DELTATABLE", "DELTA").replace("TABLE t", "TABLE u"),
        attach
            .replace("TABLE t", "TABLE u")
            .replace(&location, &scratch.text("missing")),
        attach
            .replace("TABLE t", "TABLE u")
            .replace("'SECRETKEY'", "'SECRETKEY' 'SECRETKEY'"),
        attach
            .replace("TABLE t", "TABLE u")
            .replace(&location, "file:///x?sv=1&sig=SECRETSIG"),
    ] {
        shown.push(failure(&session, &broken).await.1);
    }
    let plan = session
        .context()
        .sql("SELECT * FROM t")
        .await
        .unwrap()
        .into_optimized_plan()
        .unwrap();
    shown.push(format!("{plan:?}"));
    let shown = shown.join("\n");
    assert!(!shown.contains("SECRET"), "{shown}");
}

/// Other formats and plain CREATE TABLE stay DataFusion's.
#[tokio::test]
async fn other_tables_stay_with_datafusion() {
    let scratch = Scratch::new();
    let session = scratch.session().await;
    std::fs::write(scratch.path("x.csv"), "id,using_delta\n1,2\n").unwrap();
    let csv = scratch.text("x.csv");
    rows(
        &session,
        &format!("CREATE EXTERNAL TABLE c STORED AS CSV LOCATION '{csv}' OPTIONS ('format.has_header' 'true')"),
    )
    .await;
    rows(&session, "CREATE TABLE history (delta INT)").await;
    rows(&session, "INSERT INTO history VALUES (1)").await;
    assert_eq!(rows(&session, "DESCRIBE history").await, ["delta|Int32|YES"]);
    assert_eq!(rows(&session, "SELECT * FROM c JOIN history ON true").await, ["1|2|1"]);
    assert_eq!(rows(&session, "DROP TABLE c").await, ["c|dropped from the session"]);
    assert!(scratch.path("x.csv").exists());
    assert!(scratch.files("w").is_empty());
}

/// Of two sessions that make one table, one makes it and the other is told so.
#[tokio::test]
async fn a_table_is_made_once() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.session().await, scratch.session().await);
    let create = "CREATE TABLE t (id BIGINT) USING DELTA";
    let plan = b.sql(create).await.unwrap();
    rows(&a, create).await;
    rows(&a, "INSERT INTO t VALUES (1)").await;
    assert!(plan.collect().await.unwrap_err().to_string().contains("t\""));
    assert_eq!(rows(&b, "SELECT * FROM t").await, ["1"]);
    let as_query = "CREATE TABLE u USING DELTA AS SELECT 2 AS id";
    let plan = b.sql(as_query).await.unwrap();
    rows(&a, as_query).await;
    plan.collect().await.unwrap_err();
    assert_eq!(rows(&b, "SELECT * FROM u").await, ["2"]);
    assert_eq!(rows(&b, "SELECT count(*) FROM table_history('u')").await, ["1"]);
}
