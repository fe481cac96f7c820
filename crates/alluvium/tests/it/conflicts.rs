//! Two sessions on one warehouse.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use alluvium::{LoadError, Session};
use datafusion::prelude::DataFrame;

use crate::laws::{ResultRow, run, shown};
use crate::support::{Scratch, failure, rows};

async fn two(scratch: &Scratch) -> (Session, Session) {
    (scratch.session().await, scratch.session().await)
}

/// Executes a frame that was planned earlier.
async fn finish(frame: DataFrame) -> Result<(), LoadError> {
    frame.collect().await.map(drop).map_err(LoadError::from)
}

/// The frame must fail as a conflict on table `t`, which it had read at `version`.
async fn lost(frame: DataFrame, version: i64) {
    let error = finish(frame).await.unwrap_err();
    assert_eq!(error.code(), "40001", "{}", shown(&error));
    assert!(error.message().contains("\"t\""), "{error}");
    let detail = error.detail_text().unwrap();
    assert!(detail.contains(&format!("read version {version},")), "{detail}");
    assert!(error.hint_text().unwrap().contains("run again"), "{error:?}");
}

/// A frame is one attempt; `execute` starts again.
#[test]
fn a_frame_loses_and_execute_wins() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = two(&scratch).await;
        rows(&a, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        rows(&a, "INSERT INTO t VALUES (1, 'old')").await;
        let frame = a.sql("UPSERT INTO t KEYS (id) VALUES (1, 'a')").await.unwrap();
        rows(&b, "UPSERT INTO t KEYS (id) VALUES (1, 'b')").await;
        let before = scratch.files("w");
        lost(frame, 1).await;
        assert_eq!(scratch.files("w"), before);
        assert_eq!(rows(&b, "SELECT * FROM t").await, ["1|b"]);
        rows(&a, "UPSERT INTO t KEYS (id) VALUES (1, 'a')").await;
        assert_eq!(rows(&b, "SELECT * FROM t").await, ["1|a"]);
    });
}

/// Many writers on one row: every one of them gets through.
#[test]
fn execute_retries_until_it_wins() {
    run(async {
        let scratch = Scratch::new();
        let a = scratch.session().await;
        rows(&a, "CREATE TABLE t (id BIGINT, n BIGINT) USING DELTA").await;
        rows(&a, "INSERT INTO t VALUES (1, 0)").await;
        let mut writers = Vec::new();
        for _ in 0..4 {
            let session = scratch.session().await;
            writers.push(tokio::spawn(async move {
                let add = "UPSERT INTO t KEYS (id) UPDATE SET n = target.n + source.n VALUES (1, 1)";
                session.execute(add).await
            }));
        }
        for writer in writers {
            let outcome = writer.await.unwrap().unwrap_or_else(|e| panic!("{}", shown(&e)));
            assert_eq!(ResultRow::of(&outcome).counts.updated, 1);
        }
        assert_eq!(rows(&a, "SELECT * FROM t").await, ["1|4"]);
    });
}

/// FI-100: the same new key from two sides is one row.
#[test]
fn one_new_key_is_one_row() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = two(&scratch).await;
        rows(&a, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        let frame = a.sql("UPSERT INTO t KEYS (id) VALUES (7, 'a')").await.unwrap();
        rows(&b, "UPSERT INTO t KEYS (id) VALUES (7, 'b')").await;
        lost(frame, 0).await;
        rows(&a, "UPSERT INTO t KEYS (id) VALUES (7, 'a')").await;
        assert_eq!(rows(&b, "SELECT * FROM t").await, ["7|a"]);
        // A plain append of the key conflicts, too.
        let frame = a.sql("UPSERT INTO t KEYS (id) VALUES (8, 'a')").await.unwrap();
        rows(&b, "INSERT INTO t VALUES (8, 'b')").await;
        lost(frame, 2).await;
        assert_eq!(rows(&b, "SELECT count(*) FROM t WHERE id = 8").await, ["1"]);
    });
}

/// INSERT ONLY of one key from two sides: one inserts, the other skips.
#[test]
fn insert_only_is_no_blind_append() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = two(&scratch).await;
        rows(&a, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        let insert = |v: &str| format!("INSERT ONLY INTO t KEYS (id) VALUES (7, '{v}')");
        let frame = a.sql(&insert("a")).await.unwrap();
        rows(&b, &insert("b")).await;
        lost(frame, 0).await;
        let again = ResultRow::of(&a.execute(&insert("a")).await.unwrap());
        assert_eq!((again.counts.skipped, again.status.as_str()), (1, "NO CHANGES"));
        assert_eq!(rows(&b, "SELECT * FROM t").await, ["7|b"]);
        let (first, second) = tokio::join!(
            tokio::spawn({
                let (a, sql) = (a.clone(), insert("x").replace('7', "8"));
                async move { a.execute(&sql).await }
            }),
            tokio::spawn({
                let (b, sql) = (b.clone(), insert("y").replace('7', "8"));
                async move { b.execute(&sql).await }
            }),
        );
        let inserted = [first, second].map(|done| ResultRow::of(&done.unwrap().unwrap()).counts.inserted);
        assert_eq!(inserted.iter().sum::<u64>(), 1, "{inserted:?}");
        assert_eq!(rows(&b, "SELECT count(*) FROM t WHERE id = 8").await, ["1"]);
    });
}

/// FI-099: a row that is appended into a window while the window is replaced goes, too.
#[test]
fn a_window_takes_what_was_appended_meanwhile() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = two(&scratch).await;
        rows(&a, "CREATE TABLE t (id BIGINT, n BIGINT) USING DELTA").await;
        rows(&a, "INSERT INTO t VALUES (1, 1), (2, 50)").await;
        let overwrite = "MERGE OVERWRITE INTO t WINDOW n FROM 0 TO 10 VALUES (3, 5)";
        let frame = a.sql(overwrite).await.unwrap();
        rows(&b, "INSERT INTO t VALUES (9, 7)").await;
        lost(frame, 1).await;
        rows(&a, overwrite).await;
        assert_eq!(rows(&b, "SELECT * FROM t ORDER BY id").await, ["2|50", "3|5"]);
        let frame = a.sql("MERGE OVERWRITE INTO t KEYS (n) VALUES (4, 5)").await.unwrap();
        rows(&b, "INSERT INTO t VALUES (10, 5)").await;
        lost(frame, 3).await;
    });
}

/// FI-091: loads of different partitions do not disturb each other.
#[test]
fn disjoint_partitions_both_commit() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = two(&scratch).await;
        rows(
            &a,
            "CREATE TABLE t (p STRING, id BIGINT, v STRING) USING DELTA PARTITIONED BY (p)",
        )
        .await;
        rows(&a, "INSERT INTO t VALUES ('x', 1, 'old'), ('y', 1, 'old')").await;
        let upsert = "UPSERT INTO t KEYS (p, id) WITHIN (p = 'x') VALUES ('x', 1, 'a'), ('x', 2, 'a')";
        let frame = a.sql(upsert).await.unwrap();
        rows(
            &b,
            "UPSERT INTO t KEYS (p, id) WITHIN (p = 'y') VALUES ('y', 1, 'b'), ('y', 2, 'b')",
        )
        .await;
        finish(frame).await.unwrap_or_else(|e| panic!("{}", shown(&e)));
        let stored = rows(&b, "SELECT * FROM t ORDER BY p, id").await;
        assert_eq!(stored, ["x|1|a", "x|2|a", "y|1|b", "y|2|b"]);
        let frame = a
            .sql("MERGE OVERWRITE INTO t WINDOW (p = 'x') VALUES ('x', 5, 'w')")
            .await
            .unwrap();
        rows(&b, "INSERT INTO t VALUES ('y', 3, 'c')").await;
        finish(frame).await.unwrap_or_else(|e| panic!("{}", shown(&e)));
        let stored = rows(&b, "SELECT * FROM t ORDER BY p, id").await;
        assert_eq!(stored, ["x|5|w", "y|1|b", "y|2|b", "y|3|c"]);
        // The same partition still conflicts.
        let frame = a.sql(upsert).await.unwrap();
        rows(&b, "INSERT INTO t VALUES ('x', 6, 'c')").await;
        lost(frame, 5).await;
    });
}

/// FI-094: a session that tries once gives up at the first conflict.
#[test]
fn attempts_can_be_limited() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = two(&scratch).await;
        rows(&a, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        // The source of the statement is read after the target's snapshot was taken: a commit comes in between.
        let once = "UPSERT INTO t KEYS (id) OPTIONS ('merge.max_attempts' '1') SELECT * FROM meddling";
        let meddling = crate::once::Meddling::new(b.clone(), "INSERT INTO t VALUES (1, 'b')");
        a.context().register_table("meddling", meddling.table()).unwrap();
        let (code, report) = failure(&a, once).await;
        assert_eq!(code, "40001", "{report}");
        assert_eq!(meddling.runs(), 1);
        assert_eq!(rows(&b, "SELECT * FROM t").await, ["1|b"]);
        let more = once.replace("'1'", "'3'");
        let (code, report) = failure(&a, &more).await;
        assert!(code == "40001" && report.contains("tried 3 times"), "{report}");
        assert_eq!(meddling.runs(), 4);
        assert_eq!(rows(&b, "SELECT count(*), min(v) FROM t").await, ["4|b"]);
    });
}
