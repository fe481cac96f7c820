//! Which columns make a version, and, without `KEYS`, what identifies a row.

use alluvium_core::syntax::{ColumnSet, KeyNulls, Load};
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::source_gate::{RowCheck, Rule};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::session_state::SessionState;

use super::syntax::{Scd2Clauses, Track};
use crate::bind::columns::{Columns, select};
use crate::bind::keys::{KeySet, in_key_order, plain_column};
use crate::bind::source::SourceRows;

/// Whether the tracked columns are listed one by one.
pub(super) fn is_listed(load: &Load<Scd2Clauses>) -> bool {
    matches!(
        &load.clauses.track,
        Some(Track::On {
            columns: ColumnSet::Only(_),
            ..
        })
    )
}

/// A column that identifies rows is not NULL.
pub(super) fn identity_check(column: String, name: &str) -> RowCheck {
    RowCheck {
        column,
        rule: Rule::NotNull {
            subject: format!("identity column \"{name}\""),
            hint: "Filter such rows out, or track other columns: TRACK HISTORY ON (..) without KEYS names what \
                   identifies a row."
                .to_owned(),
        },
        exempt: None,
    }
}

/// All columns that land but keys and sequence, or those of the clause.
pub(super) fn tracked_columns(
    state: &SessionState,
    load: &Load<Scd2Clauses>,
    keys: Option<&KeySet>,
    source: &SourceRows,
    columns: &Columns,
) -> Result<Vec<String>> {
    let names = source.names();
    let (chosen, span) = match &load.clauses.track {
        Some(Track::On { columns: set, span }) => (select(state, set, &names, "the source")?, *span),
        _ => (names, load.target.span),
    };
    if is_listed(load) {
        return match chosen.iter().find(|name| !columns.lands(name)) {
            None => Ok(chosen),
            Some(name) => Err(LoadError::new(
                SqlState::UndefinedColumn,
                format!("tracked column \"{name}\" does not land in the table"),
            )
            .hint("Add it to COLUMNS, or track other columns: a change can only be told from what is stored.")
            .at(span)),
        };
    }
    let sequence = load.common.sequence.iter().flat_map(|sequence| &sequence.exprs);
    let sequence: Vec<String> = sequence.filter_map(|expr| plain_column(state, expr)).collect();
    let is_key = |name: &String| keys.is_some_and(|keys| keys.columns.contains(name));
    let content = |name: &String| columns.lands(name) && !is_key(name) && !sequence.contains(name);
    Ok(chosen.into_iter().filter(content).collect())
}

/// Without `KEYS` rows are the same when their tracked columns are.
pub(super) fn by_content(
    state: &SessionState,
    load: &Load<Scd2Clauses>,
    tracked: &[String],
    columns: &Columns,
) -> Result<KeySet> {
    let span = load.target.span;
    if tracked.is_empty() {
        return Err(LoadError::new(
            SqlState::Syntax,
            "nothing identifies a row: there are no tracked columns",
        )
        .hint("Add KEYS (column, ..), or track columns with TRACK HISTORY ON.")
        .at(span));
    }
    let is_map = |name: &&String| columns.target_type(name).is_some_and(holds_map);
    if let Some(name) = tracked.iter().find(is_map) {
        return Err(
            LoadError::unsupported(format!("column \"{name}\" holds maps, which cannot identify a row"))
                .hint("Add KEYS (column, ..), or leave it out with TRACK HISTORY ON * EXCEPT (..).")
                .at(span),
        );
    }
    Ok(KeySet {
        columns: tracked.to_vec(),
        // A listed column that is NULL is refused by a check of its own.
        nulls: match is_listed(load) {
            true => KeyNulls::Distinct,
            false => KeyNulls::NotDistinct,
        },
        within: None,
        sorted: in_key_order(state),
    })
}

fn holds_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(_, _) => true,
        DataType::Struct(fields) => fields.iter().any(|f| holds_map(f.data_type())),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => holds_map(f.data_type()),
        _ => false,
    }
}
