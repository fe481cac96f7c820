//! One boundary for the whole load.

use super::frame::{Frame, History, close};
use crate::oracle::clauses::Unique;
use crate::oracle::source::{deduplicated, groups};
use crate::oracle::{BAD_VALUE, DUPLICATE_KEY, ErrorCode};
use crate::values::Row;

/// Every source row against the open version of its key.
pub(super) fn load(frame: &mut Frame<'_>) -> Result<(), ErrorCode> {
    for row in one_per_identity(frame)? {
        let key = frame.identity.of(frame.source, &row);
        frame.history(key.clone());
        let index = match &key {
            Some(_) => frame.histories.iter().position(|h| h.key == key),
            None => frame.histories.len().checked_sub(1),
        };
        let Some(index) = index else { continue };
        let mut history = std::mem::replace(
            &mut frame.histories[index],
            History {
                key: None,
                versions: Vec::new(),
            },
        );
        let changed = apply(frame, &mut history, &row);
        frame.histories[index] = history;
        frame.counts.unchanged += u64::from(!changed?);
    }
    Ok(())
}

/// At most one row per key; identical rows are one row.
fn one_per_identity(frame: &mut Frame<'_>) -> Result<Vec<Row>, ErrorCode> {
    let keys = &frame.identity;
    let mut rows = match &frame.spec.common.unique {
        Unique::Dedup(dedup) => {
            let winners = deduplicated(dedup, Some(keys), frame.source);
            frame.counts.skipped += winners.skipped;
            winners.rows
        }
        Unique::Check | Unique::Assume => frame.source.rows.clone(),
    };
    let all = rows.len();
    let mut seen: Vec<Row> = Vec::new();
    rows.retain(|row| {
        let collapses = keys.of(frame.source, row).is_some() && seen.contains(row);
        seen.push(row.clone());
        !collapses
    });
    frame.counts.skipped += u64::try_from(all - rows.len()).unwrap_or(u64::MAX);
    let twice = groups(&rows, |row| keys.of(frame.source, row))
        .iter()
        .any(|group| group.len() > 1);
    if twice && frame.spec.common.unique != Unique::Assume {
        Err(DUPLICATE_KEY)
    } else {
        Ok(rows)
    }
}

/// Whether anything changed.
fn apply(frame: &Frame<'_>, history: &mut History, row: &Row) -> Result<bool, ErrorCode> {
    let at = frame.boundary;
    let open = history.open();
    if frame.marks(row) {
        let Some(open) = open.filter(|&i| !history.versions[i].deleted) else {
            return Ok(false);
        };
        close(&mut history.versions[open], at)?;
        if frame.deletes_as_record() {
            let record = frame.record(&history.versions[open], at);
            history.versions.push(record);
        }
        return Ok(true);
    }
    match open {
        Some(i) if !history.versions[i].deleted && frame.same_content(&history.versions[i], row) => {
            return Ok(frame.overwrite(&mut history.versions[i], row));
        }
        Some(i) => close(&mut history.versions[i], at)?,
        None if history.versions.iter().any(|v| v.to > Some(at)) => return Err(BAD_VALUE),
        None => {}
    }
    history.versions.push(frame.opened(row, at));
    Ok(true)
}
