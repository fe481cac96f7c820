//! The steps on the source that all statements share, in the contract's order: names, emptiness, NULL keys, `WITHIN`,
//! winners, duplicates.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::clauses::{Common, Dedup, DeleteMarker, Keys, OnEmpty, Order, Unique};
use super::expr::Scope;
use super::{BAD_VALUE, DUPLICATE_KEY, ErrorCode, NO_COLUMN, NO_TABLE, NULL_VALUE, OUTSIDE, SYNTAX};
use crate::values::{Row, Table, Value};

/// What is left of the source, and how many rows were held back.
pub(crate) struct Winners {
    /// In source order.
    pub rows: Vec<Row>,
    /// Rows that lost.
    pub skipped: u64,
}

/// `SEQUENCE BY` and `DEDUPLICATE` of the key answer the same question: both at once are refused.
pub(crate) fn check_clauses(common: &Common) -> Result<(), ErrorCode> {
    let both = !common.sequence.is_empty() && matches!(&common.unique, Unique::Dedup(dedup) if dedup.on.is_empty());
    if both { Err(SYNTAX) } else { Ok(()) }
}

/// All of these must be source columns.
pub(crate) fn check_columns<'a>(source: &Table, names: impl IntoIterator<Item = &'a String>) -> Result<(), ErrorCode> {
    if names.into_iter().all(|name| source.has(name)) {
        Ok(())
    } else {
        Err(NO_COLUMN)
    }
}

/// Names used by the shared clauses exist in the source, and keys in the target too.
pub(crate) fn check_names(
    common: &Common,
    source: &Table,
    target: Option<&Table>,
    marker: Option<&DeleteMarker>,
) -> Result<(), ErrorCode> {
    if target.is_none() && common.create.is_none() {
        return Err(NO_TABLE);
    }
    for keys in &common.keys {
        check_columns(source, &keys.columns)?;
        if target.is_some_and(|t| keys.columns.iter().any(|c| !t.has(c))) {
            return Err(NO_COLUMN);
        }
    }
    check_columns(source, &common.sequence)?;
    check_columns(source, common.columns.iter().flat_map(|set| set.named()))?;
    if let Unique::Dedup(dedup) = &common.unique {
        check_columns(source, dedup.on.iter().chain(dedup.by.iter().map(|o| &o.column)))?;
    }
    check_columns(source, &marker.map(DeleteMarker::columns).unwrap_or_default())
}

/// Whether the statement ends here because the source has no rows.
pub(crate) fn ends_empty(common: &Common, source: &Table, target: Option<&Table>) -> Result<bool, ErrorCode> {
    match common.on_empty {
        _ if !source.rows.is_empty() => Ok(false),
        OnEmpty::Error => Err(BAD_VALUE),
        OnEmpty::Skip => Ok(true),
        OnEmpty::Apply => Ok(target.is_none()),
    }
}

/// The source columns that land in the target: `COLUMNS`, less a plain marker column that nobody asked for.
pub(crate) fn landing(
    common: &Common,
    source: &Table,
    target: Option<&Table>,
    marker: Option<&DeleteMarker>,
) -> Result<Vec<String>, ErrorCode> {
    let listed = |name: &String| match &common.columns {
        Some(super::ColumnSet::Only(columns)) => columns.contains(name),
        _ => false,
    };
    let stored = |name: &String| target.is_some_and(|t| t.has(name));
    let only_marks = |name: &String| {
        matches!(marker, Some(DeleteMarker::Column(column)) if column == name) && !listed(name) && !stored(name)
    };
    let lands = |name: &String| common.columns.as_ref().is_none_or(|set| set.has(name)) && !only_marks(name);
    let names: Vec<String> = source.names().into_iter().filter(lands).collect();
    let unknown = target.is_some() && !common.evolve && names.iter().any(|name| !stored(name));
    if unknown {
        return Err(NO_COLUMN);
    }
    // An inserted row needs its key.
    let has_keys = common
        .keys
        .iter()
        .flat_map(|keys| &keys.columns)
        .all(|key| names.contains(key));
    if has_keys { Ok(names) } else { Err(SYNTAX) }
}

/// NULL keys and rows that `WITHIN` does not admit, over the whole source.
pub(crate) fn check_keys(keys: &Keys, source: &Table) -> Result<(), ErrorCode> {
    let null = |row: &Row| keys.columns.iter().any(|c| source.get(row, c).is_null());
    if keys.nulls == super::NullKeys::Error && source.rows.iter().any(null) {
        return Err(NULL_VALUE);
    }
    let admitted = |row: &Row| keys.within.as_ref().is_none_or(|p| p.holds(Scope::source(source, row)));
    if source.rows.iter().all(admitted) {
        Ok(())
    } else {
        Err(OUTSIDE)
    }
}

/// A key that has no match inside `WITHIN` must not have one outside.
pub(crate) fn check_outside(keys: &Keys, source: &Table, rows: &[Row], target: &Table) -> Result<(), ErrorCode> {
    for key in rows.iter().filter_map(|row| keys.of(source, row)) {
        let matches = |row: &&Row| keys.of(target, row).as_ref() == Some(&key);
        let mut found = target.rows.iter().filter(matches).peekable();
        if found.peek().is_some() && !found.any(|row| keys.looks_at(target, row)) {
            return Err(OUTSIDE);
        }
    }
    Ok(())
}

/// The values of some columns.
pub(crate) fn tuple(table: &Table, row: &Row, columns: &[String]) -> Vec<Value> {
    columns.iter().map(|c| table.get(row, c)).collect()
}

/// Rows by group, each group in source order. `None` groups are groups of one row.
pub(crate) fn groups<G: Ord>(rows: &[Row], group: impl Fn(&Row) -> Option<G>) -> Vec<Vec<usize>> {
    let mut named: BTreeMap<G, Vec<usize>> = BTreeMap::new();
    let mut alone = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        match group(row) {
            Some(key) => named.entry(key).or_default().push(i),
            None => alone.push(vec![i]),
        }
    }
    named.into_values().chain(alone).collect()
}

/// What two source rows of one key and one sequence must agree in: what lands, and whether they are marked.
pub(crate) struct Content<'a> {
    pub source: &'a Table,
    pub landing: &'a [String],
    pub marker: Option<&'a DeleteMarker>,
}

impl Content<'_> {
    /// Whether they agree.
    pub fn same(&self, a: &Row, b: &Row) -> bool {
        let of = |row: &Row| {
            (
                tuple(self.source, row, self.landing),
                self.marker.is_some_and(|m| m.marks(self.source, row)),
            )
        };
        of(a) == of(b)
    }
}

/// `SEQUENCE BY`: the highest tuple per key. Equal tuples are one row if their content is the same, else an error, also
/// among losers.
fn highest(common: &Common, keys: &Keys, content: &Content<'_>, rows: Vec<Row>) -> Result<Vec<Row>, ErrorCode> {
    let sequence = |i: usize| tuple(content.source, &rows[i], &common.sequence);
    let mut kept = Vec::new();
    for group in groups(&rows, |row| keys.of(content.source, row)) {
        let clash = |a: usize, b: usize| sequence(a) == sequence(b) && !content.same(&rows[a], &rows[b]);
        if group.iter().any(|&a| group.iter().any(|&b| clash(a, b))) {
            return Err(DUPLICATE_KEY);
        }
        let top = group.iter().map(|&i| sequence(i)).max();
        kept.extend(group.into_iter().find(|&i| Some(sequence(i)) == top));
    }
    kept.sort_unstable();
    Ok(kept.into_iter().map(|i| rows[i].clone()).collect())
}

/// A NULL in `SEQUENCE BY` is an error.
pub(crate) fn check_sequence(common: &Common, source: &Table) -> Result<(), ErrorCode> {
    let null = |row: &Row| tuple(source, row, &common.sequence).iter().any(Value::is_null);
    if source.rows.iter().any(null) {
        Err(NULL_VALUE)
    } else {
        Ok(())
    }
}

/// `DEDUPLICATE`: the first row per group in the given order, source order deciding ties.
pub(crate) fn deduplicated(dedup: &Dedup, keys: Option<&Keys>, source: &Table) -> Winners {
    let group = |row: &Row| match keys {
        Some(keys) if dedup.on.is_empty() => keys.of(source, row),
        _ => Some(tuple(source, row, &dedup.on)),
    };
    let mut kept = Vec::new();
    for mut group in groups(&source.rows, group) {
        let compare = |a: &usize, b: &usize| by_order(&dedup.by, source, &source.rows[*a], &source.rows[*b]);
        group.sort_by(compare); // stable: ties stay in source order
        let Some(first) = group.first().copied() else { continue };
        let ties = group.iter().copied().filter(|i| compare(i, &first).is_eq());
        kept.extend(ties.take(if dedup.with_ties { usize::MAX } else { 1 }));
    }
    keep(source, kept)
}

fn by_order(by: &[Order], source: &Table, a: &Row, b: &Row) -> Ordering {
    let item = |order: &Order| {
        let (a, b) = (source.get(a, &order.column), source.get(b, &order.column));
        let nulls = if order.nulls_first {
            b.is_null().cmp(&a.is_null())
        } else {
            a.is_null().cmp(&b.is_null())
        };
        let values = if order.descending { b.cmp(&a) } else { a.cmp(&b) };
        nulls.then(values)
    };
    by.iter().map(item).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

pub(crate) fn keep(source: &Table, mut kept: Vec<usize>) -> Winners {
    kept.sort_unstable();
    let skipped = source.rows.len().abs_diff(kept.len()).try_into().unwrap_or(u64::MAX);
    Winners {
        rows: kept.iter().map(|&i| source.rows[i].clone()).collect(),
        skipped,
    }
}

/// One row per key, for the statements that demand it.
pub(crate) fn one_per_key(common: &Common, keys: &Keys, content: &Content<'_>) -> Result<Winners, ErrorCode> {
    let source = content.source;
    let mut winners = match &common.unique {
        Unique::Dedup(dedup) => deduplicated(dedup, Some(keys), source),
        Unique::Check | Unique::Assume => Winners {
            rows: source.rows.clone(),
            skipped: 0,
        },
    };
    if !common.sequence.is_empty() {
        check_sequence(common, source)?;
        let before = winners.rows.len();
        winners.rows = highest(common, keys, content, winners.rows)?;
        winners.skipped += u64::try_from(before - winners.rows.len()).unwrap_or(u64::MAX);
    }
    let twice = groups(&winners.rows, |row| keys.of(source, row))
        .iter()
        .any(|group| group.len() > 1);
    if twice && common.unique != Unique::Assume {
        Err(DUPLICATE_KEY)
    } else {
        Ok(winners)
    }
}
