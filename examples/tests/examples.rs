//! Every example runs and its assertions hold.

#[path = "../insert_only.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod insert_only;
#[path = "../merge_overwrite.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod merge_overwrite;
#[path = "../upsert.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod upsert;

use alluvium::Session;
use datafusion::arrow::util::pretty::pretty_format_batches;

#[tokio::test]
async fn upsert_runs() {
    upsert::run().await.unwrap();
}

#[tokio::test]
async fn insert_only_runs() {
    insert_only::run().await.unwrap();
}

#[tokio::test]
async fn merge_overwrite_runs() {
    merge_overwrite::run().await.unwrap();
}

/// The paths of the script start at the root of the repository, those of this test need not.
fn quickstart() -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    include_str!("../quickstart.sql").replace("'examples/data/", &format!("'{root}/examples/data/"))
}

#[tokio::test]
async fn quickstart_runs_and_runs_again() {
    let warehouse = tempfile::tempdir().unwrap();
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .build()
        .await
        .unwrap();
    for _ in 0..2 {
        let mut shown = Vec::new();
        let show = |_: &str, outcome: alluvium::Outcome| {
            if outcome.returns_rows {
                shown.push(pretty_format_batches(&outcome.batches).unwrap().to_string());
            }
        };
        session.run_script(&quickstart(), show).await.unwrap();
        let [first, second, again, statuses, history] = shown.as_slice() else {
            panic!("{} statements showed rows", shown.len());
        };
        assert!(first.contains("1480") && first.contains("COMMITTED"), "{first}");
        assert!(second.contains("227") && second.contains("157"), "{second}");
        assert!(again.contains("NO CHANGES"), "{again}");
        assert!(statuses.contains("| reviewed  | 1214   | 6.4"), "{statuses}");
        assert!(history.contains("second delivery"), "{history}");
        assert_eq!(history.matches("MERGE").count(), 2, "{history}");
    }
}
