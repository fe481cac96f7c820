//! Random `INSERT ONLY` statements.

use proptest::prelude::*;

use super::Case;
use super::common::{Stored, common, creating, landing, marker, stored, tables, target_columns};
use super::layout::layout;
use super::schema::{Schema, schema};
use crate::oracle::InsertOnly;

/// Any statement with tables that fit it.
pub fn insert_only_case() -> BoxedStrategy<Case<InsertOnly>> {
    (schema(), stored())
        .prop_flat_map(|(schema, stored)| case(schema, stored))
        .boxed()
}

fn case(schema: Schema, stored: Stored) -> BoxedStrategy<Case<InsertOnly>> {
    let spec = (common(&schema, true), marker()).prop_map(move |(mut common, ignore_deletes)| {
        common.no_compare = false; // nothing is compared here
        landing(&mut common, stored, ignore_deletes.as_ref());
        InsertOnly {
            common: creating(common, stored),
            ignore_deletes,
        }
    });
    (spec, layout(&schema))
        .prop_flat_map(move |(spec, layout)| {
            let tables = tables(&schema, &spec.common, stored, target_columns(&schema, stored));
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
