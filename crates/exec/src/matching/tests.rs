use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{SessionContext, col, lit};

use super::*;
use crate::testing::{
    SIZES, batch, cut, ints, run, run_plan, session, shown, small_session, sorted_rows, source_of, texts,
};
use crate::unique_keys::{UniqueKeysNode, UniqueKeysSpec};

type Key = Option<i64>;

/// Rows of a key and a text, dealt to partitions in turn and cut into batches of `size`.
fn table(alias: &str, keys: &[Key], partitions: usize, size: usize) -> LogicalPlan {
    let parts = (0..partitions).map(|part| {
        let mine = || keys.iter().enumerate().skip(part).step_by(partitions);
        let names: Vec<String> = mine().map(|(row, _)| format!("{alias}{row}")).collect();
        let rows = batch(vec![
            ("k", ints(mine().map(|(_, key)| *key))),
            ("v", texts(names.iter().map(|name| Some(name.as_str())))),
        ]);
        match rows.num_rows() {
            0 => vec![rows],
            _ => cut(&rows, size),
        }
    });
    let scan = LogicalPlanBuilder::from(source_of(parts.collect()));
    scan.alias(alias).unwrap().build().unwrap()
}

fn matched(source: LogicalPlan, stored: LogicalPlan, keep: Keep, nulls_equal: bool) -> LogicalPlan {
    let on = vec![(Column::new(Some("s"), "k"), Column::new(Some("t"), "k"))];
    MatchNode::try_new(source, stored, on, keep, nulls_equal)
        .unwrap()
        .into_plan()
}

/// What must come out, one row after the other.
fn expected(source: &[Key], stored: &[Key], keep: Keep, nulls_equal: bool) -> Vec<String> {
    let same = |a: Key, b: Key| a == b && (a.is_some() || nulls_equal);
    let text = |key: Key| key.map_or("NULL".to_owned(), |key| key.to_string());
    let mut rows = Vec::new();
    for (s, key) in source.iter().enumerate() {
        let found: Vec<usize> = (0..stored.len()).filter(|t| same(*key, stored[*t])).collect();
        let head = format!("{}|s{s}", text(*key));
        match keep {
            Keep::Mark => rows.push(format!("{head}|{}", !found.is_empty())),
            Keep::Pairs if found.is_empty() => rows.push(format!("{head}|NULL|NULL")),
            Keep::Pairs | Keep::Unsettled => {
                rows.extend(found.iter().map(|t| format!("{head}|{}|t{t}", text(stored[*t]))))
            }
        }
    }
    rows.sort();
    rows
}

/// Keys that collide, are missing, are NULL, and come several times on either side.
fn keys(count: i64, step: i64, null_at: usize) -> Vec<Key> {
    let mut keys: Vec<Key> = (0..count).map(|i| Some((i * step) % 29 - 7)).collect();
    if let Some(key) = keys.get_mut(null_at) {
        *key = None;
    }
    keys
}

/// Keys that lie close together, whose bits are counted, and the same far apart, which are hashed.
async fn check(session: &SessionContext, source: &[Key], stored: &[Key], partitions: usize, size: usize) {
    let apart = |keys: &[Key]| -> Vec<Key> { keys.iter().map(|key| key.map(|key| key << 40)).collect() };
    check_keys(session, source, stored, partitions, size).await;
    check_keys(session, &apart(source), &apart(stored), partitions, size).await;
}

async fn check_keys(session: &SessionContext, source: &[Key], stored: &[Key], partitions: usize, size: usize) {
    for keep in [Keep::Pairs, Keep::Mark] {
        for nulls_equal in [false, true] {
            let plan = matched(
                table("s", source, partitions, size),
                table("t", stored, 3, size),
                keep,
                nulls_equal,
            );
            let rows = sorted_rows(&run(session, plan).await.unwrap());
            let wanted = expected(source, stored, keep, nulls_equal);
            assert_eq!(
                rows, wanted,
                "{keep} of {partitions} partitions, batches of {size}, {nulls_equal}"
            );
        }
    }
}

#[tokio::test]
async fn rows_meet_as_in_the_model() {
    for size in SIZES {
        for partitions in [1, 2, 5] {
            let session = session(partitions, size);
            check(&session, &keys(40, 3, 4), &keys(60, 5, 9), 2, size).await;
            check(&session, &keys(3, 1, 0), &keys(200, 7, 3), 1, size).await;
        }
    }
}

#[tokio::test]
async fn empty_sides_are_no_exception() {
    for partitions in [1, 4] {
        let session = session(partitions, 3);
        check(&session, &[], &keys(9, 1, 3), 1, 3).await;
        check(&session, &keys(9, 1, 3), &[], 2, 3).await;
        check(&session, &[], &[], 1, 3).await;
        check(&session, &[None, None], &[None], 1, 3).await;
    }
}

#[tokio::test]
async fn many_rows_are_shared_among_the_partitions() {
    let source: Vec<Key> = (0..50_000).map(|i| Some(i * 2)).collect();
    let stored: Vec<Key> = (0..50_000).map(|i| Some(i * 3)).collect();
    let session = session(4, 8192);
    let plan = matched(
        table("s", &source, 1, 8192),
        table("t", &stored, 2, 8192),
        Keep::Pairs,
        false,
    );
    let plan = session.state().create_physical_plan(&plan).await.unwrap();
    let parts = datafusion::physical_plan::collect_partitioned(plan, session.task_ctx())
        .await
        .unwrap();
    let rows = |part: &Vec<RecordBatch>| part.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(parts.iter().map(rows).sum::<usize>(), 50_000);
    assert!(
        parts.iter().all(|part| rows(part) > 6_000),
        "{:?}",
        parts.iter().map(rows).collect::<Vec<_>>()
    );
}

/// A source so large that its rows are gathered many at a time, in an order of its own.
#[tokio::test]
async fn rows_of_a_large_source_leave_in_the_order_of_the_stored_rows() {
    let text = |key: i64| format!("{key}{}", "x".repeat(8000));
    let rows = |keys: Vec<i64>, name: &str, text: &dyn Fn(i64) -> String| {
        let texts_of: Vec<String> = keys.iter().map(|key| text(*key)).collect();
        let rows = batch(vec![
            ("k", ints(keys.iter().map(|key| Some(*key)))),
            (name, texts(texts_of.iter().map(|text| Some(text.as_str())))),
        ]);
        source_of(vec![cut(&rows, 512)])
    };
    let aliased = |scan, alias: &str| LogicalPlanBuilder::from(scan).alias(alias).unwrap().build().unwrap();
    let source = rows((0..9_000).map(|i| i * 7919 % 9_000).collect(), "v", &text);
    let stored = rows((0..8_000).map(|i| i * 2).collect(), "w", &|key| format!("t{key}"));
    let plan = matched(aliased(source, "s"), aliased(stored, "t"), Keep::Pairs, false);
    let batches = run(&session(1, 512), plan).await.unwrap();
    let mut next = 0;
    for batch in &batches {
        assert!(batch.num_rows() <= 512);
        let column = |name| batch.column_by_name(name).unwrap();
        let (keys, new) = (
            batch.column(0).as_primitive::<Int64Type>(),
            column("v").as_string::<i32>(),
        );
        let old = column("w").as_string::<i32>();
        for row in 0..batch.num_rows() {
            assert_eq!(new.value(row), text(keys.value(row)));
            if old.is_valid(row) {
                assert_eq!((keys.value(row), old.value(row)), (next, format!("t{next}").as_str()));
                next += 2;
            }
        }
    }
    assert_eq!(
        (next, batches.iter().map(RecordBatch::num_rows).sum::<usize>()),
        (9_000, 9_000)
    );
}

/// Keys of two columns, of types that are compared one by one.
#[tokio::test]
async fn keys_of_several_columns_and_types() {
    let side = |alias: &str, rows: &[(Option<&str>, i64)]| {
        let names: ArrayRef = Arc::new(rows.iter().map(|(name, _)| *name).collect::<StringArray>());
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(
            rows.iter().map(|(_, at)| *at),
        ));
        let rows = batch(vec![("a", names), ("b", times)]);
        let scan = LogicalPlanBuilder::from(source_of(vec![vec![rows]]));
        scan.alias(alias).unwrap().build().unwrap()
    };
    let source = side("s", &[(Some("x"), 1), (Some("x"), 2), (None, 1), (Some(""), 1)]);
    let stored = side("t", &[(Some("x"), 2), (None, 1), (Some("y"), 1)]);
    let on = ["a", "b"].map(|name| (Column::new(Some("s"), name), Column::new(Some("t"), name)));
    for (nulls_equal, known) in [(false, 1), (true, 2)] {
        let node = MatchNode::try_new(source.clone(), stored.clone(), on.to_vec(), Keep::Mark, nulls_equal);
        let rows = sorted_rows(&run(&session(2, 2), node.unwrap().into_plan()).await.unwrap());
        assert_eq!(
            rows.iter().filter(|row| row.ends_with("true")).count(),
            known,
            "{rows:?}"
        );
    }
}

#[tokio::test]
async fn a_check_for_duplicates_is_made_on_the_way() {
    let checked = |keys: &[Key]| {
        let spec = UniqueKeysSpec {
            nulls_equal: false,
            ..UniqueKeysSpec::new("t", vec!["k".into()])
        };
        let source = UniqueKeysNode::try_new(table("s", keys, 2, 2), spec)
            .unwrap()
            .into_plan();
        matched(source, table("t", &[Some(1)], 1, 2), Keep::Pairs, false)
    };
    let session = session(2, 2);
    let (plan, rows) = run_plan(&session, checked(&[Some(1), Some(2), None, None]))
        .await
        .unwrap();
    assert_eq!(sorted_rows(&rows).len(), 4);
    let text = datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string();
    assert!(
        text.contains("unique=true") && !text.contains("UniqueKeysExec"),
        "{text}"
    );
    let error = run(&session, checked(&[Some(1), Some(2), Some(7), Some(2), Some(2)]))
        .await
        .unwrap_err();
    let text = shown(&error);
    assert!(
        text.starts_with("21000") && text.contains("Key (k)=(2) occurs 3 times"),
        "{text}"
    );
}

#[tokio::test]
async fn columns_that_nobody_needs_are_not_read() {
    let plan = matched(
        table("s", &keys(9, 1, 3), 1, 2),
        table("t", &keys(9, 2, 3), 1, 2),
        Keep::Pairs,
        false,
    );
    let plan = LogicalPlanBuilder::from(plan)
        .project(vec![col("t.k")])
        .unwrap()
        .build()
        .unwrap();
    let text = session(2, 2)
        .state()
        .optimize(&plan)
        .unwrap()
        .display_indent()
        .to_string();
    assert_eq!(text.matches("projection=[k]").count(), 2, "{text}");
    let counted: HashMap<String, usize> =
        sorted_rows(&run(&session(2, 2), plan).await.unwrap())
            .into_iter()
            .fold(HashMap::new(), |mut counted, row| {
                *counted.entry(row).or_default() += 1;
                counted
            });
    assert_eq!(counted.values().sum::<usize>(), 9);
}

#[tokio::test]
async fn a_source_beyond_the_memory_is_an_error() {
    let source: Vec<Key> = (0..20_000).map(Some).collect();
    let plan = matched(
        table("s", &source, 1, 1024),
        table("t", &[Some(1)], 1, 2),
        Keep::Pairs,
        false,
    );
    assert_eq!(run(&small_session(200_000), plan).await.unwrap_err().code(), "53200");
}

#[tokio::test]
async fn an_error_among_the_stored_rows_ends_every_partition() {
    let failing = LogicalPlanBuilder::from(table("t", &keys(30, 1, 99), 3, 2))
        .project(vec![(lit(1_i64) / (col("t.k") - lit(3_i64))).alias("k")])
        .unwrap()
        .alias("t")
        .unwrap()
        .build()
        .unwrap();
    let plan = matched(table("s", &keys(30, 1, 99), 1, 2), failing, Keep::Pairs, false);
    let error = run(&session(3, 2), plan).await.unwrap_err();
    assert_eq!(error.code(), "22012", "{error}");
}

#[tokio::test]
async fn a_plan_that_is_reset_runs_again() {
    let session = session(2, 2);
    let plan = matched(
        table("s", &keys(9, 1, 3), 1, 2),
        table("t", &keys(9, 2, 3), 1, 2),
        Keep::Pairs,
        false,
    );
    let (plan, first) = run_plan(&session, plan).await.unwrap();
    let again = datafusion::physical_plan::execution_plan::reset_plan_states(plan).unwrap();
    let second = datafusion::physical_plan::collect(again, session.task_ctx())
        .await
        .unwrap();
    assert_eq!(sorted_rows(&first), sorted_rows(&second));
}
