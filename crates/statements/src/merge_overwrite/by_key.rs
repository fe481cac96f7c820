//! `MERGE OVERWRITE .. KEYS`: the delete set comes from the whole source, also from rows that lose deduplication or are
//! marked; the rows that come in are what remains.
//!
//! ```text
//! Union
//!   <winners: spool reader 1>
//!   RightSemi Join (several key sets: RightMark Joins, any mark)
//!     <keys of all source rows: spool reader 2>
//!     TargetScan
//! ```

use alluvium_core::Result;
use alluvium_core::syntax::Dedup;
use alluvium_exec::spool::Spool;
use alluvium_exec::winner::{WinnerMode, WinnerNode, WinnerSpec};
use alluvium_exec::{action, columns as internal};
use datafusion::arrow::compute::SortOptions;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::bind::{Overwrite, Replaced};
use crate::bind::control::{ControlRequest, MARKED, controlled, dedup_order, extension, marked};
use crate::bind::expr::{bare, case, col, is_true};
use crate::bind::keys::{KeyJoin, KeySet, source_columns};
use crate::bind::outside::refuse_outside_matches;

/// TRUE in source rows that come in.
const WINNER: &str = "__load_winner";
/// TRUE in source rows whose key is stored inside `WITHIN`.
const KNOWN_INSIDE: &str = "__load_known_inside";
/// TRUE in source rows that `SEQUENCE BY` chose.
const HIGHEST: &str = "__load_highest";

/// Plans replacement by key.
pub(super) fn plan(overwrite: &Overwrite<'_>) -> Result<Replaced> {
    let request = ControlRequest {
        common: &overwrite.load.common,
        delete_when: overwrite.load.clauses.delete_when.as_ref(),
        keys: &overwrite.keys,
        extra: Vec::new(),
    };
    let mut rows = controlled(
        overwrite.state,
        &overwrite.source,
        &overwrite.table,
        &overwrite.columns,
        request,
    )?;
    for set in &overwrite.keys {
        rows.plan = not_outside(overwrite, rows.plan, set)?;
    }
    let (has_marker, sequence) = (rows.marked, rows.sequence);
    let sets = overwrite.keys.len();
    let spool = Spool::new(1 + sets);
    let (incoming, wins) = winners(overwrite, spool.reader(rows.plan.clone(), 0)?, sequence)?;
    let (incoming, hits) = marked_hits(overwrite, incoming, has_marker)?;
    let code = case(
        vec![
            (marked(has_marker).and(hits), lit(action::NONE)),
            (marked(has_marker), lit(action::UNCHANGED)),
            (wins, lit(action::INSERT)),
        ],
        lit(action::SKIPPED),
    )?;
    let keys = (1..=sets).map(|reader| Ok(spool.reader(rows.plan.clone(), reader)?));
    let outgoing = hit_rows(overwrite, keys.collect::<Result<Vec<_>>>()?)?;
    let written: Vec<String> = overwrite.load.clauses.or_keys.iter().map(ToString::to_string).collect();
    Ok(Replaced {
        rows: overwrite.replacement().union(incoming, code, outgoing)?,
        read_predicate: match overwrite.keys.as_slice() {
            [only] => only.read_predicate(),
            _ => None,
        },
        removed_files: Vec::new(),
        parameters: match written.is_empty() {
            true => Vec::new(),
            false => vec![("orKeys", written.join(" OR "))],
        },
    })
}

/// The source rows, none of whose keys is stored outside `WITHIN` alone.
fn not_outside(overwrite: &Overwrite<'_>, plan: LogicalPlan, set: &KeySet) -> Result<LogicalPlan> {
    let Some(within) = set.within.as_ref().filter(|within| !within.keys_only) else {
        return Ok(plan);
    };
    let kept: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let inside = overwrite.table.scan(&overwrite.columns.schema)?;
    let join = KeyJoin {
        keys: set,
        columns: &overwrite.columns,
        source: &overwrite.source.alias,
        target: &overwrite.table.alias,
        join_type: JoinType::LeftMark,
        filter: None,
    };
    let inside = inside.filter(within.of_target.clone())?.build()?;
    let joined = join.matched(overwrite.state, plan, inside)?;
    let mark = joined.schema().columns().pop();
    let mark = mark.map(|mark| Expr::Column(mark).alias(KNOWN_INSIDE));
    let marked = LogicalPlanBuilder::from(joined)
        .project(kept.iter().cloned().chain(mark))?
        .build()?;
    let unmatched = bare(KNOWN_INSIDE).eq(lit(false));
    let checked = refuse_outside_matches(
        marked,
        set,
        &overwrite.source,
        &overwrite.table,
        &overwrite.columns,
        unmatched,
    )?;
    Ok(LogicalPlanBuilder::from(checked).project(kept)?.build()?)
}

/// Whether a marked row deletes anything: it is counted through what it deletes, and as unchanged where that is nothing.
fn marked_hits(overwrite: &Overwrite<'_>, mut plan: LogicalPlan, has_marker: bool) -> Result<(LogicalPlan, Expr)> {
    let mut hits = lit(false);
    if !has_marker {
        return Ok((plan, hits));
    }
    for (i, set) in overwrite.keys.iter().enumerate() {
        let kept: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut target = overwrite.table.scan(&overwrite.columns.schema)?;
        if let Some(within) = &set.within {
            target = target.filter(within.of_target.clone())?;
        }
        let join = KeyJoin {
            keys: set,
            columns: &overwrite.columns,
            source: &overwrite.source.alias,
            target: &overwrite.table.alias,
            join_type: JoinType::LeftMark,
            filter: Some(is_true(bare(MARKED))),
        };
        let joined = join.build(plan, target.build()?)?.build()?;
        let name = format!("__load_marked_hit_{i}");
        let mark = joined
            .schema()
            .columns()
            .pop()
            .map(|mark| Expr::Column(mark).alias(&name));
        plan = LogicalPlanBuilder::from(joined)
            .project(kept.into_iter().chain(mark))?
            .build()?;
        hits = hits.or(bare(&name));
    }
    Ok((plan, hits))
}

/// Marks the rows that win, and says when a row has won.
fn winners(overwrite: &Overwrite<'_>, mut plan: LogicalPlan, sequence: usize) -> Result<(LogicalPlan, Expr)> {
    let mut wins = lit(true);
    if let Some(Dedup::Deduplicate { on, by, with_ties, .. }) = &overwrite.load.common.dedup {
        let keys = match on {
            Some(on) => source_columns(overwrite.state, on, &overwrite.source)?,
            None => overwrite.keys.first().map_or_else(Vec::new, |set| set.columns.clone()),
        };
        let spec = WinnerSpec {
            table: overwrite.table.name.clone(),
            keys,
            nulls_equal: on.is_some() || overwrite.keys.first().is_none_or(KeySet::nulls_equal),
            order: dedup_order(by),
            mode: match with_ties {
                true => WinnerMode::WithTies,
                false => WinnerMode::First,
            },
            flag: Some(WINNER.to_owned()),
        };
        plan = extension(WinnerNode::try_new(plan, spec)?);
        wins = wins.and(is_true(bare(WINNER)));
    }
    if sequence > 0 {
        plan = extension(WinnerNode::try_new(plan, highest(overwrite, sequence))?);
        wins = wins.and(is_true(bare(HIGHEST)));
    }
    Ok((plan, wins))
}

/// `SEQUENCE BY` is about the source only here: every row with the highest tuple of its key comes in.
fn highest(overwrite: &Overwrite<'_>, sequence: usize) -> WinnerSpec {
    let descending = SortOptions {
        descending: true,
        nulls_first: false,
    };
    WinnerSpec {
        table: overwrite.table.name.clone(),
        keys: overwrite.keys.first().map_or_else(Vec::new, |set| set.columns.clone()),
        nulls_equal: overwrite.keys.first().is_none_or(KeySet::nulls_equal),
        order: (0..sequence).map(|i| (internal::sequence(i), descending)).collect(),
        mode: WinnerMode::WithTies,
        flag: Some(HIGHEST.to_owned()),
    }
}

/// The stored rows whose key occurs in the source, each once.
fn hit_rows(overwrite: &Overwrite<'_>, mut keys: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    let mut target = overwrite.table.scan(&overwrite.columns.schema)?;
    if let [
        KeySet {
            within: Some(within), ..
        },
    ] = overwrite.keys.as_slice()
    {
        target = target.filter(within.of_target.clone())?;
    }
    let target = target.build()?;
    match (overwrite.keys.as_slice(), keys.pop()) {
        ([only], Some(reader)) => join(overwrite, only, reader, target, JoinType::RightSemi),
        (sets, last) => hit_by_any(overwrite, sets, keys.into_iter().chain(last), target),
    }
}

fn hit_by_any(
    overwrite: &Overwrite<'_>,
    sets: &[KeySet],
    keys: impl Iterator<Item = LogicalPlan>,
    mut target: LogicalPlan,
) -> Result<LogicalPlan> {
    let stored: Vec<Expr> = target.schema().columns().into_iter().map(Expr::Column).collect();
    let mut hits = Vec::new();
    for (i, (set, reader)) in sets.iter().zip(keys).enumerate() {
        let before: Vec<Expr> = target.schema().columns().into_iter().map(Expr::Column).collect();
        let joined = join(overwrite, set, reader, target, JoinType::RightMark)?;
        let mark = joined.schema().columns().pop();
        let hit = format!("__load_hit_{i}");
        let renamed = mark.map(|mark| Expr::Column(mark).alias(&hit));
        target = LogicalPlanBuilder::from(joined)
            .project(before.into_iter().chain(renamed))?
            .build()?;
        let inside = set
            .within
            .as_ref()
            .map_or_else(|| lit(true), |within| within.of_target.clone());
        hits.push(bare(&hit).and(inside));
    }
    let any = hits.into_iter().reduce(Expr::or).unwrap_or_else(|| lit(false));
    Ok(LogicalPlanBuilder::from(target).filter(any)?.project(stored)?.build()?)
}

fn join(
    overwrite: &Overwrite<'_>,
    set: &KeySet,
    keys: LogicalPlan,
    target: LogicalPlan,
    join_type: JoinType,
) -> Result<LogicalPlan> {
    let only = set.columns.iter().map(|name| col(&overwrite.source.alias, name));
    let keys = LogicalPlanBuilder::from(keys).project(only)?.build()?;
    let join = KeyJoin {
        keys: set,
        columns: &overwrite.columns,
        source: &overwrite.source.alias,
        target: &overwrite.table.alias,
        join_type,
        filter: None,
    };
    Ok(join.build(keys, target)?.build()?)
}
