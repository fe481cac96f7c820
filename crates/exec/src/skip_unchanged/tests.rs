use std::collections::HashSet;
use std::path::Path;

use datafusion::arrow::array::BooleanArray;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{ParquetReadOptions, SessionContext, col};

use super::*;
use crate::metrics::{SOURCE_ROWS, UNCHANGED_ROWS, sum};
use crate::testing::{SIZES, batch, cut, ints, run, run_plan, session, small_session, sorted_rows, source_of, texts};

/// Key, hash, time.
type Line = (Option<i64>, Option<&'static str>, Option<i64>);
/// The same, and whether the version is open.
type Version = (Option<i64>, Option<&'static str>, i64, Option<bool>);

const STORED: [Version; 8] = [
    (Some(1), Some("a"), 10, Some(true)),
    (Some(2), Some("b"), 10, Some(true)),
    (Some(3), Some("c"), 10, Some(false)),
    (Some(4), None, 10, Some(true)),
    (Some(5), Some("e"), 10, None),
    (None, Some("n"), 10, Some(true)),
    (Some(6), Some("f"), 10, Some(true)),
    (Some(6), Some("f"), 20, Some(true)),
];

const SOURCE: [Line; 10] = [
    (Some(1), Some("a"), Some(10)),
    (Some(2), Some("changed"), Some(11)),
    (Some(3), Some("c"), Some(12)),
    (Some(4), None, Some(30)),
    (Some(5), Some("e"), Some(12)),
    (None, Some("n"), Some(10)),
    (Some(6), Some("f"), Some(30)),
    (Some(7), Some("new"), Some(30)),
    (Some(8), None, None),
    (Some(9), Some(""), Some(1)),
];

fn source_rows(lines: &[Line]) -> datafusion::arrow::array::RecordBatch {
    batch(vec![
        ("k", ints(lines.iter().map(|line| line.0))),
        ("h", texts(lines.iter().map(|line| line.1))),
        ("t", ints(lines.iter().map(|line| line.2))),
        ("v", texts(lines.iter().map(|_| Some("more")))),
    ])
}

fn source(lines: &[Line], partitions: usize, size: usize) -> LogicalPlan {
    let parts = (0..partitions).map(|part| {
        let mine: Vec<Line> = lines.iter().skip(part).step_by(partitions).copied().collect();
        match mine.is_empty() {
            true => vec![source_rows(&[])],
            false => cut(&source_rows(&mine), size),
        }
    });
    source_of(parts.collect())
}

fn stored(versions: &[Version], size: usize) -> LogicalPlan {
    let open: BooleanArray = versions.iter().map(|version| version.3).collect();
    let rows = batch(vec![
        ("k", ints(versions.iter().map(|version| version.0))),
        ("h", texts(versions.iter().map(|version| version.1))),
        ("from", ints(versions.iter().map(|version| Some(version.2)))),
        ("open", Arc::new(open)),
    ]);
    let parts = match versions.is_empty() {
        true => vec![vec![rows]],
        false => cut(&rows, size).into_iter().map(|part| vec![part]).collect(),
    };
    LogicalPlanBuilder::from(source_of(parts))
        .alias("o")
        .unwrap()
        .build()
        .unwrap()
}

fn skipping(source: LogicalPlan, stored: LogicalPlan, timed: bool, nulls_equal: bool) -> LogicalPlan {
    let stored = match timed {
        true => stored,
        false => LogicalPlanBuilder::from(stored)
            .project(vec![col("k"), col("h"), col("open")])
            .unwrap()
            .build()
            .unwrap(),
    };
    let agreement = Agreement {
        keys: vec![col("k")],
        compared: vec![col("h")],
        time: timed.then(|| col("t")),
        nulls_equal,
    };
    SkipUnchangedNode::new(source, stored, agreement, None).into_plan()
}

fn shown(line: &Line) -> String {
    let number = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    format!(
        "{}|{}|{}|more",
        number(line.0),
        line.1.unwrap_or("NULL"),
        number(line.2)
    )
}

/// What goes on, by the meaning of it.
fn telling(lines: &[Line], versions: &[Version], timed: bool, nulls_equal: bool) -> Vec<String> {
    let says_the_same = |line: &Line| {
        let open = |v: &&Version| v.3 == Some(true) && v.0 == line.0 && (line.0.is_some() || nulls_equal);
        let open: Vec<&Version> = versions.iter().filter(open).collect();
        matches!(open.as_slice(), [only] if only.1 == line.1 && (!timed || line.2.is_some_and(|t| only.2 <= t)))
    };
    let mut rows: Vec<String> = lines.iter().filter(|line| !says_the_same(line)).map(shown).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn rows_that_say_what_is_stored_are_left_out() {
    for size in SIZES {
        for partitions in [1, 3] {
            let session = session(partitions, size);
            for (timed, nulls_equal) in [(false, false), (false, true), (true, false), (true, true)] {
                let plan = skipping(source(&SOURCE, 2, size), stored(&STORED, size), timed, nulls_equal);
                let (plan, rows) = run_plan(&session, plan).await.unwrap();
                let wanted = telling(&SOURCE, &STORED, timed, nulls_equal);
                assert_eq!(sorted_rows(&rows), wanted, "batches of {size}, {timed}, {nulls_equal}");
                let skipped = SOURCE.len() - wanted.len();
                assert_eq!(sum(plan.as_ref(), UNCHANGED_ROWS), skipped);
                assert_eq!(sum(plan.as_ref(), SOURCE_ROWS), skipped);
            }
        }
    }
}

#[tokio::test]
async fn empty_sides_are_no_exception() {
    let session = session(2, 3);
    for (lines, versions) in [(&SOURCE[..], &[][..]), (&[], &STORED), (&[], &[])] {
        let plan = skipping(source(lines, 1, 3), stored(versions, 3), true, false);
        assert_eq!(
            sorted_rows(&run(&session, plan).await.unwrap()),
            telling(lines, versions, true, false)
        );
    }
}

#[tokio::test]
async fn a_key_that_comes_again_is_let_through_or_has_the_statement_planned_anew() {
    let session = session(1, 8);
    let again = [(Some(1), Some("changed"), Some(11)), SOURCE[0], SOURCE[1], SOURCE[1]];
    // The first of a key goes through: so do the others.
    let plan = skipping(source(&again, 1, 1), stored(&STORED, 8), true, false);
    assert_eq!(
        run(&session, plan)
            .await
            .unwrap()
            .iter()
            .map(|b| b.num_rows())
            .sum::<usize>(),
        4
    );
    // The first of it has been left out.
    for second in [(Some(1), Some("changed"), Some(11)), SOURCE[0]] {
        let again = [SOURCE[0], SOURCE[1], second];
        let plan = skipping(source(&again, 1, 1), stored(&STORED, 8), true, false);
        let error = run(&session, plan).await.unwrap_err();
        assert_eq!(error.code(), "53200", "{error}");
        assert!(error.hint_text().unwrap().contains("merge.compare"));
    }
}

/// What one partition has left out the other may only hear of at the end: all rows go through, or it is an error.
#[tokio::test]
async fn a_key_that_comes_in_two_partitions_is_noticed_at_the_end() {
    let session = session(2, 8);
    let changed = (Some(1), Some("changed"), Some(11));
    let same = SOURCE[0];
    for (first, second) in [(changed, changed), (same, same), (same, changed), (changed, same)] {
        let plan = skipping(
            source(&[first, second, SOURCE[1]], 2, 1),
            stored(&STORED, 8),
            true,
            false,
        );
        match run(&session, plan).await {
            Ok(rows) => {
                assert!((first, second) != (same, same));
                assert_eq!(rows.iter().map(|b| b.num_rows()).sum::<usize>(), 3);
            }
            Err(error) => {
                assert!((first, second) != (changed, changed));
                assert_eq!(error.code(), "53200", "{error}");
            }
        }
    }
}

#[tokio::test]
async fn without_memory_everything_goes_on() {
    let lines: Vec<Line> = (0..5_000).map(|k| (Some(k), Some("same"), Some(9))).collect();
    let versions: Vec<Version> = (0..5_000).map(|k| (Some(k), Some("same"), 1, Some(true))).collect();
    let plan = || skipping(source(&lines, 1, 1024), stored(&versions, 5_000), true, false);
    assert!(
        run(&session(1, 1024), plan())
            .await
            .unwrap()
            .iter()
            .all(|b| b.num_rows() == 0)
    );
    let all = run(&small_session(64 * 1024), plan()).await.unwrap();
    assert_eq!(all.iter().map(|b| b.num_rows()).sum::<usize>(), 5_000);
}

#[tokio::test]
async fn a_small_source_is_not_worth_it() {
    let physical = |stored_rows| async move {
        let session = session(1, 8);
        let agreement = Agreement {
            keys: vec![col("k")],
            compared: vec![col("h")],
            time: None,
            nulls_equal: false,
        };
        let versions = LogicalPlanBuilder::from(stored(&STORED, 8));
        let versions = versions
            .project(vec![col("k"), col("h"), col("open")])
            .unwrap()
            .build()
            .unwrap();
        let node = SkipUnchangedNode::new(source(&SOURCE, 1, 8), versions, agreement, stored_rows);
        let plan = session.state().create_physical_plan(&node.into_plan()).await.unwrap();
        displayable(plan.as_ref()).indent(false).to_string()
    };
    assert!(physical(Some(80)).await.contains("SkipUnchangedExec"));
    assert!(physical(None).await.contains("SkipUnchangedExec"));
    assert!(!physical(Some(88)).await.contains("SkipUnchangedExec"));
}

/// `SOURCE` many times over, with other keys, in a Parquet file.
async fn parquet(session: &SessionContext, dir: &Path, lines: &[Line]) {
    let frame = session.read_batch(source_rows(lines)).unwrap();
    let path = dir.join("s.parquet");
    let path = path.to_str().unwrap();
    frame
        .write_parquet(path, DataFrameWriteOptions::new(), None)
        .await
        .unwrap();
    session
        .register_parquet("s", path, ParquetReadOptions::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_scan_of_parquet_files_leaves_them_out_itself() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<Line> = (0..2_000)
        .map(|k| (Some(k), Some(if k % 50 == 0 { "new" } else { "same" }), Some(k % 7)))
        .collect();
    let versions: Vec<Version> = (0..2_000)
        .step_by(2)
        .map(|k| (Some(k), Some("same"), 3, Some(k % 3 > 0)))
        .collect();
    for partitions in [1, 3] {
        let session = session(partitions, 100);
        parquet(&session, dir.path(), &lines).await;
        let table = session.table("s").await.unwrap().into_unoptimized_plan();
        // Columns under other names, in another order.
        let renamed = |query: &str| {
            let (session, query) = (session.clone(), query.to_owned());
            async move { session.sql(&query).await.unwrap().into_unoptimized_plan() }
        };
        let whole = renamed("SELECT k, h, t, v FROM s").await;
        let swapped = renamed("SELECT a.w AS v, a.h AS h, a.k, a.t FROM (SELECT v AS w, h, k, t FROM s) a").await;
        for (source, placed) in [
            (table, true),
            (whole, true),
            (swapped, true),
            (renamed("SELECT k, h, t, v FROM s WHERE v = 'more'").await, false),
            (renamed("SELECT k, h, t, v FROM s LIMIT 10000").await, false),
            (renamed("SELECT k + 0 AS k, h, t, v FROM s").await, false),
        ] {
            let plan = skipping(source, stored(&versions, 300), true, false);
            let (plan, rows) = run_plan(&session, plan).await.unwrap();
            let text = displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(text.contains("evaluated=scan"), placed, "{text}");
            let rows: HashSet<String> = rows.iter().flat_map(by_name).collect();
            let wanted: HashSet<String> = telling(&lines, &versions, true, false).into_iter().collect();
            assert!(rows == wanted && !wanted.is_empty(), "{text}");
            assert_eq!(sum(plan.as_ref(), UNCHANGED_ROWS), lines.len() - wanted.len());
        }
    }
}

#[tokio::test]
async fn what_goes_wrong_in_a_scan_is_told_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(1, 8);
    parquet(&session, dir.path(), &[SOURCE[0], SOURCE[1], SOURCE[0]]).await;
    let table = session.table("s").await.unwrap().into_unoptimized_plan();
    let plan = skipping(table, stored(&STORED, 8), true, false);
    let error = run(&session, plan).await.unwrap_err();
    assert_eq!(error.code(), "53200", "{error}");
    assert!(error.hint_text().unwrap().contains("merge.compare"));
}

/// Of such columns a scan makes literals.
#[tokio::test]
async fn columns_of_one_value_are_no_single_row() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(1, 8);
    parquet(&session, dir.path(), &[SOURCE[0]; 5]).await;
    for stored_key in [1, 2] {
        let stored = stored(&[(Some(stored_key), Some("a"), 10, Some(true))], 8);
        let table = session.table("s").await.unwrap().into_unoptimized_plan();
        match run(&session, skipping(table, stored, true, false)).await {
            Ok(rows) => assert_eq!(rows.iter().map(|b| b.num_rows()).sum::<usize>(), 5),
            Err(error) => assert_eq!((error.code(), stored_key), ("53200", 1)),
        }
    }
}

/// The rows with their columns in the order of [`SOURCE`].
fn by_name(batch: &datafusion::arrow::array::RecordBatch) -> Vec<String> {
    let places = ["k", "h", "t", "v"].map(|name| batch.schema().index_of(name).unwrap());
    crate::testing::rows(&[batch.project(&places).unwrap()])
}
