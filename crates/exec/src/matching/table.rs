//! Where the rows of a key are: a hash table from keys to the numbers of rows, cut into shards that are filled side by
//! side.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use hashbrown::hash_table::Entry as Slot;
use hashbrown::{HashMap, HashTable};

use super::keys::KeyEq;

/// A row number, with the part of its key's hash that tells most keys apart.
#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u32,
    row: u32,
}

/// Bytes of an entry and its control byte.
const SLOT: usize = size_of::<Entry>() + 1;

/// The rows of some keys.
#[derive(Debug)]
pub(super) struct Shard {
    /// The last row of each key.
    entries: HashTable<Entry>,
    /// From a row to the one before it that has the same key.
    before: HashMap<u32, u32>,
}

/// One hash for every row of `keys`.
pub(super) fn hashes(keys: &[ArrayRef]) -> Result<Vec<u64>> {
    let mut hashes = vec![0; keys.first().map_or(0, |key| key.len())];
    create_hashes(keys, &RandomState::default(), &mut hashes)?;
    Ok(hashes)
}

/// The bytes that tables of `rows` rows take, in `shards` parts.
pub(super) fn bytes(rows: usize, shards: usize) -> usize {
    let each = rows
        .div_ceil(shards.max(1))
        .saturating_mul(8)
        .div_ceil(7)
        .next_power_of_two();
    // A shard may get somewhat more rows than another, and then doubles.
    each.saturating_mul(SLOT).saturating_mul(shards + 1)
}

fn tag(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}

/// What the table hashes a tag to: it needs bits at both ends.
fn spread(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Which of `shards` parts holds a hash.
fn shard_of(hash: u64, shards: usize) -> usize {
    let low = usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0);
    low % shards.max(1)
}

impl Shard {
    /// The rows of part `part` of `shards`; rows with a NULL key are left out unless NULLs are equal.
    pub(super) fn build(
        hashes: &[u64],
        part: usize,
        shards: usize,
        usable: impl Fn(usize) -> bool,
        same: &KeyEq,
    ) -> Self {
        let mut shard = Self {
            entries: HashTable::with_capacity(hashes.len() / shards.max(1)),
            before: HashMap::new(),
        };
        for (row, hash) in hashes.iter().enumerate() {
            if shard_of(*hash, shards) == part && usable(row) {
                shard.insert(*hash, row, same);
            }
        }
        shard
    }

    fn insert(&mut self, hash: u64, row: usize, same: &KeyEq) {
        let tag = tag(hash);
        let Ok(number) = u32::try_from(row) else { return };
        let known = |entry: &Entry| entry.tag == tag && same.equal(index(entry.row), row);
        match self.entries.entry(spread(tag), known, |entry| spread(entry.tag)) {
            Slot::Occupied(mut known) => {
                let earlier = std::mem::replace(&mut known.get_mut().row, number);
                self.before.insert(number, earlier);
            }
            Slot::Vacant(free) => {
                free.insert(Entry { tag, row: number });
            }
        }
    }

    /// Whether two rows have the same key.
    pub(super) fn repeats(&self) -> bool {
        !self.before.is_empty()
    }
}

/// Whether a row of the shards has a key that hashes like `hash` and is the same.
pub(super) fn contains(shards: &[Shard], hash: u64, same: impl Fn(usize) -> bool) -> bool {
    let tag = tag(hash);
    let known = |entry: &Entry| entry.tag == tag && same(index(entry.row));
    let shard = shards.get(shard_of(hash, shards.len()));
    shard.is_some_and(|shard| shard.entries.find(spread(tag), known).is_some())
}

/// Calls `found` with every row of the shards whose key hashes like `hash` and is the same.
pub(super) fn look_up(shards: &[Shard], hash: u64, same: impl Fn(usize) -> bool, mut found: impl FnMut(u32)) {
    let tag = tag(hash);
    let Some(shard) = shards.get(shard_of(hash, shards.len())) else {
        return;
    };
    let known = |entry: &Entry| entry.tag == tag && same(index(entry.row));
    let mut next = shard.entries.find(spread(tag), known).map(|entry| entry.row);
    while let Some(row) = next {
        found(row);
        next = shard.before.get(&row).copied();
    }
}

/// Row numbers come from indices.
pub(super) fn index(row: u32) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}
