//! Encodes the values of a column that holds no others, page after page. Numbers go into a page as they lie in memory, and
//! what a page's bounds are is looked for when it is full.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::basic::{Compression, Encoding, PageType};
use datafusion::parquet::column::page::{CompressedPage, Page, PageWriter};
use datafusion::parquet::column::writer::ColumnCloseResult;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use datafusion::parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use datafusion::parquet::schema::types::ColumnDescPtr;

use super::super::original::Part;
use super::bounds::Bounds;
use super::chunk::position;
use super::close::{Entry, column_index, dictionary_page, too_large};
use super::codec::Codec;
use super::dictionary::Dictionary;
use super::hybrid;
use super::input::Input;
use super::kind::Kind;
use super::values::Flags;

/// Rows of a page, so that a reader that looks for a few need not read many.
const PAGE_ROWS: usize = 20_000;
/// Bytes of a page, but for the value that exceeds them.
const PAGE_BYTES: usize = 1 << 20;
/// Rows after which the bytes are looked at.
const STEP: usize = 1024;
/// Bytes of a dictionary. Values behind it are stored plainly.
const DICTIONARY_BYTES: usize = 1 << 20;

/// Encodes one column of a row group.
pub(in crate::write::files) struct ColumnEncoder {
    column: ColumnDescPtr,
    kind: Kind,
    codec: Codec,
    page: PageRows,
    dictionary: Option<Dictionary>,
    /// Whether values still go to the dictionary.
    growing: bool,
    /// The data pages that are full.
    out: TrackedWrite<Vec<u8>>,
    pages: Vec<Encoded>,
    /// Rows of these.
    rows: usize,
    uncompressed: usize,
    compression: Compression,
}

/// A page before and after compression, in memory that the pages of all columns use.
#[derive(Default)]
pub(in crate::write::files) struct Scratch {
    raw: Vec<u8>,
    packed: Vec<u8>,
}

/// Rows that do not fill a page yet.
#[derive(Default)]
struct PageRows {
    rows: usize,
    /// For each row whether it has a value, as soon as one has none.
    levels: Vec<u32>,
    nulls: usize,
    plain: Vec<u8>,
    places: Vec<u32>,
}

/// A page that is full.
struct Encoded {
    location: PageLocation,
    encoding: Encoding,
    entry: Entry,
}

impl ColumnEncoder {
    /// `None`: columns of this kind, or with these properties, are left to Parquet's own writer.
    pub(in crate::write::files) fn new(
        column: ColumnDescPtr,
        data_type: &DataType,
        properties: &WriterProperties,
    ) -> Option<Self> {
        let kind = Kind::of(&column)?;
        let path = column.path();
        if !Input::takes(kind, data_type) || properties.bloom_filter_properties(path).is_some() {
            return None;
        }
        let growing = properties.dictionary_enabled(path);
        Some(Self {
            codec: Codec::of(properties.compression(path))?,
            dictionary: growing.then(|| Dictionary::new(kind, DICTIONARY_BYTES)),
            growing,
            kind,
            page: PageRows::default(),
            out: TrackedWrite::new(Vec::new()),
            pages: Vec::new(),
            rows: 0,
            uncompressed: 0,
            compression: properties.compression(path),
            column,
        })
    }

    /// Takes in the values of `array`.
    pub(in crate::write::files) fn write(&mut self, array: &ArrayRef, scratch: &mut Scratch) -> ParquetResult<()> {
        let mut start = 0;
        while start < array.len() {
            let step = match self.kind.width() {
                Some(_) => PAGE_ROWS,
                None => STEP,
            };
            let rows = (array.len() - start).min(PAGE_ROWS - self.page.rows).min(step);
            let part = array.slice(start, rows);
            let input = Input::of(&part).ok_or_else(|| ParquetError::General("values of another type".into()))?;
            start += self.take(&input, scratch)?;
            if self.page.rows == PAGE_ROWS || self.page.plain.len() >= PAGE_BYTES {
                self.end_page(scratch)?;
            }
        }
        Ok(())
    }

    /// Takes in as many rows as it can, and tells how many.
    fn take(&mut self, input: &Input<'_>, scratch: &mut Scratch) -> ParquetResult<usize> {
        let mut rows = input.rows();
        if self.growing
            && let Some(dictionary) = &mut self.dictionary
        {
            let taken = input.put_places(dictionary, &mut self.page.places);
            if taken < rows {
                self.growing = false;
                rows = taken;
            }
        } else {
            input.put_plain(&mut self.page.plain)?;
        }
        if self.column.max_def_level() > 0 {
            input.put_levels(self.page.rows, rows, &mut self.page.levels);
        }
        self.page.rows += rows;
        self.page.nulls += input.nulls(rows);
        if !self.growing && !self.page.places.is_empty() {
            self.end_page(scratch)?;
        }
        Ok(rows)
    }

    fn end_page(&mut self, scratch: &mut Scratch) -> ParquetResult<()> {
        if self.page.rows == 0 {
            return Ok(());
        }
        let Scratch { raw: bytes, packed } = scratch;
        bytes.clear();
        self.flags().put(bytes).ok_or_else(too_large)?;
        let (encoding, bounds) = self.put_values(bytes)?;
        let compressed = self.codec.compress(bytes, packed).ok_or_else(too_large)?;
        let data = Page::DataPage {
            buf: Bytes::copy_from_slice(compressed),
            num_values: u32::try_from(self.page.rows)?,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let written = SerializedPageWriter::new(&mut self.out).write_page(CompressedPage::new(data, bytes.len()))?;
        self.uncompressed += written.uncompressed_size;
        self.pages.push(Encoded {
            location: PageLocation {
                offset: i64::try_from(written.offset)?,
                compressed_page_size: i32::try_from(written.bytes_written)?,
                first_row_index: position(self.rows)?,
            },
            encoding,
            entry: Entry::new(bounds, self.page.nulls, self.page.rows)?,
        });
        self.rows += self.page.rows;
        self.page.clear();
        Ok(())
    }

    /// Which rows of the page have values.
    fn flags(&mut self) -> Flags {
        match (self.column.max_def_level(), self.page.levels.is_empty()) {
            (0, _) => Flags::All(self.page.rows),
            (_, true) => Flags::Filled(self.page.rows),
            (_, false) => Flags::Some(std::mem::take(&mut self.page.levels)),
        }
    }

    /// Puts the values of the page, and tells how they are stored and what bounds they have.
    fn put_values(&self, bytes: &mut Vec<u8>) -> ParquetResult<(Encoding, Bounds)> {
        let (plain, places) = (&self.page.plain, &self.page.places);
        let Some(dictionary) = self.dictionary.as_ref().filter(|_| !places.is_empty()) else {
            bytes.extend_from_slice(plain);
            return Ok((Encoding::PLAIN, Bounds::of_plain(self.kind, plain)));
        };
        let width = hybrid::width_of(dictionary.len());
        bytes.push(u8::try_from(width)?);
        hybrid::encode(places, width, bytes);
        let bounds = Bounds::of(self.kind, dictionary.values_at(places));
        Ok((Encoding::RLE_DICTIONARY, bounds))
    }

    /// Bytes that it will take in the file, nearly: values that wait are not compressed yet.
    pub(in crate::write::files) fn size(&self) -> usize {
        let waiting = self.page.plain.len() / 2 + self.page.places.len();
        let dictionary = self.dictionary.as_ref().and_then(Dictionary::grown);
        self.out.bytes_written() + waiting + dictionary.map_or(0, |(values, _)| values.len() / 2)
    }

    /// Bytes held in memory.
    pub(in crate::write::files) fn memory(&self) -> usize {
        let page = self.page.plain.len() + 4 * (self.page.places.len() + self.page.levels.len());
        let dictionary = self.dictionary.as_ref().map_or(0, Dictionary::memory);
        page + dictionary + self.out.bytes_written()
    }

    /// Ends the column: its bytes, as if they were at the beginning of a file, and what describes them.
    pub(in crate::write::files) fn close(mut self, scratch: &mut Scratch) -> ParquetResult<(Part, ColumnCloseResult)> {
        self.end_page(scratch)?;
        let mut bytes = self.dictionary_page()?;
        let data_offset = position(bytes.len())?;
        let pages = std::mem::replace(&mut self.out, TrackedWrite::new(Vec::new())).into_inner()?;
        match bytes.is_empty() {
            true => bytes = pages,
            false => bytes.extend_from_slice(&pages),
        }
        let locations = self.pages.iter().map(|page| PageLocation {
            offset: page.location.offset + data_offset,
            ..page.location
        });
        let closed = ColumnCloseResult {
            bytes_written: u64::try_from(bytes.len()).unwrap_or(0),
            rows_written: u64::try_from(self.rows).unwrap_or(0),
            metadata: self.metadata(bytes.len(), data_offset)?,
            bloom_filter: None,
            column_index: column_index(self.column.physical_type(), self.pages.iter().map(|page| &page.entry))?,
            offset_index: Some(OffsetIndexMetaData {
                page_locations: locations.collect(),
                unencoded_byte_array_data_bytes: None,
            }),
        };
        Ok((Part::new(0, bytes.into()), closed))
    }

    /// The bytes before the data pages.
    fn dictionary_page(&mut self) -> ParquetResult<Vec<u8>> {
        let Some((values, count)) = self.dictionary.as_ref().and_then(Dictionary::grown) else {
            return Ok(Vec::new());
        };
        let (bytes, uncompressed) = dictionary_page(&mut self.codec, values, count)?;
        self.uncompressed += uncompressed;
        Ok(bytes)
    }

    fn metadata(&self, length: usize, data_offset: i64) -> ParquetResult<ColumnChunkMetaData> {
        let bounds = self.pages.iter().map(|page| &page.entry.bounds);
        let bounds = bounds.fold(Bounds::default(), |all, page| all.with(self.kind, page));
        let nulls = self.pages.iter().map(|page| page.entry.nulls).sum::<i64>();
        let statistics = bounds.statistics(self.kind, u64::try_from(nulls).ok());
        let mut encodings = vec![Encoding::RLE];
        let mut pages = Vec::new();
        if data_offset > 0 {
            encodings.push(Encoding::PLAIN);
            pages.push(count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
        }
        for encoding in [Encoding::RLE_DICTIONARY, Encoding::PLAIN] {
            let of_this = self.pages.iter().filter(|page| page.encoding == encoding).count();
            if of_this > 0 {
                encodings.push(encoding);
                pages.push(count(PageType::DATA_PAGE, encoding, i32::try_from(of_this)?));
            }
        }
        let builder = ColumnChunkMetaData::builder(Arc::clone(&self.column))
            .set_compression(self.compression)
            .set_encodings(encodings)
            .set_page_encoding_stats(pages)
            .set_total_compressed_size(position(length)?)
            .set_total_uncompressed_size(position(self.uncompressed)?)
            .set_num_values(position(self.rows)?)
            .set_data_page_offset(data_offset)
            .set_dictionary_page_offset((data_offset > 0).then_some(0))
            .set_statistics(statistics.ok_or_else(|| ParquetError::General("bounds of another type".into()))?);
        builder.build()
    }
}

impl PageRows {
    fn clear(&mut self) {
        (self.rows, self.nulls) = (0, 0);
        self.levels.clear();
        self.plain.clear();
        self.places.clear();
    }
}

fn count(page_type: PageType, encoding: Encoding, count: i32) -> PageEncodingStats {
    PageEncodingStats {
        page_type,
        encoding,
        count,
    }
}
