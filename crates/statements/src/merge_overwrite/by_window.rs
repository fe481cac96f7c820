//! `MERGE OVERWRITE .. WINDOW`: stored rows inside the window go, source rows come in; keys play no part.
//!
//! ```text
//! Union
//!   <source, checked against the window>
//!   Filter: in the window
//!     TargetScan: without the files wholly inside, which are dropped from metadata
//! ```

use alluvium_core::syntax::Dedup;
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::scan::wholly_inside;
use alluvium_exec::action;
use alluvium_exec::bounded::BoundedNode;
use alluvium_exec::source_gate::RowCheck;
use alluvium_exec::spool::Spool;
use alluvium_exec::winner::{WinnerMode, WinnerNode, WinnerSpec};
use datafusion::common::Column;
use datafusion::functions_aggregate::min_max::{max, min};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit, not};

use super::bind::{Overwrite, Replaced};
use super::syntax::{OutsideAction, Window};
use super::window::ResolvedWindow;
use crate::bind::control::{ControlRequest, MARKED, controlled, dedup_order, extension, marked};
use crate::bind::expr::{bare, case, col, is_true};
use crate::bind::keys::source_columns;
use crate::preparing::is_preparing;

/// TRUE in source rows inside the window.
const INSIDE: &str = "__load_inside";
/// TRUE in source rows that win deduplication.
const WINNER: &str = "__load_winner";
/// TRUE in source rows that may come in.
const ADMITTED: &str = "__load_admitted";
/// The relation of the source's bounds.
const BOUNDS: &str = "__load_bounds";

/// Plans replacement by window.
pub(super) fn plan(overwrite: &Overwrite<'_>, window: &Window) -> Result<Replaced> {
    let window = ResolvedWindow::resolve(overwrite, window)?;
    let outside = overwrite
        .load
        .clauses
        .on_outside
        .map_or_else(OutsideAction::default, |o| o.action);
    let rows = source_rows(overwrite, &window, outside)?;
    let mut inner = Vec::new();
    let (incoming, outgoing) = match window.needs_source() {
        false => {
            inner = inner_files(overwrite, &window)?;
            (rows, window_rows(overwrite, &window, &inner)?)
        }
        true => {
            let spool = Spool::new(2);
            let bounds = rows_up_to_source(overwrite, &window, spool.reader(rows.clone(), 1)?)?;
            (spool.reader(rows, 0)?, bounds)
        }
    };
    let (incoming, code) = code(overwrite, incoming, outside)?;
    Ok(Replaced {
        rows: overwrite.replacement().union(incoming, code, outgoing)?,
        read_predicate: window.read_predicate(),
        removed_files: inner,
        parameters: window.parameters(),
    })
}

/// The source with the outside check, unless outside rows are welcome.
fn source_rows(overwrite: &Overwrite<'_>, window: &ResolvedWindow, outside: OutsideAction) -> Result<LogicalPlan> {
    let mut check = RowCheck::is_true(
        INSIDE,
        SqlState::OutsideWindow,
        format!("a source row lies outside WINDOW {}", window.text()),
        "Filter the source, widen the window, or write ON OUTSIDE WINDOW IGNORE or INSERT.",
    );
    if overwrite.load.clauses.delete_when.is_some() {
        check = check.unless(MARKED);
    }
    let check = (outside == OutsideAction::Error).then_some(check);
    let request = ControlRequest {
        common: &overwrite.load.common,
        delete_when: overwrite.load.clauses.delete_when.as_ref(),
        keys: &[],
        extra: vec![(INSIDE.to_owned(), window.of_source(overwrite)?, check)],
    };
    let rows = controlled(
        overwrite.state,
        &overwrite.source,
        &overwrite.table,
        &overwrite.columns,
        request,
    )?;
    match &overwrite.load.common.dedup {
        Some(Dedup::Deduplicate {
            on,
            by,
            with_ties,
            span,
        }) => {
            let Some(on) = on else {
                return Err(
                    LoadError::new(SqlState::Syntax, "DEDUPLICATE needs ON (columns) with WINDOW")
                        .hint("A window has no keys: say which columns make rows equal.")
                        .at(*span),
                );
            };
            // Rows that are dropped for lying outside beat none that come in.
            let plan = with_admitted(rows.plan, outside, overwrite.load.clauses.delete_when.is_some())?;
            let mut rivals = source_columns(overwrite.state, on, &overwrite.source)?;
            rivals.push(ADMITTED.to_owned());
            let spec = WinnerSpec {
                table: overwrite.table.name.clone(),
                keys: rivals,
                nulls_equal: true,
                order: dedup_order(by),
                mode: match with_ties {
                    true => WinnerMode::WithTies,
                    false => WinnerMode::First,
                },
                flag: Some(WINNER.to_owned()),
            };
            Ok(extension(WinnerNode::try_new(plan, spec)?))
        }
        _ => Ok(rows.plan),
    }
}

/// Adds [`ADMITTED`]: rows inside, and with `INSERT` those outside that are not marked.
fn with_admitted(rows: LogicalPlan, outside: OutsideAction, has_marker: bool) -> Result<LogicalPlan> {
    let inside = is_true(bare(INSIDE));
    let admitted = match outside {
        OutsideAction::Insert => inside.or(not(marked(has_marker))),
        OutsideAction::Error | OutsideAction::Ignore => inside,
    };
    let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(admitted.alias(ADMITTED));
    Ok(LogicalPlanBuilder::from(rows).project(columns)?.build()?)
}

/// What each source row does.
fn code(overwrite: &Overwrite<'_>, rows: LogicalPlan, outside: OutsideAction) -> Result<(LogicalPlan, Expr)> {
    let has_marker = overwrite.load.clauses.delete_when.is_some();
    let mut branches = vec![(marked(has_marker), lit(action::SKIPPED))];
    if rows.schema().has_column_with_unqualified_name(WINNER) {
        branches.push((is_true(bare(WINNER)).eq(lit(false)), lit(action::SKIPPED)));
    }
    if outside == OutsideAction::Ignore {
        branches.push((is_true(bare(INSIDE)).eq(lit(false)), lit(action::SKIPPED)));
    }
    Ok((rows, case(branches, lit(action::INSERT))?))
}

/// The files that lie wholly inside and need not be read: unless somebody wants to see the rows, or the plan is kept for
/// later snapshots, whose files are others.
fn inner_files(overwrite: &Overwrite<'_>, window: &ResolvedWindow) -> Result<Vec<u32>> {
    match &overwrite.table.base {
        Some(base) if !rows_wanted(overwrite) && !is_preparing(overwrite.state) => {
            wholly_inside(base, &window.condition(&overwrite.table.alias), overwrite.state)
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether somebody wants to see what is replaced.
fn rows_wanted(overwrite: &Overwrite<'_>) -> bool {
    overwrite.table.change_data_feed() || !overwrite.load.returning.is_empty()
}

/// The stored rows of a window whose bounds are known, but for those of `inner` files.
fn window_rows(overwrite: &Overwrite<'_>, window: &ResolvedWindow, inner: &[u32]) -> Result<LogicalPlan> {
    let scan = overwrite.table.scan_without(&overwrite.columns.schema, inner)?;
    Ok(scan.filter(window.of_target(&overwrite.table.alias))?.build()?)
}

/// The stored rows of a window that ends, or begins, where the source does.
fn rows_up_to_source(overwrite: &Overwrite<'_>, window: &ResolvedWindow, source: LogicalPlan) -> Result<LogicalPlan> {
    let bound = col(&overwrite.source.alias, window.column());
    let none: Vec<Expr> = Vec::new();
    let bounds = LogicalPlanBuilder::from(source)
        .aggregate(none, vec![min(bound.clone()).alias("low"), max(bound).alias("high")])?
        .alias(BOUNDS)?
        .build()?;
    let schema = &overwrite.columns.schema;
    let stored = match rows_wanted(overwrite) {
        true => overwrite.table.scan(schema)?,
        false => overwrite.table.scan_positions(schema, window.column())?,
    };
    let stored = stored.build()?;
    let [low, high] = ["low", "high"].map(|name| Expr::Column(Column::new(Some(BOUNDS), name)));
    let inside = window.between_source(&overwrite.table.alias, low, high);
    Ok(BoundedNode::new(bounds, stored, inside).into_plan())
}
