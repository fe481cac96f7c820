//! The laws of the statements, on the model itself: a model that breaks them is no judge of the engine.

use proptest::prelude::*;

use super::*;
use crate::oracle::{
    Answer, Counts, LatePolicy, NullKeys, OnOutside, Outcome, Overwrite, Scd2, Track, UpdateColumns, Upsert,
};
use crate::rows::diff;
use crate::values::{Row, Value};

const DAY: i64 = 86_400_000_000;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Loads batch after batch, skipping those that fail, and shows every step to `check`.
fn run<F, C>(target: Option<Table>, sources: &[Table], load: F, mut check: C) -> Result<(), TestCaseError>
where
    F: Fn(usize, Option<&Table>, &Table) -> Answer,
    C: FnMut(usize, Option<&Table>, &Table, &Outcome) -> Result<(), TestCaseError>,
{
    let mut target = target;
    for (i, source) in sources.iter().enumerate() {
        if let Ok(outcome) = load(i, target.as_ref(), source) {
            check(i, target.as_ref(), source, &outcome)?;
            target = outcome.table;
        }
    }
    Ok(())
}

fn len(table: Option<&Table>) -> u64 {
    table.map_or(0, |t| t.rows.len().try_into().unwrap())
}

fn same_rows(a: Option<&Table>, b: Option<&Table>) -> Result<(), TestCaseError> {
    let empty = Table::default();
    match diff(a.unwrap_or(&empty), b.unwrap_or(&empty)) {
        None => Ok(()),
        Some(diff) => Err(TestCaseError::fail(diff)),
    }
}

fn grows_by(before: Option<&Table>, outcome: &Outcome) -> bool {
    len(before) + outcome.counts.inserted == len(outcome.table.as_ref()) + outcome.counts.deleted
}

/// Whether a match sets something that an insert does not write: then a second run updates what the first inserted.
fn sets(spec: &Upsert) -> bool {
    matches!(spec.update, UpdateColumns::Set(_))
}

fn distinct_nulls(keys: &[crate::oracle::Keys]) -> bool {
    keys.iter().any(|keys| keys.nulls == NullKeys::Distinct)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn upsert_twice_is_once(case in upsert_case()) {
        let spec = &case.spec;
        run(case.target, &case.sources, |_, t, s| spec.apply(t, s), |_, before, source, outcome| {
            prop_assert!(grows_by(before, outcome));
            let again = spec.apply(outcome.table.as_ref(), source);
            if sets(spec) || distinct_nulls(&spec.common.keys) {
                return Ok(());
            }
            let Ok(again) = again else { return Err(TestCaseError::fail("fails the second time")) };
            same_rows(outcome.table.as_ref(), again.table.as_ref())?;
            prop_assert!(spec.common.no_compare || again.counts.affected() == 0, "{:?}", again.counts);
            Ok(())
        })?;
    }

    #[test]
    fn insert_only_never_changes_a_row(case in insert_only_case()) {
        let spec = &case.spec;
        run(case.target, &case.sources, |_, t, s| spec.apply(t, s), |_, before, _, outcome| {
            let Counts { inserted, skipped, source, .. } = outcome.counts;
            prop_assert_eq!(inserted + skipped, source);
            prop_assert!(grows_by(before, outcome));
            let after = outcome.table.as_ref().map(|t| t.rows.clone()).unwrap_or_default();
            let stored = before.map(|t| t.rows.clone()).unwrap_or_default();
            prop_assert_eq!(&after[..stored.len()], &stored[..]);
            Ok(())
        })?;
    }

    #[test]
    fn overwrite_twice_is_once(case in prop_oneof![overwrite_keys_case(), overwrite_window_case()]) {
        let spec: &Overwrite = &case.spec;
        run(case.target, &case.sources, |_, t, s| spec.apply(t, s), |_, before, source, outcome| {
            prop_assert!(grows_by(before, outcome));
            if spec.on_outside == Some(OnOutside::Insert) || distinct_nulls(&spec.common.keys) {
                return Ok(());
            }
            let again = spec.apply(outcome.table.as_ref(), source);
            let Ok(again) = again else { return Err(TestCaseError::fail("fails the second time")) };
            same_rows(outcome.table.as_ref(), again.table.as_ref())
        })?;
    }

    #[test]
    fn boundary_history_is_sound(case in scd2_boundary_case()) {
        let at = |i: usize| 20_148 * DAY + i64::try_from(i).unwrap() * DAY;
        let spec = |i| Scd2 { effective_at: Some(at(i)), ..case.spec.clone() };
        run(None, &case.sources, |i, t, s| spec(i).apply(t, s, 0), |i, before, source, outcome| {
            sound(&spec(i), outcome, true)?;
            prop_assert!(grows_by(before, outcome));
            let again = spec(i).apply(outcome.table.as_ref(), source, 0);
            let Ok(again) = again else { return Err(TestCaseError::fail("fails the second time")) };
            same_rows(outcome.table.as_ref(), again.table.as_ref())?;
            prop_assert_eq!(again.counts.affected(), 0);
            Ok(())
        })?;
    }

    #[test]
    fn sequence_history_is_sound(case in scd2_sequence_case()) {
        let spec = &case.spec;
        run(None, &case.sources, |_, t, s| spec.apply(t, s, 0), |_, _, source, outcome| {
            sound(spec, outcome, spec.late != Some(LatePolicy::Append))?;
            let again = spec.apply(outcome.table.as_ref(), source, 0);
            let Ok(again) = again else { return Err(TestCaseError::fail("fails the second time")) };
            if restates(spec) {
                return Ok(());
            }
            same_rows(outcome.table.as_ref(), again.table.as_ref())?;
            prop_assert_eq!(again.counts.affected(), 0);
            Ok(())
        })?;
    }

    #[test]
    fn any_split_of_events_gives_one_history(case in scd2_sequence_case(), cut in 0..8usize) {
        let spec = Scd2 { track: Track::Always, trusts_tracked: false, late: None, delete_when: None, ..case.spec };
        let all: Vec<Row> = case.sources.iter().flat_map(|s| s.rows.clone()).collect();
        let columns = case.sources[0].columns.clone();
        let load = |parts: &[&[Row]]| {
            let mut target = None;
            for part in parts.iter().filter(|part| !part.is_empty()) {
                target = spec.apply(target.as_ref(), &Table::new(columns.clone(), part.to_vec()), 0).ok()?.table;
            }
            target
        };
        let (first, second) = all.split_at(cut.min(all.len()));
        let Some(whole) = load(&[&all]) else { return Ok(()) };
        for parts in [[first, second], [second, first]] {
            same_rows(Some(&whole), load(&parts).as_ref())?;
        }
    }
}

/// Whether a second run may change rows. Without a stored sequence nothing tells an older confirmation from a newer one,
/// so an equal time may set back what is not tracked. And a row that `APPEND` left open is there to be closed by a delete
/// that found nothing to close the first time.
fn restates(spec: &Scd2) -> bool {
    let stores = spec.common.columns.as_ref().is_none_or(|set| set.has("seq"));
    let untracked = matches!(spec.track, Track::On(_));
    let appends = spec.late == Some(LatePolicy::Append) && spec.delete_when.is_some();
    (!stores && untracked) || appends
}

/// Per identity: intervals in order and disjoint, at most one open, `is_current` says open.
fn sound(spec: &Scd2, outcome: &Outcome, chained: bool) -> Result<(), TestCaseError> {
    let Some(table) = &outcome.table else { return Ok(()) };
    let mut histories: std::collections::BTreeMap<Vec<Value>, Vec<(Value, Value)>> = Default::default();
    for row in &table.rows {
        let interval = (table.get(row, "valid_from"), table.get(row, "valid_to"));
        prop_assert_eq!(table.get(row, "is_current"), Value::Bool(interval.1.is_null()));
        prop_assert!(interval.1.is_null() || interval.0 <= interval.1);
        if let Some(keys) = spec.common.keys.first() {
            histories
                .entry(keys.of(table, row).unwrap_or_default())
                .or_default()
                .push(interval);
        }
    }
    for mut intervals in histories.into_values().filter(|_| chained) {
        intervals.sort_by_key(|(from, to)| (from.clone(), to.is_null(), to.clone()));
        for pair in intervals.windows(2) {
            prop_assert!(!pair[0].1.is_null() && pair[0].1 <= pair[1].0, "{pair:?}");
        }
    }
    Ok(())
}
