//! Control columns of the source: what clauses compute from the full source row before anything is chosen or dropped,
//! and the checks every source row has to pass.
//!
//! The order of work is fixed: cast, NULL keys, WITHIN, winner or key check, then everything that needs the target.

use alluvium_core::syntax::{Common, Dedup, DeleteWhen, KeyNulls};
use alluvium_core::{Result, SqlState};
use alluvium_exec::columns as internal;
use alluvium_exec::source_gate::{GateSpec, RowCheck, SourceGateNode};
use alluvium_exec::unique_keys::{UniqueKeysNode, UniqueKeysSpec};
use alluvium_exec::winner::{WinnerMode, WinnerNode, WinnerSpec};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNode, lit,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use std::sync::Arc;

use super::columns::Columns;
use super::expr::{bind, col, is_true};
use super::keys::{KeySet, source_columns};
use super::source::SourceRows;
use super::target::TargetTable;
use crate::preparing::is_preparing;

/// TRUE in rows that a delete marker marks.
pub(crate) const MARKED: &str = "__load_marked";
/// TRUE in every source row: tells source rows from target rows after a full join.
pub(crate) const PRESENT: &str = "__load_present";
/// TRUE in source rows inside `WITHIN` of a key set, whose number follows.
const WITHIN: &str = "__load_within";

/// The source with its control columns and checks, not yet reduced to one row per key.
pub struct Controlled {
    /// The rows after the gate.
    pub plan: LogicalPlan,
    /// Whether rows carry a column that is TRUE in those a delete marker marks.
    pub marked: bool,
    /// How many `__seq_<i>` columns they carry.
    pub sequence: usize,
}

/// What is computed and checked on each source row.
pub struct ControlRequest<'a> {
    /// Clauses of every statement.
    pub common: &'a Common,
    /// The delete marker.
    pub delete_when: Option<&'a DeleteWhen>,
    /// The keys of the statement, none for a window.
    pub keys: &'a [KeySet],
    /// Further computed columns with their checks.
    pub extra: Vec<(String, Expr, Option<RowCheck>)>,
}

/// Casts the source and adds control columns, checks and, where order matters, source order.
pub fn controlled(
    state: &SessionState,
    source: &SourceRows,
    table: &TargetTable,
    columns: &Columns,
    request: ControlRequest<'_>,
) -> Result<Controlled> {
    let cast = source.cast(columns)?;
    let schema = Arc::clone(cast.schema());
    let mut exprs: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let mut checks = Vec::new();

    exprs.push(lit(true).alias(PRESENT));
    if let Some(delete) = request.delete_when {
        exprs.push(marker(state, delete, &schema)?.alias(MARKED));
    }
    for (i, keys) in request.keys.iter().enumerate() {
        add_key_checks(i, keys, &mut exprs, &mut checks);
    }
    let sequence = add_sequence(state, request.common, &schema, &mut exprs, &mut checks)?;
    add_order(state, request.common, &schema, &mut exprs)?;
    for (name, expr, check) in request.extra {
        exprs.push(expr.alias(name));
        checks.extend(check);
    }

    let input = LogicalPlanBuilder::from(cast).project(exprs)?.build()?;
    let spec = GateSpec {
        table: table.name.clone(),
        key_columns: request.keys.first().map_or_else(Vec::new, |keys| keys.columns.clone()),
        checks,
        ordinal: needs_order(request.common),
        checks_only: false,
    };
    let plan = extension(SourceGateNode::try_new(input, spec)?);
    Ok(Controlled {
        plan,
        marked: request.delete_when.is_some(),
        sequence,
    })
}

/// Wraps a node of ours.
pub(crate) fn extension(node: impl UserDefinedLogicalNode + 'static) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// A boolean marks when TRUE, any other value when it is not NULL.
fn marker(state: &SessionState, delete: &DeleteWhen, schema: &datafusion::common::DFSchema) -> Result<Expr> {
    let expr = bind(state, &delete.expr, schema)?;
    Ok(match expr.get_type(schema)? {
        DataType::Boolean => is_true(expr),
        _ => expr.is_not_null(),
    })
}

fn add_key_checks(set: usize, keys: &KeySet, exprs: &mut Vec<Expr>, checks: &mut Vec<RowCheck>) {
    if keys.nulls == KeyNulls::Error {
        checks.extend(keys.columns.iter().map(RowCheck::key));
    }
    if let Some(within) = &keys.within {
        let column = format!("{WITHIN}_{set}");
        exprs.push(within.of_source.clone().alias(&column));
        checks.push(RowCheck::is_true(
            column,
            SqlState::OutsideWindow,
            format!("a source row lies outside WITHIN ({})", within.text),
            "Filter the source by the same condition, or widen WITHIN.",
        ));
    }
}

fn add_sequence(
    state: &SessionState,
    common: &Common,
    schema: &datafusion::common::DFSchema,
    exprs: &mut Vec<Expr>,
    checks: &mut Vec<RowCheck>,
) -> Result<usize> {
    let Some(sequence) = &common.sequence else {
        return Ok(0);
    };
    for (i, expr) in sequence.exprs.iter().enumerate() {
        let bound = bind(state, expr, schema)?;
        exprs.push(super::expr::join_key(bound.clone(), &bound.get_type(schema)?).alias(internal::sequence(i)));
        checks.push(RowCheck::sequence(internal::sequence(i), &expr.to_string()));
    }
    Ok(sequence.exprs.len())
}

fn add_order(
    state: &SessionState,
    common: &Common,
    schema: &datafusion::common::DFSchema,
    exprs: &mut Vec<Expr>,
) -> Result<()> {
    if let Some(Dedup::Deduplicate { by, .. }) = &common.dedup {
        for (i, order) in by.iter().enumerate() {
            let bound = bind(state, &order.expr, schema)?;
            exprs.push(super::expr::join_key(bound.clone(), &bound.get_type(schema)?).alias(internal::order(i)));
        }
    }
    Ok(())
}

/// Whether the result depends on the order in which the source delivers its rows.
fn needs_order(common: &Common) -> bool {
    matches!(common.dedup, Some(Dedup::Deduplicate { .. }))
}

/// One row per key: by `DEDUPLICATE`, then by `SEQUENCE BY`; without either, a key that occurs twice is an error.
pub fn one_per_key(
    state: &SessionState,
    rows: Controlled,
    common: &Common,
    source: &SourceRows,
    table: &TargetTable,
    keys: &KeySet,
    columns: &Columns,
) -> Result<LogicalPlan> {
    let mut plan = rows.plan;
    let mut unique = false;
    match &common.dedup {
        Some(Dedup::AssumeUnique { .. }) => unique = true,
        Some(Dedup::Deduplicate { on, by, with_ties, .. }) => {
            let over = match on {
                Some(on) => source_columns(state, on, source)?,
                None => keys.columns.clone(),
            };
            unique = over == keys.columns && !with_ties;
            let spec = WinnerSpec {
                table: table.name.clone(),
                keys: over,
                nulls_equal: keys.nulls_equal() || on.is_some(),
                order: dedup_order(by),
                mode: match with_ties {
                    true => WinnerMode::WithTies,
                    false => WinnerMode::First,
                },
                flag: None,
            };
            plan = extension(WinnerNode::try_new(plan, spec)?);
        }
        None => (),
    }
    if rows.sequence > 0 {
        unique = true;
        plan = extension(WinnerNode::try_new(
            plan,
            sequence_winner(rows.sequence, rows.marked, table, keys, columns),
        )?);
    }
    if !unique {
        let spec = UniqueKeysSpec {
            nulls_equal: keys.nulls_equal(),
            sorted: !state.config_options().optimizer.prefer_hash_join,
            span: written_key(state, common),
            ..UniqueKeysSpec::new(&table.name, keys.columns.clone())
        };
        plan = extension(UniqueKeysNode::try_new(plan, spec)?);
    }
    Ok(plan)
}

/// Where the text names the key. A prepared statement fails under the text that executes it, where the place means nothing.
fn written_key(state: &SessionState, common: &Common) -> Option<Span> {
    let keys = common.keys.as_ref().filter(|_| !is_preparing(state))?;
    Some(Span::union_iter(keys.columns.iter().map(|column| column.span)))
}

/// The order of `DEDUPLICATE BY` over its `__ord_<i>` columns.
pub(crate) fn dedup_order(by: &[alluvium_core::syntax::Order]) -> Vec<(String, SortOptions)> {
    let option = |order: &alluvium_core::syntax::Order| SortOptions {
        descending: order.descending,
        nulls_first: order.nulls_first,
    };
    by.iter()
        .enumerate()
        .map(|(i, order)| (internal::order(i), option(order)))
        .collect()
}

fn sequence_winner(parts: usize, marked: bool, table: &TargetTable, keys: &KeySet, columns: &Columns) -> WinnerSpec {
    let descending = SortOptions {
        descending: true,
        nulls_first: false,
    };
    let mut content: Vec<String> = columns.landing.clone();
    if marked {
        content.push(MARKED.to_owned());
    }
    WinnerSpec {
        table: table.name.clone(),
        keys: keys.columns.clone(),
        nulls_equal: keys.nulls_equal(),
        order: (0..parts).map(|i| (internal::sequence(i), descending)).collect(),
        mode: WinnerMode::Sequence { content },
        flag: None,
    }
}

/// The stored columns that hold the sequence, when the guard of `SEQUENCE BY` can work: every part is a plain column
/// that the target stores. Otherwise a sentence for the result says that the guard is off.
pub(crate) fn guard_columns(
    state: &SessionState,
    common: &Common,
    table: &TargetTable,
    columns: &Columns,
) -> std::result::Result<Vec<String>, Option<String>> {
    let Some(sequence) = &common.sequence else {
        return Err(None);
    };
    let stored = table.stored_schema();
    let mut names = Vec::new();
    for expr in &sequence.exprs {
        match super::keys::plain_column(state, expr) {
            Some(name) if stored.index_of(&name).is_ok() || (table.base.is_none() && columns.lands(&name)) => {
                names.push(name);
            }
            _ => {
                return Err(Some(format!(
                    "SEQUENCE BY orders the source only: table \"{}\" does not store {expr}, so stored rows are not guarded \
                     against older ones.",
                    table.name
                )));
            }
        }
    }
    Ok(names)
}

/// Whether a row is marked.
pub(crate) fn marked(has_marker: bool) -> Expr {
    match has_marker {
        true => is_true(super::expr::bare(MARKED)),
        false => lit(false),
    }
}

/// A key column as an expression of the source.
pub fn source_column(source: &SourceRows, name: &str) -> Expr {
    col(&source.alias, name)
}
