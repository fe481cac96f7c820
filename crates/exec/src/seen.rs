//! Which rows bring a key for the first time.
//!
//! Three ways, one answer: a set of native values for a single key column of fixed width, a set of byte strings for
//! everything else, and the comparison of neighbours when the input is sorted by key. Sets account for their memory
//! before they grow.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, GenericStringArray, OffsetSizeTrait, make_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::{filter, partition};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows};
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

use crate::keys::Columns;

/// The keys met so far.
pub(crate) enum Seen {
    Narrow(NativeSet<Int32Type>),
    Wide(NativeSet<Int64Type>),
    Widest(NativeSet<Decimal128Type>),
    Bytes(ByteSet),
    Rows(Box<RowSet>),
    Sorted(Box<Neighbours>),
}

impl Seen {
    /// For keys in `columns`, compared as neighbours if `sorted`.
    pub(crate) fn try_new(columns: &Columns, sorted: bool, name: &str, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        if sorted {
            let converter = columns.converter()?;
            return Ok(Self::Sorted(Box::new(Neighbours { converter, last: None })));
        }
        let memory = MemoryConsumer::new(name).register(pool);
        Ok(match columns.types() {
            // Intervals are not aligned like integers of their width.
            [DataType::Interval(_)] => Self::rows(columns, memory)?,
            [one] if one.primitive_width() == Some(4) => Self::Narrow(NativeSet::new(memory)),
            [one] if one.primitive_width() == Some(8) => Self::Wide(NativeSet::new(memory)),
            [one] if one.primitive_width() == Some(16) => Self::Widest(NativeSet::new(memory)),
            [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View] => Self::Bytes(ByteSet::new(memory)),
            _ => Self::rows(columns, memory)?,
        })
    }

    fn rows(columns: &Columns, memory: MemoryReservation) -> Result<Self> {
        let converter = columns.converter()?;
        let rows = converter.empty_rows(0, 0);
        let set = ByteSet::new(memory);
        Ok(Self::Rows(Box::new(RowSet { converter, rows, set })))
    }

    /// Marks the rows that bring a key for the first time, among those of `live` (all, if `None`). NULL is a value.
    pub(crate) fn fresh(&mut self, keys: &[ArrayRef], live: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        match (self, keys) {
            (Self::Narrow(set), [key]) => set.fresh(&retyped(key, DataType::Int32)?, live),
            (Self::Wide(set), [key]) => set.fresh(&retyped(key, DataType::Int64)?, live),
            (Self::Widest(set), [key]) => set.fresh(&retyped(key, DataType::Decimal128(38, 0))?, live),
            (Self::Bytes(set), [key]) => set.fresh_text(key, live),
            (Self::Rows(set), keys) => set.fresh(keys, live),
            (Self::Sorted(neighbours), keys) => neighbours.fresh(keys, live),
            _ => Err(LoadError::internal("a key of one column has several").into()),
        }
    }
}

/// The bytes that the values of `array` take, which may be a slice of a larger one.
fn text_bytes<O: OffsetSizeTrait>(array: &GenericStringArray<O>) -> usize {
    let offsets = array.value_offsets();
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => last.as_usize() - first.as_usize(),
        _ => 0,
    }
}

/// The same bits under another type of the same width.
fn retyped(array: &ArrayRef, data_type: DataType) -> Result<ArrayRef> {
    Ok(make_array(array.to_data().into_builder().data_type(data_type).build()?))
}

/// Calls `is_new` for each row of `live`; NULL is new once.
fn mark(
    rows: usize,
    nulls: Option<&NullBuffer>,
    live: Option<&BooleanBuffer>,
    null_seen: &mut bool,
    mut is_new: impl FnMut(usize) -> bool,
) -> BooleanBuffer {
    match (nulls.filter(|n| n.null_count() > 0), live) {
        (None, None) => BooleanBuffer::collect_bool(rows, is_new),
        (nulls, live) => BooleanBuffer::collect_bool(rows, |row| {
            if live.is_some_and(|live| !live.value(row)) {
                false
            } else if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                !std::mem::replace(null_seen, true)
            } else {
                is_new(row)
            }
        }),
    }
}

/// The bytes a hash table of `slots` slots takes when it holds `entries` entries, and its new number of slots.
fn table_bytes(entries: usize, slots: usize, entry: usize) -> (usize, usize) {
    let needed = entries.saturating_mul(8).div_ceil(7).next_power_of_two().max(16);
    let slots = needed.max(slots);
    (slots.saturating_mul(entry.saturating_add(1)), slots)
}

/// A set of native values.
pub(crate) struct NativeSet<T: ArrowPrimitiveType> {
    values: HashSet<T::Native>,
    null_seen: bool,
    slots: usize,
    memory: MemoryReservation,
}

impl<T: ArrowPrimitiveType> NativeSet<T>
where
    T::Native: Hash + Eq,
{
    fn new(memory: MemoryReservation) -> Self {
        Self {
            values: HashSet::new(),
            null_seen: false,
            slots: 0,
            memory,
        }
    }

    fn fresh(&mut self, keys: &ArrayRef, live: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        self.reserve(keys.len())?;
        let keys = keys.as_primitive::<T>();
        let values = keys.values();
        let set = &mut self.values;
        Ok(mark(keys.len(), keys.nulls(), live, &mut self.null_seen, |row| {
            set.insert(values[row])
        }))
    }

    fn reserve(&mut self, rows: usize) -> Result<()> {
        if self.values.len().saturating_add(rows) <= self.values.capacity() {
            return Ok(());
        }
        let entry = size_of::<T::Native>();
        let (bytes, slots) = table_bytes(
            self.values.len().saturating_add(rows),
            self.slots.saturating_mul(2),
            entry,
        );
        // While it grows, the old table and the new one exist side by side.
        self.memory.try_grow(bytes)?;
        self.values.reserve(rows);
        self.memory.try_resize(bytes)?;
        self.slots = slots;
        Ok(())
    }
}

/// A set of byte strings, kept one after another in one buffer.
pub(crate) struct ByteSet {
    table: HashTable<Slot>,
    slots: usize,
    bytes: Vec<u8>,
    hasher: DefaultHashBuilder,
    null_seen: bool,
    memory: MemoryReservation,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    start: usize,
    end: usize,
}

impl ByteSet {
    fn new(memory: MemoryReservation) -> Self {
        Self {
            table: HashTable::new(),
            slots: 0,
            bytes: Vec::new(),
            hasher: DefaultHashBuilder::default(),
            null_seen: false,
            memory,
        }
    }

    fn fresh_text(&mut self, keys: &ArrayRef, live: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        let nulls = keys.nulls();
        match keys.data_type() {
            DataType::Utf8 => {
                let keys = keys.as_string::<i32>();
                self.fresh(keys.len(), text_bytes(keys), nulls, live, |row| {
                    keys.value(row).as_bytes()
                })
            }
            DataType::LargeUtf8 => {
                let keys = keys.as_string::<i64>();
                let bytes = text_bytes(keys);
                self.fresh(keys.len(), bytes, nulls, live, |row| keys.value(row).as_bytes())
            }
            _ => {
                let keys = keys.as_string_view();
                let bytes = keys
                    .lengths()
                    .fold(0usize, |sum, n| sum.saturating_add(usize::try_from(n).unwrap_or(0)));
                self.fresh(keys.len(), bytes, nulls, live, |row| keys.value(row).as_bytes())
            }
        }
    }

    /// `key` gives the bytes of a row; altogether they are at most `bytes`.
    fn fresh<'a>(
        &mut self,
        rows: usize,
        bytes: usize,
        nulls: Option<&NullBuffer>,
        live: Option<&BooleanBuffer>,
        key: impl Fn(usize) -> &'a [u8],
    ) -> Result<BooleanBuffer> {
        self.reserve(rows, bytes)?;
        let (table, held, hasher) = (&mut self.table, &mut self.bytes, &self.hasher);
        Ok(mark(rows, nulls, live, &mut self.null_seen, |row| {
            let key = key(row);
            let hash = hasher.hash_one(key);
            let same = |slot: &Slot| slot.hash == hash && held.get(slot.start..slot.end) == Some(key);
            let Entry::Vacant(free) = table.entry(hash, same, |slot| slot.hash) else {
                return false;
            };
            let start = held.len();
            held.extend_from_slice(key);
            let end = held.len();
            free.insert(Slot { hash, start, end });
            true
        }))
    }

    fn reserve(&mut self, rows: usize, bytes: usize) -> Result<()> {
        let entries = self.table.len().saturating_add(rows);
        if entries > self.table.capacity() {
            let (new, slots) = table_bytes(entries, self.slots.saturating_mul(2), size_of::<Slot>());
            let (old, _) = table_bytes(0, self.slots, size_of::<Slot>());
            self.memory.try_grow(new)?;
            self.table.reserve(rows, |slot| slot.hash);
            self.memory.shrink(if self.slots == 0 { 0 } else { old });
            self.slots = slots;
        }
        let needed = self.bytes.len().saturating_add(bytes);
        let old = self.bytes.capacity();
        if needed > old {
            let new = needed.max(old.saturating_mul(2));
            self.memory.try_grow(new)?;
            self.bytes.reserve_exact(new - self.bytes.len());
            self.memory.shrink(old);
        }
        Ok(())
    }
}

/// A set of keys of several columns, or of a type without a shortcut.
pub(crate) struct RowSet {
    converter: RowConverter,
    rows: Rows,
    set: ByteSet,
}

impl RowSet {
    fn fresh(&mut self, keys: &[ArrayRef], live: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        self.rows.clear();
        self.converter.append(&mut self.rows, keys)?;
        let rows = &self.rows;
        self.set
            .fresh(rows.num_rows(), rows.size(), None, live, |row| rows.row(row).data())
    }
}

/// Keys that come in order: a key is new if it differs from the one before.
pub(crate) struct Neighbours {
    converter: RowConverter,
    last: Option<OwnedRow>,
}

impl Neighbours {
    fn fresh(&mut self, keys: &[ArrayRef], live: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        let Some(live) = live else {
            return self.fresh_of_all(keys);
        };
        let mask = BooleanArray::new(live.clone(), None);
        let kept: Vec<ArrayRef> = keys.iter().map(|k| filter(k, &mask)).collect::<Result<_, _>>()?;
        let fresh = self.fresh_of_all(&kept)?;
        let mut next = fresh.iter();
        Ok(BooleanBuffer::collect_bool(live.len(), |row| {
            live.value(row) && next.next().unwrap_or(false)
        }))
    }

    fn fresh_of_all(&mut self, keys: &[ArrayRef]) -> Result<BooleanBuffer> {
        let rows = keys.first().map_or(0, |k| k.len());
        if rows == 0 {
            return Ok(BooleanBuffer::new_unset(0));
        }
        let mut starts: Vec<bool> = vec![false; rows];
        for range in partition(keys)?.ranges() {
            starts[range.start] = true;
        }
        let ends = self.row(keys, 0)?;
        if self.last.as_ref() == Some(&ends) {
            starts[0] = false;
        }
        self.last = Some(self.row(keys, rows - 1)?);
        Ok(BooleanBuffer::from(starts))
    }

    fn row(&self, keys: &[ArrayRef], row: usize) -> Result<OwnedRow> {
        let one: Vec<ArrayRef> = keys.iter().map(|k| k.slice(row, 1)).collect();
        Ok(self.converter.convert_columns(&one)?.row(0).owned())
    }
}
