//! What a load costs in memory and files does not depend on the size of the table, nor on the size of a value.

use alluvium::Session;

use crate::laws::run;
use crate::support::{Scratch, rows};

/// FI-105: long texts, more than 32-bit offsets hold if they were put together, go through batch by batch.
#[test]
fn long_texts_are_never_put_together() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        rows(&session, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        let texts = |from: i64, to: i64, c: &str| {
            format!("SELECT value AS id, repeat('{c}', 20000000) AS v FROM generate_series({from}, {to})")
        };
        rows(&session, "SET datafusion.execution.batch_size = 4").await;
        for (from, to, c, counts) in [(1, 6, "a", "6|6|0"), (5, 8, "b", "4|2|2")] {
            let outcome = rows(&session, &format!("UPSERT INTO t KEYS (id) {}", texts(from, to, c))).await;
            assert!(outcome[0].starts_with(counts), "{outcome:?}");
        }
        let stored = rows(
            &session,
            "SELECT count(*), sum(length(v)), min(substr(v, 20000000)) FROM t",
        )
        .await;
        assert_eq!(stored, ["8|160000000|a"]);
    });
}

/// FI-101: one row costs one file, whatever the size of the table.
#[test]
fn one_row_costs_one_file() {
    run(async {
        for vectors in ["true", "false"] {
            let scratch = Scratch::new();
            let owner = scratch.session().await;
            let properties = format!("TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')");
            rows(
                &owner,
                &format!("CREATE TABLE t (id BIGINT, v STRING) USING DELTA {properties}"),
            )
            .await;
            for file in 0..20 {
                let rows_of_file = format!(
                    "INSERT INTO t SELECT value, 'a text of some length ' || value FROM generate_series({}, {})",
                    file * 5000 + 1,
                    (file + 1) * 5000
                );
                rows(&owner, &rows_of_file).await;
            }
            let builder = Session::builder().with_warehouse(scratch.text("w"));
            let session = builder
                .with_memory_limit(64 << 20)
                .with_threads(2)
                .build()
                .await
                .unwrap();
            let outcome = rows(&session, "UPSERT INTO t KEYS (id) VALUES (7777, 'new')").await;
            // files added, removed, skipped, vectors
            let files: Vec<&str> = outcome[0].split('|').skip(7).take(4).collect();
            let expected = if vectors == "true" {
                ["1", "0", "19", "1"]
            } else {
                ["1", "1", "19", "0"]
            };
            assert_eq!(files, expected, "{outcome:?}");
        }
    });
}
