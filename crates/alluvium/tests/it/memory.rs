//! Loads under a memory limit.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use alluvium::Session;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

use crate::laws::{ResultRow, run, shown};
use crate::support::{Scratch, rows};

const LIMIT: usize = 24 << 20;

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

/// FI-102: a load that does not fit into memory spills, or fails with 53200 and changes nothing.
#[test]
fn a_large_load_spills_or_fails_cleanly() {
    run(async {
        let scratch = Scratch::new();
        let text = "'a text of some length, so that rows are not free: ' || value";
        let owner = scratch.session().await;
        let create =
            format!("CREATE TABLE t USING DELTA AS SELECT value AS id, {text} AS v FROM generate_series(1, 300000)");
        rows(&owner, &create).await;
        for load in [
            "UPSERT INTO t KEYS (id)",
            "INSERT ONLY INTO t KEYS (id)",
            "MERGE OVERWRITE INTO t KEYS (id)",
        ] {
            let before = scratch.files("w");
            let session = small(&scratch).await;
            let sql =
                format!("{load} SELECT value + 150000 AS id, {text} || ' new' AS v FROM generate_series(1, 300000)");
            match session.execute(&sql).await {
                Ok(outcome) => {
                    let row = ResultRow::of(&outcome);
                    assert_eq!(row.counts.source, 300_000, "{load}: {row:?}");
                    println!("{load}: {row:?} in {:?}", outcome.elapsed);
                }
                Err(e) => {
                    assert_eq!(e.code(), "53200", "{load}: {}", shown(&e));
                    assert!(e.hint_text().is_some(), "{load}: {}", shown(&e));
                    assert_eq!(scratch.files("w"), before, "{load}");
                    println!("{load}: {}", shown(&e));
                }
            }
            drop(session);
            // Operators that are still running when a load fails let go of their files a moment later.
            for _ in 0..100 {
                if scratch.files("spill").is_empty() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            assert!(scratch.files("spill").is_empty(), "{load}");
            assert!(scratch.files("w").len() >= before.len(), "{load}");
        }
        let counted = rows(&owner, "SELECT count(*), count(DISTINCT id), min(id) FROM t").await;
        assert!(
            ["450000|450000|1", "300000|300000|1"].contains(&counted[0].as_str()),
            "{counted:?}"
        );
    });
}
