//! From `UPDATE ONLY`'s clauses to a plan.
//!
//! ```text
//! UpdateOnly
//!   Projection: final columns, __action, __file, __row
//!     Left Join on the key
//!       <source: cast, control columns, gate, winner or key check>
//!       TargetScan
//! ```

use alluvium_core::syntax::Load;
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::write::OperationKind;
use alluvium_exec::changed::changed;
use alluvium_exec::{action, columns as internal};
use alluvium_statements::bind::{
    Changes, Columns, ColumnsRequest, ControlRequest, Finish, KeyJoin, KeySet, Requirement, SourceRows, TargetTable,
    bool_option, case, col, controlled, null_of, one_per_key, refuse_outside_matches, require, source_column,
};
use datafusion::common::JoinType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};

use super::syntax::{UnknownKey, UpdateOnlyClauses};

/// Binds `UPDATE ONLY`.
pub(super) async fn plan(state: &SessionState, load: &Load<UpdateOnlyClauses>) -> Result<LogicalPlan> {
    let table = TargetTable::resolve(state, &load.target, None).await?;
    table.refuse_append_only("UPDATE ONLY")?;
    let source = SourceRows::resolve(state, &load.source, &load.target, &table).await?;
    let request = ColumnsRequest {
        set: load.common.columns.as_ref(),
        evolve: load.common.evolve,
        marker: None,
        own: Vec::new(),
    };
    let columns = Columns::resolve(state, &table, &source, &request)?;
    let keys = load.common.keys.as_ref();
    let keys = keys.ok_or_else(|| LoadError::internal("UPDATE ONLY without KEYS passed the parser"))?;
    let keys = KeySet::resolve(state, keys, &source, &table, &columns)?;

    let request = ControlRequest {
        common: &load.common,
        delete_when: None,
        keys: std::slice::from_ref(&keys),
        extra: Vec::new(),
    };
    let rows = controlled(state, &source, &table, &columns, request)?;
    let unique = one_per_key(state, rows, &load.common, &source, &table, &keys, &columns)?;
    let joined = joined(unique, &table, &source, &columns, &keys)?;
    let joined = match load.clauses.unknown {
        Some(UnknownKey::Error) => refuse_unknown(joined, &table, &keys)?,
        Some(UnknownKey::Skip) | None => joined,
    };
    let compare = bool_option(&load.common.options, "merge.compare", true)?;
    let changes = changes(&table, &source, &columns, &keys, compare)?;
    let finish = Finish {
        statement: "UpdateOnly",
        kind: OperationKind::Merge,
        common: &load.common,
        dry_run: load.dry_run,
        returning: &load.returning,
        source: &source,
        table: &table,
        columns: &columns,
        read_predicate: keys.read_predicate(),
        parameters: Vec::new(),
        notice: None,
        changes_rows: true,
        keys: keys.columns.clone(),
        removed_files: Vec::new(),
    };
    finish.build(state, joined, changes)
}

/// Source rows, one per key, beside the stored rows of the same key.
fn joined(
    unique: LogicalPlan,
    table: &TargetTable,
    source: &SourceRows,
    columns: &Columns,
    keys: &KeySet,
) -> Result<LogicalPlan> {
    let mut target = table.scan(&columns.schema)?;
    if let Some(within) = &keys.within {
        target = target.filter(within.of_target.clone())?;
    }
    let join = KeyJoin {
        keys,
        columns,
        source: &source.alias,
        target: &table.alias,
        join_type: JoinType::Left,
        filter: None,
    };
    let joined = join.build(unique, target.build()?)?.build()?;
    // A row that WITHIN hides is neither updated nor unknown.
    refuse_outside_matches(joined, keys, source, table, columns, is_unknown(table))
}

/// Whether a source row found no stored row.
fn is_unknown(table: &TargetTable) -> Expr {
    col(&table.alias, internal::ROW).is_null()
}

fn refuse_unknown(joined: LogicalPlan, table: &TargetTable, keys: &KeySet) -> Result<LogicalPlan> {
    let requirement = Requirement {
        state: SqlState::InvalidParameter,
        message: format!("a source row has a key that table \"{}\" does not hold", table.name),
        hint: "Leave such rows out, or write ON UNKNOWN KEY SKIP.".to_owned(),
    };
    require(joined, table, keys, is_unknown(table).eq(lit(false)), requirement)
}

/// What becomes of each joined row: its values, and one code that says what happens to it.
fn changes(
    table: &TargetTable,
    source: &SourceRows,
    columns: &Columns,
    keys: &KeySet,
    compare: bool,
) -> Result<Changes> {
    let generated = table.generated_columns()?;
    let mut values = Vec::new();
    let mut old = Vec::new();
    let mut differs = lit(!compare);
    for field in columns.schema.fields() {
        let name = field.name();
        let stored = col(&table.alias, name);
        old.push(stored.clone());
        values.push(if columns.lands(name) && !keys.columns.contains(name) {
            let new = source_column(source, name);
            differs = differs.or(changed(stored, new.clone()));
            new
        } else if generated.contains(name) {
            // Computed again from the new values, before the row is written.
            null_of(field.data_type())?
        } else {
            stored
        });
    }
    let branches = vec![
        (is_unknown(table), lit(action::SKIPPED)),
        (differs, lit(action::UPDATE)),
    ];
    Ok(Changes {
        values,
        shown: None,
        action: case(branches, lit(action::UNCHANGED))?,
        position: (col(&table.alias, internal::FILE), col(&table.alias, internal::ROW)),
        old,
    })
}
