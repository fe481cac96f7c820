//! Every row carries its time. Stored versions and new events are laid out on one time line per key, and the history
//! is rebuilt from it.

use super::frame::{Frame, History, Version};
use super::{LatePolicy, Track, time_of};
use crate::oracle::clauses::Unique;
use crate::oracle::source::{check_sequence, deduplicated, groups, tuple};
use crate::oracle::{BAD_VALUE, DUPLICATE_KEY, ErrorCode};
use crate::values::Row;

/// A source row at its time.
struct Event {
    time: i64,
    row: Row,
    delete: bool,
    /// Older than the stored history's end.
    late: bool,
}

/// What stands on the time line.
enum Item {
    Stored(Version),
    /// The stored history has a gap from here.
    Gap,
    New(Event),
}

/// All events of all keys.
pub(super) fn load(frame: &mut Frame<'_>) -> Result<(), ErrorCode> {
    check_sequence(&frame.spec.common, frame.source)?;
    let rows = match &frame.spec.common.unique {
        Unique::Dedup(dedup) => {
            let winners = deduplicated(dedup, Some(&frame.identity), frame.source);
            frame.counts.skipped += winners.skipped;
            winners.rows
        }
        Unique::Check | Unique::Assume => frame.source.rows.clone(),
    };
    for group in groups(&rows, |row| frame.identity.of(frame.source, row)) {
        let group: Vec<&Row> = group.into_iter().map(|i| &rows[i]).collect();
        let Some(key) = group.first().map(|row| frame.identity.of(frame.source, row)) else {
            continue;
        };
        let events = one_per_time(frame, group)?;
        let found = frame.histories.iter().position(|h| key.is_some() && h.key == key);
        let history = match found {
            Some(index) => frame.histories.swap_remove(index),
            None => History {
                key,
                versions: Vec::new(),
            },
        };
        let history = replay(frame, history, events)?;
        frame.histories.push(history);
    }
    Ok(())
}

/// Per time the row with the highest further tuple, in order of time. Equal tuples must agree.
fn one_per_time(frame: &mut Frame<'_>, mut rows: Vec<&Row>) -> Result<Vec<Event>, ErrorCode> {
    let (source, sequence) = (frame.source, &frame.spec.common.sequence);
    rows.sort_by_key(|row| tuple(source, row, sequence));
    let clash = |pair: &[&Row]| {
        tuple(source, pair[0], sequence) == tuple(source, pair[1], sequence) && !frame.agrees(pair[0], pair[1])
    };
    if rows.windows(2).any(clash) {
        return Err(DUPLICATE_KEY);
    }
    let mut events: Vec<Event> = Vec::new();
    for row in rows {
        let time = time_of(&source.get(row, &sequence[0]))?;
        if events.pop_if(|last| last.time == time).is_some() {
            frame.counts.skipped += 1;
        }
        events.push(Event {
            time,
            row: row.clone(),
            delete: frame.marks(row),
            late: false,
        });
    }
    Ok(events)
}

fn replay(frame: &mut Frame<'_>, history: History, events: Vec<Event>) -> Result<History, ErrorCode> {
    let open = history.open();
    // Versions that `APPEND` left open beside the current one are not part of the chain.
    let (mut chain, mut beside) = (Vec::new(), Vec::new());
    for (i, version) in history.versions.into_iter().enumerate() {
        let stray = version.to.is_none() && Some(i) != open;
        if stray {
            beside.push(version)
        } else {
            chain.push(version)
        }
    }
    chain.sort_by_key(|v| (v.from, v.to.is_none(), v.to));
    let last_end = chain.iter().filter_map(|v| v.to).max();
    let end = chain.iter().find(|v| v.to.is_none()).map(|v| v.from).or(last_end);

    let mut news = Vec::new();
    for mut event in events {
        event.late = end.is_some_and(|end| event.time < end);
        if guarded(frame, &chain, &event) {
            frame.counts.skipped += 1;
        } else if event.delete && deleted_then(&chain, event.time) {
            frame.counts.unchanged += 1;
        } else if !event.delete && same_time(frame, &mut chain, &mut beside, &event) {
            // Done: an equal time replaces content, or is a no-op, under every policy.
        } else if event.late && frame.spec.late.unwrap_or(LatePolicy::Reorder) != LatePolicy::Reorder {
            beside.extend(late(frame, &chain, &event)?);
        } else {
            news.push(event);
        }
    }
    // Without splices nothing but the open version can change.
    let splices = frame.spec.late.unwrap_or(LatePolicy::Reorder) == LatePolicy::Reorder;
    let (changing, settled) = chain.into_iter().partition(|v| splices || v.to.is_none());
    let mut versions = rebuilt(frame, timeline(changing, news));
    versions.extend(settled);
    versions.extend(beside);
    Ok(History {
        key: history.key,
        versions,
    })
}

/// At an equal time the stored further tuple, where the target stores it, is greater. A stored time that is later than
/// the version's start tells that the version was confirmed since: that guards only against the same content.
fn guarded(frame: &Frame<'_>, chain: &[Version], event: &Event) -> bool {
    let Some(stored) = chain.iter().rfind(|v| v.from == event.time) else {
        return false;
    };
    let time = &frame.spec.common.sequence[..1];
    let same_time = tuple(&frame.table, &stored.row, time) == tuple(frame.source, &event.row, time);
    let same_content = !event.delete && !stored.deleted && frame.same_content(stored, &event.row);
    newer(frame, stored, event) && (same_time || same_content)
}

/// Whether the sequence that is stored with a version, if it is, is greater than the event's.
fn newer(frame: &Frame<'_>, version: &Version, event: &Event) -> bool {
    let sequence = &frame.spec.common.sequence;
    let stores = sequence.iter().all(|c| frame.table.has(c));
    stores && tuple(&frame.table, &version.row, sequence) > tuple(frame.source, &event.row, sequence)
}

/// Whether the history already says that the key was deleted at this very time.
fn deleted_then(chain: &[Version], time: i64) -> bool {
    let ended = chain.iter().any(|v| v.to == Some(time));
    let followed = chain.iter().any(|v| v.from == time && v.to != Some(time) && !v.deleted);
    let recorded = chain.iter().any(|v| v.from == time && v.deleted);
    recorded || (ended && !followed)
}

/// A row at the very time a stored version begins takes that version over. Whether there was one.
fn same_time(frame: &mut Frame<'_>, chain: &mut [Version], beside: &mut [Version], event: &Event) -> bool {
    let found = chain.iter().rposition(|v| v.from == event.time);
    let next = found.and_then(|i| chain.get(i + 1)).map(|v| v.from);
    let version = match found {
        Some(i) => &mut chain[i],
        None => match beside.iter_mut().find(|v| v.from == event.time) {
            Some(version) => version,
            None => return false,
        },
    };
    let mut changed = frame.overwrite(version, &event.row);
    if version.deleted {
        version.deleted = false;
        changed = true;
    }
    if version.to == Some(version.from) {
        version.to = next; // deleted at its own time: the later statement wins
        changed = true;
    }
    frame.counts.unchanged += u64::from(!changed);
    true
}

/// A late event under a policy that does not reorder: the version to append, if any.
fn late(frame: &mut Frame<'_>, chain: &[Version], event: &Event) -> Result<Option<Version>, ErrorCode> {
    let covers = |v: &&Version| v.from <= event.time && v.to.is_none_or(|to| event.time < to) && !v.deleted;
    let covering = chain.iter().find(covers);
    // What the history already says is no news, however late.
    let known = match covering {
        Some(version) => !event.delete && frame.spec.track != Track::Always && frame.same_content(version, &event.row),
        None => event.delete,
    };
    match frame.spec.late {
        _ if known => frame.counts.unchanged += 1,
        Some(LatePolicy::Error) => return Err(BAD_VALUE),
        Some(LatePolicy::Append) if !event.delete => return Ok(Some(frame.opened(&event.row, event.time))),
        _ => frame.counts.skipped += 1,
    }
    Ok(None)
}

/// Stored versions, their gaps and the new events in order of time. At one time a stored version comes first, then the
/// new event; a new row at the start of a gap takes the gap's place.
fn timeline(chain: Vec<Version>, news: Vec<Event>) -> Vec<(i64, Item)> {
    let starts: Vec<i64> = chain.iter().map(|v| v.from).collect();
    let mut items = Vec::new();
    for (i, version) in chain.into_iter().enumerate() {
        let gap = version.to.filter(|to| starts.get(i + 1) != Some(to));
        let replaced = news.iter().any(|event| !event.delete && Some(event.time) == gap);
        items.push((version.from, Item::Stored(version)));
        items.extend(gap.filter(|_| !replaced).map(|at| (at, Item::Gap)));
    }
    items.extend(news.into_iter().map(|event| (event.time, Item::New(event))));
    items.sort_by_key(|(time, _)| *time); // stable
    items
}

/// Walks the time line; `current` is the version that holds at this point.
fn rebuilt(frame: &mut Frame<'_>, items: Vec<(i64, Item)>) -> Vec<Version> {
    let mut done: Vec<Version> = Vec::new();
    let mut current: Option<Version> = None;
    for (time, item) in items {
        match item {
            Item::Gap => done.extend(current.take().map(|v| ended(v, time))),
            Item::Stored(version) => {
                let version = Version { to: None, ..version };
                current = Some(succeeded(frame, &mut done, current.take(), version));
            }
            Item::New(event) if event.delete => {
                let Some(version) = current.take_if(|v| !v.deleted) else {
                    frame.counts.unchanged += 1;
                    continue;
                };
                current = frame.deletes_as_record().then(|| frame.record(&version, time));
                done.push(ended(version, time));
            }
            Item::New(event) => current = Some(arrived(frame, &mut done, current.take(), &event)),
        }
    }
    done.extend(current);
    done
}

fn ended(version: Version, at: i64) -> Version {
    Version {
        to: Some(at),
        ..version
    }
}

/// A stored version follows. If it says the same as a new predecessor, it begins where that one did.
fn succeeded(frame: &Frame<'_>, done: &mut Vec<Version>, current: Option<Version>, next: Version) -> Version {
    let Some(current) = current else { return next };
    let content = |v: &Version| tuple(&frame.table, &v.row, &frame.tracked);
    let rows = !current.deleted && !next.deleted && frame.spec.track != Track::Always;
    if current.stored.is_none() && rows && content(&current) == content(&next) {
        return Version {
            from: current.from,
            ..next
        };
    }
    done.push(ended(current, next.from));
    next
}

/// A new row. If it says the same as the version that holds, that one stays: it takes over what is not tracked, unless
/// it is stored and the row is late, or was confirmed by a newer row.
fn arrived(frame: &mut Frame<'_>, done: &mut Vec<Version>, current: Option<Version>, event: &Event) -> Version {
    let Some(mut current) = current else {
        return frame.opened(&event.row, event.time);
    };
    let same = !current.deleted && frame.spec.track != Track::Always && frame.same_content(&current, &event.row);
    if !same {
        done.push(ended(current, event.time));
        return frame.opened(&event.row, event.time);
    }
    let takes_over = (current.stored.is_none() || !event.late) && !newer(frame, &current, event);
    let changed = takes_over && frame.overwrite(&mut current, &event.row);
    frame.counts.unchanged += u64::from(!changed || current.stored.is_none());
    current
}
