use super::cases::{HIGH, Load, check, check_loads, day, table};
use crate::oracle::{Absent, AbsentVersions, ColumnSet, Common, Dedup, OnEmpty, Order, Scd2, Track, Unique, Validity};

type Case = (&'static str, Scd2, &'static str, &'static [Load], &'static str);

/// Without keys, absent rows closed.
fn full() -> Scd2 {
    let absent = Some(Absent::then(AbsentVersions::Invalidate));
    Scd2 {
        validity: Some(Validity::new("vf", "vt", None, None)),
        absent,
        ..Scd2::default()
    }
}

fn keyed(columns: &[&str]) -> Scd2 {
    Scd2 {
        common: Common::keys(columns),
        absent: None,
        ..full()
    }
}

fn tracking(columns: &[&str], spec: Scd2) -> Scd2 {
    Scd2 {
        track: Track::On(ColumnSet::only(columns)),
        ..spec
    }
}

fn on_empty(on_empty: OnEmpty, mut spec: Scd2) -> Scd2 {
    spec.common.on_empty = on_empty;
    spec
}

fn full_extracts() -> Vec<Case> {
    let mp = "m,plan";
    let mpv = "m,plan,ver";
    let within_day = {
        let mut spec = full();
        spec.absent = Some(Absent {
            within: vec!["day".to_owned()],
            ..Absent::then(AbsentVersions::Invalidate)
        });
        spec
    };
    let since = Scd2 {
        validity: Some(Validity::new("since", "until", None, None)),
        ..full()
    };
    let high = Scd2 {
        active_until: Some(HIGH),
        ..full()
    };
    let ver = || tracking(&["ver"], full());
    let (free, both) = ((1, "(1,free)"), (1, "(1,free) (2,pro)"));
    vec![
        (
            "H01",
            full(),
            mp,
            &[(1, "(1,free) (2,pro)")],
            "m,plan,vf,vt (1,free,d1,∅) (2,pro,d1,∅)",
        ),
        (
            "H02",
            full(),
            mp,
            &[(1, "(1,free) (2,pro)"), (2, "(1,free) (2,pro)")],
            "m,plan,vf,vt (1,free,d1,∅) (2,pro,d1,∅)",
        ),
        (
            "H03",
            full(),
            mp,
            &[(1, "(1,free) (2,pro)"), (2, "(1,team) (2,pro)")],
            "m,plan,vf,vt (1,free,d1,d2) (1,team,d2,∅) (2,pro,d1,∅)",
        ),
        (
            "H04",
            full(),
            mp,
            leak([both, (3, "(1,free)")]),
            "m,plan,vf,vt (1,free,d1,∅) (2,pro,d1,d3)",
        ),
        (
            "H05",
            full(),
            mp,
            leak([free, (2, "(1,free) (3,pro)")]),
            "m,plan,vf,vt (1,free,d1,∅) (3,pro,d2,∅)",
        ),
        (
            "H10",
            within_day,
            "day,item",
            &[(2, "(jan1,a) (jan1,b)"), (3, "(jan2,c)")],
            "day,item,vf,vt (jan1,a,d2,∅) (jan1,b,d2,∅) (jan2,c,d3,∅)",
        ),
        (
            "H14",
            since,
            mp,
            leak([free, (2, "(1,pro)")]),
            "m,plan,since,until (1,free,d1,d2) (1,pro,d2,∅)",
        ),
        (
            "H15",
            high,
            mp,
            leak([both, (2, "(1,team)")]),
            "m,plan,vf,vt (1,free,d1,d2) (1,team,d2,9999-12-31) (2,pro,d1,d2)",
        ),
        (
            "H17",
            full(),
            mp,
            leak([free, (1, "(1,pro)")]),
            "m,plan,vf,vt (1,free,d1,d1) (1,pro,d1,∅)",
        ),
        (
            "H18",
            ver(),
            mpv,
            &[(1, "(1,free,v1)"), (2, "(1,EDITED,v1)")],
            "m,plan,ver,vf,vt (1,EDITED,v1,d1,∅)",
        ),
        (
            "H19",
            ver(),
            mpv,
            &[(1, "(1,free,v1)"), (2, "(1,free,v2)")],
            "m,plan,ver,vf,vt (1,free,v1,d1,d2) (1,free,v2,d2,∅)",
        ),
        ("H20", ver(), mpv, &[(1, "(1,free,∅)")], "23502"),
        ("H25", full(), mp, leak([free, (2, "")]), "m,plan,vf,vt (1,free,d1,∅)"),
        (
            "H25b",
            on_empty(OnEmpty::Error, full()),
            mp,
            leak([free, (2, "")]),
            "22023",
        ),
        ("H32", full(), "m,vt", &[(1, "(1,x)")], "42701"),
        (
            "H38",
            on_empty(OnEmpty::Apply, tracking(&["h"], full())),
            "m,h",
            &[(1, "(1,x) (2,y)"), (2, "")],
            "m,h,vf,vt (1,x,d1,d2) (2,y,d1,d2)",
        ),
        (
            "N08",
            full(),
            "id,items",
            &[(1, "(1,[1]) (2,[2 3])"), (2, "(2,[2 3])"), (3, "(1,[1]) (2,[2 3])")],
            "id,items,vf,vt (1,[1],d1,d2) (1,[1],d3,∅) (2,[2 3],d1,∅)",
        ),
    ]
}

fn leak<const N: usize>(loads: [Load; N]) -> &'static [Load] {
    Vec::leak(loads.to_vec())
}

fn keyed_extracts() -> Vec<Case> {
    let mp = "m,plan";
    let m = || keyed(&["m"]);
    let newest = {
        let mut spec = m();
        let by = vec![Order {
            column: "seq".to_owned(),
            descending: true,
            nulls_first: false,
        }];
        spec.common.unique = Unique::Dedup(Dedup { by, ..Dedup::default() });
        spec
    };
    let evolve = {
        let mut spec = m();
        spec.common.evolve = true;
        spec
    };
    let records = Scd2 {
        validity: Some(Validity::new("vf", "vt", Some("cur"), Some("del"))),
        absent: Some(Absent::then(AbsentVersions::NewRecord)),
        ..keyed(&["k"])
    };
    let seen = tracking(&["v"], keyed(&["k"]));
    vec![
        (
            "H07",
            m(),
            mp,
            &[(1, "(1,free)"), (2, "(1,pro)"), (3, "(1,free)")],
            "m,plan,vf,vt (1,free,d1,d2) (1,free,d3,∅) (1,pro,d2,d3)",
        ),
        (
            "H08",
            m(),
            mp,
            &[(1, "(1,free) (2,pro)"), (2, "(1,free)")],
            "m,plan,vf,vt (1,free,d1,∅) (2,pro,d1,∅)",
        ),
        (
            "H09",
            m(),
            mp,
            &[(1, "(1,free) (2,pro)"), (2, "(1,team)")],
            "m,plan,vf,vt (1,free,d1,d2) (1,team,d2,∅) (2,pro,d1,∅)",
        ),
        (
            "H12",
            keyed(&["fn", "ln"]),
            "fn,ln,age",
            &[(1, "(Ida,Ek,20) (Ida,Alm,20)"), (2, "(Ida,Ek,30)")],
            "fn,ln,age,vf,vt (Ida,Alm,20,d1,∅) (Ida,Ek,20,d1,d2) (Ida,Ek,30,d2,∅)",
        ),
        ("H23", m(), mp, &[(1, "(1,free)"), (2, "(1,pro) (1,team)")], "21000"),
        (
            "identical rows collapse",
            m(),
            mp,
            &[(1, "(1,free) (1,free)")],
            "m,plan,vf,vt (1,free,d1,∅)",
        ),
        (
            "H24",
            newest,
            "m,plan,seq",
            &[(1, "(1,free,1)"), (2, "(1,pro,2) (1,team,3)")],
            "m,plan,seq,vf,vt (1,free,1,d1,d2) (1,team,3,d2,∅)",
        ),
        (
            "H27",
            m(),
            mp,
            &[(1, "(1,∅) (2,x)"), (2, "(1,∅) (2,∅)")],
            "m,plan,vf,vt (1,∅,d1,∅) (2,x,d1,d2) (2,∅,d2,∅)",
        ),
        (
            "H29",
            evolve,
            mp,
            &[(1, "(1,free)"), (2, "m,plan,note (1,free,∅)")],
            "m,plan,note,vf,vt (1,free,∅,d1,∅)",
        ),
        ("H31", m(), mp, &[(1, "(1,free)"), (2, "(∅,pro)")], "23502"),
        (
            "a boundary in the past",
            m(),
            mp,
            &[(5, "(1,free)"), (4, "(1,pro)")],
            "22023",
        ),
        (
            "X12",
            records,
            "k,v",
            &[(1, "(1,a) (2,b)"), (2, "(2,b)"), (3, "(1,a) (2,b)")],
            "k,v,vf,vt,cur,del (1,a,d1,d2,F,F) (1,a,d2,d3,F,T) (1,a,d3,∅,T,F) (2,b,d1,∅,T,F)",
        ),
        (
            "X15",
            seen,
            "k,v,seen",
            &[(1, "(1,a,1) (2,b,1)"), (2, "(1,a,2) (2,B,2)")],
            "k,v,seen,vf,vt (1,a,2,d1,∅) (2,b,1,d1,d2) (2,B,2,d2,∅)",
        ),
    ]
}

#[test]
fn seed_cases() {
    for (id, spec, columns, loads, after) in full_extracts().into_iter().chain(keyed_extracts()) {
        check_loads(id, &spec, columns, loads, after);
    }
}

#[test]
fn another_open_marker_is_refused() {
    let before = table("m,plan,vf,vt", "(1,a,d1,∅)");
    let spec = Scd2 {
        active_until: Some(HIGH),
        ..keyed(&["m"])
    };
    check(
        "H37",
        &spec.apply(Some(&before), &table("m,plan", "(1,a)"), day(2)),
        Err("22023"),
    );
    let before = table("m,plan,vf,vt,cur", "(1,a,d1,9999-12-31,T)");
    let spec = Scd2 {
        validity: Some(Validity::new("vf", "vt", Some("cur"), None)),
        ..keyed(&["m"])
    };
    check(
        "H37 NULL",
        &spec.apply(Some(&before), &table("m,plan", "(1,a)"), day(2)),
        Err("22023"),
    );
}
