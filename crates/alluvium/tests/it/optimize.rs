//! OPTIMIZE: what it does to files, to the log, and beside other statements.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use alluvium::LoadError;
use serde_json::Value;

use crate::keys::{MIXED, data_files};
use crate::laws::{ResultRow, run};
use crate::support::{Scratch, rows};

/// The actions of a commit on table `t`.
fn commit(scratch: &Scratch, version: u64) -> Vec<Value> {
    let path = scratch.path(&format!("w/t/_delta_log/{version:020}.json"));
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn actions<'a>(commit: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    commit.iter().filter_map(move |action| action.get(kind))
}

#[test]
fn rows_of_a_table_with_keys_come_in_their_order() {
    run(async {
        for (layout, files) in [("", 1), ("PARTITIONED BY (part)", 3)] {
            let scratch = Scratch::new();
            let session = scratch.session().await;
            let create = "CREATE TABLE t (id BIGINT, part BIGINT, v STRING, f DOUBLE) USING DELTA";
            rows(
                &session,
                &format!("{create} {layout} TBLPROPERTIES ('alluvium.keys' = 'id')"),
            )
            .await;
            for third in 0..3 {
                rows(
                    &session,
                    &format!("INSERT INTO t SELECT * FROM ({MIXED}) WHERE id % 3 = {third}"),
                )
                .await;
            }
            rows(
                &session,
                &format!("INSERT INTO t SELECT * FROM ({MIXED}) WHERE id IS NULL"),
            )
            .await;
            let all = "SELECT count(*), sum(id), min(v), max(v), sum(f) FROM t";
            let before = rows(&session, all).await;
            rows(&session, "OPTIMIZE t").await;
            assert_eq!(rows(&session, all).await, before, "{layout}");
            let listed = rows(&session, "SELECT path FROM table_files('t')").await;
            let new = data_files(&scratch, "t")
                .into_iter()
                .filter(|file| file.is_one_of(&listed));
            let new: Vec<_> = new.collect();
            assert_eq!(new.len(), files, "{layout}");
            for file in new {
                assert!(file.column("id").is_sorted(), "{layout}");
                assert_eq!(file.filtered, ["id"]);
            }
        }
    });
}

#[test]
fn the_commit_changes_no_data() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let properties = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')";
        rows(
            &session,
            &format!("CREATE TABLE t (id BIGINT, v STRING) USING DELTA {properties}"),
        )
        .await;
        for id in 0..4 {
            rows(&session, &format!("INSERT INTO t VALUES ({id}, 'v')")).await;
        }
        rows(&session, "UPSERT INTO t KEYS (id) VALUES (2, 'new')").await;
        let masked = rows(&session, "SELECT count(*) FROM table_files('t')").await;
        rows(&session, "OPTIMIZE t").await;
        let commit = commit(&scratch, 6);
        assert_eq!(actions(&commit, "cdc").count(), 0);
        assert_eq!(actions(&commit, "add").count(), 1);
        assert_eq!([actions(&commit, "remove").count().to_string()], masked[..]);
        for action in actions(&commit, "add").chain(actions(&commit, "remove")) {
            assert_eq!(action["dataChange"], Value::Bool(false), "{action}");
        }
        let info = actions(&commit, "commitInfo").next().unwrap();
        assert_eq!(info["operation"], "OPTIMIZE");
        assert_eq!(info["operationMetrics"]["numAddedFiles"], "1");
        assert_eq!(
            rows(&session, "SELECT * FROM t ORDER BY id").await,
            ["0|v", "1|v", "2|new", "3|v"]
        );
    });
}

#[test]
fn few_deleted_rows_stay_where_they_are() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let properties = "TBLPROPERTIES ('delta.targetFileSize' = '1000')";
        rows(
            &session,
            &format!("CREATE TABLE t (id BIGINT, v STRING) USING DELTA {properties}"),
        )
        .await;
        rows(
            &session,
            "INSERT INTO t SELECT value, 'value ' || value FROM generate_series(1, 200)",
        )
        .await;
        let files = rows(&session, "SELECT count(*) FROM table_files('t')").await;
        let delete = |to: u32| {
            format!(
                "UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN id > 0 SELECT value AS id, '' AS v FROM generate_series(1, {to})"
            )
        };
        rows(&session, &delete(1)).await;
        let done = ResultRow::of(&session.execute("OPTIMIZE t").await.unwrap());
        assert_eq!(done.status, "NO CHANGES");
        assert_eq!(rows(&session, "SELECT count(*) FROM table_files('t')").await, files);
        rows(&session, &delete(100)).await;
        let done = ResultRow::of(&session.execute("OPTIMIZE t").await.unwrap());
        assert_eq!(done.status, "COMMITTED");
        assert_eq!(
            rows(&session, "SELECT count(*), min(id), max(id) FROM t").await,
            ["100|101|200"]
        );
    });
}

#[test]
fn appends_go_beside_it_and_changes_come_first() {
    run(async {
        let scratch = Scratch::new();
        let (a, b) = (scratch.session().await, scratch.session().await);
        rows(&a, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        for id in 0..3 {
            rows(&a, &format!("INSERT INTO t VALUES ({id}, 'v')")).await;
        }
        let frame = a.sql("OPTIMIZE t").await.unwrap();
        rows(&b, "INSERT INTO t VALUES (9, 'beside')").await;
        frame.collect().await.unwrap();
        assert_eq!(
            rows(&b, "SELECT * FROM t ORDER BY id").await,
            ["0|v", "1|v", "2|v", "9|beside"]
        );
        let frame = a.sql("OPTIMIZE t").await.unwrap();
        rows(&b, "UPSERT INTO t KEYS (id) VALUES (1, 'changed')").await;
        let error = LoadError::from(frame.collect().await.unwrap_err());
        assert_eq!(error.code(), "40001");
        rows(&a, "OPTIMIZE t").await;
        let now = rows(&b, "SELECT * FROM t ORDER BY id").await;
        assert_eq!(now, ["0|v", "1|changed", "2|v", "9|beside"]);
        // The other way round: a load that has read files which are gone begins anew.
        rows(&a, "INSERT INTO t VALUES (10, 'v')").await;
        let frame = a.sql("UPSERT INTO t KEYS (id) VALUES (1, 'again')").await.unwrap();
        rows(&b, "OPTIMIZE t").await;
        let error = LoadError::from(frame.collect().await.unwrap_err());
        assert_eq!(error.code(), "40001");
        assert_eq!(rows(&b, "SELECT count(*) FROM t").await, ["5"]);
    });
}
