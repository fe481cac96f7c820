//! Every example runs and its assertions hold.

#[path = "../fifth_statement/main.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod fifth_statement;
#[path = "../insert_only.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod insert_only;
#[path = "../merge_overwrite.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod merge_overwrite;
#[path = "../scd2_merge.rs"]
#[expect(dead_code, reason = "the test calls run() itself")]
mod scd2_merge;
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

#[tokio::test]
async fn scd2_merge_runs() {
    scd2_merge::run().await.unwrap();
}

#[tokio::test]
async fn fifth_statement_runs() {
    fifth_statement::run().await.unwrap();
}

/// The paths of a script start at the root of the repository, those of this test need not.
fn from_here(script: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    script.replace("'examples/data/", &format!("'{root}/examples/data/"))
}

fn quickstart() -> String {
    from_here(include_str!("../quickstart.sql"))
}

/// The SQL in the README's section about the statements.
fn readme_statements() -> Option<String> {
    let (_, section) = include_str!("../../README.md").split_once("\n## The statements\n")?;
    let (section, _) = section.split_once("\n## ")?;
    let blocks = section
        .split("```sql\n")
        .skip(1)
        .filter_map(|block| block.split("```").next());
    Some(from_here(&blocks.collect::<String>()))
}

#[tokio::test]
async fn the_readme_does_what_its_comments_say() {
    let warehouse = tempfile::tempdir().unwrap();
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .build()
        .await
        .unwrap();
    let mut shown = Vec::new();
    let show = |_: &str, outcome: alluvium::Outcome| {
        if outcome.returns_rows {
            shown.push(pretty_format_batches(&outcome.batches).unwrap().to_string());
        }
    };
    session.run_script(&readme_statements().unwrap(), show).await.unwrap();
    let counts = |table: &str| -> Vec<u64> {
        let row = table.lines().nth(3).unwrap().split('|').map(str::trim);
        row.skip(2).take(5).map(|count| count.parse().unwrap()).collect()
    };
    let [_, upsert, overwrite, _, insert_only, _, scd2, name] = shown.as_slice() else {
        panic!("{} statements showed rows", shown.len());
    };
    // Inserted, updated, deleted, unchanged, skipped.
    assert_eq!(counts(upsert), [227, 157, 0, 0, 0]);
    assert_eq!(counts(overwrite), [14, 0, 14, 0, 0]);
    assert_eq!(counts(insert_only), [227, 0, 0, 0, 157]);
    assert_eq!(counts(scd2), [6, 4, 0, 0, 0]);
    assert!(name.contains("Bob Hope"), "{name}");
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
