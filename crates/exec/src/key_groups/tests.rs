use datafusion::arrow::array::RecordBatch;

use super::*;
use crate::testing::{SIZES, batch, cut, ints, run, session, small_session, sorted_rows, source_of, texts};

fn set(keys: &[&str], nulls_equal: bool) -> KeySet {
    KeySet {
        keys: keys.iter().map(|k| k.to_string()).collect(),
        nulls_equal,
    }
}

fn input() -> RecordBatch {
    batch(vec![
        ("day", ints([Some(1), Some(1), Some(2), None, None])),
        ("id", texts([Some("a"), Some("b"), Some("a"), Some("c"), Some("c")])),
        (
            "note",
            texts([Some("n1"), Some("n2"), Some("n3"), Some("n4"), Some("n5")]),
        ),
    ])
}

async fn groups(size: usize, sets: Vec<KeySet>, sorted: bool) -> Vec<String> {
    let halves = vec![cut(&input().slice(0, 2), size), cut(&input().slice(2, 3), size)];
    let plan = key_groups(source_of(halves), sets, sorted).unwrap();
    sorted_rows(&run(&session(2, size), plan).await.unwrap())
}

const ORDINARY: [&str; 5] = ["1|a|n1|0", "1|b|n2|0", "2|a|n3|0", "NULL|c|n4|0", "NULL|c|n5|0"];

fn with(extra: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = ORDINARY.iter().chain(extra).map(|row| row.to_string()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn each_key_has_one_probe_row() {
    for size in SIZES {
        for sorted in [false, true] {
            let rows = groups(size, vec![set(&["day"], true)], sorted).await;
            assert_eq!(rows, with(&["1|NULL|NULL|1", "2|NULL|NULL|1", "NULL|NULL|NULL|1"]));
        }
    }
}

#[tokio::test]
async fn null_keys_that_match_nothing_have_none() {
    for size in SIZES {
        for sorted in [false, true] {
            let rows = groups(size, vec![set(&["day"], false)], sorted).await;
            assert_eq!(rows, with(&["1|NULL|NULL|1", "2|NULL|NULL|1"]));
        }
    }
}

#[tokio::test]
async fn each_key_set_has_its_own_probe_rows() {
    for size in SIZES {
        for sorted in [false, true] {
            let rows = groups(size, vec![set(&["day"], false), set(&["id"], true)], sorted).await;
            let probes = [
                "1|NULL|NULL|1",
                "2|NULL|NULL|1",
                "NULL|a|NULL|2",
                "NULL|b|NULL|2",
                "NULL|c|NULL|2",
            ];
            assert_eq!(rows, with(&probes));
        }
    }
}

#[tokio::test]
async fn too_many_keys_for_the_memory_are_an_error() {
    let input = batch(vec![("a", ints((0..200_000).map(Some)))]);
    let plan = key_groups(source_of(vec![cut(&input, 1024)]), vec![set(&["a"], true)], false).unwrap();
    let error = run(&small_session(1_000_000), plan).await.unwrap_err();
    assert_eq!(error.code(), "53200");
}
