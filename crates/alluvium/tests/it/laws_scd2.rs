//! `SCD2 MERGE` against the model of the same statement: random statements, tables and batches.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use alluvium::{Outcome, Session};
use alluvium_testkit::generate::{Case, scd2_boundary_case, scd2_sequence_case};
use alluvium_testkit::oracle::{Answer, Counts, Scd2, Track, Unique};
use alluvium_testkit::rows::{diff, from_batches, ident_list, to_batch};
use alluvium_testkit::values::{Row, Table, Value};
use datafusion::datasource::MemTable;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tokio::runtime::Runtime;

use crate::support::Scratch;

const DAY: i64 = 86_400_000_000;

/// What the model may refuse for more than one reason: which one comes first is not fixed.
const DATA_ERRORS: [&str; 3] = ["21000", "22023", "23502"];

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(40);
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Small batches, so that keys lie across them.
async fn session(scratch: &Scratch) -> Session {
    let builder = Session::builder()
        .with_warehouse(scratch.text("w"))
        .with_threads(3)
        .with_batch_size(2);
    builder.build().await.unwrap()
}

fn register(session: &Session, source: &Table) {
    let batch = to_batch(source).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let _ = session.context().deregister_table("s").unwrap();
    session.context().register_table("s", Arc::new(table)).unwrap();
}

async fn stored(session: &Session, like: &Table) -> Table {
    let sql = format!("SELECT {} FROM h", ident_list(&like.names()));
    let outcome = session.execute(&sql).await.unwrap();
    from_batches(&outcome.schema, &outcome.batches).unwrap()
}

/// The counts and the status of a result row.
fn summary(outcome: &Outcome) -> (Counts, String) {
    let table = from_batches(&outcome.schema, &outcome.batches).unwrap();
    let row = table.rows.first().cloned().unwrap_or_default();
    let count = |name: &str| match table.get(&row, name) {
        Value::Int(n) => u64::try_from(n).unwrap(),
        _ => 0,
    };
    let counts = Counts {
        inserted: count("num_inserted_rows"),
        updated: count("num_updated_rows"),
        deleted: count("num_deleted_rows"),
        unchanged: count("num_unchanged_rows"),
        skipped: count("num_skipped_rows"),
        source: count("num_source_rows"),
    };
    let status = match table.get(&row, "status") {
        Value::Text(status) => status,
        _ => String::new(),
    };
    (counts, status)
}

/// Runs one statement and compares rows, counts and status, or the code of the error.
async fn compare(session: &Session, spec: &Scd2, before: Option<&Table>, answer: &Answer) -> Result<(), TestCaseError> {
    let sql = spec.to_sql("h", "s");
    let result = session.execute(&sql).await;
    match (answer, result) {
        (Ok(expected), Ok(outcome)) => {
            let (counts, status) = summary(&outcome);
            prop_assert_eq!(counts, expected.counts, "{}", sql);
            prop_assert_eq!(status, expected.status.as_str(), "{}", sql);
            if let Some(table) = &expected.table {
                same(&sql, table, &stored(session, table).await)?;
            }
        }
        (Err(code), Err(e)) => {
            let both = DATA_ERRORS.contains(&code.0) && DATA_ERRORS.contains(&e.code());
            prop_assert!(
                both || code.0 == e.code(),
                "{sql}: expected {}, got {} {e}",
                code.0,
                e.code()
            );
            if let Some(before) = before {
                same(&sql, before, &stored(session, before).await)?;
            }
        }
        (Ok(_), Err(e)) => {
            let detail = e.detail_text().unwrap_or_default();
            return Err(TestCaseError::fail(format!(
                "{sql}: failed with {} {e} {detail}",
                e.code()
            )));
        }
        (Err(code), Ok(_)) => return Err(TestCaseError::fail(format!("{sql}: expected {}", code.0))),
    }
    Ok(())
}

fn same(sql: &str, expected: &Table, actual: &Table) -> Result<(), TestCaseError> {
    match diff(expected, actual) {
        None => Ok(()),
        Some(diff) => Err(TestCaseError::fail(format!("{sql}\n{diff}"))),
    }
}

/// Loads batch after batch into the model and the engine.
async fn run(case: &Case<Scd2>, spec: impl Fn(i64) -> Scd2) -> Result<(), TestCaseError> {
    let scratch = Scratch::new();
    let session = session(&scratch).await;
    let mut target: Option<Table> = None;
    for (i, source) in (0..).zip(&case.sources) {
        let spec = spec(i);
        register(&session, source);
        let answer = spec.apply(target.as_ref(), source, 0);
        compare(&session, &spec, target.as_ref(), &answer).await?;
        if let Ok(outcome) = answer {
            target = outcome.table;
        }
    }
    Ok(())
}

/// Loads events in parts; the rows afterwards, if all parts load.
async fn history(spec: &Scd2, source: &Table, parts: &[&[Row]], like: &Table) -> Option<Table> {
    let scratch = Scratch::new();
    let session = session(&scratch).await;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        register(&session, &Table::new(source.columns.clone(), part.to_vec()));
        session.execute(&spec.to_sql("h", "s")).await.ok()?;
    }
    Some(stored(&session, like).await)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn by_boundary_as_the_model(case in scd2_boundary_case()) {
        let spec = |i: i64| Scd2 { effective_at: Some((20_148 + i) * DAY), ..case.spec.clone() };
        runtime().block_on(run(&case, spec))?;
    }

    #[test]
    fn by_sequence_as_the_model(case in scd2_sequence_case()) {
        runtime().block_on(run(&case, |_| case.spec.clone()))?;
    }

    #[test]
    fn any_split_of_events_gives_one_history(case in scd2_sequence_case(), cut in 0..8usize) {
        let mut spec = Scd2 { track: Track::Always, trusts_tracked: false, late: None, delete_when: None, ..case.spec };
        spec.common.unique = Unique::Check;
        let all: Vec<Row> = case.sources.iter().flat_map(|s| s.rows.clone()).collect();
        let source = Table::new(case.sources[0].columns.clone(), all.clone());
        let Ok(expected) = spec.apply(None, &source, 0) else { return Ok(()) };
        let Some(expected) = expected.table else { return Ok(()) };
        let (first, second) = all.split_at(cut.min(all.len()));
        for parts in [[first, second], [second, first]] {
            let loaded = runtime().block_on(history(&spec, &source, &parts, &expected));
            let Some(loaded) = loaded else { return Err(TestCaseError::fail("a part failed to load")) };
            same("split", &expected, &loaded)?;
        }
    }
}
