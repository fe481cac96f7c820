//! Rows from all over a source, each put straight to its place. The source is gone through in its order, one column
//! after the other: its rows are touched in one direction, and what is out of order is only a block that fits a cache.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, GenericByteArray, MutableArrayData,
    PrimitiveArray, RecordBatch, UInt32Array, downcast_primitive, make_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{interleave, take};
use datafusion::arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::Result;

use super::table::index;
use crate::short;

/// Values that are fetched before they are copied.
const AHEAD: usize = 256;

/// Some rows of a source in the source's order.
pub(super) struct Gather<'a> {
    batches: &'a [RecordBatch],
    /// Batches that rows come from, and where among the rows those of each end.
    runs: Vec<(usize, usize)>,
    rows: Vec<Wanted>,
}

/// One row.
#[derive(Clone, Copy)]
struct Wanted {
    /// Its number in its batch.
    from: u32,
    /// Its number among the gathered rows.
    to: u32,
}

impl<'a> Gather<'a> {
    /// `rows` by their number in `batches`, the first rows of which are `starts`.
    pub(super) fn new(batches: &'a [RecordBatch], starts: &[usize], rows: &[u32]) -> Self {
        let mut sorted: Vec<u64> = (0_u64..)
            .zip(rows)
            .map(|(to, row)| u64::from(*row) << 32 | to)
            .collect();
        sorted.sort_unstable();
        let mut gather = Self {
            batches,
            runs: Vec::new(),
            rows: Vec::with_capacity(sorted.len()),
        };
        let mut sorted = sorted.into_iter().map(halves).peekable();
        for (batch, bounds) in starts.windows(2).enumerate() {
            let (start, end) = (bounds.first().copied(), bounds.last().copied());
            let (start, end) = (start.unwrap_or(0), end.unwrap_or(0));
            let before = gather.rows.len();
            while let Some((row, to)) = sorted.next_if(|(row, _)| index(*row) < end) {
                let from = u32::try_from(index(row).saturating_sub(start)).unwrap_or(u32::MAX);
                gather.rows.push(Wanted { from, to });
            }
            if gather.rows.len() > before {
                gather.runs.push((batch, gather.rows.len()));
            }
        }
        gather
    }

    /// The values of column number `column` of the rows, in the order in which they were asked for.
    pub(super) fn column(&self, column: usize) -> Result<ArrayRef> {
        let Some(first) = self.batches.first() else {
            return Ok(make_array(datafusion::arrow::array::ArrayData::new_empty(
                &DataType::Null,
            )));
        };
        let data_type = first.column(column).data_type().clone();
        macro_rules! fixed {
            ($t:ty) => {
                self.fixed::<$t>(column, &data_type)
            };
        }
        downcast_primitive! {
            data_type => (fixed),
            DataType::Utf8 => self.bytes::<Utf8Type>(column),
            DataType::LargeUtf8 => self.bytes::<LargeUtf8Type>(column),
            DataType::Binary => self.bytes::<BinaryType>(column),
            DataType::LargeBinary => self.bytes::<LargeBinaryType>(column),
            _ => self.any(column),
        }
    }

    /// Each batch that rows come from: its values, and the rows.
    fn runs(&self, column: usize) -> impl Iterator<Item = (&ArrayRef, &[Wanted])> {
        let starts = std::iter::once(0).chain(self.runs.iter().map(|(_, end)| *end));
        let runs = starts.zip(&self.runs);
        runs.filter_map(move |(start, (batch, end))| {
            Some((self.batches.get(*batch)?.column(column), self.rows.get(start..*end)?))
        })
    }

    fn fixed<T: ArrowPrimitiveType>(&self, column: usize, data_type: &DataType) -> Result<ArrayRef> {
        let mut gathered = vec![T::Native::default(); self.rows.len()];
        for (values, rows) in self.runs(column) {
            let values = values.as_primitive::<T>().values();
            for row in rows {
                if let (Some(to), Some(value)) = (gathered.get_mut(index(row.to)), values.get(index(row.from))) {
                    *to = *value;
                }
            }
        }
        let gathered = PrimitiveArray::<T>::try_new(gathered.into(), self.nulls(column))?;
        Ok(Arc::new(gathered.with_data_type(data_type.clone())))
    }

    fn bytes<T: ByteArrayType>(&self, column: usize) -> Result<ArrayRef> {
        let (spans, offsets) = self.spans::<T>(column)?;
        let mut bytes = vec![0; offsets.last().map_or(0, |end| end.as_usize())];
        let mut start = 0;
        for (values, rows) in self.runs(column) {
            let values = values.as_bytes::<T>().value_data();
            let spans = spans.get(start..start + rows.len()).unwrap_or_default();
            start += rows.len();
            for (rows, spans) in rows.chunks(AHEAD).zip(spans.chunks(AHEAD)) {
                fetch(spans.iter().map(|(start, _)| start.as_usize()), values);
                for (row, (start, end)) in rows.iter().zip(spans) {
                    let to = offsets.get(index(row.to)).map_or(0, |to| to.as_usize());
                    let to = to..to + (end.as_usize() - start.as_usize());
                    if let (Some(to), Some(value)) = (bytes.get_mut(to), values.get(start.as_usize()..end.as_usize())) {
                        short::copy(value, to);
                    }
                }
            }
        }
        let offsets = OffsetBuffer::new(offsets.into());
        let gathered = GenericByteArray::<T>::try_new(offsets, bytes.into(), self.nulls(column))?;
        Ok(Arc::new(gathered))
    }

    /// Where the bytes of each row are, in the source's order; and where those of the gathered rows begin.
    #[expect(clippy::type_complexity, reason = "two lists of the numbers that Arrow keeps")]
    fn spans<T: ByteArrayType>(&self, column: usize) -> Result<(Vec<(T::Offset, T::Offset)>, Vec<T::Offset>)> {
        let none = T::Offset::default();
        let mut spans = Vec::with_capacity(self.rows.len());
        // First the length of each, one place behind, then the sums.
        let mut offsets = vec![none; self.rows.len() + 1];
        for (values, rows) in self.runs(column) {
            let places = values.as_bytes::<T>().value_offsets();
            for row in rows {
                let from = index(row.from);
                let start = places.get(from).copied().unwrap_or_default();
                let end = places.get(from + 1).copied().unwrap_or(start);
                spans.push((start, end));
                if let Some(length) = offsets.get_mut(index(row.to) + 1) {
                    *length = end - start;
                }
            }
        }
        let mut sum = none;
        for offset in &mut offsets {
            let next = sum.as_usize() + offset.as_usize();
            sum = T::Offset::from_usize(next).ok_or(ArrowError::OffsetOverflowError(next))?;
            *offset = sum;
        }
        Ok((spans, offsets))
    }

    fn nulls(&self, column: usize) -> Option<NullBuffer> {
        if !self.runs(column).any(|(values, _)| values.null_count() > 0) {
            return None;
        }
        let mut valid = BooleanBufferBuilder::new(self.rows.len());
        valid.append_n(self.rows.len(), true);
        for (values, rows) in self.runs(column) {
            let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else {
                continue;
            };
            for row in rows.iter().filter(|row| nulls.is_null(index(row.from))) {
                valid.set_bit(index(row.to), false);
            }
        }
        Some(NullBuffer::new(valid.finish()))
    }

    /// Values of any type, in two steps.
    fn any(&self, column: usize) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        let (mut from, mut start) = (Vec::with_capacity(self.rows.len()), 0);
        for (batch, end) in &self.runs {
            let rows = self.rows.get(start..*end).unwrap_or_default();
            from.extend(rows.iter().map(|row| (*batch, index(row.from))));
            start = *end;
        }
        let mut places = vec![0; self.rows.len()];
        for (place, row) in (0_u32..).zip(&self.rows) {
            if let Some(to) = places.get_mut(index(row.to)) {
                *to = place;
            }
        }
        Ok(take(&interleave(&parts, &from)?, &UInt32Array::from(places), None)?)
    }
}

/// `count` rows of `column` from `start` on, in memory of their own, but for what views and dictionaries share.
pub(super) fn own_rows(column: &ArrayRef, start: usize, count: usize) -> Result<ArrayRef> {
    if start == 0 && count == column.len() {
        return Ok(Arc::clone(column));
    }
    let data = column.to_data();
    let mut rows = MutableArrayData::new(vec![&data], false, count);
    rows.try_extend(0, start, start + count)?;
    Ok(make_array(rows.freeze()))
}

fn halves(both: u64) -> (u32, u32) {
    let low = u32::try_from(both & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    (u32::try_from(both >> 32).unwrap_or(u32::MAX), low)
}

/// Has the bytes at `places` brought into the cache. They are asked for one after the other, without a branch between, so
/// that the processor waits for many of them at once; while values are copied, each length is a guess.
fn fetch(places: impl Iterator<Item = usize>, bytes: &[u8]) {
    let seen = places.fold(0, |seen, place| seen ^ bytes.get(place).copied().unwrap_or(0));
    std::hint::black_box(seen);
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int64Array, LargeBinaryArray,
        ListArray, NullArray, StringArray, StringViewArray, TimestampMicrosecondArray,
    };
    use datafusion::arrow::datatypes::{Int32Type, Int64Type};

    use super::*;

    /// `rows` rows with a column of each kind, every third NULL where `nulls`.
    fn batch(first: i64, rows: i64, nulls: bool) -> RecordBatch {
        let rows = first..first + rows;
        let one = |row: i64| (!nulls || row % 3 != 0).then_some(row);
        let text = |row: i64| one(row).map(|row| "äx".repeat(usize::try_from(row * row % 23).unwrap()));
        let texts: Vec<Option<String>> = rows.clone().map(text).collect();
        let list = |row: i64| one(row).map(|row| (0..row % 4).map(Some).collect::<Vec<_>>());
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(|text| text.as_deref()).collect();
        let column = |name: &'static str, array: ArrayRef| (name, array);
        let decimals = Decimal128Array::from_iter(rows.clone().map(|row| one(row).map(i128::from)));
        RecordBatch::try_from_iter_with_nullable(
            [
                column("int", Arc::new(rows.clone().map(one).collect::<Int64Array>())),
                column(
                    "tiny",
                    Arc::new(Int8Array::from_iter(
                        rows.clone().map(|row| one(row).map(|r| i8::try_from(r % 100).unwrap())),
                    )),
                ),
                column(
                    "float",
                    Arc::new(Float64Array::from_iter(
                        rows.clone()
                            .map(|row| one(row).map(|r| f64::from(i32::try_from(r).unwrap()))),
                    )),
                ),
                column(
                    "time",
                    Arc::new(TimestampMicrosecondArray::from_iter(rows.clone().map(one)).with_timezone("UTC")),
                ),
                column("decimal", Arc::new(decimals.with_precision_and_scale(20, 3).unwrap())),
                column(
                    "bool",
                    Arc::new(BooleanArray::from_iter(
                        rows.clone().map(|row| one(row).map(|r| r % 2 == 0)),
                    )),
                ),
                column("text", Arc::new(StringArray::from_iter(texts.iter()))),
                column("view", Arc::new(StringViewArray::from_iter(texts.iter()))),
                column("bytes", Arc::new(LargeBinaryArray::from_iter(texts.iter()))),
                column(
                    "list",
                    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(
                        rows.clone().map(list),
                    )),
                ),
                column("dictionary", Arc::new(dictionary)),
                column("null", Arc::new(NullArray::new(texts.len()))),
            ]
            .map(|(name, array)| (name, array, true)),
        )
        .unwrap()
    }

    /// Slices, so that values do not begin at the start of their memory.
    fn source(sizes: &[i64], nulls: bool) -> Vec<RecordBatch> {
        let mut first = 0;
        let batch = |size: &i64| {
            first += 1000;
            batch(first, size + 3, nulls).slice(2, usize::try_from(*size).unwrap())
        };
        sizes.iter().map(batch).collect()
    }

    #[test]
    fn rows_of_any_order_and_type_come_as_they_were_asked_for() {
        for sizes in [vec![1], vec![7, 1, 20], vec![64; 5], vec![300, 3]] {
            for nulls in [false, true] {
                let batches = source(&sizes, nulls);
                let mut starts = vec![0];
                batches
                    .iter()
                    .for_each(|batch| starts.push(starts.last().unwrap() + batch.num_rows()));
                let all = *starts.last().unwrap();
                let place = |row: usize| {
                    let batch = starts.partition_point(|start| *start <= row) - 1;
                    (batch, row - starts[batch])
                };
                for step in [1, 3, 7, 11] {
                    // Rows out of order, some of them twice and some never.
                    let rows: Vec<usize> = (0..all).map(|row| row * row * step % all).collect();
                    let from: Vec<(usize, usize)> = rows.iter().map(|row| place(*row)).collect();
                    let numbers: Vec<u32> = rows.iter().map(|row| u32::try_from(*row).unwrap()).collect();
                    let gather = Gather::new(&batches, &starts, &numbers);
                    for column in 0..batches[0].num_columns() {
                        let parts: Vec<&dyn Array> =
                            batches.iter().map(|batch| batch.column(column).as_ref()).collect();
                        let expected = interleave(&parts, &from).unwrap();
                        let gathered = gather.column(column).unwrap();
                        assert_eq!(&gathered, &expected, "column {column} of {sizes:?}, step {step}");
                        assert_eq!(gathered.data_type(), expected.data_type());
                        for count in [0, 1, all / 2] {
                            let own = own_rows(&gathered, all - count, count).unwrap();
                            assert_eq!(&own, &expected.slice(all - count, count));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_rows_are_gathered_from_any_source() {
        let batches = source(&[4], true);
        let none = Gather::new(&batches, &[0, 4], &[]);
        assert_eq!(none.column(6).unwrap().len(), 0);
        assert_eq!(Gather::new(&[], &[0], &[]).column(0).unwrap().len(), 0);
    }
}
