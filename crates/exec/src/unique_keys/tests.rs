#![expect(clippy::as_conversions, reason = "tests build arrays of many types")]

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use datafusion::physical_plan::displayable;

use super::*;
use crate::testing::{
    SIZES, batch, ints, rows, run, run_plan, session, shown, small_session, sorted_rows, source, texts,
};

async fn check(
    input: &RecordBatch,
    size: usize,
    partitions: usize,
    spec: UniqueKeysSpec,
) -> Result<Vec<String>, String> {
    let plan = UniqueKeysNode::try_new(source(input, size), spec).unwrap().into_plan();
    match run(&session(partitions, size), plan).await {
        Ok(batches) => Ok(sorted_rows(&batches)),
        Err(e) => Err(shown(&e)),
    }
}

fn by(keys: &[&str]) -> UniqueKeysSpec {
    UniqueKeysSpec::new("t", keys.iter().map(|k| k.to_string()).collect())
}

#[tokio::test]
async fn unique_rows_pass_unchanged() {
    let input = batch(vec![
        ("a", ints([Some(2), Some(1), Some(1), None])),
        ("b", texts([Some("x"), Some("x"), Some("y"), Some("x")])),
    ]);
    for size in SIZES {
        for sorted in [false, true] {
            let spec = UniqueKeysSpec {
                sorted,
                ..by(&["a", "b"])
            };
            assert_eq!(
                check(&input, size, 3, spec).await.unwrap(),
                ["1|x", "1|y", "2|x", "NULL|x"]
            );
        }
    }
}

#[tokio::test]
async fn duplicates_are_counted_and_named() {
    let input = batch(vec![
        ("a", ints([1, 2, 1, 3, 1, 2].map(Some))),
        ("b", texts(["x", "y", "x", "x", "x", "y"].map(Some))),
    ]);
    for size in SIZES {
        for sorted in [false, true] {
            let spec = UniqueKeysSpec {
                sorted,
                ..by(&["a", "b"])
            };
            assert_eq!(
                check(&input, size, 1, spec).await.unwrap_err(),
                "21000 several source rows have the same key for table \"t\"\n\
                 Key (a, b)=(1, x) occurs 3 times in the source.\n\
                 Key (a, b)=(2, y) occurs 2 times in the source.\n\
                 Add SEQUENCE BY or DEDUPLICATE BY to keep one row per key."
            );
        }
    }
}

#[tokio::test]
async fn at_most_five_keys_are_named() {
    let input = batch(vec![("a", ints((0..14).map(|i| Some(i / 2))))]);
    for size in SIZES {
        let error = check(&input, size, 1, by(&["a"])).await.unwrap_err();
        assert_eq!(error.matches("occurs 2 times").count(), 5);
        assert!(error.contains("There are more such keys."));
    }
}

#[tokio::test]
async fn nulls_are_equal_or_not() {
    let input = batch(vec![
        ("a", ints([None, Some(1), None])),
        ("b", texts([Some("x"), None, Some("x")])),
    ]);
    for size in SIZES {
        for sorted in [false, true] {
            for keys in [&["a"][..], &["a", "b"]] {
                let equal = UniqueKeysSpec { sorted, ..by(keys) };
                let error = check(&input, size, 2, equal.clone()).await.unwrap_err();
                assert!(error.contains("NULL") && error.contains("occurs 2 times"), "{error}");
                let distinct = UniqueKeysSpec {
                    nulls_equal: false,
                    ..equal
                };
                assert_eq!(check(&input, size, 2, distinct).await.unwrap().len(), 3);
            }
        }
    }
}

#[tokio::test]
async fn exempt_rows_are_not_looked_at() {
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(false), Some(true), None]));
    let input = batch(vec![("a", ints([1, 1, 2].map(Some))), ("gone", flags)]);
    for size in SIZES {
        for sorted in [false, true] {
            let spec = UniqueKeysSpec {
                exempt: Some("gone".into()),
                sorted,
                ..by(&["a"])
            };
            assert_eq!(check(&input, size, 2, spec).await.unwrap().len(), 3);
        }
    }
}

#[tokio::test]
async fn keys_of_every_type_are_compared() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1, 2, 1])),
        Arc::new(Decimal128Array::from(vec![1, 2, 1])),
        Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 1]).with_timezone("UTC")),
        Arc::new(Float64Array::from(vec![0.0, 1.0, -0.0])),
        Arc::new(Float64Array::from(vec![f64::NAN, 1.0, -f64::NAN])),
        Arc::new(StringViewArray::from(vec![
            "a long text that is not inlined",
            "b",
            "a long text that is not inlined",
        ])),
        Arc::new(BooleanArray::from(vec![true, false, true])),
    ];
    for column in columns {
        for size in SIZES {
            for sorted in [false, true] {
                let input = batch(vec![("k", Arc::clone(&column))]);
                let spec = UniqueKeysSpec { sorted, ..by(&["k"]) };
                let error = check(&input, size, 4, spec).await.unwrap_err();
                assert!(error.contains("occurs 2 times"), "{} {error}", column.data_type());
            }
        }
    }
}

#[tokio::test]
async fn rows_of_one_key_meet_in_one_partition() {
    let input = batch(vec![("f", Arc::new(Float64Array::from(vec![0.0, 1.0])) as ArrayRef)]);
    let plan = UniqueKeysNode::try_new(source(&input, 1), by(&["f"]))
        .unwrap()
        .into_plan();
    let (plan, _) = run_plan(&session(2, 1), plan).await.unwrap();
    let text = displayable(plan.as_ref()).indent(false).to_string();
    assert!(text.starts_with("UniqueKeysExec: keys=[f]\n"), "{text}");
    assert!(text.contains("Hash([normalize_float(f@0)], 2)"), "{text}");
}

#[tokio::test]
async fn too_many_keys_for_the_memory_are_an_error_unless_sorted() {
    let input = batch(vec![("a", ints((0..200_000).map(Some)))]);
    let plan = |sorted| {
        let spec = UniqueKeysSpec { sorted, ..by(&["a"]) };
        UniqueKeysNode::try_new(source(&input, 1024), spec).unwrap().into_plan()
    };
    let session = small_session(1_500_000);
    assert_eq!(run(&session, plan(false)).await.unwrap_err().code(), "53200");
    let batches = run(&session, plan(true)).await.unwrap();
    assert_eq!(rows(&batches).len(), 200_000);
}
