//! Random `SCD2 MERGE` statements. The first batch creates the table, so that every history is one the statement wrote.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::Case;
use super::common::{keys, unique};
use super::layout::Layout;
use super::rows::{RowsOptions, rows};
use super::schema::{Schema, schema};
use crate::oracle::{
    Absent, AbsentVersions, ColumnSet, Common, Create, DeleteMarker, DeleteVersions, LatePolicy, NullKeys, OnEmpty,
    Scd2, Track, Unique, Validity,
};
use crate::values::{Column, ColumnType};

/// By boundary. Batches are loaded at rising boundaries: see `EFFECTIVE AT` of the spec, and raise it from load to load.
pub fn scd2_boundary_case() -> BoxedStrategy<Case<Scd2>> {
    schema().prop_flat_map(boundary).boxed()
}

/// By sequence: column `seq` is a timestamp and gives the time of a row.
pub fn scd2_sequence_case() -> BoxedStrategy<Case<Scd2>> {
    let timed = schema().prop_map(|schema| Schema {
        sequence: Column::new("seq", ColumnType::Ts),
        ..schema
    });
    timed.prop_flat_map(sequence).boxed()
}

fn deletes() -> impl Strategy<Value = Option<(DeleteMarker, DeleteVersions)>> {
    let then = select(vec![DeleteVersions::Invalidate, DeleteVersions::NewRecord]);
    weighted(
        0.5,
        then.prop_map(|then| (DeleteMarker::Column("gone".to_owned()), then)),
    )
}

fn absent() -> impl Strategy<Value = Option<Absent<AbsentVersions>>> {
    let action = select(vec![AbsentVersions::Invalidate, AbsentVersions::NewRecord]);
    let within = weighted(0.3, Just("n".to_owned()));
    let clause = (within, action);
    weighted(
        0.5,
        clause.prop_map(|(within, action)| Absent {
            within: within.into_iter().collect(),
            condition: None,
            action,
        }),
    )
}

fn track() -> impl Strategy<Value = Track> {
    let some = select(vec![
        ColumnSet::only(&["v"]),
        ColumnSet::all_except(&["n"]),
        ColumnSet::only(&["v", "n"]),
    ]);
    prop_oneof![3 => Just(Track::All), 2 => some.prop_map(Track::On)]
}

fn validity() -> Option<Validity> {
    Some(Validity::new(
        "valid_from",
        "valid_to",
        Some("is_current"),
        Some("is_deleted"),
    ))
}

/// Neither sequence nor marker land unless the statement stores them.
fn created(common: Common, sequence: bool, marker: bool) -> Common {
    let except = [("seq", sequence), ("gone", marker)]
        .into_iter()
        .filter(|(_, lands)| !lands);
    let except: Vec<&str> = except.map(|(name, _)| name).collect();
    Common {
        columns: Some(ColumnSet::all_except(&except)),
        create: Some(Create::default()),
        ..common
    }
}

fn boundary(schema: Schema) -> BoxedStrategy<Case<Scd2>> {
    let on_empty = select(vec![OnEmpty::Skip, OnEmpty::Apply]);
    let parts = (
        weighted(0.7, (keys(&schema), unique(&schema))),
        track(),
        deletes(),
        absent(),
        on_empty,
        any::<bool>(),
    );
    let spec = parts.prop_map(|(keyed, track, delete_when, absent, on_empty, trusts_tracked)| {
        let (keys, unique) = keyed.map_or((Vec::new(), Unique::Check), |(keys, unique)| (vec![keys], unique));
        // A NULL key under NULLS DISTINCT opens a version at every load: no law holds for it.
        let keys = keys.into_iter().map(|mut keys| {
            keys.within = None;
            keys.nulls = if keys.nulls == NullKeys::Distinct {
                NullKeys::NotDistinct
            } else {
                keys.nulls
            };
            keys
        });
        let common = Common {
            keys: keys.collect(),
            unique,
            on_empty,
            ..Common::default()
        };
        Scd2 {
            common: created(common, false, false),
            delete_when,
            track,
            effective_at: Some(20_148 * 86_400_000_000),
            validity: validity(),
            absent,
            trusts_tracked,
            ..Scd2::default()
        }
    });
    with_batches(schema, spec.boxed())
}

fn sequence(schema: Schema) -> BoxedStrategy<Case<Scd2>> {
    let track = prop_oneof![2 => track(), 1 => Just(Track::Always)];
    let late = weighted(
        0.4,
        select(vec![
            LatePolicy::Reorder,
            LatePolicy::Ignore,
            LatePolicy::Error,
            LatePolicy::Append,
        ]),
    );
    let parts = (keys(&schema), track, deletes(), late, any::<bool>(), any::<bool>());
    let spec = parts.prop_map(|(mut keys, track, delete_when, late, stores_sequence, trusts)| {
        keys.within = None;
        keys.nulls = if keys.nulls == NullKeys::Distinct {
            NullKeys::NotDistinct
        } else {
            keys.nulls
        };
        let common = Common {
            keys: vec![keys],
            sequence: vec!["seq".to_owned()],
            ..Common::default()
        };
        let common = created(common, stores_sequence, false);
        Scd2 {
            common,
            delete_when,
            trusts_tracked: trusts && track != Track::Always,
            track,
            validity: validity(),
            late,
            ..Scd2::default()
        }
    });
    with_batches(schema, spec.boxed())
}

fn with_batches(schema: Schema, spec: BoxedStrategy<Scd2>) -> BoxedStrategy<Case<Scd2>> {
    let files = 1..=3usize;
    (spec, files)
        .prop_flat_map(move |(spec, files)| {
            let rivals = spec.common.unique != Unique::Check || !spec.common.sequence.is_empty();
            let null_keys = spec.common.keys.iter().any(|keys| keys.nulls != NullKeys::Error);
            let options = RowsOptions {
                most: 6,
                duplicates: rivals,
                null_keys,
            };
            let batches = vec(rows(&schema, schema.columns(true, true), options), 1..=4);
            (Just(spec), batches, Just(files))
        })
        .prop_map(|(spec, sources, files)| {
            let layout = Layout {
                files,
                partitioned_by: Vec::new(),
            };
            Case {
                spec,
                target: None,
                sources,
                layout,
            }
        })
        .boxed()
}
