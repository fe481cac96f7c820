//! Credentials of a table's store are shown nowhere: not in errors, plans, results or the log.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use alluvium::{LoadError, Session};
use alluvium_testkit::stores::{FaultyStore, Moment};
use datafusion::arrow::util::pretty::pretty_format_batches;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::laws::run;
use crate::staged::{objects, stage};

const SECRETS: [&str; 2] = ["SECRETKEY", "SECRETSIG"];

fn clean(text: &str, of: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{of}: {text}");
    }
}

/// Everything that an error says, in every way it can be shown.
fn said(e: &LoadError, sql: &str) -> String {
    let sources = std::iter::successors(std::error::Error::source(e), |e| e.source());
    let sources: Vec<String> = sources.map(|e| format!("{e} {e:?}")).collect();
    format!("{} {e} {e:?} {sources:?}", alluvium::render_error(e, sql))
}

async fn check(session: &Session, sql: &str) -> bool {
    match session.execute(sql).await {
        Ok(outcome) => {
            let shown = pretty_format_batches(&outcome.batches).unwrap().to_string();
            clean(&format!("{shown} {outcome:?}"), sql);
            true
        }
        // The statement itself is the user's own text: what it holds is not given away.
        Err(e) => {
            let without_statement = said(&e, "");
            clean(&without_statement, sql);
            false
        }
    }
}

/// A session that knows table `t` of `store`, with credentials.
async fn attached(store: Arc<dyn ObjectStore>) -> Session {
    let session = Session::builder().build().await.unwrap();
    let options = "OPTIONS ('aws_secret_access_key' 'SECRETKEY', 'azure_storage_sas_key' 'sv=1&sig=SECRETSIG')";
    let location = format!("{}t", stage(store));
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{location}' {options}");
    session.execute(&sql).await.unwrap();
    session
}

/// A store with table `t`.
async fn table() -> InMemory {
    let store = InMemory::new();
    let session = Session::builder().build().await.unwrap();
    let location = format!("{}t", stage(Arc::new(store.clone())));
    let create = format!("CREATE TABLE t (id BIGINT, v STRING) USING DELTA LOCATION '{location}'");
    session.execute(&create).await.unwrap();
    session.execute("INSERT INTO t VALUES (1, 'a')").await.unwrap();
    store
}

/// FI-125: plans, results and history.
#[test]
fn plans_and_history_hold_no_options() {
    run(async {
        let store = table().await;
        let session = attached(Arc::new(store.clone())).await;
        for sql in [
            "EXPLAIN VERBOSE UPSERT INTO t KEYS (id) VALUES (1, 'b')",
            "EXPLAIN ANALYZE VERBOSE UPSERT INTO t KEYS (id) VALUES (1, 'c')",
            "PREPARE p AS UPSERT INTO t KEYS (id) VALUES ($1, 'd')",
            "EXECUTE p(2)",
            "DESCRIBE HISTORY t",
            "DESCRIBE DETAIL t",
            "SELECT * FROM table_history('t')",
            "SELECT * FROM table_files('t')",
            "SHOW ALL",
        ] {
            assert!(check(&session, sql).await, "{sql}");
        }
        let frame = session.sql("UPSERT INTO t KEYS (id) VALUES (3, 'e')").await.unwrap();
        clean(&format!("{:?}", frame.logical_plan()), "the logical plan");
        let plan = frame.create_physical_plan().await.unwrap();
        clean(&format!("{plan:?}"), "the physical plan");
        for path in objects(&store).await.iter().filter(|path| path.ends_with(".json")) {
            let entry = store.get(&path.as_str().into()).await.unwrap().bytes().await.unwrap();
            clean(&String::from_utf8_lossy(&entry), path);
        }
    });
}

/// FI-124: errors, whatever fails.
#[test]
fn errors_hold_no_secrets() {
    run(async {
        let store = table().await;
        let session = attached(Arc::new(store.clone())).await;
        assert!(!check(&session, "UPSERT INTO t KEYS (id) VALUES (1, 'x', 2)").await);
        assert!(!check(&session, "UPSERT INTO t KEYS (missing) VALUES (1, 'x')").await);
        let broken = FaultyStore::new(Arc::new(store.clone()), 0, Moment::Before);
        let session = attached(Arc::new(broken)).await;
        assert!(!check(&session, "UPSERT INTO t KEYS (id) VALUES (1, 'x')").await);
        for location in [
            "s3://bucket/t?sig=SECRETSIG",
            "s3://SECRETKEY:SECRETSIG@bucket/t",
            "abfss://c@account.dfs.core.windows.net/t?sv=1&sig=SECRETSIG",
            "https://account.blob.core.windows.net/c/t?sv=1&sig=SECRETSIG",
            "staged://nowhere/t?sig=SECRETSIG",
        ] {
            let sql = format!("CREATE EXTERNAL TABLE u STORED AS DELTATABLE LOCATION '{location}'");
            assert!(!check(&session, &sql).await, "{sql}");
            assert!(
                Session::builder()
                    .with_warehouse(location)
                    .build()
                    .await
                    .is_err_and(|e| {
                        clean(&said(&e, ""), location);
                        true
                    })
            );
        }
    });
}
