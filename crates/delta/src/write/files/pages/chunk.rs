//! A column of a row group with other values in some rows: the pages of these rows are made anew, the others copied.

use std::cmp::Ordering;
use std::io::Write;
use std::sync::Arc;

use alluvium_core::Result;
use bytes::Bytes;
use datafusion::parquet::basic::Encoding;
use datafusion::parquet::column::page::{CompressedPage, Page, PageReader, PageWriter};
use datafusion::parquet::column::writer::ColumnCloseResult;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::ColumnChunkMetaData;
use datafusion::parquet::file::page_index::offset_index::PageLocation;
use datafusion::parquet::file::reader::ChunkReader;
use datafusion::parquet::file::serialized_reader::SerializedPageReader;
use datafusion::parquet::file::writer::{SerializedPageWriter, TrackedWrite};

use super::super::original::Part;
use super::super::rolling::parquet_error;
use super::bounds::{Bound, Bounds};
use super::close::{Entry, bounds_of};
use super::codec::Codec;
use super::dictionary::Dictionary;
use super::fresh::Fresh;
use super::kind::Kind;
use super::page::{Changed, Content, NewValues};

/// What becomes of a chunk.
pub(super) enum Outcome {
    /// Nothing: all rows have the values they had.
    Same,
    New(Part, Box<ColumnCloseResult>),
    /// It is stored in a way that is not known here, or would become larger than is good.
    Unable,
}

/// Whether pages of such a chunk can be made anew, as far as its description tells.
pub(super) fn patchable(metadata: &ColumnChunkMetaData) -> bool {
    let known = |encoding| {
        matches!(
            encoding,
            Encoding::PLAIN | Encoding::RLE | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        )
    };
    let statistics = metadata.statistics();
    Kind::of(metadata.column_descr()).is_some()
        && Codec::of(metadata.compression()).is_some()
        && metadata.encodings().all(known)
        && statistics.is_some_and(|statistics| statistics.null_count_opt().is_some())
}

/// Puts the values of `fresh` into `rows` of the chunk that `closed` describes.
pub(super) fn patch(
    part: &Arc<Part>,
    closed: &ColumnCloseResult,
    rows: &[usize],
    fresh: &Fresh<'_>,
) -> Result<Outcome> {
    let Some(mut patch) = Patch::begin(part, closed).map_err(parquet_error)? else {
        return Ok(Outcome::Unable);
    };
    for number in 0..patch.pages.len() {
        if patch.page(number, rows, fresh).map_err(parquet_error)?.is_none() {
            return Ok(Outcome::Unable);
        }
    }
    if !patch.changed {
        return Ok(Outcome::Same);
    }
    let rows = 0..rows.len();
    let values = rows.filter_map(|row| fresh.get(row));
    Ok(patch.finish(values).map_err(parquet_error)?.unwrap_or(Outcome::Unable))
}

pub(super) struct Patch<'a> {
    pub(super) part: &'a Arc<Part>,
    pub(super) closed: &'a ColumnCloseResult,
    pub(super) pages: &'a [PageLocation],
    pub(super) kind: Kind,
    pub(super) optional: bool,
    reader: SerializedPageReader<Part>,
    pub(super) dictionary: Option<Dictionary>,
    pub(super) codec: Codec,
    buffer: Vec<u8>,
    /// The new chunk, up to the last page that has changed.
    pub(super) out: TrackedWrite<Vec<u8>>,
    /// Up to where of the stored chunk that is.
    taken: u64,
    pub(super) new: Vec<NewPage>,
    changed: bool,
    /// Pages that no longer use the dictionary.
    pub(super) unfolded: usize,
    /// Pages that are known to do without it.
    pub(super) plain: usize,
    pub(super) gone: Bounds,
    /// Bytes that the pages have become longer by, before compression.
    pub(super) longer: i64,
    pub(super) nulls: i64,
}

/// A page of the new chunk.
pub(super) struct NewPage {
    pub(super) location: PageLocation,
    /// What is known of it, if it has changed.
    pub(super) facts: Option<Entry>,
}

impl<'a> Patch<'a> {
    fn begin(part: &'a Arc<Part>, closed: &'a ColumnCloseResult) -> ParquetResult<Option<Self>> {
        let metadata = &closed.metadata;
        let column = metadata.column_descr();
        let (Some(index), Some(kind)) = (&closed.offset_index, Kind::of(column)) else {
            return Ok(None);
        };
        let (Some(codec), pages) = (Codec::of(metadata.compression()), &index.page_locations) else {
            return Ok(None);
        };
        let rows = usize::try_from(closed.rows_written).unwrap_or(usize::MAX);
        let mut reader = SerializedPageReader::new(Arc::clone(part), metadata, rows, Some(pages.clone()))?;
        let mut dictionary = None;
        if pages
            .first()
            .is_some_and(|first| u64::try_from(first.offset) != Ok(metadata.byte_range().0))
        {
            let page = reader.get_next_page()?;
            dictionary = page.and_then(|page| Dictionary::read(&page, kind, rows));
            if dictionary.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Self {
            part,
            closed,
            pages,
            kind,
            optional: column.max_def_level() > 0,
            reader,
            dictionary,
            codec,
            buffer: Vec::new(),
            unfolded: 0,
            plain: 0,
            out: TrackedWrite::new(Vec::new()),
            taken: metadata.byte_range().0,
            new: Vec::with_capacity(pages.len()),
            changed: false,
            gone: Bounds::default(),
            longer: 0,
            nulls: 0,
        }))
    }

    /// Goes on to the next page. `None`: it cannot be made anew.
    fn page(&mut self, number: usize, rows: &[usize], fresh: &Fresh<'_>) -> ParquetResult<Option<()>> {
        let Some(range) = self.rows_of(number) else {
            return Ok(None);
        };
        let (from, to) = (
            rows.partition_point(|row| *row < range.start),
            rows.partition_point(|row| *row < range.end),
        );
        if from == to {
            self.reader.skip_next_page()?;
            return self.copy(number);
        }
        let mine = rows.get(from..to).unwrap_or_default().iter().enumerate();
        let new = NewValues {
            fresh,
            rows: mine.map(|(nth, row)| (row - range.start, from + nth)).collect(),
        };
        let Some(page) = self.reader.get_next_page()? else {
            return Ok(None);
        };
        let Some(content) = Content::read(&page, self.optional, self.kind) else {
            return Ok(None);
        };
        match content.replace(&new, &mut self.dictionary) {
            Some(None) => {
                self.plain += usize::from(content.is_plain());
                self.copy(number)
            }
            Some(Some(changed)) => self.write(number, &page, &content, &new, changed),
            None => Ok(None),
        }
    }

    /// The rows of a page, among those of the row group.
    fn rows_of(&self, number: usize) -> Option<std::ops::Range<usize>> {
        let first = |page: &PageLocation| usize::try_from(page.first_row_index).ok();
        let end = match self.pages.get(number + 1) {
            Some(next) => first(next)?,
            None => usize::try_from(self.closed.rows_written).ok()?,
        };
        Some(first(self.pages.get(number)?)?..end)
    }

    /// Leaves a page as it is. It is copied with those around it, if any of them changes.
    fn copy(&mut self, number: usize) -> ParquetResult<Option<()>> {
        let Some(page) = self.pages.get(number) else {
            return Ok(None);
        };
        let Some(before) = u64::try_from(page.offset)?.checked_sub(self.taken) else {
            return Ok(None);
        };
        let mut location = page.clone();
        location.offset = position(self.out.bytes_written())? + i64::try_from(before)?;
        self.new.push(NewPage { location, facts: None });
        Ok(Some(()))
    }

    /// Copies what is stored before byte `end`. `None`: the pages are in no order.
    pub(super) fn take_to(&mut self, end: u64) -> ParquetResult<Option<()>> {
        let Some(length) = end.checked_sub(self.taken) else {
            return Ok(None);
        };
        if self.out.bytes_written() == 0 {
            // New values are often a little longer; a buffer that has to grow doubles.
            let stored = self.part.bytes().len();
            self.out.inner_mut().reserve_exact(stored + stored / 16 + 4096);
        }
        self.out
            .write_all(&self.part.get_bytes(self.taken, usize::try_from(length)?)?)?;
        self.taken = end;
        Ok(Some(()))
    }

    fn write(
        &mut self,
        number: usize,
        page: &Page,
        was: &Content<'_>,
        values: &NewValues<'_>,
        new: Changed<'_>,
    ) -> ParquetResult<Option<()>> {
        let Some(bytes) = new.content.put(self.dictionary.as_ref()) else {
            return Ok(None);
        };
        let Some(compressed) = self.codec.compress(&bytes, &mut self.buffer) else {
            return Ok(None);
        };
        let compressed = Page::DataPage {
            buf: Bytes::copy_from_slice(compressed),
            num_values: page.num_values(),
            encoding: match new.content.is_plain() {
                true => Encoding::PLAIN,
                false => page.encoding(),
            },
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let Some(stored) = self.pages.get(number) else {
            return Ok(None);
        };
        let start = u64::try_from(stored.offset)?;
        if self.take_to(start)?.is_none() {
            return Ok(None);
        }
        self.taken = start.saturating_add(u64::try_from(stored.compressed_page_size)?);
        let mut writer = SerializedPageWriter::new(&mut self.out);
        let written = writer.write_page(CompressedPage::new(compressed, bytes.len()))?;
        let bounds = self
            .bounds_still(number, &new.gone)
            .map(|still| still.with(self.kind, &values.bounds(self.kind)));
        let bounds = bounds.unwrap_or_else(|| new.content.bounds(self.dictionary.as_ref()));
        let rows = usize::try_from(page.num_values())?;
        let facts = Entry::new(bounds, new.content.nulls(), rows)?;
        self.changed = true;
        self.plain += usize::from(new.content.is_plain());
        self.unfolded += usize::from(new.content.is_plain() && !was.is_plain());
        self.longer += position(bytes.len())? - position(page.buffer().len())?;
        self.nulls += facts.nulls - position(was.nulls())?;
        self.gone = std::mem::take(&mut self.gone).with(self.kind, &new.gone);
        self.new.push(NewPage {
            location: PageLocation {
                offset: i64::try_from(written.offset)?,
                compressed_page_size: i32::try_from(written.bytes_written)?,
                first_row_index: stored.first_row_index,
            },
            facts: Some(facts),
        });
        Ok(Some(()))
    }
}

impl Patch<'_> {
    /// The bounds that the index has of a page, if the values that are `gone` from it were others. Only of numbers:
    /// those of texts may be cut off.
    fn bounds_still(&self, number: usize, gone: &Bounds) -> Option<Bounds> {
        if !matches!(self.kind, Kind::Int32 | Kind::Int64 | Kind::Float | Kind::Double) {
            return None;
        }
        let (min, max) = bounds_of(self.closed.column_index.as_ref()?, number)?;
        let apart = |bound: &[u8], gone: &Option<Bound>, wanted| {
            gone.as_ref()
                .is_none_or(|gone| self.kind.compare(bound, &gone.value) == Some(wanted))
        };
        let stand = apart(&min, &gone.min, Ordering::Less) && apart(&max, &gone.max, Ordering::Greater);
        let bound = |value| Bound { value, exact: true };
        stand.then(|| Bounds {
            min: Some(bound(min)),
            max: Some(bound(max)),
        })
    }
}

/// A place in a file, as Parquet has it.
pub(super) fn position(bytes: usize) -> ParquetResult<i64> {
    Ok(i64::try_from(bytes)?)
}
