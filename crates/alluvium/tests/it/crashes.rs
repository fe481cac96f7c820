//! A process that dies at any write of a load leaves the table as it was or as it is after the load, never between, and
//! the load can be run again.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use alluvium::Session;
use alluvium_testkit::stores::{FaultyStore, Moment};
use object_store::memory::InMemory;

use crate::labs::Lab;
use crate::laws::{run, shown};
use crate::support::rows;

const CREATE: &str =
    "CREATE TABLE t (id BIGINT, g BIGINT, v STRING, valid_from TIMESTAMP, valid_to TIMESTAMP) USING DELTA";

const FIRST: &str = "SELECT id, id % 3 AS g, 'old' AS v, TIMESTAMP '2024-01-01T00:00:00Z' AS valid_from, \
                     CAST(NULL AS TIMESTAMP) AS valid_to FROM (SELECT value AS id FROM generate_series(1, 9))";

const LOADS: [&str; 6] = [
    "UPSERT INTO t KEYS (id) VALUES (2, 2, 'new', TIMESTAMP '2024-01-01T00:00:00Z', NULL), \
     (20, 2, 'new', TIMESTAMP '2024-01-01T00:00:00Z', NULL)",
    "UPSERT INTO t USING (SELECT * FROM t WHERE g = 1) AS s KEYS (id) APPLY AS DELETE WHEN true",
    "INSERT ONLY INTO t KEYS (id) VALUES (2, 2, 'new', NULL, NULL), (21, 0, 'new', NULL, NULL)",
    "MERGE OVERWRITE INTO t KEYS (g) VALUES (30, 1, 'new', NULL, NULL)",
    "MERGE OVERWRITE INTO t WINDOW id FROM 1 TO 5 VALUES (3, 0, 'new', NULL, NULL)",
    "SCD2 MERGE INTO t USING (SELECT 4 AS id, 1 AS g, 'new' AS v) KEYS (id) \
     EFFECTIVE AT TIMESTAMP '2024-02-01T00:00:00Z' VALIDITY COLUMNS (valid_from, valid_to)",
];

async fn content(session: &Session) -> Vec<String> {
    let sql = "SELECT id, g, v, valid_from IS NULL, valid_to IS NULL FROM t ORDER BY id, v, 5";
    rows(session, sql).await
}

/// A table of nine rows in two files.
async fn template(name: &str, vectors: bool) -> Lab {
    let lab = Lab::new(name);
    let session = Session::builder().build().await.unwrap();
    let properties = format!("TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')");
    rows(&session, &format!("{CREATE} LOCATION '{}' {properties}", lab.table())).await;
    rows(&session, &format!("INSERT INTO t {FIRST} WHERE id < 5")).await;
    rows(&session, &format!("INSERT INTO t {FIRST} WHERE id >= 5")).await;
    lab
}

fn crashing(lab: &Lab, at: usize, moment: Moment) -> FaultyStore {
    let store = FaultyStore::new(Arc::<InMemory>::clone(&lab.inner), at, moment);
    lab.show(Arc::new(store.clone()));
    store
}

/// Runs `load` and crashes it at one write after the other, until it gets through.
async fn sweep(template: &Lab, name: &str, load: &str) -> usize {
    let before = content(&template.session().await.unwrap()).await;
    let done = template.copy(name).await;
    let session = done.session().await.unwrap();
    rows(&session, load).await;
    let after = content(&session).await;
    assert_ne!(before, after, "{load}");

    let mut crashes = 0;
    for moment in [Moment::Before, Moment::After] {
        for at in 0.. {
            assert!(at < 50, "{load} never gets through");
            let lab = template.copy(name).await;
            let store = crashing(&lab, at, moment);
            let result = lab.session().await.unwrap().execute(load).await;
            lab.repair();
            let found = content(&lab.session().await.unwrap()).await;
            let case = format!("{load}, {moment:?} write {at}: {result:?}");
            match &result {
                Ok(_) => assert_eq!(found, after, "{case}"),
                Err(e) => {
                    assert!(store.crashed(), "{case}: {}", shown(e));
                    assert!(found == before || found == after, "{case}: {found:?}");
                }
            }
            if !store.crashed() {
                break;
            }
            crashes += 1;
            rows(&lab.session().await.unwrap(), load).await;
            let again = content(&lab.session().await.unwrap()).await;
            // A window of which nothing is left to replace, and a version that is open already, stay as they are.
            assert_eq!(again, after, "{case}, again");
        }
    }
    crashes
}

#[test]
fn a_crash_at_any_write_leaves_a_whole_table() {
    run(async {
        for vectors in [true, false] {
            let template = template("crash-template", vectors).await;
            for load in LOADS {
                let crashes = sweep(&template, "crash", load).await;
                // At least a data file or vector, and the log entry, each before and after.
                let fewest = if load.contains("APPLY AS DELETE") { 2 } else { 4 };
                assert!(crashes >= fewest, "{load}: {crashes}");
            }
        }
    });
}

/// FI-096: the log entry is written, but the store reports an error. Not knowing the outcome is not failure: files that the
/// log may name stay, and the statement finds its own entry.
#[test]
fn an_unclear_commit_keeps_its_files() {
    run(async {
        let template = template("unclear-template", true).await;
        let load = LOADS[0];
        let mut answered = 0;
        for at in 0..4 {
            let lab = template.copy("unclear").await;
            let store = crashing(&lab, at, Moment::After);
            let result = lab.session().await.unwrap().execute(load).await;
            let committed = lab
                .paths()
                .await
                .iter()
                .any(|path| path.ends_with("00000000000000000003.json"));
            lab.repair();
            let session = lab.session().await.unwrap();
            let found = content(&session).await;
            match (committed, &result) {
                (true, Ok(_)) => answered += 1,
                (true, Err(e)) => {
                    answered += 1;
                    assert_eq!(e.code(), "58030", "{}", shown(e));
                    assert!(e.message().contains("not known"), "{}", shown(e));
                }
                (false, Ok(_)) => panic!("nothing was committed"),
                (false, Err(_)) => assert!(store.crashed()),
            }
            let new = found.iter().filter(|row| row.contains("new")).count();
            assert_eq!(new, if committed { 2 } else { 0 }, "{found:?}");
        }
        assert!(answered > 0, "no try reached the log");
    });
}

/// A load that fails before its commit takes its files away again.
#[test]
fn a_failed_load_leaves_no_file() {
    run(async {
        let lab = template("tidy", true).await;
        let before = lab.paths().await;
        let session = lab.session().await.unwrap();
        let load = "UPSERT INTO t USING (SELECT value AS id, 1 / (value - 5000) AS g, 'x' AS v \
                    FROM generate_series(1, 5000)) AS s KEYS (id)";
        let failed = session.execute(load).await.unwrap_err();
        assert_eq!(failed.code(), "22012", "{}", shown(&failed));
        assert_eq!(lab.paths().await, before);
    });
}
