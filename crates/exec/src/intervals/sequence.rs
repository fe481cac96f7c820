//! Every row carries its time: stored versions and new events are laid out on one time line, and the history is rebuilt
//! from it.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::LatePolicy;
use super::fold::{Contents, Event, Folded, Policy, Refusal, Stored, Version, open_of};

/// What stands on the time line.
enum Item {
    Stored(Version),
    /// The stored history has a gap from here.
    Gap,
    New(Timed),
}

/// An event, and whether it is older than the stored history's end.
#[derive(Clone, Copy)]
struct Timed {
    event: Event,
    late: bool,
}

/// The work on one key.
struct Replay<'a> {
    policy: &'a Policy,
    contents: &'a dyn Contents,
    folded: Folded,
    /// The stored history without what `APPEND` left open beside it, in order.
    chain: Vec<Version>,
    /// What stands open beside it.
    beside: Vec<Version>,
}

/// The history after the events; `stored` is sorted.
pub(super) fn fold(
    stored: Vec<Stored>,
    events: &[Event],
    policy: &Policy,
    contents: &dyn Contents,
) -> Result<Folded, Refusal> {
    let mut replay = Replay {
        policy,
        contents,
        folded: Folded::default(),
        chain: Vec::new(),
        beside: Vec::new(),
    };
    let events = replay.one_per_time(events)?;
    let open = open_of(&stored);
    for (i, version) in stored.into_iter().map(Version::of).enumerate() {
        match version.to.is_none() && Some(i) != open {
            true => replay.beside.push(version),
            false => replay.chain.push(version),
        }
    }
    replay.run(events)
}

impl Replay<'_> {
    /// Per time the row with the highest further tuple, in order of time. Equal tuples must agree.
    fn one_per_time(&mut self, events: &[Event]) -> Result<Vec<Event>, Refusal> {
        let mut sorted = events.to_vec();
        sorted.sort_by(|a, b| self.contents.sequence(a.row, b.row));
        let agree = |a: &Event, b: &Event| a.delete == b.delete && self.contents.landing(a.row, b.row);
        for pair in sorted.windows(2) {
            if let [a, b] = pair
                && self.contents.sequence(a.row, b.row).is_eq()
                && !agree(a, b)
            {
                return Err(Refusal::SameSequence { row: b.row });
            }
        }
        let mut kept: Vec<Event> = Vec::with_capacity(sorted.len());
        for event in sorted {
            if let Some(loser) = kept.pop_if(|last| last.time == event.time) {
                self.folded.skipped.push(loser.row);
            }
            kept.push(event);
        }
        Ok(kept)
    }

    fn run(mut self, events: Vec<Event>) -> Result<Folded, Refusal> {
        let last_end = self.chain.iter().filter_map(|v| v.to).max();
        let end = self.chain.iter().find(|v| v.to.is_none()).map(|v| v.from).or(last_end);
        let splices = self.policy.late == LatePolicy::Reorder;
        let mut news = Vec::new();
        for event in events {
            let late = end.filter(|end| event.time < *end);
            if self.is_guarded(event) {
                self.folded.skipped.push(event.row);
            } else if event.delete && self.is_deleted_at(event.time) {
                self.folded.unchanged.push(event.row);
            } else if !event.delete && self.replaces(event) {
                // An equal time replaces content, or is a no-op, under every policy.
            } else if let Some(end) = late.filter(|_| !splices) {
                self.arrive_late(event, end)?;
            } else {
                news.push(Timed {
                    event,
                    late: late.is_some(),
                });
            }
        }
        // Without splices nothing but the open version can change.
        let chain = std::mem::take(&mut self.chain);
        let (changing, settled): (Vec<_>, Vec<_>) = chain.into_iter().partition(|v| splices || v.to.is_none());
        let mut versions = self.rebuild(timeline(changing, news));
        versions.extend(settled);
        versions.append(&mut self.beside);
        self.folded.versions = versions;
        Ok(self.folded)
    }

    /// The last version of the chain that begins at `time`.
    fn starting_at(&self, time: i64) -> Option<usize> {
        let after = self.chain.partition_point(|v| v.from <= time);
        let last = after.checked_sub(1)?;
        self.chain.get(last).filter(|v| v.from == time).map(|_| last)
    }

    /// At an equal time the stored further tuple, where the table stores it, is greater. A stored time later than the
    /// version's start tells that the version was confirmed since: that guards only against the same content.
    fn is_guarded(&self, event: Event) -> bool {
        let Some(stored) = self.starting_at(event.time).and_then(|i| self.chain.get(i)) else {
            return false;
        };
        let same_content = || !event.delete && !stored.deleted && self.contents.tracked(stored.land, event.row);
        self.is_newer(stored, event) && (self.contents.first(stored.land, event.row) || same_content())
    }

    /// Whether the sequence that is stored with a version, if it is, is greater than the event's.
    fn is_newer(&self, version: &Version, event: Event) -> bool {
        self.policy.guards && self.contents.sequence(version.land, event.row) == Ordering::Greater
    }

    /// Whether the history already says that the key was deleted at this very time.
    fn is_deleted_at(&self, time: i64) -> bool {
        let ended = self.chain.iter().any(|v| v.to == Some(time));
        let followed = self
            .chain
            .iter()
            .any(|v| v.from == time && v.to != Some(time) && !v.deleted);
        let recorded = self.chain.iter().any(|v| v.from == time && v.deleted);
        recorded || (ended && !followed)
    }

    /// A row at the very time a stored version begins takes that version over. Whether there was one.
    fn replaces(&mut self, event: Event) -> bool {
        let found = self.starting_at(event.time);
        let next = found.and_then(|i| self.chain.get(i + 1)).map(|v| v.from);
        let version = match found.and_then(|i| self.chain.get_mut(i)) {
            Some(version) => version,
            None => match self.beside.iter_mut().find(|v| v.from == event.time) {
                Some(version) => version,
                None => return false,
            },
        };
        let mut changed = version.overwrite(event.row, self.contents);
        if version.deleted {
            version.deleted = false;
            changed = true;
        }
        if version.to == Some(version.from) {
            // It was deleted at its own time: the later statement wins.
            version.to = next;
            changed = true;
        }
        if !changed {
            self.folded.unchanged.push(event.row);
        }
        true
    }

    /// A late event under a policy that does not splice.
    fn arrive_late(&mut self, event: Event, end: i64) -> Result<(), Refusal> {
        let covers = |v: &&Version| v.from <= event.time && v.to.is_none_or(|to| event.time < to) && !v.deleted;
        // What the history already says is no news, however late.
        let known = match self.chain.iter().find(covers) {
            Some(version) => !event.delete && !self.policy.always && self.contents.tracked(version.land, event.row),
            None => event.delete,
        };
        match self.policy.late {
            _ if known => self.folded.unchanged.push(event.row),
            LatePolicy::Error => {
                return Err(Refusal::Late {
                    row: event.row,
                    time: event.time,
                    end,
                });
            }
            LatePolicy::Append if !event.delete => self.beside.push(Version::opened(event.row, event.time)),
            _ => self.folded.skipped.push(event.row),
        }
        Ok(())
    }

    /// Walks the time line; `current` is the version that holds at this point.
    fn rebuild(&mut self, items: Vec<(i64, Item)>) -> Vec<Version> {
        let mut done: Vec<Version> = Vec::new();
        let mut current: Option<Version> = None;
        for (time, item) in items {
            match item {
                Item::Gap => done.extend(current.take().map(|v| ended(v, time))),
                Item::Stored(version) => {
                    let version = Version { to: None, ..version };
                    current = Some(self.succeed(&mut done, current.take(), version));
                }
                Item::New(Timed { event, .. }) if event.delete => match current.take_if(|v| !v.deleted) {
                    Some(version) => {
                        current = self.policy.delete_records.then(|| version.record(time));
                        done.push(ended(version, time));
                    }
                    None => self.folded.unchanged.push(event.row),
                },
                Item::New(timed) => current = Some(self.arrive(&mut done, current.take(), timed)),
            }
        }
        done.extend(current);
        done
    }

    /// A stored version follows. If it says the same as a new predecessor, it begins where that one did.
    fn succeed(&self, done: &mut Vec<Version>, current: Option<Version>, next: Version) -> Version {
        let Some(current) = current else { return next };
        let rows = !current.deleted && !next.deleted && !self.policy.always;
        if current.stored.is_none() && rows && self.contents.tracked(current.land, next.land) {
            return Version {
                from: current.from,
                ..next
            };
        }
        done.push(ended(current, next.from));
        next
    }

    /// A new row. If it says the same as the version that holds, that one stays: it takes over what is not tracked,
    /// unless it is stored and the row is late, or was confirmed by a newer row.
    fn arrive(&mut self, done: &mut Vec<Version>, current: Option<Version>, timed: Timed) -> Version {
        let Timed { event, late } = timed;
        let Some(mut current) = current else {
            return Version::opened(event.row, event.time);
        };
        let same = !current.deleted && !self.policy.always && self.contents.tracked(current.land, event.row);
        if !same {
            done.push(ended(current, event.time));
            return Version::opened(event.row, event.time);
        }
        let takes_over = (current.stored.is_none() || !late) && !self.is_newer(&current, event);
        let changed = takes_over && current.overwrite(event.row, self.contents);
        if !changed || current.stored.is_none() {
            self.folded.unchanged.push(event.row);
        }
        current
    }
}

fn ended(version: Version, at: i64) -> Version {
    Version {
        to: Some(at),
        ..version
    }
}

/// Stored versions, their gaps and the new events in order of time. At one time a stored version comes first, then the
/// new event; a new row at the start of a gap takes the gap's place.
fn timeline(chain: Vec<Version>, news: Vec<Timed>) -> Vec<(i64, Item)> {
    let starts: Vec<i64> = chain.iter().map(|v| v.from).collect();
    let rows: HashSet<i64> = news.iter().filter(|n| !n.event.delete).map(|n| n.event.time).collect();
    let mut items = Vec::with_capacity(chain.len() + news.len());
    for (i, version) in chain.into_iter().enumerate() {
        let gap = version.to.filter(|to| starts.get(i + 1) != Some(to));
        items.push((version.from, Item::Stored(version)));
        items.extend(gap.filter(|at| !rows.contains(at)).map(|at| (at, Item::Gap)));
    }
    items.extend(news.into_iter().map(|n| (n.event.time, Item::New(n))));
    items.sort_by_key(|(time, _)| *time); // stable
    items
}
