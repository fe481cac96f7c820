//! The keys of a source, and the rows that have them.

use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Int64Array};
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::MemoryReservation;

use super::keys::{KeyEq, without_nulls};
use super::parts::{KeyParts, are_integers, integers};
use super::ranked::{Range, Ranked};
use super::table::{self, Shard, contains, hashes, look_up};

/// Fewer keys are put into a table before other threads have begun.
const WORTH_THREADS: usize = 1 << 18;

/// The keys of a source. Scans keep it longer than the rows are needed.
pub(crate) struct KeyTable {
    index: Index,
    nulls_equal: bool,
    _held: MemoryReservation,
}

/// How the rows of a key are found.
enum Index {
    Ranked(Ranked),
    /// With the keys, for two may have one hash.
    Hashed(Vec<ArrayRef>, Vec<Shard>),
}

impl KeyTable {
    /// The table of `keys`, made by up to `threads` threads. `held` grows by what it takes.
    pub(crate) async fn build(
        keys: &KeyParts,
        threads: usize,
        nulls_equal: bool,
        held: MemoryReservation,
    ) -> Result<Self> {
        let index = match ranked(keys, threads, nulls_equal, &held).await? {
            Some(ranked) => Index::Ranked(ranked),
            None => hashed(keys, threads, nulls_equal, &held).await?,
        };
        Ok(Self {
            index,
            nulls_equal,
            _held: held,
        })
    }

    /// Whether two rows have the same key.
    pub(super) fn repeats(&self) -> bool {
        match &self.index {
            Index::Ranked(ranked) => ranked.repeats(),
            Index::Hashed(_, shards) => shards.iter().any(Shard::repeats),
        }
    }

    /// Which rows of `others` have a key that is here.
    pub(super) fn known(&self, others: &[ArrayRef]) -> Result<BooleanArray> {
        let valid = if self.nulls_equal { None } else { without_nulls(others) };
        let usable = |at: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(at));
        let known: Vec<bool> = match (&self.index, integers_of(others)?) {
            (Index::Ranked(ranked), Some(others)) => {
                let known = |(at, key): (usize, &i64)| ranked.contains(*key) && others.is_valid(at);
                others.values().iter().enumerate().map(known).collect()
            }
            (Index::Hashed(keys, shards), _) => {
                let same = KeyEq::try_new(keys, others)?;
                let known = |(at, hash)| usable(at) && contains(shards, hash, |row| same.equal(row, at));
                hashes(others)?.into_iter().enumerate().map(known).collect()
            }
            (Index::Ranked(_), None) => return Err(LoadError::internal("keys of another type are matched").into()),
        };
        Ok(BooleanArray::from(known))
    }

    /// Calls `found` with each row of `others` and each row here that has its key.
    pub(crate) fn each_match(&self, others: &[ArrayRef], mut found: impl FnMut(usize, u32)) -> Result<()> {
        match (&self.index, integers_of(others)?) {
            (Index::Ranked(ranked), Some(others)) => {
                for (at, key) in others.values().iter().enumerate() {
                    if ranked.contains(*key) && others.is_valid(at) {
                        ranked.look_up(*key, |row| found(at, row));
                    }
                }
            }
            (Index::Hashed(keys, shards), _) => {
                let same = KeyEq::try_new(keys, others)?;
                let valid = if self.nulls_equal { None } else { without_nulls(others) };
                for (at, hash) in hashes(others)?.into_iter().enumerate() {
                    if valid.as_ref().is_none_or(|valid| valid.is_valid(at)) {
                        look_up(shards, hash, |row| same.equal(row, at), |row| found(at, row));
                    }
                }
            }
            (Index::Ranked(_), None) => return Err(LoadError::internal("keys of another type are matched").into()),
        }
        Ok(())
    }
}

/// The table for integers, where the keys are such, no NULL has to be found, and there is room for the bits: hashes may
/// need less.
async fn ranked(
    keys: &KeyParts,
    threads: usize,
    nulls_equal: bool,
    held: &MemoryReservation,
) -> Result<Option<Ranked>> {
    let has_null = |keys: &[Int64Array]| keys.iter().any(|part| part.null_count() > 0);
    let Some(parts) = keys.integers()?.filter(|keys| !nulls_equal || !has_null(keys)) else {
        return Ok(None);
    };
    let Some(range) = Range::of(&parts) else {
        return Ok(None);
    };
    let ranges = match keys.rows() > WORTH_THREADS {
        true => range.parts(threads),
        false => vec![range],
    };
    // Parts are there a second time while they are put together.
    let bytes = range.bytes(keys.rows());
    let twice = if ranges.len() > 1 { bytes } else { 0 };
    if held.try_grow(bytes + twice).is_err() {
        return Ok(None);
    }
    let parts: Arc<[Int64Array]> = parts.into();
    let build = |range: Range| {
        let parts = Arc::clone(&parts);
        move || Ranked::build(&parts, range)
    };
    let table = Ranked::joined(side_by_side(ranges.into_iter().map(build).collect()).await?);
    held.shrink(twice);
    Ok(Some(table))
}

async fn hashed(keys: &KeyParts, threads: usize, nulls_equal: bool, held: &MemoryReservation) -> Result<Index> {
    let rows = keys.rows();
    let keys = keys.joined()?;
    held.try_grow(keys.iter().map(|key| key.get_array_memory_size()).sum())?;
    held.try_grow(table::bytes(rows, threads).saturating_add(rows.saturating_mul(9)))?;
    let shards = fill(&keys, threads, nulls_equal).await?;
    Ok(Index::Hashed(keys, shards))
}

/// The only column of a key as integers; `None` where it is none or has none.
fn integers_of(keys: &[ArrayRef]) -> Result<Option<Int64Array>> {
    match keys {
        [key] if are_integers(key.data_type()) => integers(key).map(Some),
        _ => Ok(None),
    }
}

async fn fill(keys: &[ArrayRef], shards: usize, nulls_equal: bool) -> Result<Vec<Shard>> {
    let hashes = Arc::new(hashes(keys)?);
    let same = Arc::new(KeyEq::try_new(keys, keys)?);
    let valid = if nulls_equal { None } else { without_nulls(keys) };
    let fill = |part: usize| {
        let (hashes, same, valid) = (Arc::clone(&hashes), Arc::clone(&same), valid.clone());
        move || {
            let usable = |row| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
            Shard::build(&hashes, part, shards, usable, &same)
        }
    };
    side_by_side((0..shards).map(fill).collect()).await
}

/// The results of `work`, one piece here or all in threads of their own.
async fn side_by_side<T: Send + 'static>(work: Vec<impl FnOnce() -> T + Send + 'static>) -> Result<Vec<T>> {
    if work.len() == 1 {
        return Ok(work.into_iter().map(|work| work()).collect());
    }
    let tasks: Vec<_> = work.into_iter().map(SpawnedTask::spawn_blocking).collect();
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        let result = task.join().await;
        done.push(result.map_err(|e| LoadError::internal(format!("the table of keys was not filled: {e}")))?);
    }
    Ok(done)
}
