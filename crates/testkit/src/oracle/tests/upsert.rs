use super::cases::{check_twice, table};
use crate::oracle::{
    Absent, AbsentRows, ColumnSet, Common, Cond, Counts, Create, Dedup, DeleteMarker, Expr, Order, Status, Unique,
    UpdateColumns, Upsert,
};

fn keys(columns: &[&str]) -> Upsert {
    Upsert {
        common: Common::keys(columns),
        ..Upsert::default()
    }
}

fn by(column: &str, descending: bool) -> Unique {
    let order = Order {
        column: column.to_owned(),
        descending,
        nulls_first: false,
    };
    Unique::Dedup(Dedup {
        by: vec![order],
        ..Dedup::default()
    })
}

fn dedup(column: &str, descending: bool) -> Upsert {
    let mut spec = keys(&["tag"]);
    spec.common.unique = by(column, descending);
    spec
}

fn marked(marker: &str) -> Upsert {
    Upsert {
        delete_when: Some(DeleteMarker::Column(marker.to_owned())),
        ..keys(&["book"])
    }
}

fn create(mut spec: Upsert) -> Upsert {
    spec.common.create = Some(Create::default());
    spec
}

fn sequence() -> Upsert {
    let mut spec = keys(&["id"]);
    spec.common.sequence = vec!["seq".to_owned()];
    spec
}

/// Id, spec, columns, target before (`-`: absent), source, rows after or SQLSTATE. Source or result columns that differ
/// from the target's stand before their rows.
type Case = (
    &'static str,
    Upsert,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

fn cases() -> Vec<Case> {
    let pc = "parcel,city";
    let parcel = || keys(&["parcel"]);
    let book = "book,shelf,gone";
    let with_columns = {
        let mut spec = create(marked("gone"));
        spec.common.columns = Some(ColumnSet::only(&["book", "shelf", "gone"]));
        spec
    };
    let evolve = {
        let mut spec = keys(&["id"]);
        spec.common.evolve = true;
        spec
    };
    let two = {
        let mut spec = parcel();
        spec.common.keys.extend(keys(&["city"]).common.keys);
        spec
    };
    let losing_delete = {
        let mut spec = dedup("seq", true);
        spec.delete_when = Some(DeleteMarker::Column("del".to_owned()));
        spec
    };
    vec![
        (
            "U01",
            parcel(),
            pc,
            "(1,Lund) (2,Oslo)",
            "(2,Bergen) (3,Turku)",
            "(1,Lund) (2,Bergen) (3,Turku)",
        ),
        ("U02", parcel(), pc, "(1,Lund)", "", "(1,Lund)"),
        (
            "U03",
            keys(&["depot", "slot"]),
            "depot,slot,qty",
            "(A,1,5) (A,2,6) (B,1,7)",
            "(A,2,60) (B,2,8)",
            "(A,1,5) (A,2,60) (B,1,7) (B,2,8)",
        ),
        ("U05", parcel(), pc, "(1,Lund)", "(1,∅)", "(1,∅)"),
        (
            "U06",
            create(parcel()),
            pc,
            "-",
            "(1,Lund) (2,Oslo)",
            "(1,Lund) (2,Oslo)",
        ),
        ("U06 no create", parcel(), pc, "-", "(1,Lund)", "42P01"),
        ("U07", with_columns, book, "-", "(1,K,T) (2,M,F)", "(2,M,F)"),
        (
            "U07b",
            create(marked("gone")),
            book,
            "-",
            "(1,K,T) (2,M,F)",
            "book,shelf (2,M)",
        ),
        ("U08", marked("gone"), book, "(1,K,F) (2,M,F)", "(1,∅,T)", "(2,M,F)"),
        (
            "U09",
            marked("gone"),
            book,
            "(1,K,F) (2,M,F)",
            "(1,K2,F) (2,M2,∅)",
            "(1,K2,F) (2,M2,∅)",
        ),
        (
            "U11",
            marked("gone_at"),
            "book,shelf,gone_at",
            "(1,K,∅) (2,M,∅)",
            "(1,∅,d5) (2,M2,∅)",
            "(2,M2,∅)",
        ),
        ("U13", parcel(), pc, "(1,Lund)", "(1,Oslo) (1,Turku)", "21000"),
        (
            "U15",
            dedup("seq", true),
            "tag,seq,v",
            "(1,0,old)",
            "(1,4,b) (1,9,c) (1,6,d)",
            "(1,9,c)",
        ),
        (
            "U17",
            dedup("seq", true),
            "tag,seq,v",
            "",
            "(1,9,first) (1,9,second) (1,3,low)",
            "(1,9,first)",
        ),
        (
            "U19",
            dedup("seq", false),
            "tag,seq,v",
            "",
            "(1,∅,none) (1,2,two)",
            "(1,2,two)",
        ),
        (
            "U21",
            losing_delete,
            "tag,seq,v,del",
            "",
            "(1,1,x,F) (1,2,y,T) (1,3,z,F)",
            "(1,3,z,F)",
        ),
        ("U22", parcel(), pc, "(1,Lund)", "(∅,Oslo)", "23502"),
        (
            "U24",
            keys(&["id"]),
            "id,a,b",
            "(1,p,10)",
            "id,a (1,q) (2,r)",
            "(1,q,10) (2,r,∅)",
        ),
        ("U25", keys(&["id"]), "id,a", "(1,p)", "id,a,extra (1,q,5)", "42703"),
        (
            "U26",
            evolve,
            "id,a",
            "(1,p) (2,o)",
            "id,a,extra (1,q,5)",
            "id,a,extra (1,q,5) (2,o,∅)",
        ),
        ("U28", keys(&["id"]), "id", "(1)", "(1) (2)", "(1) (2)"),
        ("U30", Upsert::default(), pc, "(1,Lund)", "(1,Oslo)", "42601"),
        ("U32", two, pc, "(1,Lund)", "(1,Oslo)", "42601"),
        (
            "U35",
            keys(&["id"]),
            "id,a,n",
            "(1,p,∅) (2,q,5)",
            "(1,p,∅) (2,q,6)",
            "(1,p,∅) (2,q,6)",
        ),
    ]
}

fn cross_cases() -> Vec<Case> {
    let id = || keys(&["id"]);
    let everything = ColumnSet::all_except(&[]);
    let ignore_nulls = Upsert {
        ignore_nulls: Some(everything),
        ..id()
    };
    let delete_absent = Upsert {
        absent: Some(Absent::then(AbsentRows::Delete)),
        ..id()
    };
    let gone = vec![
        ("live".to_owned(), Expr::lit(false)),
        ("v".to_owned(), Expr::lit("gone")),
    ];
    let live = Some(Cond::Is(Expr::Target("live".to_owned())));
    let update_absent = Upsert {
        absent: Some(Absent {
            condition: live,
            ..Absent::then(AbsentRows::Set(gone))
        }),
        ..id()
    };
    let source_v = Expr::Source("v".to_owned());
    let target_v = Expr::Target("v".to_owned());
    let greater = Upsert {
        update_when: Some(Cond::Gt(source_v, target_v)),
        ..id()
    };
    vec![
        (
            "X01",
            sequence(),
            "id,v,seq",
            "(1,a,5) (2,b,5)",
            "(1,old,4) (2,new,6)",
            "(1,a,5) (2,new,6)",
        ),
        ("X02", sequence(), "id,v,seq", "(1,a,5)", "(1,z,5)", "(1,z,5)"),
        (
            "X04",
            ignore_nulls,
            "id,a,b",
            "(1,p,7)",
            "(1,∅,8) (2,∅,∅)",
            "(1,p,8) (2,∅,∅)",
        ),
        ("X06", delete_absent, "id,v", "(1,a) (2,b)", "(1,z)", "(1,z)"),
        (
            "X08",
            update_absent,
            "id,v,live",
            "(1,a,T) (2,b,T) (3,c,F)",
            "(1,a,T)",
            "(1,a,T) (2,gone,F) (3,c,F)",
        ),
        (
            "X09",
            greater,
            "id,v",
            "(1,10) (2,10)",
            "(1,5) (2,50) (3,1)",
            "(1,10) (2,50) (3,1)",
        ),
        ("X16", sequence(), "id,v,seq", "(1,a,1)", "(7,x,3) (7,y,3)", "21000"),
    ]
}

#[test]
fn seed_cases() {
    for (id, spec, columns, before, source, after) in cases().into_iter().chain(cross_cases()) {
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
        check_twice(id, true, |t| spec.apply(t, &source), before.as_ref(), expected);
    }
}

#[test]
fn counts_tell_updated_from_unchanged() {
    let before = table("id,a,n", "(1,p,∅) (2,q,5) (3,r,1)");
    let source = table("id,a,n", "(1,p,∅) (2,q,6) (4,s,1)");
    let outcome = keys(&["id"]).apply(Some(&before), &source).unwrap();
    let expected = Counts {
        inserted: 1,
        updated: 1,
        unchanged: 1,
        source: 3,
        ..Counts::default()
    };
    assert_eq!((outcome.counts, outcome.status), (expected, Status::Committed));
    let empty = keys(&["id"]).apply(Some(&before), &table("id,a,n", "")).unwrap();
    assert_eq!(empty.status, Status::Skipped);
    let same = keys(&["id"]).apply(Some(&before), &table("id,a,n", "(3,r,1)")).unwrap();
    assert_eq!(same.status, Status::NoChanges);
}

#[test]
fn set_computes_from_both_rows() {
    let sum = Expr::Add(
        Box::new(Expr::Target("v".to_owned())),
        Box::new(Expr::Source("v".to_owned())),
    );
    let spec = Upsert {
        update: UpdateColumns::Set(vec![("v".to_owned(), sum)]),
        ..keys(&["id"])
    };
    let outcome = spec
        .apply(Some(&table("id,v", "(1,10)")), &table("id,v", "(1,1)"))
        .unwrap();
    assert_eq!(outcome.table.unwrap().rows, table("id,v", "(1,11)").rows);
    assert_eq!(
        spec.to_sql("t", "s"),
        "UPSERT INTO t USING s\nKEYS (\"id\")\nUPDATE SET \"v\" = (target.\"v\" + source.\"v\")"
    );
}
