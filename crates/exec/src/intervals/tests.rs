//! Small histories. `a3` is a source row with content and time, `.3` a delete; `a1-5` is a version with content, start
//! and end, `a1-` an open one, and `!` marks the record of a deletion. Contents that differ in case only are the same to
//! tracking.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::concat_batches;

use super::fold::{Contents, Event, Folded, Policy, Refusal, Stored, fold, retire};
use super::*;
use crate::testing::{SIZES, batch, ints, run, session, shown, sorted_rows, source, texts};

/// Contents and times of all rows.
#[derive(Default)]
struct Rows(Vec<(char, i64)>);

impl Contents for Rows {
    fn tracked(&self, a: usize, b: usize) -> bool {
        self.0[a].0.eq_ignore_ascii_case(&self.0[b].0)
    }

    fn landing(&self, a: usize, b: usize) -> bool {
        self.0[a].0 == self.0[b].0
    }

    fn settled(&self, a: usize, b: usize) -> bool {
        self.landing(a, b)
    }

    fn identical(&self, a: usize, b: usize) -> bool {
        self.0[a] == self.0[b]
    }

    fn sequence(&self, a: usize, b: usize) -> Ordering {
        self.0[a].1.cmp(&self.0[b].1)
    }

    fn first(&self, a: usize, b: usize) -> bool {
        self.0[a].1 == self.0[b].1
    }
}

fn policy() -> Policy {
    Policy {
        boundary: 10,
        by_sequence: true,
        always: false,
        late: LatePolicy::Reorder,
        delete_records: false,
        absent: None,
        assume_unique: false,
        guards: false,
    }
}

fn stored(text: &str, rows: &mut Rows) -> Vec<Stored> {
    let version = |word: &str| {
        let (deleted, word) = word.strip_suffix('!').map_or((false, word), |word| (true, word));
        let (start, end) = word[1..].split_once('-').unwrap();
        let from = start.parse().unwrap();
        rows.0.push((word.chars().next().unwrap(), from));
        Stored {
            row: rows.0.len() - 1,
            from,
            to: end.parse().ok(),
            deleted,
            retires: true,
        }
    };
    text.split_whitespace().map(version).collect()
}

fn events(text: &str, rows: &mut Rows) -> Vec<Event> {
    let event = |word: &str| {
        let content = word.chars().next().unwrap();
        let time = word[1..].parse().unwrap();
        rows.0.push((content, time));
        Event {
            row: rows.0.len() - 1,
            time,
            delete: content == '.',
        }
    };
    text.split_whitespace().map(event).collect()
}

fn written(folded: &Folded, rows: &Rows) -> String {
    let mut versions = folded.versions.clone();
    versions.sort_by_key(|v| (v.from, v.to.is_none(), v.to));
    let words = versions.iter().map(|v| {
        let end = v.to.map_or(String::new(), |to| to.to_string());
        let flag = if v.deleted { "!" } else { "" };
        format!("{}{}-{end}{flag}", rows.0[v.land].0, v.from)
    });
    words.collect::<Vec<_>>().join(" ")
}

fn load(policy: &Policy, before: &str, new: &str) -> Result<(String, usize, usize, usize), Refusal> {
    let mut rows = Rows::default();
    let (stored, events) = (stored(before, &mut rows), events(new, &mut rows));
    let folded = fold(stored, &events, policy, &rows)?;
    let changed = folded.versions.iter().filter(|v| v.changed(&rows)).count();
    Ok((
        written(&folded, &rows),
        changed,
        folded.unchanged.len(),
        folded.skipped.len(),
    ))
}

fn check(policy: &Policy, cases: &[(&str, &str, &str)]) {
    for (before, new, after) in cases {
        let (history, ..) = load(policy, before, new).unwrap();
        assert_eq!(history, *after, "{before} + {new}");
        if policy.late == LatePolicy::Reorder {
            let (again, changed, ..) = load(policy, after, new).unwrap();
            assert_eq!((again.as_str(), changed), (*after, 0), "{before} + {new} twice");
        }
    }
}

#[test]
fn events_are_chained() {
    check(
        &policy(),
        &[
            ("", "a1", "a1-"),
            ("", "b5 a1", "a1-5 b5-"),
            ("a1-", "b5", "a1-5 b5-"),
            ("a1-", "a5", "a1-"),
            ("a1-", "b5 c7", "a1-5 b5-7 c7-"),
            ("a1-", "b5 a7", "a1-5 b5-7 a7-"),
        ],
    );
}

#[test]
fn late_events_are_spliced() {
    check(
        &policy(),
        &[
            ("a2-6 c6-", "b4", "a2-4 b4-6 c6-"),
            ("a5-", "z3", "z3-5 a5-"),
            ("a2-6 c6-", "a4", "a2-6 c6-"),
            ("a2-6 c6-", "c4", "a2-4 c4-"),
            ("a2-6 c6-", "c4 b5", "a2-4 c4-5 b5-6 c6-"),
            ("a1-3 c6-", "b4", "a1-3 b4-6 c6-"),
            ("a1-5", "b3", "a1-3 b3-5"),
        ],
    );
}

#[test]
fn deletes_end_versions() {
    check(
        &policy(),
        &[
            ("a1-", ".5", "a1-5"),
            ("", ".5", ""),
            ("", "a1 .3 b5", "a1-3 b5-"),
            ("a2-6 c6-", ".4", "a2-4 c6-"),
        ],
    );
    let records = Policy {
        delete_records: true,
        ..policy()
    };
    check(
        &records,
        &[("a1-", ".5", "a1-5 a5-!"), ("a1-5 a5-!", "b7", "a1-5 a5-7! b7-")],
    );
}

#[test]
fn at_one_time_the_later_statement_wins() {
    let (history, changed, ..) = load(&policy(), "a1-5", "b5").unwrap();
    assert_eq!((history.as_str(), changed), ("a1-5 b5-", 1));
    let (history, changed, ..) = load(&policy(), "a1-", ".1").unwrap();
    assert_eq!((history.as_str(), changed), ("a1-1", 1));
    let (history, changed, ..) = load(&policy(), "a1-1", "b1").unwrap();
    assert_eq!((history.as_str(), changed), ("b1-", 1));
    for late in [
        LatePolicy::Reorder,
        LatePolicy::Ignore,
        LatePolicy::Error,
        LatePolicy::Append,
    ] {
        let (history, changed, ..) = load(&Policy { late, ..policy() }, "a1-5 b5-", "z1").unwrap();
        assert_eq!((history.as_str(), changed), ("z1-5 b5-", 1), "{late:?}");
    }
}

#[test]
fn what_is_not_tracked_is_updated_in_place() {
    let (history, changed, unchanged, _) = load(&policy(), "a1-", "A5").unwrap();
    assert_eq!((history.as_str(), changed, unchanged), ("A1-", 1, 0));
    let (history, changed, unchanged, _) = load(&policy(), "a1-5 b5-", "A3").unwrap();
    assert_eq!(
        (history.as_str(), changed, unchanged),
        ("a1-5 b5-", 0, 1),
        "late rows leave it alone"
    );
    let newer = Policy {
        guards: true,
        ..policy()
    };
    assert_eq!(load(&newer, "a5-", "b5").unwrap().0, "b5-");
}

#[test]
fn every_newer_row_under_always() {
    let always = Policy {
        always: true,
        ..policy()
    };
    check(
        &always,
        &[("a1-", "a5", "a1-5 a5-"), ("a1-5 b5-", "a3", "a1-3 a3-5 b5-")],
    );
}

#[test]
fn late_policies() {
    let with = |late| Policy { late, ..policy() };
    assert_eq!(
        load(&with(LatePolicy::Ignore), "a5-", "z3 b7").unwrap(),
        ("a5-7 b7-".into(), 2, 0, 1)
    );
    assert_eq!(
        load(&with(LatePolicy::Append), "a5-", "z3 b7").unwrap(),
        ("z3- a5-7 b7-".into(), 3, 0, 0)
    );
    assert_eq!(
        load(&with(LatePolicy::Append), "z3- a5-", "c8").unwrap().0,
        "z3- a5-8 c8-"
    );
    assert_eq!(
        load(&with(LatePolicy::Error), "a5-", "z3"),
        Err(Refusal::Late {
            row: 1,
            time: 3,
            end: 5
        })
    );
    assert_eq!(
        load(&with(LatePolicy::Error), "a1-5 b5-", "a3").unwrap(),
        ("a1-5 b5-".into(), 0, 1, 0),
        "what the history says already is no news"
    );
}

#[test]
fn rows_of_one_time() {
    let mut rows = Rows::default();
    let events = events("a1 b1", &mut rows);
    assert_eq!(
        fold(Vec::new(), &events, &policy(), &rows).unwrap_err(),
        Refusal::SameSequence { row: 1 }
    );
    assert_eq!(load(&policy(), "", "a1 a1").unwrap(), ("a1-".into(), 1, 0, 1));
}

#[test]
fn by_boundary() {
    let boundary = Policy {
        by_sequence: false,
        late: LatePolicy::Error,
        ..policy()
    };
    check(
        &boundary,
        &[
            ("", "a0", "a10-"),
            ("a1-", "a0", "a1-"),
            ("a1-", "b0", "a1-10 b10-"),
            ("a1-", ".0", "a1-10"),
            ("a1-5", "a0", "a1-5 a10-"),
            ("a10-", "b0", "a10-10 b10-"),
            ("a1-", "A0", "A1-"),
        ],
    );
    let refused = |before, new| load(&boundary, before, new).unwrap_err();
    assert_eq!(refused("a20-", "b0"), Refusal::Past { from: 20, at: 10 });
    assert_eq!(refused("a1-20", "b0"), Refusal::Closed { to: 20, at: 10 });
    assert_eq!(refused("", "a0 b0"), Refusal::Duplicates { rows: 2 });
    assert_eq!(refused("a1- b2-", "c0"), Refusal::Broken);
    assert_eq!(load(&boundary, "", "a0 a0").unwrap(), ("a10-".into(), 1, 0, 1));
}

#[test]
fn broken_histories() {
    for before in ["a1- b5-", "a1-7 b5-", "a1- b5-9", "a5-3"] {
        assert_eq!(load(&policy(), before, "z9"), Err(Refusal::Broken), "{before}");
    }
    for before in ["a1-1 b1-", "a1-5 b7-"] {
        assert!(load(&policy(), before, "z9").is_ok(), "{before}");
    }
}

#[test]
fn absent_keys() {
    let absent = |policy: Policy, action| Policy {
        absent: Some(action),
        ..policy
    };
    let retired = |policy: &Policy, before: &str| {
        let mut rows = Rows::default();
        let stored = stored(before, &mut rows);
        retire(stored, policy).map(|folded| written(&folded, &rows))
    };
    let close = absent(policy(), AbsentRows::Invalidate);
    assert_eq!(retired(&close, "a1-").unwrap(), "a1-10");
    assert_eq!(retired(&close, "a1-5").unwrap(), "");
    assert_eq!(retired(&close, "a1-5 b5-!").unwrap(), "");
    assert_eq!(retired(&close, "a20-").unwrap_err(), Refusal::Past { from: 20, at: 10 });
    let record = absent(policy(), AbsentRows::NewRecord);
    assert_eq!(retired(&record, "a1-").unwrap(), "a1-10 a10-!");
    assert_eq!(retired(&policy(), "a1-").unwrap(), "");
}

fn booleans(values: impl IntoIterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<BooleanArray>())
}

/// Key, content and time of source rows, and of stored versions (with their end).
fn input(stored: &[(i64, &str, i64, Option<i64>)], events: &[(Option<i64>, &str, i64)]) -> RecordBatch {
    let part = |stored: &[(i64, &str, i64, Option<i64>)], events: &[(Option<i64>, &str, i64)]| {
        let n = stored.len() + events.len();
        let is_stored = |i: usize| i < stored.len();
        let file: UInt32Array = (0..n).map(|i| is_stored(i).then_some(7)).collect();
        let keys = stored.iter().map(|s| Some(s.0)).chain(events.iter().map(|e| e.0));
        let contents = stored.iter().map(|s| s.1).chain(events.iter().map(|e| e.1));
        let contents: Vec<Option<&str>> = contents.map(Some).collect();
        let times = (0..n).map(|i| (!is_stored(i)).then(|| events[i - stored.len()].2));
        let times: Vec<Option<i64>> = times.collect();
        batch(vec![
            ("k", ints(keys)),
            ("v", texts(contents)),
            (STORED, booleans((0..n).map(|i| Some(is_stored(i))))),
            (FROM, ints((0..n).map(|i| is_stored(i).then(|| stored[i].2)))),
            (TO, ints((0..n).map(|i| if is_stored(i) { stored[i].3 } else { None }))),
            (CURRENT, booleans((0..n).map(|_| None))),
            (DELETED, booleans((0..n).map(|i| is_stored(i).then_some(false)))),
            (RETIRES, booleans((0..n).map(|_| Some(false)))),
            (INSIDE, booleans((0..n).map(|_| Some(true)))),
            (TIME, ints(times.clone())),
            (MARKED, booleans((0..n).map(|_| Some(false)))),
            (WINNER, booleans((0..n).map(|_| Some(true)))),
            (BOUNDARY, ints((0..n).map(|_| Some(10)))),
            ("__seq_0", ints(times)),
            (columns::FILE, Arc::new(file)),
            (
                columns::ROW,
                ints((0..n).map(|i| is_stored(i).then(|| i64::try_from(i).unwrap()))),
            ),
        ])
    };
    let all = part(stored, events);
    concat_batches(&all.schema(), [&all]).unwrap()
}

fn spec() -> IntervalsSpec {
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    IntervalsSpec {
        table: "t".into(),
        keys: names(&["k"]),
        nulls_equal: true,
        tracked: names(&["v"]),
        landing: names(&["v"]),
        compared: names(&["v"]),
        source: Vec::new(),
        old: Vec::new(),
        sequence: 1,
        guards: false,
        always: false,
        late: LatePolicy::Reorder,
        delete_records: false,
        absent: None,
        assume_unique: false,
        open_until: None,
        has_current: false,
    }
}

/// Key, content, row of the stored version, start, end and action of what changes.
async fn changes(spec: IntervalsSpec, input: &RecordBatch, size: usize) -> Result<Vec<String>, String> {
    let plan = IntervalsNode::try_new(source(input, size), spec).unwrap().into_plan();
    let batches = run(&session(3, size), plan).await.map_err(|e| shown(&e))?;
    let wanted = ["k", "v", columns::ROW, NEW_FROM, NEW_TO, columns::ACTION];
    let indices = |b: &RecordBatch| wanted.map(|name| b.schema().index_of(name).unwrap());
    let projected: Vec<RecordBatch> = batches.iter().map(|b| b.project(&indices(b)).unwrap()).collect();
    Ok(sorted_rows(&projected))
}

#[tokio::test]
async fn whole_keys_at_every_batch_size() {
    let stored = [(1, "a", 1, None), (2, "x", 1, Some(3)), (2, "y", 3, None)];
    let events = [
        (Some(1), "b", 5),
        (Some(1), "c", 7),
        (Some(2), "y", 4),
        (Some(3), "n", 2),
    ];
    let events: Vec<_> = events.into_iter().collect();
    for size in SIZES {
        assert_eq!(
            changes(spec(), &input(&stored, &events), size).await.unwrap(),
            [
                "1|a|0|1|5|2",
                "1|b|NULL|5|7|1",
                "1|c|NULL|7|NULL|1",
                "2|y|NULL|NULL|NULL|4",
                "3|n|NULL|2|NULL|1"
            ],
            "{size}"
        );
    }
}

#[tokio::test]
async fn null_keys_are_one_key_or_many() {
    let events = [(None, "a", 1), (None, "b", 2)];
    let distinct = IntervalsSpec {
        nulls_equal: false,
        ..spec()
    };
    for size in SIZES {
        let equal = changes(spec(), &input(&[], &events), size).await.unwrap();
        assert_eq!(equal, ["NULL|a|NULL|1|2|1", "NULL|b|NULL|2|NULL|1"]);
        let distinct = changes(distinct.clone(), &input(&[], &events), size).await.unwrap();
        assert_eq!(distinct, ["NULL|a|NULL|1|NULL|1", "NULL|b|NULL|2|NULL|1"]);
    }
}

#[tokio::test]
async fn refusals_name_the_key() {
    let late = IntervalsSpec {
        late: LatePolicy::Error,
        ..spec()
    };
    let refused = changes(late, &input(&[(1, "a", 5, None)], &[(Some(1), "z", 3)]), 2)
        .await
        .unwrap_err();
    assert!(
        refused.starts_with("22023 ") && refused.contains("(k)=(1)"),
        "{refused}"
    );
    let marker = IntervalsSpec {
        open_until: Some(99),
        ..spec()
    };
    let refused = changes(marker, &input(&[(1, "a", 5, None)], &[(Some(1), "z", 3)]), 2)
        .await
        .unwrap_err();
    assert!(refused.contains("another marker"), "{refused}");
    let boundary = IntervalsSpec {
        sequence: 0,
        source: vec!["v".into()],
        ..spec()
    };
    let twice: Vec<_> = (0..7).flat_map(|k| [(Some(k), "a", 0), (Some(k), "b", 0)]).collect();
    let refused = changes(boundary, &input(&[], &twice), 2).await.unwrap_err();
    assert!(
        refused.starts_with("21000 ") && refused.contains("occurs 2 times"),
        "{refused}"
    );
}
