use datafusion::arrow::array::ListArray;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::logical_expr::LogicalPlan;

use super::*;
use crate::matching::MatchNode;
use crate::testing::{SIZES, batch, cut, ints, run, session, shown, small_session, sorted_rows, source_of, texts};

/// A stored version or a source row.
#[derive(Debug, Clone, Copy)]
struct Line {
    key: i64,
    /// The beginning of a version, the time of a source row.
    at: Option<i64>,
    /// The end of a version.
    to: Option<i64>,
    /// What the text and the list say: a part of each.
    says: (i64, i64),
    /// Whether a version is flagged as deleted, or a source row deletes.
    deletes: bool,
}

fn line(key: i64, at: i64, to: Option<i64>, says: (i64, i64)) -> Line {
    Line {
        key,
        at: Some(at),
        to,
        says,
        deletes: false,
    }
}

fn rows(lines: &[Line], stored: bool) -> RecordBatch {
    let text = |line: &Line| (line.says.0 > 0).then(|| "content".repeat(usize::try_from(line.says.0).unwrap()));
    let texts_of: Vec<Option<String>> = lines.iter().map(text).collect();
    let list = |line: &Line| (line.says.1 > 0).then(|| vec![None, i32::try_from(line.says.1).ok()]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lines.iter().map(list));
    let flags = |flag: &dyn Fn(&Line) -> bool| -> datafusion::arrow::array::ArrayRef {
        Arc::new(lines.iter().map(|line| Some(flag(line))).collect::<BooleanArray>())
    };
    let times = |own: bool| ints(lines.iter().map(|line| line.at.filter(|_| own)));
    batch(vec![
        ("k", ints(lines.iter().map(|line| Some(line.key)))),
        ("text", texts(texts_of.iter().map(Option::as_deref))),
        ("list", Arc::new(lists)),
        (FROM, times(stored)),
        (TO, ints(lines.iter().map(|line| line.to))),
        (TIME, times(!stored)),
        (CURRENT, flags(&|line| stored && line.to.is_none())),
        (DELETED, flags(&|line| stored && line.deletes)),
        (INSIDE, flags(&|_| true)),
        (WINNER, flags(&|_| !stored)),
        (MARKED, flags(&|line| !stored && line.deletes)),
    ])
}

fn plan(source: &[Line], stored: &[Line], absent: AbsentVersions, size: usize) -> LogicalPlan {
    let spec = SettleSpec {
        table: "t".to_owned(),
        keys: vec!["k".to_owned()],
        compared: vec!["list".to_owned(), "text".to_owned()],
        by_sequence: true,
        open_until: None,
        has_current: true,
        absent,
    };
    let half = stored.len() / 2;
    let stored = [&stored[..half], &stored[half..]].map(|lines| cut(&rows(lines, true), size));
    let source = source_of(vec![cut(&rows(source, false), size)]);
    let node = MatchNode::unsettled(source, source_of(stored.to_vec()), spec, false);
    node.unwrap().into_plan()
}

/// What must come out, one line after the other.
fn expected(source: &[Line], stored: &[Line], absent: AbsentVersions) -> Vec<String> {
    let settles = |new: &Line, old: &Line| {
        let alone = source.iter().filter(|other| other.key == new.key).count() == 1;
        let open = old.to.is_none() && !old.deletes && !new.deletes;
        alone && open && new.key == old.key && new.at == old.at && old.at.is_some() && new.says == old.says
    };
    let goes_on = |old: &Line| match source.iter().any(|new| new.key == old.key) {
        true => !source.iter().any(|new| settles(new, old)),
        false => match absent {
            AbsentVersions::Dropped => false,
            AbsentVersions::Open => old.to.is_none(),
            AbsentVersions::Kept => true,
        },
    };
    let new = source.iter().filter(|new| !stored.iter().any(|old| settles(new, old)));
    let new: Vec<Line> = new.copied().collect();
    let old: Vec<Line> = stored.iter().filter(|old| goes_on(old)).copied().collect();
    sorted_rows(&[rows(&new, false), rows(&old, true)])
}

/// Versions and rows that agree, and that differ in time, text, list, end, flag or number.
fn lines() -> (Vec<Line>, Vec<Line>) {
    let (mut source, mut stored) = (Vec::new(), Vec::new());
    for key in 0..120 {
        let says = (key % 4, key % 3);
        stored.push(line(key, 1, Some(5), (3, 1)));
        stored.push(line(key, 5, None, says));
        match key % 10 {
            0 => source.push(line(key, 6, None, says)),
            1 => source.push(line(key, 5, None, (says.0 + 1, says.1))),
            2 => source.push(line(key, 5, None, (says.0, says.1 + 1))),
            3 => source.extend([line(key, 5, None, says), line(key, 7, None, says)]),
            4 => source.push(Line {
                deletes: true,
                ..line(key, 5, None, says)
            }),
            5 => (),
            _ => source.push(line(key, 5, None, says)),
        }
    }
    stored[13].to = Some(9);
    stored[33].deletes = true;
    stored[39].at = None;
    (source, stored)
}

#[tokio::test]
async fn only_what_changes_something_comes_out() {
    let (mut source, stored) = lines();
    source.push(line(1_000, 5, None, (1, 1)));
    for size in SIZES {
        for partitions in [1, 2, 5] {
            for absent in [AbsentVersions::Dropped, AbsentVersions::Open, AbsentVersions::Kept] {
                let plan = plan(&source, &stored, absent, size);
                let found = sorted_rows(&run(&session(partitions, size), plan).await.unwrap());
                assert_eq!(
                    found,
                    expected(&source, &stored, absent),
                    "{absent:?}, batches of {size}"
                );
                // Of more than 40 keys both lines are gone.
                assert!(found.len() + 80 < source.len() + stored.len());
            }
        }
    }
}

#[tokio::test]
async fn two_open_versions_of_a_key_are_an_error() {
    let (source, mut stored) = lines();
    stored.push(line(7, 8, None, (1, 1)));
    let plan = plan(&source, &stored, AbsentVersions::Dropped, 3);
    let error = run(&session(2, 3), plan).await.unwrap_err();
    assert!(shown(&error).contains("(k)=(7)"), "{error}");
}

#[tokio::test]
async fn a_source_beyond_the_memory_is_an_error() {
    let source: Vec<Line> = (0..20_000).map(|key| line(key, 5, None, (1, 1))).collect();
    let stored = [line(1, 5, None, (1, 1)), line(2, 5, None, (1, 1))];
    let plan = plan(&source, &stored, AbsentVersions::Dropped, 1024);
    assert_eq!(run(&small_session(200_000), plan).await.unwrap_err().code(), "53200");
}
