//! Random `MERGE OVERWRITE` statements.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::Case;
use super::common::{Stored, common, creating, landing, marker, null_keys, order, stored, tables, target_columns};
use super::layout::layout;
use super::schema::{Schema, schema};
use crate::oracle::{Common, Cond, Dedup, Expr, Keys, OnOutside, Overwrite, Unique, Window};

/// Replacement by one or two sets of keys.
pub fn overwrite_keys_case() -> BoxedStrategy<Case<Overwrite>> {
    (schema(), stored())
        .prop_flat_map(|(schema, stored)| with_tables(schema.clone(), stored, by_keys(&schema)))
        .boxed()
}

/// Replacement of a window over the integer column `n`.
pub fn overwrite_window_case() -> BoxedStrategy<Case<Overwrite>> {
    (schema(), stored())
        .prop_flat_map(|(schema, stored)| with_tables(schema.clone(), stored, by_window(&schema)))
        .boxed()
}

fn with_tables(schema: Schema, stored: Stored, spec: BoxedStrategy<Overwrite>) -> BoxedStrategy<Case<Overwrite>> {
    let spec = spec.prop_map(move |mut spec| {
        if spec.window.is_some() {
            spec.common.columns = None; // the window's column lands
        }
        landing(&mut spec.common, stored, spec.delete_when.as_ref());
        spec.common = creating(spec.common, stored);
        spec
    });
    (spec, layout(&schema))
        .prop_flat_map(move |(spec, layout)| {
            // Key groups may have many rows, so rivals are no error here.
            let rivals = Common {
                unique: Unique::Assume,
                ..spec.common.clone()
            };
            let tables = tables(&schema, &rivals, stored, target_columns(&schema, stored));
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

fn by_keys(schema: &Schema) -> BoxedStrategy<Overwrite> {
    let or_keys = null_keys().prop_map(|nulls| Keys {
        nulls,
        ..Keys::new(&["v"])
    });
    (common(schema, true), weighted(0.3, or_keys), marker())
        .prop_map(|(mut common, or_keys, delete_when)| {
            if or_keys.is_some() {
                common.columns = None; // the second key lands, too
                common.keys.iter_mut().for_each(|keys| keys.within = None);
            }
            common.keys.extend(or_keys);
            common.no_compare = false;
            Overwrite {
                common,
                delete_when,
                ..Overwrite::default()
            }
        })
        .boxed()
}

fn by_window(schema: &Schema) -> BoxedStrategy<Overwrite> {
    let dedup = (select(vec!["k1", "v"]), order(schema)).prop_map(|(on, by)| {
        Unique::Dedup(Dedup {
            on: vec![on.to_owned()],
            by,
            with_ties: false,
        })
    });
    let outside = weighted(
        0.7,
        select(vec![OnOutside::Error, OnOutside::Ignore, OnOutside::Insert]),
    );
    (common(schema, false), window(), outside, marker(), weighted(0.3, dedup))
        .prop_map(|(common, window, on_outside, delete_when, dedup)| Overwrite {
            common: Common {
                keys: Vec::new(),
                unique: dedup.unwrap_or_default(),
                no_compare: false,
                ..common
            },
            window: Some(window),
            delete_when,
            on_outside,
        })
        .boxed()
}

fn window() -> impl Strategy<Value = Window> {
    let n = || "n".to_owned();
    let bounds = || (-1..5i64, -1..5i64);
    let wide = Cond::gt_eq("n", 0).and(Cond::lt("n", 9));
    let either = Cond::lt("n", 1).or(Cond::eq("v", "a"));
    prop_oneof![
        3 => bounds().prop_map(move |(a, b)| Window::FromTo(n(), Expr::lit(a.min(b)), Expr::lit(a.max(b)))),
        3 => bounds().prop_map(move |(a, b)| Window::Between(n(), Expr::lit(a.min(b)), Expr::lit(a.max(b)))),
        1 => Just(Window::Between(n(), Expr::lit(3), Expr::lit(1))),
        2 => select(vec![wide, either]).prop_map(Window::Predicate),
        2 => Just(Window::FromSource(n())),
        2 => (-1..3i64).prop_map(move |a| Window::ToSource(n(), Expr::lit(a))),
    ]
}
