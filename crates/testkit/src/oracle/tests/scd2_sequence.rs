use super::cases::{Load, check_loads};
use crate::oracle::{ColumnSet, Common, Cond, DeleteMarker, DeleteVersions, LatePolicy, Scd2, Track, Validity};

type Case = (&'static str, Scd2, &'static str, &'static [Load], &'static str);

fn by_content() -> Scd2 {
    let mut common = Common::keys(&["k"]);
    common.sequence = vec!["eff".to_owned()];
    Scd2 {
        common,
        validity: Some(Validity::new("vf", "vt", Some("cur"), None)),
        ..Scd2::default()
    }
}

fn always() -> Scd2 {
    Scd2 {
        track: Track::Always,
        ..by_content()
    }
}

fn on_late(late: LatePolicy, spec: Scd2) -> Scd2 {
    Scd2 {
        late: Some(late),
        ..spec
    }
}

fn deletes(then: DeleteVersions) -> Scd2 {
    let mut spec = by_content();
    spec.delete_when = Some((DeleteMarker::When(Cond::eq("op", "D")), then));
    spec.common.columns = Some(ColumnSet::all_except(&["op", "eff"]));
    let deleted = (then == DeleteVersions::NewRecord).then_some("del");
    spec.validity = Some(Validity::new("vf", "vt", Some("cur"), deleted));
    spec
}

const A5: Load = (1, "(1,a,d5)");

fn seed() -> Vec<Case> {
    let kv = "k,v,eff";
    let without_sequence = {
        let mut spec = always();
        spec.common.sequence.clear();
        spec
    };
    vec![
        (
            "E01",
            always(),
            kv,
            &[(1, "(1,a,d5) (2,b,d6)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,∅,T) (2,b,d6,d6,∅,T)",
        ),
        (
            "E02",
            always(),
            kv,
            &[(1, "(1,a,d5) (2,b,d5)"), (2, "(1,a2,d8)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,d8,F) (1,a2,d8,d8,∅,T) (2,b,d5,d5,∅,T)",
        ),
        (
            "E03",
            always(),
            kv,
            &[A5, (2, "(1,z,d5)")],
            "k,v,eff,vf,vt,cur (1,z,d5,d5,∅,T)",
        ),
        (
            "E03b",
            on_late(LatePolicy::Error, always()),
            kv,
            &[A5, (2, "(1,old,d2)")],
            "22023",
        ),
        (
            "E04",
            on_late(LatePolicy::Append, always()),
            kv,
            &[A5, (2, "(1,z,d5)")],
            "k,v,eff,vf,vt,cur (1,z,d5,d5,∅,T)",
        ),
        (
            "E06",
            on_late(LatePolicy::Ignore, always()),
            kv,
            &[A5, (2, "(1,old,d2) (1,new,d7)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,d7,F) (1,new,d7,d7,∅,T)",
        ),
        (
            "E08",
            on_late(LatePolicy::Append, always()),
            kv,
            &[A5, (2, "(1,n,d8) (1,o,d3)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,d8,F) (1,n,d8,d8,∅,T) (1,o,d3,d3,∅,T)",
        ),
        (
            "E10",
            always(),
            kv,
            &[A5, (2, "(1,a,d5)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,∅,T)",
        ),
        (
            "E11",
            always(),
            kv,
            &[A5, (2, "(1,a,d7)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,d7,F) (1,a,d7,d7,∅,T)",
        ),
        (
            "E11b",
            by_content(),
            kv,
            &[A5, (2, "(1,a,d7)")],
            "k,v,eff,vf,vt,cur (1,a,d7,d5,∅,T)",
        ),
        ("E13", always(), kv, &[A5, (2, "(∅,n,d8)")], "23502"),
        (
            "E14",
            always(),
            kv,
            &[(1, "(1,a,d5) (2,b,d5)"), (2, "")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,∅,T) (2,b,d5,d5,∅,T)",
        ),
        ("E15", without_sequence, kv, &[A5], "42601"),
        (
            "E17",
            always(),
            kv,
            &[(1, "(1,a,d5) (1,b,d6)")],
            "k,v,eff,vf,vt,cur (1,a,d5,d5,d6,F) (1,b,d6,d6,∅,T)",
        ),
        (
            "X13",
            deletes(DeleteVersions::Invalidate),
            "k,v,eff,op",
            &[(1, "(1,a,d1,U) (1,∅,d3,D)"), (2, "(1,b,d5,U)")],
            "k,v,vf,vt,cur (1,a,d1,d3,F) (1,b,d5,∅,T)",
        ),
    ]
}

/// Late rows and deletes, beyond the seed.
fn splices() -> Vec<Case> {
    let kv = "k,v,eff";
    let op = "k,v,eff,op";
    let gone = || deletes(DeleteVersions::Invalidate);
    vec![
        (
            "between two versions",
            always(),
            kv,
            &[(1, "(1,a,d2) (1,c,d6)"), (2, "(1,b,d4)")],
            "k,v,vf,vt,cur (1,a,d2,d4,F) (1,b,d4,d6,F) (1,c,d6,∅,T)",
        ),
        (
            "before all versions",
            always(),
            kv,
            &[A5, (2, "(1,z,d3)")],
            "k,v,vf,vt,cur (1,z,d3,d5,F) (1,a,d5,∅,T)",
        ),
        (
            "equals its predecessor: nothing",
            by_content(),
            kv,
            &[(1, "(1,a,d2) (1,c,d6)"), (2, "(1,a,d4)")],
            "k,v,eff,vf,vt,cur (1,a,d2,d2,d6,F) (1,c,d6,d6,∅,T)",
        ),
        (
            "equals its successor: the start moves back",
            by_content(),
            kv,
            &[(1, "(1,a,d2) (1,c,d6)"), (2, "(1,c,d4)")],
            "k,v,eff,vf,vt,cur (1,a,d2,d2,d4,F) (1,c,d6,d4,∅,T)",
        ),
        (
            "two late rows, one equal to the successor",
            by_content(),
            kv,
            &[A5, (2, "(1,a,d3) (1,b,d4)")],
            "k,v,vf,vt,cur (1,a,d3,d4,F) (1,b,d4,d5,F) (1,a,d5,∅,T)",
        ),
        (
            "a re-confirmed version does not go back",
            by_content(),
            kv,
            &[(1, "(1,a,d5)"), (2, "(1,a,d7)"), (3, "(1,a,d5)")],
            "k,v,eff,vf,vt,cur (1,a,d7,d5,∅,T)",
        ),
        (
            "late delete leaves a gap",
            gone(),
            op,
            &[(1, "(1,a,d2,U) (1,c,d6,U)"), (2, "(1,∅,d4,D)")],
            "k,v,vf,vt,cur (1,a,d2,d4,F) (1,c,d6,∅,T)",
        ),
        (
            "late row within a gap",
            gone(),
            op,
            &[(1, "(1,a,d1,U) (1,∅,d3,D) (1,c,d6,U)"), (2, "(1,b,d4,U)")],
            "k,v,vf,vt,cur (1,a,d1,d3,F) (1,b,d4,d6,F) (1,c,d6,∅,T)",
        ),
        (
            "late row before a final delete",
            gone(),
            op,
            &[(1, "(1,a,d1,U) (1,∅,d5,D)"), (2, "(1,b,d3,U)")],
            "k,v,vf,vt,cur (1,a,d1,d3,F) (1,b,d3,d5,F)",
        ),
        (
            "a row at the delete's own time: the later statement wins",
            gone(),
            op,
            &[(1, "(1,a,d1,U) (1,∅,d5,D)"), (2, "(1,b,d5,U)")],
            "k,v,vf,vt,cur (1,a,d1,d5,F) (1,b,d5,∅,T)",
        ),
        (
            "a delete at the row's own time: the later statement wins",
            gone(),
            op,
            &[(1, "(1,a,d1,U)"), (2, "(1,∅,d1,D)")],
            "k,v,vf,vt,cur (1,a,d1,d1,F)",
        ),
        (
            "deletes as records",
            deletes(DeleteVersions::NewRecord),
            op,
            &[(1, "(1,a,d1,U) (1,∅,d3,D)"), (2, "(1,b,d5,U)")],
            "k,v,vf,vt,cur,del (1,a,d1,d3,F,F) (1,a,d3,d5,F,T) (1,b,d5,∅,T,F)",
        ),
    ]
}

#[test]
fn seed_cases() {
    for (id, spec, columns, loads, after) in seed() {
        check_loads(id, &spec, columns, loads, after);
    }
}

#[test]
fn late_rows_and_deletes() {
    for (id, spec, columns, loads, after) in splices() {
        check_loads(id, &spec, columns, loads, after);
    }
}
