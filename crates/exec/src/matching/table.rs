//! Where the rows of a key are: a hash table from keys to the numbers of rows, cut into shards that are filled side by
//! side.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use hashbrown::HashTable;

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
    entries: HashTable<Entry>,
    /// Rows whose key another row has.
    pub(super) repeated: bool,
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
            repeated: false,
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
        if !self.repeated {
            let known = |entry: &Entry| entry.tag == tag && same.equal(index(entry.row), row);
            self.repeated = self.entries.find(spread(tag), known).is_some();
        }
        let entry = Entry { tag, row: number };
        self.entries
            .insert_unique(spread(tag), entry, |entry| spread(entry.tag));
    }
}

/// Calls `found` with every row of the shards whose key hashes like `hash` and is the same.
pub(super) fn look_up(shards: &[Shard], hash: u64, same: impl Fn(usize) -> bool, mut found: impl FnMut(u32)) {
    let tag = tag(hash);
    if let Some(shard) = shards.get(shard_of(hash, shards.len())) {
        for entry in shard.entries.iter_hash(spread(tag)) {
            if entry.tag == tag && same(index(entry.row)) {
                found(entry.row);
            }
        }
    }
}

/// Row numbers come from indices.
pub(super) fn index(row: u32) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}
