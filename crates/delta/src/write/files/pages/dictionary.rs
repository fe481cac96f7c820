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
/// Fewer are found in a cache.
const FEW: usize = 4 * 1024;
/// Values that are stored less often than this on average gain little from a dictionary.
const OFTEN: usize = 3;

pub(super) struct Dictionary {
    values: Values,
    recent: Recent,
    /// Made when it is first asked for.
    known: Option<HashTable<u32>>,
    hasher: DefaultHashBuilder,
    /// Its bytes when it was read.
    stored: usize,
    /// Bytes that it may have.
    most: usize,
    /// Rows of the chunk it was read from.
    rows: usize,
}

impl Dictionary {
    /// An empty one, which may have `most` bytes.
    pub(super) fn new(kind: Kind, most: usize) -> Self {
        Self::of(Values::new(kind), most, 0)
    }

    fn of(values: Values, most: usize, rows: usize) -> Self {
        Self {
            stored: values.bytes.len(),
            values,
            recent: Recent::default(),
            known: None,
            hasher: DefaultHashBuilder::default(),
            most,
            rows,
        }
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        let known = self.known.as_ref().map_or(0, HashTable::capacity);
        self.values.memory() + 5 * known + self.recent.memory()
    }

    /// That of a chunk of so many rows. `None`: it is stored in another way.
    pub(super) fn read(page: &Page, kind: Kind, rows: usize) -> Option<Self> {
        let Page::DictionaryPage {
            buf,
            num_values,
            encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY,
            ..
        } = page
        else {
            return None;
        };
        let values = Values::read(buf, kind, usize::try_from(*num_values).ok()?)?;
        Some(Self::of(values, LARGEST, rows))
    }

    pub(super) fn get(&self, place: u32) -> Option<&[u8]> {
        self.values.get(place)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether pages that change had better do without.
    pub(super) fn is_large(&self) -> bool {
        self.len() > MANY || self.len() > FEW && self.len().saturating_mul(OFTEN) > self.rows
    }

    /// The values at these places, each once.
    pub(super) fn values_at<'a>(&'a self, places: &[u32]) -> impl Iterator<Item = &'a [u8]> {
        let mut used = vec![false; self.len()];
        for place in places {
            if let Some(used) = usize::try_from(*place).ok().and_then(|place| used.get_mut(place)) {
                *used = true;
            }
        }
        let used = (0..).zip(used).filter(|(_, used)| *used);
        used.filter_map(|(place, _)| self.get(place))
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
        let Self { values, hasher, .. } = self;
        let hash_at = |place: &u32| hasher.hash_one(values.get(*place));
        let known = self.known.get_or_insert_with(|| {
            // Some will be added.
            let mut known = HashTable::with_capacity(2 * values.len());
            for place in (0..values.len()).filter_map(|place| u32::try_from(place).ok()) {
                known.insert_unique(hash_at(&place), place, hash_at);
            }
            known
        });
        let hash = hasher.hash_one(Some(value));
        if let Some(place) = known.find(hash, |place| values.get(*place) == Some(value)) {
            return Some(*place);
        }
        let place = u32::try_from(values.len()).ok()?;
        if values.bytes.len() + value.len() > self.most {
            return None;
        }
        values.push(value)?;
        known.insert_unique(hash, place, |place| hasher.hash_one(values.get(*place)));
        Some(place)
    }

    /// The bytes of the page it came from.
    pub(super) fn len_before(&self) -> usize {
        self.stored
    }

    /// The page of all values, if there are more than there were.
    pub(super) fn grown(&self) -> Option<(&[u8], u32)> {
        let count = u32::try_from(self.len()).ok()?;
        (self.values.bytes.len() > self.stored).then_some((self.values.bytes.as_slice(), count))
    }
}

/// Values as a page holds them.
struct Values {
    /// The bytes of every value, where they are as many.
    width: Option<usize>,
    bytes: Vec<u8>,
    /// Where each is, where it has to be looked for.
    places: Vec<Range<usize>>,
}

impl Values {
    fn new(kind: Kind) -> Self {
        Self {
            width: kind.width(),
            bytes: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The first `count` values of a page.
    fn read(page: &[u8], kind: Kind, count: usize) -> Option<Self> {
        let mut values = Self::new(kind);
        match values.width {
            _ if kind == Kind::Boolean => return None,
            Some(width) => values.bytes = page.get(..count.checked_mul(width)?)?.to_vec(),
            None => {
                let mut end = 0;
                let place = |text: &[u8]| {
                    let start = end + 4;
                    end = start + text.len();
                    start..end
                };
                values.places = Texts(page).take(count).map(place).collect();
                if values.places.len() < count {
                    return None;
                }
                // What follows them would stand before those that are added.
                let end = values.places.last().map_or(0, |last| last.end);
                values.bytes = page.get(..end)?.to_vec();
            }
        }
        Some(values)
    }

    fn len(&self) -> usize {
        match self.width {
            Some(width) => self.bytes.len() / width.max(1),
            None => self.places.len(),
        }
    }

    #[inline]
    fn get(&self, place: u32) -> Option<&[u8]> {
        let place = usize::try_from(place).ok()?;
        match self.width {
            Some(width) => self.bytes.get(place * width..(place + 1) * width),
            None => self.bytes.get(self.places.get(place)?.clone()),
        }
    }

    fn push(&mut self, value: &[u8]) -> Option<()> {
        match self.width {
            Some(_) => self.bytes.extend_from_slice(value),
            None => {
                put_text(value, &mut self.bytes)?;
                self.places.push(self.bytes.len() - value.len()..self.bytes.len());
            }
        }
        Some(())
    }

    fn memory(&self) -> usize {
        self.bytes.capacity() + size_of::<Range<usize>>() * self.places.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8], count: u32) -> Page {
        Page::DictionaryPage {
            buf: bytes.to_vec().into(),
            num_values: count,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }
    }

    #[test]
    fn what_follows_the_values_of_a_page_is_left_out() {
        let mut texts = Vec::new();
        for text in [b"one".as_slice(), b"", b"three"] {
            put_text(text, &mut texts).unwrap();
        }
        let numbers: Vec<u8> = [7_i64, 8, 9].into_iter().flat_map(i64::to_le_bytes).collect();
        for (kind, values, new) in [
            (Kind::Text, texts, b"new".to_vec()),
            (Kind::Int64, numbers, 10_i64.to_le_bytes().to_vec()),
        ] {
            for behind in [&b""[..], b"rest"] {
                let bytes = [values.as_slice(), behind].concat();
                let mut dictionary = Dictionary::read(&page(&bytes, 3), kind, 100).unwrap();
                assert_eq!((dictionary.len(), dictionary.grown()), (3, None));
                assert_eq!(dictionary.place_of(&new), Some(3));
                assert_eq!(dictionary.get(3), Some(new.as_slice()));
                let mut expected = values.clone();
                match kind {
                    Kind::Text => put_text(&new, &mut expected).unwrap(),
                    _ => expected.extend_from_slice(&new),
                }
                assert_eq!(dictionary.grown(), Some((expected.as_slice(), 4)));
            }
            assert!(Dictionary::read(&page(&values, 4), kind, 100).is_none(), "too short");
        }
    }
}
