//! What we write is read back equal by the `deltalake` package of Python, where that is installed.

use std::process::Command;

use alluvium::Session;

use crate::laws::run;
use crate::support::{Scratch, rows};

/// Compares each table with a Parquet file of the rows it should have, by the text of the values, so that NaN equals
/// itself. The package reads deletion vectors through its query engine only.
const READER: &str = r#"
import sys
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

for table, expected in zip(sys.argv[1::2], sys.argv[2::2]):
    rows = QueryBuilder().register("t", DeltaTable(table)).execute("SELECT * FROM t").read_all()
    actual, wanted = pa.table(rows), pq.read_table(expected)
    if sorted(actual.column_names) != sorted(wanted.column_names):
        sys.exit(f"{table}: columns {actual.column_names}, expected {wanted.column_names}")
    actual = actual.select(wanted.column_names)
    texts = [sorted(map(repr, t.to_pylist())) for t in (actual, wanted)]
    if texts[0] != texts[1]:
        sys.exit(f"{table}: {texts[0]}, expected {texts[1]}")
print("equal")
"#;

/// The interpreter, if it has what the reader needs. `PYTHON` names another than `python3`.
fn python() -> Option<String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python)
        .args(["-c", "import pyarrow; from deltalake import QueryBuilder"])
        .output()
        .ok()?;
    found.status.success().then_some(python)
}

const ALL_TYPES: &str = "CREATE TABLE types (id BIGINT NOT NULL, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, f FLOAT, \
     d DOUBLE, n DECIMAL(20, 3), s STRING, x BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, l ARRAY<INT>, \
     st STRUCT<a INT, b STRING>, m MAP<STRING, INT>) USING DELTA";

const ALL_VALUES: &str = "SELECT 1 AS id, true AS b, 127 AS i8, -32768 AS i16, 2147483647 AS i32, 1.5 AS f, \
     CAST('NaN' AS DOUBLE) AS d, 12345678901234567.891 AS n, 'größe' AS s, arrow_cast('ab', 'Binary') AS x, \
     DATE '2026-02-28' AS day, TIMESTAMP '2026-02-28 12:34:56.789012' AS at, TIMESTAMP '1969-12-31 23:59:59.5' AS local, \
     [1, 2, 3] AS l, named_struct('a', 1, 'b', 'x') AS st, MAP {'k': 1, 'l': 2} AS m";

/// Makes the tables `types`, `plain` and `parts`.
pub async fn fill(session: &Session) {
    rows(session, ALL_TYPES).await;
    rows(session, &format!("UPSERT INTO types KEYS (id) {ALL_VALUES}")).await;
    rows(session, "UPSERT INTO types KEYS (id) SELECT 2 AS id, '' AS s").await;
    rows(
        session,
        "CREATE TABLE plain (id BIGINT, v STRING, gone BOOLEAN) USING DELTA",
    )
    .await;
    rows(
        session,
        "INSERT INTO plain SELECT value, 'v' || value, NULL FROM generate_series(1, 1000)",
    )
    .await;
    let upsert = "UPSERT INTO plain KEYS (id) APPLY AS DELETE WHEN gone \
                  SELECT value AS id, 'new' AS v, value < 600 AS gone FROM generate_series(500, 1500)";
    rows(session, upsert).await;
    let create = "CREATE TABLE parts (id BIGINT, p STRING, day DATE, v DOUBLE) USING DELTA PARTITIONED BY (p, day)";
    rows(session, create).await;
    let values =
        "VALUES (1, 'a b/c=d%é', DATE '2026-01-01', 1.0), (2, NULL, DATE '2026-01-02', -0.5), (3, 'x', NULL, NULL)";
    rows(session, &format!("UPSERT INTO parts KEYS (id) {values}")).await;
    rows(
        session,
        "UPSERT INTO parts KEYS (id) VALUES (1, 'x', DATE '2026-01-01', 7.0)",
    )
    .await;
    rows(session, "MERGE OVERWRITE INTO parts WINDOW day FROM DATE '2026-01-02' TO DATE '2026-01-03' SELECT 9 AS id, 'n' AS p, DATE '2026-01-02' AS day, 0.0 AS v").await;
    rows(
        session,
        "INSERT ONLY INTO parts KEYS (id) VALUES (9, 'no', NULL, NULL), (10, 'yes', NULL, 2.0)",
    )
    .await;
}

#[test]
fn python_reads_what_we_write() {
    let Some(python) = python() else {
        eprintln!("skipped: there is no python3 with the packages deltalake and pyarrow");
        return;
    };
    run(async move {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        fill(&session).await;
        let mut arguments = Vec::new();
        for table in ["types", "plain", "parts"] {
            let expected = scratch.text(&format!("{table}.parquet"));
            rows(
                &session,
                &format!("COPY (SELECT * FROM {table}) TO '{expected}' STORED AS PARQUET"),
            )
            .await;
            arguments.extend([scratch.text(&format!("w/{table}")), expected]);
        }
        let output = Command::new(python)
            .arg("-c")
            .arg(READER)
            .args(&arguments)
            .output()
            .unwrap();
        let (said, failed) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success() && said.contains("equal"), "{said}\n{failed}");
        eprintln!("{said}");
    });
}
