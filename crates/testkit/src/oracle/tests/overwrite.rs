use super::cases::{check_twice, day, table};
use crate::oracle::{
    Common, Cond, Counts, Create, Dedup, DeleteMarker, Expr, Keys, OnEmpty, OnOutside, Order, Overwrite, Unique, Window,
};
use crate::values::Value;

type Case = (
    &'static str,
    Overwrite,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

fn keys(columns: &[&str]) -> Overwrite {
    Overwrite {
        common: Common::keys(columns),
        ..Overwrite::default()
    }
}

fn dedup(mut spec: Overwrite, on: &str, by: &[&str]) -> Overwrite {
    let order = |c: &&str| Order {
        column: (*c).to_owned(),
        descending: true,
        nulls_first: false,
    };
    let by = by.iter().map(order).collect();
    spec.common.unique = Unique::Dedup(Dedup {
        on: vec![on.to_owned()],
        by,
        with_ties: false,
    });
    spec
}

fn marked(spec: Overwrite, column: &str) -> Overwrite {
    Overwrite {
        delete_when: Some(DeleteMarker::Column(column.to_owned())),
        ..spec
    }
}

fn window(window: Window) -> Overwrite {
    Overwrite {
        window: Some(window),
        ..Overwrite::default()
    }
}

fn w() -> String {
    "w".to_owned()
}

fn between(from: impl Into<Value>, to: i64) -> Overwrite {
    window(Window::Between(w(), Expr::lit(from), Expr::lit(to)))
}

fn from_to(from: i64, to: i64) -> Overwrite {
    window(Window::FromTo(w(), Expr::lit(from), Expr::lit(to)))
}

fn evolve(mut spec: Overwrite) -> Overwrite {
    spec.common.evolve = true;
    spec
}

fn create(mut spec: Overwrite) -> Overwrite {
    spec.common.create = Some(Create::default());
    spec
}

fn key_cases() -> Vec<Case> {
    let sr = "site,reading";
    let either = {
        let mut spec = dedup(keys(&["id"]), "id", &[]);
        spec.common.keys.push(Keys::new(&["grp"]));
        spec
    };
    vec![
        (
            "K01",
            keys(&["site"]),
            sr,
            "(s1,1) (s1,2) (s2,5)",
            "(s1,9) (s1,8)",
            "(s1,8) (s1,9) (s2,5)",
        ),
        (
            "K02",
            dedup(keys(&["id"]), "id", &[]),
            "id,v",
            "(1,a) (2,b)",
            "(1,x) (1,y) (3,z)",
            "(1,x) (2,b) (3,z)",
        ),
        (
            "K03",
            keys(&["day"]),
            "day,shop,sales",
            "(d1,n,4) (d1,s,5) (d1,w,6) (d2,n,7)",
            "(d1,n,40) (d1,e,41)",
            "(d1,e,41) (d1,n,40) (d2,n,7)",
        ),
        ("K04", keys(&["site"]), sr, "(s1,1) (s2,2)", "(s1,3)", "(s1,3) (s2,2)"),
        (
            "K05",
            either,
            "id,grp,v",
            "(1,x,1) (2,x,2) (3,y,3) (4,z,4)",
            "(3,x,30)",
            "(3,x,30) (4,z,4)",
        ),
        (
            "K07",
            marked(keys(&["id"]), "gone_at"),
            "id,v,gone_at",
            "(1,a,∅) (1,b,∅) (2,c,∅)",
            "(1,∅,d9)",
            "(2,c,∅)",
        ),
        (
            "K09",
            marked(dedup(keys(&["book"]), "book", &[]), "gone"),
            "book,shelf,gone",
            "(1,K,F)",
            "(9,∅,T)",
            "(1,K,F)",
        ),
        ("K10", Overwrite::default(), sr, "(s1,1)", "(s1,2)", "42601"),
        (
            "K11",
            marked(Overwrite::default(), "gone"),
            "id,gone",
            "(1,F)",
            "(1,T) (2,∅)",
            "42601",
        ),
        ("K14", keys(&["site"]), sr, "(s1,1)", "", "(s1,1)"),
        (
            "K15",
            keys(&["a", "b"]),
            "a,b,v",
            "(p,1,u) (p,2,v) (q,1,w)",
            "(p,2,V)",
            "(p,1,u) (p,2,V) (q,1,w)",
        ),
        (
            "K17",
            evolve(keys(&["id"])),
            "id,a",
            "(1,p) (2,q)",
            "id,a,b (1,P,5)",
            "id,a,b (1,P,5) (2,q,∅)",
        ),
        (
            "K21",
            keys(&["month"]),
            "who,day,month",
            "(ann,'25','07') (bo,'18','08')",
            "(bo,'19','08') (bo,'20','09')",
            "(ann,'25','07') (bo,'19','08') (bo,'20','09')",
        ),
    ]
}

fn window_cases() -> Vec<Case> {
    let idw = "id,w,v";
    let base = "(1,1,a) (2,2,b) (3,3,c) (5,5,e)";
    let apply = {
        let mut spec = between(1, 3);
        spec.common.on_empty = OnEmpty::Apply;
        spec
    };
    let half_open = || window(Window::Predicate(Cond::gt("w", 1).and(Cond::lt_eq("w", 3))));
    let two_ranges = Cond::gt("a", 0)
        .and(Cond::lt_eq("a", 2))
        .or(Cond::gt("b", 1).and(Cond::lt_eq("b", 3)));
    let outside = |on| Overwrite {
        on_outside: Some(on),
        ..between(1, 3)
    };
    let to_source = |from: i64| window(Window::ToSource(w(), Expr::lit(from)));
    let stale = "(1,1,a) (2,2,b) (90,3,stale) (91,5,later)";
    let day_window = window(Window::FromTo(
        "at".to_owned(),
        Expr::lit(Value::Ts(day(1))),
        Expr::lit(Value::Ts(day(2))),
    ));
    let deduped = dedup(between(1, 3), "id", &["w"]);
    let with_keys = {
        let mut spec = deduped.clone();
        spec.common.keys = vec![Keys::new(&["id"])];
        spec
    };
    vec![
        ("W01", half_open(), idw, base, "(9,2,n)", "(1,1,a) (5,5,e) (9,2,n)"),
        ("W02", from_to(1, 3), idw, base, "(9,1,n)", "(3,3,c) (5,5,e) (9,1,n)"),
        ("W03", between(1, 3), idw, base, "(9,2,n)", "(5,5,e) (9,2,n)"),
        ("W06", between(1, 3), idw, base, "(9,2,x) (10,77,far)", "44000"),
        (
            "W06 ignore",
            outside(OnOutside::Ignore),
            idw,
            base,
            "(9,2,x) (10,77,far)",
            "(5,5,e) (9,2,x)",
        ),
        ("W09", apply, idw, base, "", "(5,5,e)"),
        ("W09b", between(1, 3), idw, base, "", base),
        ("W11", create(between(1, 3)), idw, "-", "(9,2,x)", "(9,2,x)"),
        ("W12", between(4, 3), idw, base, "(9,2,x)", "22023"),
        ("W15", between(Value::Null, 3), idw, base, "(9,2,x)", "22023"),
        (
            "W17",
            window(Window::Predicate(two_ranges)),
            "id,a,b",
            "(1,1,100) (2,5,2) (3,50,60) (4,2,3)",
            "(9,2,2)",
            "(3,50,60) (9,2,2)",
        ),
        (
            "W19",
            from_to(1, 4),
            "ord,w,v",
            "(A,2,a) (B,2,b) (C,3,c) (Z,9,z)",
            "(A,3,a2) (B,2,b)",
            "(A,3,a2) (B,2,b) (Z,9,z)",
        ),
        (
            "W21",
            to_source(2),
            idw,
            stale,
            "(3,3,n3) (4,4,n4)",
            "(1,1,a) (3,3,n3) (4,4,n4) (91,5,later)",
        ),
        (
            "W21b",
            to_source(3),
            idw,
            stale,
            "(3,3,n3) (4,4,n4)",
            "(1,1,a) (2,2,b) (3,3,n3) (4,4,n4) (91,5,later)",
        ),
        ("W22", to_source(2), idw, base, "", base),
        (
            "W23",
            day_window,
            "id,at",
            "(1,d1) (2,d1 23:59:59.999999) (3,d2)",
            "(9,d1 12:00)",
            "(3,d2) (9,d1 12:00)",
        ),
        (
            "W24",
            evolve(half_open()),
            "id,w",
            "(1,1) (2,2)",
            "x,w,id (1.5,2,9)",
            "id,w,x (1,1,∅) (9,2,1.5)",
        ),
        ("W26", deduped, idw, "(1,2,a)", "(3,2,x) (3,3,y)", "(3,3,y)"),
        ("W26b", with_keys, idw, "(1,2,a)", "(3,2,x) (3,3,y)", "42601"),
    ]
}

#[test]
fn seed_cases() {
    for (id, spec, columns, before, source, after) in key_cases().into_iter().chain(window_cases()) {
        let with_columns = |text: &str| match text.split_once(' ') {
            Some((own, rows)) if !own.is_empty() && !own.starts_with('(') => table(own, rows),
            _ => table(columns, text),
        };
        let before = (before != "-").then(|| with_columns(before));
        let source = with_columns(source);
        let expected = with_columns(after);
        let expected = if after.starts_with(|c: char| c.is_ascii_digit()) {
            Err(after)
        } else {
            Ok(&expected)
        };
        check_twice(id, false, |t| spec.apply(t, &source), before.as_ref(), expected);
    }
}

#[test]
fn nothing_is_created_from_nothing() {
    let outcome = create(between(1, 3)).apply(None, &table("id,w,v", "")).unwrap();
    assert_eq!(outcome.table, None);
}

#[test]
fn outside_rows_repeat_under_insert() {
    let spec = Overwrite {
        on_outside: Some(OnOutside::Insert),
        ..between(1, 3)
    };
    let source = table("id,w,v", "(10,77,far)");
    let first = spec
        .apply(Some(&table("id,w,v", "(1,1,a) (2,2,b) (3,3,c) (5,5,e)")), &source)
        .unwrap();
    assert_eq!(
        first.counts,
        Counts {
            inserted: 1,
            deleted: 3,
            source: 1,
            ..Counts::default()
        }
    );
    let second = spec.apply(first.table.as_ref(), &source).unwrap();
    assert_eq!(
        second.table.unwrap().rows,
        table("id,w,v", "(5,5,e) (10,77,far) (10,77,far)").rows
    );
}
