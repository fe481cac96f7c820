//! The values of some rows of a column chunk, out of as few of its pages as hold them.

use std::ops::Range;

use bytes::Bytes;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::basic::Encoding;
use datafusion::parquet::file::metadata::ColumnChunkMetaData;
use datafusion::parquet::file::page_index::offset_index::PageLocation;

use super::cells::Cells;
use super::form::Form;
use super::page::{Dictionary, Values};
use crate::pages::codec::Unpacker;
use crate::pages::header::{Described, Header};
use crate::pages::levels::Levels;

/// Memory that pages are unpacked into, one after the other.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    page: Vec<u8>,
    dictionary: Dictionary,
}

impl Scratch {
    pub(super) fn memory(&self) -> usize {
        self.page.capacity() + self.dictionary.memory()
    }
}

/// A stored column chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) metadata: &'a ColumnChunkMetaData,
    /// Where its pages are, if the file tells.
    pub(super) pages: Option<&'a [PageLocation]>,
    pub(super) form: Form,
    /// The rows of its row group.
    pub(super) rows: usize,
}

/// What has to be read of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// In the order of the file.
    pub(super) ranges: Vec<Range<u64>>,
    /// The rows of the pages at these ranges; of none, in place of the dictionary. `None`: the chunk is read as a whole.
    pages: Option<Vec<Range<usize>>>,
}

impl Reading {
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

/// Whether a chunk is stored in a way that is known here, as far as its description tells.
pub(super) fn known(metadata: &ColumnChunkMetaData) -> bool {
    let encoding = |encoding| {
        matches!(
            encoding,
            Encoding::PLAIN | Encoding::RLE | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        ) || is_bit_packed(encoding)
    };
    metadata.file_path().is_none()
        && metadata.compressed_size() > 0
        && metadata.data_page_offset() > 0
        && metadata.dictionary_page_offset().is_none_or(|offset| offset > 0)
        && Unpacker::of(metadata.compression()).is_some()
        && metadata.encodings().all(encoding)
}

/// Old writers name it as the encoding of levels that are not there.
#[expect(deprecated, reason = "it is met in files")]
fn is_bit_packed(encoding: Encoding) -> bool {
    encoding == Encoding::BIT_PACKED
}

impl Chunk<'_> {
    /// What has to be read for the values of `wanted` rows. `None`: the file contradicts itself.
    pub(super) fn reading(&self, wanted: &[usize]) -> Option<Reading> {
        let (start, length) = self.metadata.byte_range();
        let end = start.checked_add(length)?;
        let Some(pages) = self.pages.filter(|pages| !pages.is_empty()) else {
            return Some(Reading {
                ranges: std::iter::once(start..end).collect(),
                pages: None,
            });
        };
        let (mut ranges, mut with_rows, mut next) = (Vec::new(), Vec::new(), 0);
        for (number, page) in pages.iter().enumerate() {
            let first = u64::try_from(page.offset).ok().filter(|offset| *offset >= start)?;
            let last = first.checked_add(u64::try_from(page.compressed_page_size).ok()?)?;
            if number == 0 && first > start {
                ranges.push(start..first);
                with_rows.push(0..0);
            }
            let rows = self
                .rows_of(pages, number)
                .filter(|rows| rows.start == next && last <= end)?;
            next = rows.end;
            let from = wanted.partition_point(|row| *row < rows.start);
            if wanted.get(from).is_some_and(|row| *row < rows.end) {
                ranges.push(first..last);
                with_rows.push(rows);
            }
        }
        (next == self.rows).then_some(Reading {
            ranges,
            pages: Some(with_rows),
        })
    }

    /// The rows of a page, among those of the row group.
    fn rows_of(&self, pages: &[PageLocation], number: usize) -> Option<Range<usize>> {
        let first = |page: &PageLocation| usize::try_from(page.first_row_index).ok();
        let end = match pages.get(number + 1) {
            Some(next) => first(next)?,
            None => self.rows,
        };
        let start = first(pages.get(number)?)?;
        (start <= end).then_some(start..end)
    }

    /// The values of `wanted` rows, which ascend, from what [`Self::reading`] has asked for, and how many pages were
    /// unpacked for them. `None`: the chunk is stored in a way that is not known here, or is damaged.
    pub(super) fn gather(
        &self,
        reading: &Reading,
        parts: &[Bytes],
        wanted: &[usize],
        data_type: &DataType,
        scratch: &mut Scratch,
    ) -> Option<(ArrayRef, usize)> {
        let mut gathering = Gathering {
            chunk: self,
            unpacker: Unpacker::of(self.metadata.compression())?,
            folded: false,
            cells: Cells::new(self.form, wanted.len()),
            scratch,
            unpacked: 0,
        };
        match (&reading.pages, parts) {
            (None, [whole]) => gathering.walk(whole, wanted)?,
            (Some(pages), parts) if parts.len() == pages.len() => {
                for (rows, part) in pages.iter().zip(parts) {
                    gathering.page(part, rows, wanted)?;
                }
            }
            _ => return None,
        }
        if gathering.cells.len() != wanted.len() {
            return None;
        }
        Some((gathering.cells.finish(data_type)?, gathering.unpacked))
    }
}

/// A chunk at work.
struct Gathering<'a> {
    chunk: &'a Chunk<'a>,
    unpacker: Unpacker,
    /// Whether the dictionary at hand is that of the chunk.
    folded: bool,
    cells: Cells,
    scratch: &'a mut Scratch,
    unpacked: usize,
}

impl Gathering<'_> {
    /// Goes from page to page of a chunk as far as there are `wanted` rows.
    fn walk(&mut self, whole: &[u8], wanted: &[usize]) -> Option<()> {
        let (mut rest, mut first) = (whole, 0);
        while self.cells.len() < wanted.len() {
            let header = Header::read(rest)?;
            let (page, behind) = rest.split_at_checked(header.length.checked_add(header.packed)?)?;
            let rows = match header.page {
                Described::Dictionary { .. } => 0..0,
                Described::Data { rows, .. } | Described::DataV2 { rows, .. } => first..first + rows,
            };
            (rest, first) = (behind, rows.end.max(first));
            let from = wanted.partition_point(|row| *row < rows.start);
            if rows.is_empty() || wanted.get(from).is_some_and(|row| *row < rows.end) {
                self.page(page, &rows, wanted)?;
            }
        }
        Some(())
    }

    /// Takes the values of `wanted` rows out of a page that has `rows`, or the dictionary, in place of which there are
    /// none.
    fn page(&mut self, bytes: &[u8], rows: &Range<usize>, wanted: &[usize]) -> Option<()> {
        let header = Header::read(bytes)?;
        let end = header.length.checked_add(header.packed)?;
        let page = bytes.get(header.length..end)?;
        self.unpacked += 1;
        match header.page {
            Described::Dictionary { .. } if !self.folded && rows.is_empty() => self.keep(&header, page),
            Described::Data { rows: count, .. } if count == rows.len() => self.data(&header, page, rows, wanted),
            Described::DataV2 { rows: count, .. } if count == rows.len() => self.newer(&header, page, rows, wanted),
            _ => None,
        }
    }

    fn keep(&mut self, header: &Header, page: &[u8]) -> Option<()> {
        let dictionary = &mut self.scratch.dictionary;
        dictionary.read(header, page, &mut self.unpacker, self.chunk.form)?;
        self.folded = true;
        Some(())
    }

    fn data(&mut self, header: &Header, page: &[u8], rows: &Range<usize>, wanted: &[usize]) -> Option<()> {
        let Described::Data { encoding, levels, .. } = header.page else {
            return None;
        };
        let optional = self.optional();
        if optional && levels != Encoding::RLE {
            return None;
        }
        let page = self.unpacker.unpack(page, header.unpacked, &mut self.scratch.page)?;
        let (levels, values) = split(page, optional)?;
        let values = Values::of(encoding, self.chunk.form, values)?;
        let dictionary = self.folded.then_some(&self.scratch.dictionary);
        pick(levels, values, dictionary, rows, wanted, &mut self.cells)
    }

    fn newer(&mut self, header: &Header, page: &[u8], rows: &Range<usize>, wanted: &[usize]) -> Option<()> {
        let Described::DataV2 {
            encoding,
            levels,
            repetitions: 0,
            compressed,
            ..
        } = header.page
        else {
            return None;
        };
        let (levels, packed) = page.split_at_checked(levels)?;
        let levels = self.optional().then(|| Levels::new(levels));
        let values = match compressed {
            true => {
                let length = header.unpacked.checked_sub(page.len() - packed.len())?;
                self.unpacker.unpack(packed, length, &mut self.scratch.page)?
            }
            false => packed,
        };
        let values = Values::of(encoding, self.chunk.form, values)?;
        let dictionary = self.folded.then_some(&self.scratch.dictionary);
        pick(levels, values, dictionary, rows, wanted, &mut self.cells)
    }

    fn optional(&self) -> bool {
        self.chunk.metadata.column_descr().max_def_level() > 0
    }
}

/// The levels of a page, which stand behind their length, and its values.
fn split(page: &[u8], optional: bool) -> Option<(Option<Levels<'_>>, &[u8])> {
    if !optional {
        return Some((None, page));
    }
    let (length, rest) = page.split_first_chunk::<4>()?;
    let (levels, values) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((Some(Levels::new(levels)), values))
}

/// Puts the values of `wanted` rows of the page that has `rows` into `cells`.
fn pick<'a>(
    mut levels: Option<Levels<'_>>,
    mut values: Values<'a>,
    dictionary: Option<&'a Dictionary>,
    rows: &Range<usize>,
    wanted: &[usize],
    cells: &mut Cells,
) -> Option<()> {
    let mine = wanted.partition_point(|row| *row < rows.start)..wanted.partition_point(|row| *row < rows.end);
    for row in wanted.get(mine)? {
        let row = row.checked_sub(rows.start)?;
        let nth = match &mut levels {
            Some(levels) => levels.find(row)?,
            None => Some(row),
        };
        let value = match nth {
            Some(nth) => Some(values.get(nth, dictionary)?),
            None => None,
        };
        cells.put(value)?;
    }
    Some(())
}
