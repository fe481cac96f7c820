//! What describes a chunk whose pages were made anew: bounds, page indexes, Bloom filter.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::parquet::basic::{Encoding, Type};
use datafusion::parquet::column::page::{CompressedPage, Page, PageReader, PageWriter};
use datafusion::parquet::column::writer::ColumnCloseResult;
use datafusion::parquet::data_type::AsBytes;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::{ColumnChunkMetaDataBuilder, ColumnIndexBuilder};
use datafusion::parquet::file::page_index::column_index::{ColumnIndexMetaData, PrimitiveColumnIndex};
use datafusion::parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use datafusion::parquet::file::serialized_reader::SerializedPageReader;
use datafusion::parquet::file::writer::{SerializedPageWriter, TrackedWrite};

use super::super::original::Part;
use super::bounds::{Bound, Bounds};
use super::chunk::{Outcome, Patch, position};
use super::codec::Codec;
use super::page::Content;

impl Patch<'_> {
    /// The new chunk, into which `values` were put. `None`: it cannot be described.
    pub(super) fn finish<'v>(mut self, values: impl Iterator<Item = &'v [u8]>) -> ParquetResult<Option<Outcome>> {
        let metadata = &self.closed.metadata;
        let known = metadata.statistics().and_then(|known| known.null_count_opt());
        let nulls = known.and_then(|known| known.checked_add_signed(self.nulls));
        let (Some(bounds), Some(nulls)) = (self.bounds()?, nulls) else {
            return Ok(None);
        };
        let Some(statistics) = bounds.statistics(self.kind, Some(nulls)) else {
            return Ok(None);
        };
        let column_index = self.column_index()?;
        let mut bloom_filter = self.closed.bloom_filter.clone();
        if let Some(filter) = &mut bloom_filter {
            values.for_each(|value| filter.insert(value));
        }
        let start = metadata.byte_range().0;
        let (described, without_dictionary) = (self.encodings(), self.is_dictionary_needless());
        if self.take_to(start.saturating_add(metadata.byte_range().1))?.is_none() {
            return Ok(None);
        }
        let first = self.pages.first().map_or(0, |page| page.offset);
        let before = usize::try_from(u64::try_from(first)?.saturating_sub(start))?;
        let dictionary = self.dictionary_page()?;
        let mut bytes = self.out.into_inner()?;
        let mut data_offset = position(before)?;
        if let Some(dictionary) = dictionary {
            data_offset = position(dictionary.len())?;
            bytes = [dictionary.as_slice(), bytes.get(before..).unwrap_or_default()].concat();
        }
        let start_at = i64::try_from(start)?;
        let shift = start_at + data_offset - position(before)?;
        data_offset += start_at;
        let page_locations = self.new.into_iter().map(|page| PageLocation {
            offset: page.location.offset + shift,
            ..page.location
        });
        let offset_index = OffsetIndexMetaData {
            page_locations: page_locations.collect(),
            unencoded_byte_array_data_bytes: None,
        };
        let mut described = described
            .set_total_compressed_size(position(bytes.len())?)
            .set_total_uncompressed_size(metadata.uncompressed_size() + self.longer)
            .set_data_page_offset(data_offset)
            .set_statistics(statistics)
            .set_unencoded_byte_array_data_bytes(None)
            .set_definition_level_histogram(None);
        if without_dictionary {
            described = described.set_dictionary_page_offset(None);
        }
        let metadata = described.build()?;
        let closed = ColumnCloseResult {
            bytes_written: u64::try_from(bytes.len()).unwrap_or(0),
            rows_written: self.closed.rows_written,
            metadata,
            bloom_filter,
            column_index,
            offset_index: Some(offset_index),
        };
        Ok(Some(Outcome::New(Part::new(start, bytes.into()), Box::new(closed))))
    }

    /// Whether no page is left that uses the dictionary.
    fn is_dictionary_needless(&self) -> bool {
        self.unfolded > 0 && self.plain == self.pages.len()
    }

    /// The description of the chunk with the encodings that it has now. How many pages have which is not known of those
    /// that were copied.
    fn encodings(&self) -> ColumnChunkMetaDataBuilder {
        let metadata = &self.closed.metadata;
        let builder = metadata.clone().into_builder();
        if self.unfolded == 0 {
            return builder;
        }
        let encodings = match self.is_dictionary_needless() {
            true => vec![Encoding::PLAIN, Encoding::RLE],
            false => metadata.encodings().chain([Encoding::PLAIN]).collect(),
        };
        builder.set_encodings(encodings).clear_page_encoding_stats()
    }

    /// The bounds of all values. They are looked for only where the lowest or the highest may have gone.
    fn bounds(&mut self) -> ParquetResult<Option<Bounds>> {
        let statistics = self.closed.metadata.statistics();
        let known = Bounds::known(statistics);
        let facts = self.new.iter().filter_map(|page| page.facts.as_ref());
        let changed = facts.fold(Bounds::default(), |all, facts| all.with(self.kind, &facts.bounds));
        let nulls = statistics.and_then(|statistics| statistics.null_count_opt());
        if nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(self.closed.metadata.num_values())) {
            return Ok(Some(changed));
        }
        if self.lost(&known, &changed) {
            return self.all_bounds(changed);
        }
        let (no_min, no_max) = (known.min.is_none(), known.max.is_none());
        let mut all = known.with(self.kind, &changed);
        all.min.take_if(|_| no_min);
        all.max.take_if(|_| no_max);
        Ok(Some(all))
    }

    /// Whether a bound that was exact may be no longer.
    fn lost(&self, known: &Bounds, changed: &Bounds) -> bool {
        let same = |a: &Bound, b: &Option<Bound>| {
            let equal = |b: &Bound| self.kind.compare(&a.value, &b.value).is_some_and(|order| order.is_eq());
            b.as_ref().is_some_and(equal)
        };
        let lost = |known: &Option<Bound>, gone: &Option<Bound>, changed: &Option<Bound>| {
            let exact = known.as_ref().filter(|known| known.exact);
            exact.is_some_and(|known| same(known, gone) && !same(known, changed))
        };
        lost(&known.min, &self.gone.min, &changed.min) || lost(&known.max, &self.gone.max, &changed.max)
    }

    /// `bounds` and those of the pages that were copied.
    fn all_bounds(&self, mut bounds: Bounds) -> ParquetResult<Option<Bounds>> {
        let rows = usize::try_from(self.closed.rows_written).unwrap_or(usize::MAX);
        let metadata = &self.closed.metadata;
        let pages = Some(self.pages.to_vec());
        let mut reader = SerializedPageReader::new(Arc::clone(self.part), metadata, rows, pages)?;
        if self.dictionary.is_some() {
            reader.skip_next_page()?;
        }
        for page in &self.new {
            if page.facts.is_some() {
                reader.skip_next_page()?;
                continue;
            }
            let page = reader.get_next_page()?;
            let content = page
                .as_ref()
                .and_then(|page| Content::read(page, self.optional, self.kind));
            let Some(content) = content else {
                return Ok(None);
            };
            bounds = bounds.with(self.kind, &content.bounds(self.dictionary.as_ref()));
        }
        Ok(Some(bounds))
    }

    /// The bounds of each page; none where a page has values without bounds.
    fn column_index(&self) -> ParquetResult<Option<ColumnIndexMetaData>> {
        let Some(known) = &self.closed.column_index else {
            return Ok(None);
        };
        let entries = self.new.iter().enumerate().map(|(number, page)| match &page.facts {
            Some(entry) => Some(entry.clone()),
            None => Entry::stored(known, number),
        });
        let Some(entries) = entries.collect::<Option<Vec<Entry>>>() else {
            return Ok(None);
        };
        column_index(self.closed.metadata.column_type(), &entries)
    }

    /// The bytes before the data pages, if they are others now.
    fn dictionary_page(&mut self) -> ParquetResult<Option<Vec<u8>>> {
        let Some(dictionary) = self.dictionary.take() else {
            return Ok(None);
        };
        let before = position(dictionary.len_before())?;
        if self.is_dictionary_needless() {
            self.longer -= before;
            return Ok(Some(Vec::new()));
        }
        let Some((values, count)) = dictionary.grown() else {
            return Ok(None);
        };
        self.longer += position(values.len())? - before;
        Ok(Some(dictionary_page(&mut self.codec, values, count)?.0))
    }
}

/// A page of these values, and the bytes it takes when it is not compressed.
pub(super) fn dictionary_page(codec: &mut Codec, values: &[u8], count: u32) -> ParquetResult<(Vec<u8>, usize)> {
    let mut compressed = Vec::new();
    let compressed = codec.compress(values, &mut compressed).ok_or_else(too_large)?;
    let page = Page::DictionaryPage {
        buf: Bytes::copy_from_slice(compressed),
        num_values: count,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let mut out = TrackedWrite::new(Vec::new());
    let written = SerializedPageWriter::new(&mut out).write_page(CompressedPage::new(page, values.len()))?;
    Ok((out.into_inner()?, written.uncompressed_size))
}

/// No page is as large as that.
pub(super) fn too_large() -> ParquetError {
    ParquetError::General("a page of more than two gigabytes".into())
}

/// What the column index says of a page.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) bounds: Bounds,
    pub(super) nulls: i64,
    null_page: bool,
}

impl Entry {
    /// Of a page with so many rows, and so many of them NULL.
    pub(super) fn new(bounds: Bounds, nulls: usize, rows: usize) -> ParquetResult<Self> {
        Ok(Self {
            bounds,
            nulls: position(nulls)?,
            null_page: nulls == rows,
        })
    }

    /// Of a page of a file.
    fn stored(known: &ColumnIndexMetaData, page: usize) -> Option<Self> {
        let bound = |value| Bound { value, exact: false };
        Some(Self {
            null_page: known.is_null_page(page),
            nulls: known.null_count(page)?,
            bounds: match bounds_of(known, page) {
                Some((min, max)) => Bounds {
                    min: Some(bound(min)),
                    max: Some(bound(max)),
                },
                None => Bounds::default(),
            },
        })
    }
}

/// The index of these pages. `None`: one of them has values without bounds.
pub(super) fn column_index<'a>(
    column_type: Type,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> ParquetResult<Option<ColumnIndexMetaData>> {
    let mut builder = ColumnIndexBuilder::new(column_type);
    for entry in entries {
        let value = |bound: &Option<Bound>| bound.as_ref().map(|bound| bound.value.clone());
        match value(&entry.bounds.min).zip(value(&entry.bounds.max)) {
            _ if entry.null_page => builder.append(true, Vec::new(), Vec::new(), entry.nulls),
            Some((min, max)) => builder.append(false, min, max, entry.nulls),
            None => return Ok(None),
        }
    }
    builder.build().map(Some)
}

pub(super) fn bounds_of(index: &ColumnIndexMetaData, page: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    fn of<T: AsBytes>(index: &PrimitiveColumnIndex<T>, page: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let bytes = |value: &T| value.as_bytes().to_vec();
        index.min_value(page).map(bytes).zip(index.max_value(page).map(bytes))
    }
    match index {
        ColumnIndexMetaData::NONE => None,
        ColumnIndexMetaData::BOOLEAN(index) => of(index, page),
        ColumnIndexMetaData::INT32(index) => of(index, page),
        ColumnIndexMetaData::INT64(index) => of(index, page),
        ColumnIndexMetaData::INT96(index) => of(index, page),
        ColumnIndexMetaData::FLOAT(index) => of(index, page),
        ColumnIndexMetaData::DOUBLE(index) => of(index, page),
        ColumnIndexMetaData::BYTE_ARRAY(index) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => {
            let value = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
            value(index.min_value(page)).zip(value(index.max_value(page)))
        }
    }
}
