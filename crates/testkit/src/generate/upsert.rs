//! Random `UPSERT` statements.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::Case;
use super::common::{Stored, common, creating, landing, marker, newer, stored, tables, target_columns, text};
use super::layout::layout;
use super::schema::{Schema, schema};
use crate::oracle::{Absent, AbsentRows, ColumnSet, Common, Cond, Expr, UpdateColumns, Upsert};

/// Any statement with tables that fit it.
pub fn upsert_case() -> BoxedStrategy<Case<Upsert>> {
    (schema(), stored())
        .prop_flat_map(|(schema, stored)| case(&schema, stored))
        .boxed()
}

fn case(schema: &Schema, stored: Stored) -> BoxedStrategy<Case<Upsert>> {
    let owned = schema.clone();
    (spec(schema, stored), layout(schema))
        .prop_flat_map(move |(spec, layout)| {
            let tables = tables(&owned, &spec.common, stored, target_columns(&owned, stored));
            (Just(spec), tables, Just(layout))
        })
        .prop_map(|(spec, (target, sources), layout)| Case {
            spec,
            target,
            sources,
            layout,
        })
        .boxed()
}

fn spec(schema: &Schema, stored: Stored) -> BoxedStrategy<Upsert> {
    let parts = (
        common(schema, true),
        marker(),
        weighted(0.25, column_set()),
        update(),
        weighted(0.2, Just(newer())),
        weighted(0.3, absent(schema)),
    );
    parts
        .prop_map(
            move |(mut common, delete_when, ignore_nulls, update, update_when, absent)| {
                let computes = update != UpdateColumns::All || update_when.is_some() || absent.is_some();
                if computes {
                    common.columns = None; // the columns that expressions read all land
                }
                landing(&mut common, stored, delete_when.as_ref());
                let common: Common = creating(common, stored);
                Upsert {
                    common,
                    delete_when,
                    ignore_nulls,
                    update,
                    update_when,
                    absent,
                }
            },
        )
        .boxed()
}

fn column_set() -> impl Strategy<Value = ColumnSet> {
    select(vec![
        ColumnSet::all_except(&[]),
        ColumnSet::only(&["v"]),
        ColumnSet::all_except(&["n"]),
    ])
}

fn update() -> impl Strategy<Value = UpdateColumns> {
    let n = |side: fn(String) -> Expr| side("n".to_owned());
    let add = Expr::Add(Box::new(n(Expr::Target)), Box::new(n(Expr::Source)));
    let set = |column: &str, value: Expr| UpdateColumns::Set(vec![(column.to_owned(), value)]);
    prop_oneof![
        6 => Just(UpdateColumns::All),
        2 => column_set().prop_map(UpdateColumns::Only),
        1 => Just(set("n", n(Expr::Source))),
        1 => Just(set("v", text("set"))),
        1 => Just(set("n", add)),
    ]
}

fn absent(schema: &Schema) -> BoxedStrategy<Absent<AbsentRows>> {
    let within = weighted(0.3, select([schema.value_names(), schema.key_names()].concat()));
    // A bare column would be the source's where a test evaluates it beside a source row.
    let low = Cond::LtEq(Expr::Target("n".to_owned()), Expr::lit(1));
    let condition = weighted(0.3, Just(low));
    let gone = AbsentRows::Set(vec![("v".to_owned(), text("gone"))]);
    (within, condition, select(vec![AbsentRows::Delete, gone]))
        .prop_map(|(within, condition, action)| Absent {
            within: within.into_iter().collect(),
            condition,
            action,
        })
        .boxed()
}
