use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::logical_expr::LogicalPlan;

use super::*;
use crate::metrics::{SKIPPED_ROWS, sum};
use crate::source_gate::{GateSpec, SourceGateNode};
use crate::testing::{
    SIZES, batch, cut, ints, run_plan, session, shown, small_session, sorted_rows, source, source_of, texts,
};

const DESC: SortOptions = SortOptions {
    descending: true,
    nulls_first: false,
};

fn spec(keys: &[&str], order: &[&str], mode: WinnerMode) -> WinnerSpec {
    WinnerSpec {
        table: "t".into(),
        keys: keys.iter().map(|k| k.to_string()).collect(),
        nulls_equal: true,
        order: order.iter().map(|o| (o.to_string(), DESC)).collect(),
        mode,
        flag: None,
    }
}

fn sequence(content: &[&str]) -> WinnerMode {
    WinnerMode::Sequence {
        content: content.iter().map(|c| c.to_string()).collect(),
    }
}

fn winners(input: LogicalPlan, spec: WinnerSpec) -> LogicalPlan {
    let gate = GateSpec {
        table: "t".into(),
        key_columns: vec![],
        checks: vec![],
        ordinal: true,
        checks_only: false,
    };
    let input = SourceGateNode::try_new(input, gate).unwrap().into_plan();
    WinnerNode::try_new(input, spec).unwrap().into_plan()
}

/// Rows without their ordinal, sorted, and how many were skipped.
async fn choose(input: &RecordBatch, size: usize, spec: WinnerSpec) -> Result<(Vec<String>, usize), LoadError> {
    let (plan, batches) = run_plan(&session(3, size), winners(source(input, size), spec)).await?;
    let ordinal = input.num_columns();
    let batches: Vec<RecordBatch> = batches
        .into_iter()
        .map(|mut batch| {
            batch.remove_column(ordinal);
            batch
        })
        .collect();
    Ok((sorted_rows(&batches), sum(plan.as_ref(), SKIPPED_ROWS)))
}

fn changes() -> RecordBatch {
    batch(vec![
        ("id", ints([1, 2, 1, 1, 3, 2].map(Some))),
        ("at", ints([Some(5), None, Some(7), Some(7), Some(1), Some(4)])),
        ("name", texts(["a", "b", "c", "d", "e", "f"].map(Some))),
    ])
}

#[tokio::test]
async fn the_first_in_order_wins_and_source_order_breaks_ties() {
    for size in SIZES {
        let (rows, skipped) = choose(&changes(), size, spec(&["id"], &["at"], WinnerMode::First))
            .await
            .unwrap();
        assert_eq!(rows, ["1|7|c", "2|4|f", "3|1|e"]);
        assert_eq!(skipped, 3);
    }
}

#[tokio::test]
async fn without_an_order_the_first_of_the_source_wins() {
    for size in SIZES {
        let (rows, _) = choose(&changes(), size, spec(&["id"], &[], WinnerMode::First))
            .await
            .unwrap();
        assert_eq!(rows, ["1|5|a", "2|NULL|b", "3|1|e"]);
    }
}

#[tokio::test]
async fn source_order_is_the_same_over_several_partitions() {
    let one = batch(vec![("id", ints([Some(1)])), ("name", texts([Some("first")]))]);
    let two = batch(vec![("id", ints([Some(1)])), ("name", texts([Some("second")]))]);
    for _ in 0..20 {
        let input = source_of(vec![cut(&one, 1), cut(&two, 1)]);
        let plan = winners(input, spec(&["id"], &[], WinnerMode::First));
        let (_, batches) = run_plan(&session(2, 1), plan).await.unwrap();
        assert_eq!(sorted_rows(&batches), ["1|first|0"]);
    }
}

#[tokio::test]
async fn with_ties_keeps_all_that_are_first() {
    for size in SIZES {
        let (rows, skipped) = choose(&changes(), size, spec(&["id"], &["at"], WinnerMode::WithTies))
            .await
            .unwrap();
        assert_eq!(rows, ["1|7|c", "1|7|d", "2|4|f", "3|1|e"]);
        assert_eq!(skipped, 2);
    }
}

#[tokio::test]
async fn losers_can_be_marked_instead_of_dropped() {
    for size in SIZES {
        let marked = WinnerSpec {
            flag: Some("wins".into()),
            ..spec(&["id"], &["at"], WinnerMode::First)
        };
        let (rows, skipped) = choose(&changes(), size, marked).await.unwrap();
        let expected = [
            "1|5|a|false",
            "1|7|c|true",
            "1|7|d|false",
            "2|4|f|true",
            "2|NULL|b|false",
            "3|1|e|true",
        ];
        assert_eq!(rows, expected);
        assert_eq!(skipped, 0);
    }
}

#[tokio::test]
async fn equal_sequences_with_equal_content_collapse() {
    let input = batch(vec![
        ("id", ints([1, 1, 1, 2].map(Some))),
        ("at", ints([7, 7, 7, 7].map(Some))),
        ("name", texts([Some("a"), Some("a"), Some("a"), None])),
    ]);
    for size in SIZES {
        let (rows, skipped) = choose(&input, size, spec(&["id"], &["at"], sequence(&["name"])))
            .await
            .unwrap();
        assert_eq!(rows, ["1|7|a", "2|7|NULL"]);
        assert_eq!(skipped, 2);
    }
}

#[tokio::test]
async fn equal_sequences_with_other_content_are_an_error() {
    for size in SIZES {
        let error = choose(&changes(), size, spec(&["id"], &["at"], sequence(&["name"])))
            .await
            .unwrap_err();
        assert_eq!(
            shown(&error),
            "21000 source rows with the same key and sequence differ for table \"t\"\n\
             Key (id)=(1) occurs several times with sequence (7) and different content.\n\
             Add an expression to SEQUENCE BY that tells such rows apart."
        );
    }
}

#[tokio::test]
async fn rows_of_one_sequence_must_not_differ_even_below_the_winner() {
    let input = batch(vec![
        ("id", ints([1, 1, 1].map(Some))),
        ("at", ints([7, 7, 9].map(Some))),
        ("name", texts(["a", "b", "c"].map(Some))),
    ]);
    for size in SIZES {
        let chosen = choose(&input, size, spec(&["id"], &["at"], sequence(&["name"]))).await;
        assert_eq!(chosen.unwrap_err().code(), "21000");
    }
}

#[tokio::test]
async fn equal_rows_below_the_winner_collapse() {
    let input = batch(vec![
        ("id", ints([1, 1, 1].map(Some))),
        ("at", ints([7, 7, 9].map(Some))),
        ("name", texts(["a", "a", "c"].map(Some))),
    ]);
    for size in SIZES {
        let (rows, skipped) = choose(&input, size, spec(&["id"], &["at"], sequence(&["name"])))
            .await
            .unwrap();
        assert_eq!((rows, skipped), (vec!["1|9|c".to_owned()], 2));
    }
}

#[tokio::test]
async fn null_keys_are_rivals_only_if_nulls_are_equal() {
    let input = batch(vec![
        ("id", ints([None, Some(1), None])),
        ("at", ints([Some(1), Some(2), Some(3)])),
    ]);
    for size in SIZES {
        let equal = spec(&["id"], &["at"], WinnerMode::First);
        assert_eq!(choose(&input, size, equal.clone()).await.unwrap().0, ["1|2", "NULL|3"]);
        let distinct = WinnerSpec {
            nulls_equal: false,
            ..equal
        };
        assert_eq!(choose(&input, size, distinct).await.unwrap().0.len(), 3);
    }
}

#[tokio::test]
async fn floats_are_compared_as_sql_does() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN, -f64::NAN]));
    let input = batch(vec![("id", floats), ("at", ints([1, 2, 3, 4].map(Some)))]);
    for size in SIZES {
        let (rows, skipped) = choose(&input, size, spec(&["id"], &["at"], WinnerMode::First))
            .await
            .unwrap();
        assert_eq!(rows, ["0.0|2", "NaN|4"]);
        assert_eq!(skipped, 2);
    }
}

#[tokio::test]
async fn without_keys_all_rows_are_rivals() {
    for size in SIZES {
        let (rows, skipped) = choose(&changes(), size, spec(&[], &["at"], WinnerMode::WithTies))
            .await
            .unwrap();
        assert_eq!((rows, skipped), (vec!["1|7|c".to_owned(), "1|7|d".to_owned()], 4));
    }
}

#[tokio::test]
async fn more_rows_than_fit_in_memory_are_sorted_on_disk() {
    let input = batch(vec![
        ("id", ints((0..200_000).map(|i| Some(i % 100_000)))),
        ("at", ints((0..200_000).map(Some))),
    ]);
    let plan = winners(source(&input, 1024), spec(&["id"], &["at"], WinnerMode::First));
    let (plan, batches) = run_plan(&small_session(4_000_000), plan).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
    assert_eq!(sum(plan.as_ref(), SKIPPED_ROWS), 100_000);
}
