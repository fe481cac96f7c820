//! Files as tables by their path: `FROM 'deliveries/2024-01.csv'`.

use std::path::Path;
use std::sync::Arc;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, SqlState};
use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::Result;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::options::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, ReadOptions};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use futures::TryStreamExt;

/// How many rows of a text file are looked at to find its columns' types. A later value that does not fit is an error,
/// so it is better to look at many.
const INFER_ROWS: usize = 100_000;

/// What a file's name says about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv(char),
    /// One JSON object per line.
    Json,
    Parquet,
}

const FORMATS: &[(&str, Format)] = &[
    (".csv", Format::Csv(',')),
    (".tsv", Format::Csv('\t')),
    (".json", Format::Json),
    (".ndjson", Format::Json),
    (".jsonl", Format::Json),
    (".parquet", Format::Parquet),
];

/// Whether `name` ends like a file that can be read by path.
pub(super) fn is_file_name(name: &str) -> bool {
    format_of(name).is_some()
}

fn format_of(name: &str) -> Option<(Format, FileCompressionType)> {
    let lower = name.to_ascii_lowercase();
    let (stem, compression) = match lower.rsplit_once('.') {
        Some((stem, "gz")) => (stem, FileCompressionType::GZIP),
        Some((stem, "bz2")) => (stem, FileCompressionType::BZIP2),
        Some((stem, "xz")) => (stem, FileCompressionType::XZ),
        Some((stem, "zst")) => (stem, FileCompressionType::ZSTD),
        _ => (lower.as_str(), FileCompressionType::UNCOMPRESSED),
    };
    let (_, format) = FORMATS
        .iter()
        .find(|(ending, _)| stem.len() > ending.len() && stem.ends_with(ending))?;
    let compressed = compression != FileCompressionType::UNCOMPRESSED;
    (*format != Format::Parquet || !compressed).then_some((*format, compression))
}

/// Makes tables of file paths (relative ones from the current directory, `*` allowed) and of URLs whose store is
/// registered with the session. Only names that end like a data file are paths; a name without such an ending never
/// reaches the file system.
#[derive(Debug)]
pub(super) struct FileTables {
    /// Settings and stores of the session, without its catalogs: they refer to this.
    state: SessionState,
}

impl FileTables {
    pub(super) fn new(state: &SessionState) -> Self {
        let slim = SessionStateBuilder::new()
            .with_config(state.config().clone())
            .with_runtime_env(Arc::clone(state.runtime_env()))
            .with_table_options(state.default_table_options())
            .with_file_formats(Vec::new())
            .build();
        Self { state: slim }
    }

    fn options(&self, format: Format, compression: FileCompressionType) -> ListingOptions {
        let (config, defaults) = (self.state.config(), self.state.default_table_options());
        match format {
            Format::Csv(delimiter) => CsvReadOptions::new()
                .delimiter(u8::try_from(delimiter).unwrap_or(b','))
                .schema_infer_max_records(INFER_ROWS)
                .file_compression_type(compression)
                .file_extension("")
                .to_listing_options(config, defaults),
            Format::Json => JsonReadOptions::default()
                .schema_infer_max_records(INFER_ROWS)
                .file_compression_type(compression)
                .file_extension("")
                .to_listing_options(config, defaults),
            Format::Parquet => ParquetReadOptions::default()
                .file_extension("")
                .to_listing_options(config, defaults),
        }
    }

    /// The columns of all files behind `url`. CSV files that were written one by one show different types for one
    /// column (a first file without fractions of a second): the types are widened.
    async fn infer(
        &self,
        name: &str,
        format: Format,
        options: &ListingOptions,
        url: &ListingTableUrl,
    ) -> Result<SchemaRef> {
        if !matches!(format, Format::Csv(_)) || url.get_glob().is_none() {
            return options.infer_schema(&self.state, url).await;
        }
        let store = self.state.runtime_env().object_store(url)?;
        let files: Vec<_> = url
            .list_all_files(&self.state, store.as_ref(), "")
            .await?
            .try_collect()
            .await?;
        let mut columns: Vec<Field> = Vec::new();
        for (i, file) in files.into_iter().enumerate() {
            let schema = options.format.infer_schema(&self.state, &store, &[file]).await?;
            // Values of a CSV file belong to columns by their place, whatever its header says.
            let same = schema
                .fields()
                .iter()
                .map(|f| f.name())
                .eq(columns.iter().map(Field::name));
            if i > 0 && !same {
                let message = format!("the files '{}' have different columns", redact(name));
                return Err(LoadError::new(SqlState::DatatypeMismatch, message)
                    .hint("Read them one by one, each with its own column list.")
                    .into());
            }
            widen(&mut columns, &schema);
        }
        Ok(Arc::new(Schema::new(columns)))
    }
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some((format, compression)) = format_of(name) else {
            return Ok(None);
        };
        check_exists(name)?;
        let url = ListingTableUrl::parse(name)?;
        let options = self.options(format, compression);
        let inferred = self.infer(name, format, &options, &url).await?;
        if inferred.fields().is_empty() {
            return Err(
                LoadError::new(SqlState::UndefinedTable, format!("no data in '{}'", redact(name)))
                    .hint("The file is empty, or no file matches the pattern.")
                    .into(),
            );
        }
        let schema = match format {
            Format::Csv(_) => microseconds(&inferred),
            Format::Json | Format::Parquet => inferred,
        };
        let config = ListingTableConfig::new(url)
            .with_listing_options(options)
            .with_schema(schema);
        let table: Arc<dyn TableProvider> = Arc::new(ListingTable::try_new(config)?);
        Ok(Some(table))
    }
}

/// Adds the columns of one more file.
fn widen(columns: &mut Vec<Field>, file: &Schema) {
    for field in file.fields() {
        match columns.iter_mut().find(|known| known.name() == field.name()) {
            Some(known) => {
                let both = wider(known.data_type(), field.data_type());
                *known = Field::new(field.name(), both, true);
            }
            None => columns.push(field.as_ref().clone().with_nullable(true)),
        }
    }
}

fn wider(a: &DataType, b: &DataType) -> DataType {
    match (a, b) {
        _ if a == b => a.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Timestamp(a, None), DataType::Timestamp(b, None)) => DataType::Timestamp((*a).max(*b), None),
        _ => DataType::Utf8,
    }
}

/// A plain local path must exist: the error should name it.
fn check_exists(name: &str) -> Result<()> {
    let plain = !name.contains("://") && !name.contains(['*', '?', '[']);
    if !plain || Path::new(name).is_file() {
        return Ok(());
    }
    let shown: String = name.chars().flat_map(char::escape_default).collect();
    Err(
        LoadError::new(SqlState::UndefinedTable, format!("file '{shown}' does not exist"))
            .hint("Relative paths are looked up from the current directory.")
            .into(),
    )
}

/// Timestamps found in text become microseconds: rows behind the ones that were looked at may have more digits than
/// those, and would lose them.
fn microseconds(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            let exact = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            Arc::new(Field::new(field.name(), exact, field.is_nullable()))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_several_files_are_widened() {
        let ts = |unit| DataType::Timestamp(unit, None);
        let cases = [
            (DataType::Null, DataType::Date32, DataType::Date32),
            (DataType::Int64, DataType::Float64, DataType::Float64),
            (
                ts(TimeUnit::Second),
                ts(TimeUnit::Millisecond),
                ts(TimeUnit::Millisecond),
            ),
            (DataType::Int64, DataType::Date32, DataType::Utf8),
        ];
        for (a, b, both) in cases {
            assert_eq!((wider(&a, &b), wider(&b, &a)), (both.clone(), both), "{a} {b}");
        }
    }

    #[test]
    fn only_data_file_endings_are_paths() {
        assert_eq!(
            format_of("x/Y.CSV"),
            Some((Format::Csv(','), FileCompressionType::UNCOMPRESSED))
        );
        assert_eq!(format_of("x.json.gz"), Some((Format::Json, FileCompressionType::GZIP)));
        assert_eq!(format_of("s3://b/*.parquet").map(|f| f.0), Some(Format::Parquet));
        for name in [
            "..",
            "../x",
            "/etc/passwd",
            "t",
            ".csv",
            "a.csv/..",
            "x.parquet.gz",
            "csv",
        ] {
            assert_eq!(format_of(name), None, "{name}");
        }
    }
}
