//! Which open versions source rows have come for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use alluvium_core::{LoadError, SqlState};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;

/// A source row of this version's key has come.
const MET: u64 = 1;
/// It was left out.
const SKIPPED: u64 = 2;
/// Versions in a word.
const IN_WORD: usize = 32;

/// What all threads have noted. Each notes in a list of its own while it looks at a batch: rows come in any order, so that
/// in one list for all, most places would have to be fetched from another processor's cache.
pub(super) struct Met {
    words: usize,
    lists: Mutex<Lists>,
    room: MemoryReservation,
}

struct Lists {
    idle: Vec<Notes>,
    /// So many more are in the room already.
    to_come: usize,
}

/// Two bits for each version, see [`MET`] and [`SKIPPED`].
pub(super) struct Notes(Vec<u64>);

impl Met {
    /// `versions` versions that no row has come for. The lists of `threads` threads are counted in `room` at once.
    pub(super) fn new(versions: usize, threads: usize, room: MemoryReservation) -> Result<Self> {
        let words = versions.div_ceil(IN_WORD);
        room.try_grow(threads * words * size_of::<u64>())?;
        let lists = Lists {
            idle: Vec::new(),
            to_come: threads,
        };
        Ok(Self {
            words,
            lists: Mutex::new(lists),
            room,
        })
    }

    /// A list that nobody else notes in until it is [put back](Self::put_back).
    pub(super) fn take(&self) -> Result<Notes> {
        let mut lists = self.lists();
        if let Some(notes) = lists.idle.pop() {
            return Ok(notes);
        }
        match lists.to_come.checked_sub(1) {
            Some(others) => lists.to_come = others,
            None => self.room.try_grow(self.words * size_of::<u64>())?,
        }
        drop(lists);
        Ok(Notes(vec![0; self.words]))
    }

    pub(super) fn put_back(&self, notes: Notes) {
        self.lists().idle.push(notes);
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be asked when all rows have come.
    ///
    /// # Errors
    ///
    /// When rows of one key were noted in several lists and one of them has been left out: neither can be judged alone.
    pub(super) fn check(&self) -> Result<()> {
        let lists = self.lists();
        let Some((first, others)) = lists.idle.split_first() else {
            return Ok(());
        };
        let mut all = first.0.clone();
        for list in others {
            for (all, here) in all.iter_mut().zip(&list.0) {
                // A version's upper bit meets the lower one of the same version.
                let skipped = (*all | here) >> 1;
                if *all & here & skipped & LOWER != 0 {
                    return Err(comes_again());
                }
                *all |= here;
            }
        }
        Ok(())
    }
}

/// [`MET`] of each version of a word.
const LOWER: u64 = u64::MAX / 3;

impl Notes {
    /// Notes that a row of this version's key has come, `same` as the version or not; whether it is left out.
    ///
    /// # Errors
    ///
    /// When a row of the same key has been left out before: neither can be judged alone.
    pub(super) fn skips(&mut self, version: usize, same: bool) -> Result<bool> {
        let shift = 2 * (version % IN_WORD);
        let word = self.0.get_mut(version / IN_WORD);
        let word = word.ok_or_else(|| LoadError::internal("a source row has met a version that is not known"))?;
        let before = *word >> shift & (MET | SKIPPED);
        let skips = same && before == 0;
        *word |= (if skips { MET | SKIPPED } else { MET }) << shift;
        match before & SKIPPED {
            // Where one went through before, what follows will see all of them.
            0 => Ok(skips),
            _ => Err(comes_again()),
        }
    }
}

/// Answered by planning the statement anew, with operators that hold no rows back.
fn comes_again() -> DataFusionError {
    LoadError::new(
        SqlState::OutOfMemory,
        "a key of the source comes in several rows, one of which was left out as unchanged",
    )
    .detail("Its rows have to be put in order, which this plan cannot do.")
    .hint("Leave out OPTIONS ('merge.compare' 'tracked').")
    .into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    /// A list of a hundred versions takes 32 bytes.
    fn met(threads: usize) -> Result<Met> {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64));
        Met::new(100, threads, MemoryConsumer::new("test").register(&pool))
    }

    /// Rows of one key, each in the list of the thread that it comes to: what happens to the last, and to all.
    fn rows(version: usize, rows: &[(usize, bool)]) -> (Vec<bool>, bool) {
        let met = met(2).unwrap();
        let mut lists = [met.take().unwrap(), met.take().unwrap()];
        let mut skipped = Vec::new();
        for (list, same) in rows {
            match lists[*list].skips(version, *same) {
                Ok(skips) => skipped.push(skips),
                Err(_) => return (skipped, false),
            }
        }
        lists.into_iter().for_each(|list| met.put_back(list));
        (skipped, met.check().is_ok())
    }

    #[test]
    fn a_key_that_comes_again_is_noticed_in_one_thread_and_in_two() {
        for version in [0, 31, 32, 63, 99] {
            assert_eq!(rows(version, &[]), (vec![], true));
            assert_eq!(rows(version, &[(0, true)]), (vec![true], true));
            assert_eq!(rows(version, &[(1, false)]), (vec![false], true));
            // In one thread, what has gone through takes the next along.
            assert_eq!(
                rows(version, &[(0, false), (0, true), (0, true)]),
                (vec![false; 3], true)
            );
            assert_eq!(rows(version, &[(0, true), (0, true)]), (vec![true], false));
            assert_eq!(rows(version, &[(0, true), (0, false)]), (vec![true], false));
            // In two, nobody knows until the end.
            assert_eq!(rows(version, &[(0, false), (1, false)]), (vec![false; 2], true));
            for (one, other) in [(true, true), (true, false), (false, true)] {
                let again = rows(version, &[(0, one), (1, other)]);
                assert_eq!(again, (vec![one, other], false), "{one}, {other} of {version}");
            }
        }
    }

    #[test]
    fn neighbours_do_not_count_for_each_other() {
        let met = met(1).unwrap();
        let (mut one, mut other) = (met.take().unwrap(), met.take().unwrap());
        for version in 0..100 {
            let list = if version % 2 == 0 { &mut one } else { &mut other };
            assert!(list.skips(version, true).unwrap());
        }
        met.put_back(one);
        met.put_back(other);
        met.check().unwrap();
    }

    #[test]
    fn lists_are_used_again_and_counted() {
        assert!(met(3).is_err());
        let met = met(1).unwrap();
        let mut lists = vec![met.take().unwrap(), met.take().unwrap()];
        assert!(met.take().is_err(), "a third takes more than there is");
        lists[0].skips(5, true).unwrap();
        met.put_back(lists.remove(0));
        assert!(met.take().unwrap().skips(5, false).is_err());
        assert!(lists[0].skips(100 + IN_WORD, true).is_err(), "no such version");
    }
}
