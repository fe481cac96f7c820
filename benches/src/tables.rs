//! The tables that loads go into, written once with one commit.

use std::fs;
use std::path::Path;

use datafusion::arrow::array::RecordBatch;
use deltalake::TableProperty;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::kernel::{Action, StructType};
use deltalake::operations::create::CreateBuilder;
use deltalake::parquet::basic::Compression;
use deltalake::parquet::file::properties::WriterProperties;
use deltalake::writer::{DeltaWriter, RecordBatchWriter};
use url::Url;

use crate::Result;
use crate::columns::of_table;
use crate::lab::copy_tree;
use crate::rows::{DAYS, Row};
use crate::source::version_in_history;
use crate::workload::Base;

/// Keys of a batch, and rows of a row group.
pub(crate) const CHUNK: u64 = 131_072;

/// The base table as the options want it. The other tables follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its rows.
    pub rows: u64,
    /// Its files, each with a range of keys of its own. A partitioned table has one file for each day instead.
    pub files: u64,
    /// Whether it is partitioned by day.
    pub by_day: bool,
}

/// One table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    base: Base,
    keys: u64,
    files: u64,
    by_day: bool,
}

impl Layout {
    pub(crate) fn of(base: Base, shape: Shape) -> Self {
        let by_day = match base {
            Base::Given => shape.by_day,
            Base::ByDay => true,
            Base::Sorted | Base::History | Base::Wide => false,
        };
        let files = match base {
            Base::History | Base::Wide => shape.files / 2,
            _ if by_day => DAYS,
            _ => shape.files,
        };
        Self {
            base,
            keys: base.keys(shape.rows),
            files: files.max(1),
            by_day,
        }
    }

    pub(crate) fn name(&self, vectors: bool) -> String {
        let what = match self.base {
            Base::Given | Base::Sorted | Base::ByDay => "table",
            Base::History => "history",
            Base::Wide => "wide",
        };
        let with = if vectors { "-with-vectors" } else { "" };
        match self.by_day {
            true => format!("{what}-{}-by-day{with}", self.keys),
            false => format!("{what}-{}-in-{}{with}", self.keys, self.files),
        }
    }

    fn partition_columns(&self) -> Vec<String> {
        self.by_day.then(|| "day".to_owned()).into_iter().collect()
    }

    /// The rows of the keys at these positions. The key at position `i` is `2 * i`.
    fn rows(&self, from: u64, until: u64) -> Result<RecordBatch> {
        let versions = |position: u64| {
            let first = Row::new(position * 2, 0);
            let last = match self.base {
                Base::History => version_in_history(first.id),
                _ => 0,
            };
            (0..=last).map(move |version| Row { version, ..first })
        };
        let rows: Vec<Row> = (from..until).flat_map(versions).collect();
        of_table(self.base, &rows, self.keys)
    }
}

pub(crate) fn properties() -> Result<WriterProperties> {
    let row_group = usize::try_from(CHUNK)?;
    Ok(WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(row_group))
        .build())
}

/// One commit with all files.
pub(crate) async fn write(directory: &Path, layout: Layout) -> Result {
    let url = table_url(directory)?;
    let schema = layout.rows(0, 0)?.schema();
    let partitions = layout.partition_columns();
    let mut writer = RecordBatchWriter::try_new(url.as_str(), schema.clone(), Some(partitions.clone()), None)?
        .with_writer_properties(properties()?);
    let mut actions = Vec::new();
    for file in 0..layout.files {
        // Rounded up, as the day of a row is rounded down: a file of a partitioned table has one day.
        let (mut from, to) = (
            (layout.keys * file).div_ceil(layout.files),
            (layout.keys * (file + 1)).div_ceil(layout.files),
        );
        while from < to {
            let until = to.min(from + CHUNK);
            writer.write(layout.rows(from, until)?).await?;
            from = until;
        }
        actions.extend(writer.flush().await?.into_iter().map(Action::Add));
    }
    let columns: StructType = schema.as_ref().try_into_kernel()?;
    CreateBuilder::new()
        .with_location(url.as_str())
        .with_columns(columns.fields().cloned())
        .with_partition_columns(partitions)
        .with_actions(actions)
        .await?;
    Ok(())
}

/// The files of the table in `from` as a table in `to` that has deletion vectors turned on.
pub(crate) async fn with_vectors(from: &Path, to: &Path, layout: Layout) -> Result {
    copy_tree(from, to)?;
    fs::remove_dir_all(to.join("_delta_log"))?;
    let table = deltalake::open_table(table_url(from)?).await?;
    let snapshot = table.snapshot()?.snapshot();
    // Nothing else of the library gives actions back.
    #[expect(deprecated)]
    let files = snapshot
        .try_log_data()?
        .into_iter()
        .map(|file| Action::Add(file.add_action()));
    let columns: StructType = snapshot.arrow_schema().as_ref().try_into_kernel()?;
    CreateBuilder::new()
        .with_location(table_url(to)?.as_str())
        .with_columns(columns.fields().cloned())
        .with_partition_columns(layout.partition_columns())
        .with_configuration_property(TableProperty::EnableDeletionVectors, Some("true"))
        .with_actions(files.collect::<Vec<_>>())
        .await?;
    Ok(())
}

/// The URL of a directory.
///
/// # Errors
///
/// When the path is not absolute.
pub fn table_url(directory: &Path) -> Result<Url> {
    Url::from_directory_path(directory).map_err(|()| format!("{} is not absolute", directory.display()).into())
}
