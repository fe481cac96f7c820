use super::cases::{check_twice, table};
use crate::oracle::{Common, Cond, Create, Dedup, DeleteMarker, InsertOnly, Unique};

fn keys(columns: &[&str]) -> InsertOnly {
    InsertOnly {
        common: Common::keys(columns),
        ..InsertOnly::default()
    }
}

#[test]
fn seed_cases() {
    let ev = || keys(&["ev"]);
    let ignore = InsertOnly {
        ignore_deletes: Some(DeleteMarker::Column("del".to_owned())),
        ..ev()
    };
    let mut dedup = ev();
    dedup.common.unique = Unique::Dedup(Dedup::default());
    let mut create = ev();
    create.common.create = Some(Create::default());
    let ew = "ev,what";
    let cases = [
        (
            "I01",
            ev(),
            ew,
            "(1,login) (2,click)",
            "(1,LOGIN) (3,exit)",
            "(1,login) (2,click) (3,exit)",
        ),
        (
            "I03",
            ignore,
            "ev,what,del",
            "(1,a,F)",
            "(2,b,T) (3,c,F)",
            "(1,a,F) (3,c,F)",
        ),
        ("I06", dedup, ew, "(1,a)", "(7,x) (7,y) (1,z)", "(1,a) (7,x)"),
        ("I07", ev(), ew, "(1,a)", "(∅,x)", "23502"),
        ("I08", ev(), ew, "(1,a)", "", "(1,a)"),
        ("I09", create, ew, "-", "(1,a) (2,b)", "(1,a) (2,b)"),
        ("I12", InsertOnly::default(), ew, "(1,a)", "(2,b)", "42601"),
        ("duplicate new key", ev(), ew, "(1,a)", "(7,x) (7,x)", "21000"),
    ];
    for (id, spec, columns, before, source, after) in cases {
        let before = (before != "-").then(|| table(columns, before));
        let source = table(columns, source);
        let expected = table(columns, after);
        let expected = if after.starts_with(|c: char| c.is_ascii_digit()) {
            Err(after)
        } else {
            Ok(&expected)
        };
        check_twice(id, true, |t| spec.apply(t, &source), before.as_ref(), expected);
    }
}

#[test]
fn within_never_misses_a_row_outside() {
    let mut spec = keys(&["ev"]);
    spec.common.keys[0].within = Some(Cond::gt_eq("day", 5));
    let before = table("ev,day", "(1,3) (2,6)");
    let apply = |source: &str| spec.apply(Some(&before), &table("ev,day", source));
    assert_eq!(apply("(2,7) (3,7)").unwrap().counts.inserted, 1);
    assert_eq!(apply("(1,7)").unwrap_err().0, "44000", "the key is stored outside");
    assert_eq!(apply("(9,3)").unwrap_err().0, "44000", "the row itself is outside");
}
