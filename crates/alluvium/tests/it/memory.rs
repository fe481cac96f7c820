//! Loads under a memory limit.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use alluvium::Session;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

use crate::laws::{ResultRow, run, shown};
use crate::support::{Scratch, rows};

const LIMIT: usize = 16 << 20;

/// A session that may use little memory and spills into `spill`.
async fn small(scratch: &Scratch) -> Session {
    std::fs::create_dir_all(scratch.path("spill")).unwrap();
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![scratch.path("spill")]));
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .build_arc()
        .unwrap();
    let builder = Session::builder()
        .with_warehouse(scratch.text("w"))
        .with_runtime(Arc::clone(&runtime));
    builder.with_memory_limit(LIMIT).with_threads(2).build().await.unwrap()
}

/// FI-102, FI-106: a load that does not fit into memory spills: neither its rows nor its keys are gathered in one place.
#[test]
fn a_large_load_spills() {
    run(async {
        for vectors in [true, false] {
            for (load, counts) in [
                ("UPSERT INTO t KEYS (id)", [150_000, 150_000, 0, 0]),
                ("INSERT ONLY INTO t KEYS (id)", [150_000, 0, 0, 150_000]),
                ("MERGE OVERWRITE INTO t KEYS (id)", [300_000, 0, 150_000, 0]),
                (
                    "MERGE OVERWRITE INTO t WINDOW id FROM 150000 TO 900000",
                    [300_000, 0, 150_001, 0],
                ),
            ] {
                let scratch = Scratch::new();
                table(&scratch, vectors).await;
                let session = small(&scratch).await;
                let sql = format!(
                    "{load} SELECT value + 150000 AS id, {TEXT} || ' new' AS v FROM generate_series(1, 300000)"
                );
                let outcome = session.execute(&sql).await;
                let outcome = outcome.unwrap_or_else(|e| panic!("{load}, vectors {vectors}: {}", shown(&e)));
                let found = ResultRow::of(&outcome).counts;
                let found = [found.inserted, found.updated, found.deleted, found.skipped];
                assert_eq!(found, counts, "{load}, vectors {vectors}");
                drop(session);
                assert!(spill_goes_away(&scratch).await, "{load}, vectors {vectors}");
            }
        }
    });
}

/// Rows that are written in the order of a key are sorted, which spills.
#[test]
fn rows_are_sorted_within_the_limit() {
    run(async {
        let scratch = Scratch::new();
        let session = small(&scratch).await;
        let source = format!("SELECT value * 7919 % 1000003 AS id, {TEXT} AS v FROM generate_series(1, 300000)");
        let keys = "USING DELTA TBLPROPERTIES ('alluvium.keys' = 'id')";
        for load in [
            &format!("CREATE TABLE t (id BIGINT, v STRING) {keys}"),
            "INSERT INTO t",
            &format!("CREATE TABLE made {keys} AS"),
            "INSERT ONLY INTO loaded CREATE IF NOT EXISTS TBLPROPERTIES ('alluvium.keys' = 'id') KEYS (id)",
        ] {
            let source = if load.ends_with("'id')") { "" } else { &source };
            let outcome = session.execute(&format!("{load} {source}")).await;
            outcome.unwrap_or_else(|e| panic!("{load}: {}", shown(&e)));
        }
        for table in ["t", "made", "loaded"] {
            let count = rows(&session, &format!("SELECT count(*), sum(id) > 0 FROM {table}")).await;
            assert_eq!(count, ["300000|true"], "{table}");
        }
        drop(session);
        assert!(spill_goes_away(&scratch).await);
    });
}

/// The history of one key has to fit: if it does not, the load fails with 53200 and changes nothing.
#[test]
fn a_history_larger_than_memory_fails_cleanly() {
    run(async {
        let scratch = Scratch::new();
        let session = small(&scratch).await;
        let columns =
            "k BIGINT, at TIMESTAMP, v STRING, __valid_from TIMESTAMP, __valid_to TIMESTAMP, __is_current BOOLEAN";
        rows(&session, &format!("CREATE TABLE h ({columns}) USING DELTA")).await;
        let before = scratch.files("w");
        let load = format!(
            "SCD2 MERGE INTO h KEYS (k) SEQUENCE BY at \
             SELECT 1 AS k, to_timestamp_micros(value) AS at, {TEXT} AS v FROM generate_series(1, 300000)"
        );
        let error = session.execute(&load).await.unwrap_err();
        assert_eq!(error.code(), "53200", "{}", shown(&error));
        assert!(error.hint_text().is_some(), "{error:?}");
        drop(session);
        assert!(spill_goes_away(&scratch).await);
        assert_eq!(scratch.files("w"), before);
    });
}

const TEXT: &str = "'a text of some length, so that rows are not free: ' || value";

/// A table of 300,000 rows.
async fn table(scratch: &Scratch, vectors: bool) {
    let create = format!(
        "CREATE TABLE t USING DELTA TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}') \
         AS SELECT value AS id, {TEXT} AS v FROM generate_series(1, 300000)"
    );
    rows(&scratch.session().await, &create).await;
}

/// Operators that are still running when a load fails let go of their files a moment later.
async fn spill_goes_away(scratch: &Scratch) -> bool {
    for _ in 0..100 {
        if scratch.files("spill").is_empty() {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    false
}
