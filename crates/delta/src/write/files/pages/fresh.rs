//! New values of stored rows, in the bytes that pages hold. Most types are so in memory; of the others Parquet's own
//! writer makes them, so that every type is stored here as it is everywhere.

use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, Encoding};
use datafusion::parquet::column::page::{Page, PageReader};
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::parquet::file::serialized_reader::SerializedPageReader;

use super::super::layout::FileLayout;
use super::super::rolling::parquet_error;
use super::super::stats::leaf_count;
use super::input::Input;
use super::kind::Kind;
use super::values::{split_levels, unpack_booleans};

/// New rows.
pub(in crate::write::files) struct FreshRows {
    rows: RecordBatch,
    /// For each column of a file its place among the encoded ones; `None`: its values are used as they are in memory.
    places: Vec<Option<usize>>,
    encoded: Option<EncodedRows>,
}

/// Columns as a file.
struct EncodedRows {
    file: Arc<Bytes>,
    metadata: ParquetMetaData,
}

/// The values of one column, one a row.
pub(super) enum Fresh<'a> {
    InMemory(Input<'a>),
    Encoded(EncodedValues),
}

/// The values of one column of a file.
pub(super) struct EncodedValues {
    bytes: Vec<u8>,
    /// Where each is; `None`: NULL.
    places: Vec<Option<Range<usize>>>,
}

impl FreshRows {
    /// `rows`, which have the schema of the layout's files.
    pub(in crate::write::files) fn of(layout: &FileLayout, rows: &RecordBatch) -> Result<Self> {
        let fields = layout.file_schema.fields();
        let leaves: usize = fields.iter().map(|field| leaf_count(field.data_type())).sum();
        // Columns inside of others have places of their own.
        let flat = leaves == fields.len();
        let direct = |column: usize| flat && fields.get(column).is_some_and(|field| Input::knows(field.data_type()));
        let mut next = 0..leaves;
        let places = (0..leaves).map(|column| if direct(column) { None } else { next.next() });
        let places: Vec<Option<usize>> = places.collect();
        let others: Vec<usize> = (0..fields.len()).filter(|column| !direct(*column)).collect();
        let encoded = match others.is_empty() {
            true => None,
            false => Some(EncodedRows::encode(&rows.project(&others).map_err(arrow_error)?)?),
        };
        Ok(Self {
            rows: rows.clone(),
            places,
            encoded,
        })
    }

    /// The values of a column that holds no other columns. `None`: they are stored in another way than in memory.
    pub(super) fn column(&self, column: usize, kind: Kind) -> Result<Option<Fresh<'_>>> {
        let lacking = || LoadError::internal("a new row lacks a column");
        match (self.places.get(column), &self.encoded) {
            (Some(Some(place)), Some(encoded)) => encoded.column(*place, kind).map(|c| Some(Fresh::Encoded(c))),
            (Some(None), _) => {
                let values = self.rows.columns().get(column).ok_or_else(lacking)?;
                let values = Some(values).filter(|values| Input::takes(kind, values.data_type()));
                Ok(values.and_then(Input::of).map(Fresh::InMemory))
            }
            _ => Err(lacking()),
        }
    }
}

fn arrow_error(error: datafusion::arrow::error::ArrowError) -> LoadError {
    LoadError::from(datafusion::common::DataFusionError::from(error))
}

impl EncodedRows {
    fn encode(rows: &RecordBatch) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::UNCOMPRESSED)
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_max_row_group_row_count(None)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).map_err(parquet_error)?;
        writer.write(rows).map_err(parquet_error)?;
        let file = Bytes::from(writer.into_inner().map_err(parquet_error)?);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
        Ok(Self {
            metadata: metadata.map_err(parquet_error)?,
            file: Arc::new(file),
        })
    }

    fn column(&self, column: usize, kind: Kind) -> Result<EncodedValues> {
        let mut values = EncodedValues {
            bytes: Vec::new(),
            places: Vec::new(),
        };
        for group in self.metadata.row_groups() {
            let chunk = group.columns().get(column);
            let chunk = chunk.ok_or_else(|| LoadError::internal("a new row lacks a column"))?;
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let pages = SerializedPageReader::new(Arc::clone(&self.file), chunk, rows, None);
            let mut pages = pages.map_err(parquet_error)?;
            let optional = chunk.column_descr().max_def_level() > 0;
            while let Some(page) = pages.get_next_page().map_err(parquet_error)? {
                values.read(&page, optional, kind).ok_or_else(unreadable)?;
            }
        }
        Ok(values)
    }
}

impl Fresh<'_> {
    /// The value of row `row`.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::InMemory(values) => values.value(row),
            Self::Encoded(values) => values.bytes.get(values.places.get(row)?.clone()?),
        }
    }
}

fn unreadable() -> LoadError {
    LoadError::internal("new values are not stored plainly")
}

impl EncodedValues {
    fn read(&mut self, page: &Page, optional: bool, kind: Kind) -> Option<()> {
        let Page::DataPage {
            buf,
            num_values,
            encoding: Encoding::PLAIN,
            ..
        } = page
        else {
            return None;
        };
        let rows = usize::try_from(*num_values).ok()?;
        let (flags, values) = split_levels(buf, optional, rows)?;
        let values = match kind {
            Kind::Boolean => unpack_booleans(values, flags.present(0..rows))?,
            _ => values.to_vec(),
        };
        let mut at = self.bytes.len();
        self.bytes.extend_from_slice(&values);
        for row in 0..rows {
            self.places.push(match flags.is_present(row) {
                true => Some(self.next(&mut at, kind)?),
                false => None,
            });
        }
        Some(())
    }

    /// The place of the value at `at`, and beyond it.
    fn next(&self, at: &mut usize, kind: Kind) -> Option<Range<usize>> {
        let (from, length) = match kind.width() {
            Some(width) => (*at, width),
            None => {
                let length = self.bytes.get(*at..)?.first_chunk::<4>()?;
                (*at + 4, usize::try_from(u32::from_le_bytes(*length)).ok()?)
            }
        };
        *at = from.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        Some(from..*at)
    }
}
