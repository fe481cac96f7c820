//! The dictionary of a chunk, and values that it did not have.

use std::hash::BuildHasher;
use std::ops::Range;

use datafusion::parquet::basic::Encoding;
use datafusion::parquet::column::page::Page;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::kind::Kind;
use super::recent::{Recent, Short};
use super::values::{Texts, put_text};

/// A dictionary that has become larger than this helps nobody: the chunk is better encoded from the start.
const LARGEST: usize = 4 << 20;
/// To find a value among more than these costs more than to store it plainly.
const MANY: usize = 64 * 1024;

pub(super) struct Dictionary {
    kind: Kind,
    /// As a page holds them.
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
    recent: Recent,
    /// Made when it is first asked for.
    known: Option<HashTable<u32>>,
    hasher: DefaultHashBuilder,
    /// Its bytes when it was read.
    stored: usize,
    /// Bytes that it may have.
    most: usize,
}

impl Dictionary {
    /// An empty one, which may have `most` bytes.
    pub(super) fn new(kind: Kind, most: usize) -> Self {
        Self {
            kind,
            bytes: Vec::new(),
            places: Vec::new(),
            recent: Recent::default(),
            known: None,
            hasher: DefaultHashBuilder::default(),
            stored: 0,
            most,
        }
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        let known = self.known.as_ref().map_or(0, HashTable::capacity);
        self.bytes.capacity() + size_of::<Range<usize>>() * self.places.capacity() + 5 * known + self.recent.memory()
    }

    /// `None`: it is stored in another way.
    pub(super) fn read(page: &Page, kind: Kind) -> Option<Self> {
        let Page::DictionaryPage {
            buf,
            num_values,
            encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY,
            ..
        } = page
        else {
            return None;
        };
        let count = usize::try_from(*num_values).ok()?;
        let places: Vec<Range<usize>> = match kind.width() {
            _ if kind == Kind::Boolean => return None,
            Some(width) => (0..count).map(|value| value * width..(value + 1) * width).collect(),
            None => {
                let mut end = 0;
                let place = |text: &[u8]| {
                    let start = end + 4;
                    end = start + text.len();
                    start..end
                };
                Texts(buf).take(count).map(place).collect()
            }
        };
        let complete = places.len() == count && places.last().is_none_or(|last| last.end <= buf.len());
        complete.then(|| Self {
            kind,
            bytes: buf.to_vec(),
            places,
            recent: Recent::default(),
            known: None,
            hasher: DefaultHashBuilder::default(),
            stored: buf.len(),
            most: LARGEST,
        })
    }

    pub(super) fn get(&self, place: u32) -> Option<&[u8]> {
        value_at(&self.bytes, &self.places, place)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether pages that change had better do without.
    pub(super) fn is_large(&self) -> bool {
        self.places.len() > MANY
    }

    /// The values at these places, each once.
    pub(super) fn values_at<'a>(&'a self, places: &[u32]) -> impl Iterator<Item = &'a [u8]> {
        let mut used = vec![false; self.places.len()];
        for place in places {
            if let Some(used) = usize::try_from(*place).ok().and_then(|place| used.get_mut(place)) {
                *used = true;
            }
        }
        let places = self.places.iter().zip(used).filter(|(_, used)| *used);
        places.filter_map(|(place, _)| self.bytes.get(place.clone()))
    }

    /// The place of `value`, which is added if need be. `None`: there is no room.
    pub(super) fn place_of(&mut self, value: &[u8]) -> Option<u32> {
        let Some(short) = Short::of(value) else {
            return self.find_or_add(value);
        };
        if let Some(place) = self.recent.place_of(short) {
            return Some(place);
        }
        let place = self.find_or_add(value)?;
        self.recent.remember(short, place);
        Some(place)
    }

    fn find_or_add(&mut self, value: &[u8]) -> Option<u32> {
        let Self {
            bytes, places, hasher, ..
        } = self;
        let hash_at = |place: &u32| hasher.hash_one(value_at(bytes, places, *place));
        let known = self.known.get_or_insert_with(|| {
            let mut known = HashTable::with_capacity(places.len());
            for place in (0..places.len()).filter_map(|place| u32::try_from(place).ok()) {
                known.insert_unique(hash_at(&place), place, hash_at);
            }
            known
        });
        let hash = hasher.hash_one(Some(value));
        let same = |place: &u32| value_at(bytes, places, *place) == Some(value);
        match known.find(hash, same) {
            Some(place) => Some(*place),
            None => self.add(value, hash),
        }
    }

    fn add(&mut self, value: &[u8], hash: u64) -> Option<u32> {
        let place = u32::try_from(self.places.len()).ok()?;
        if self.bytes.len() + value.len() > self.most {
            return None;
        }
        match self.kind.width() {
            Some(_) => self.bytes.extend_from_slice(value),
            None => put_text(value, &mut self.bytes)?,
        }
        self.places.push(self.bytes.len() - value.len()..self.bytes.len());
        let Self {
            bytes, places, hasher, ..
        } = self;
        let hash_at = |place: &u32| hasher.hash_one(value_at(bytes, places, *place));
        self.known.as_mut()?.insert_unique(hash, place, hash_at);
        Some(place)
    }

    /// The bytes of the page it came from.
    pub(super) fn len_before(&self) -> usize {
        self.stored
    }

    /// The page of all values, if there are more than there were.
    pub(super) fn grown(&self) -> Option<(&[u8], u32)> {
        let count = u32::try_from(self.places.len()).ok()?;
        (self.bytes.len() > self.stored).then_some((self.bytes.as_slice(), count))
    }
}

fn value_at<'a>(bytes: &'a [u8], places: &[Range<usize>], place: u32) -> Option<&'a [u8]> {
    bytes.get(places.get(usize::try_from(place).ok()?)?.clone())
}
