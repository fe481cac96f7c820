use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

use super::*;
use crate::metrics::{SOURCE_ROWS, sum};
use crate::testing::{SIZES, batch, cut, ints, rows, run, run_plan, session, shown, source, source_of, texts};

fn spec(checks: Vec<RowCheck>, ordinal: bool) -> GateSpec {
    GateSpec {
        table: "t".into(),
        key_columns: vec!["id".into()],
        checks,
        ordinal,
        checks_only: false,
    }
}

fn gate(input: datafusion::logical_expr::LogicalPlan, spec: GateSpec) -> datafusion::logical_expr::LogicalPlan {
    SourceGateNode::try_new(input, spec).unwrap().into_plan()
}

fn people() -> datafusion::arrow::array::RecordBatch {
    batch(vec![
        ("id", ints([Some(1), None, Some(3), None])),
        ("name", texts([Some("a"), Some("b"), None, Some("d")])),
    ])
}

#[tokio::test]
async fn rows_pass_in_order_and_are_counted_and_numbered() {
    for size in SIZES {
        let plan = gate(source(&people(), size), spec(vec![], true));
        let (plan, batches) = run_plan(&session(4, size), plan).await.unwrap();
        assert_eq!(rows(&batches), ["1|a|0", "NULL|b|1", "3|NULL|2", "NULL|d|3"]);
        assert_eq!(sum(plan.as_ref(), SOURCE_ROWS), 4);
    }
}

#[tokio::test]
async fn ordinals_start_anew_in_each_partition() {
    let input = source_of(vec![cut(&people(), 3), cut(&people(), 3)]);
    let batches = run(&session(2, 8192), gate(input, spec(vec![], true))).await.unwrap();
    let mut all = rows(&batches);
    all.retain(|row| row.starts_with('1'));
    all.sort();
    assert_eq!(all, ["1|a|0", &format!("1|a|{}", 1u64 << 40)]);
}

async fn error(context: &SessionContext, size: usize, checks: Vec<RowCheck>) -> String {
    let plan = gate(source(&people(), size), spec(checks, false));
    shown(&run(context, plan).await.unwrap_err())
}

#[tokio::test]
async fn a_null_key_is_an_error_with_count_and_sample() {
    for size in SIZES {
        assert_eq!(
            error(&session(2, size), size, vec![RowCheck::key("id")]).await,
            "23502 key column \"id\" of the source is NULL\n\
             2 rows of the source, the first with (id, name)=(NULL, b).\n\
             Filter such rows out, or write NULLS NOT DISTINCT or NULLS DISTINCT after the keys."
        );
    }
}

#[tokio::test]
async fn a_null_sequence_is_an_error() {
    let error = error(&session(1, 8192), 2, vec![RowCheck::sequence("name", "s.name")]).await;
    assert_eq!(
        error,
        "23502 sequence expression \"s.name\" of the source is NULL\n\
         It is the row with (id, name)=(3, NULL).\n\
         Filter such rows out, or give them a value with coalesce()."
    );
}

#[tokio::test]
async fn null_is_not_true_and_exempt_rows_are_left_out() {
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None]));
    let exempt: ArrayRef = Arc::new(BooleanArray::from(vec![Some(false), Some(true), None, Some(true)]));
    let input = batch(vec![
        ("id", ints([Some(1), Some(2), Some(3), Some(4)])),
        ("ok", flags),
        ("gone", exempt),
    ]);
    let check = RowCheck::is_true("ok", SqlState::OutsideWindow, "source row outside WITHIN", "Widen it.");
    for size in SIZES {
        let all = gate(source(&input, size), spec(vec![check.clone()], false));
        let error = run(&session(1, size), all).await.unwrap_err();
        assert_eq!(
            shown(&error),
            "44000 source row outside WITHIN\n3 rows of the source, the first with (id, ok, gone)=(2, NULL, true).\nWiden it."
        );
        let some = gate(source(&input, size), spec(vec![check.clone().unless("gone")], false));
        let error = run(&session(1, size), some).await.unwrap_err();
        assert!(shown(&error).contains("It is the row with (id, ok, gone)=(3, false, NULL)."));
    }
}

#[tokio::test]
async fn the_first_failing_check_is_reported() {
    let checks = vec![RowCheck::sequence("name", "name"), RowCheck::key("id")];
    assert!(
        error(&session(1, 8192), 1, checks)
            .await
            .contains("sequence expression")
    );
}
