//! A directory with the base table, the sources of the workloads, and fresh copies of the table to load into.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use datafusion::arrow::datatypes::SchemaRef;
use deltalake::TableProperty;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::kernel::{Action, StructType};
use deltalake::operations::create::CreateBuilder;
use deltalake::parquet::arrow::ArrowWriter;
use deltalake::parquet::basic::Compression;
use deltalake::parquet::file::properties::WriterProperties;
use deltalake::writer::{DeltaWriter, RecordBatchWriter};
use tempfile::TempDir;
use url::Url;

use crate::Result;
use crate::rows::{DAYS, rows};
use crate::workload::Workload;

/// Rows of a batch, and of a row group.
const CHUNK: u64 = 131_072;

/// The base table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its rows.
    pub rows: u64,
    /// Its files, each with a range of keys of its own. A partitioned table has one file for each day instead.
    pub files: u64,
    /// Whether it is partitioned by day.
    pub by_day: bool,
}

impl Shape {
    fn name(&self, vectors: bool) -> String {
        let with = if vectors { "-with-vectors" } else { "" };
        match self.by_day {
            true => format!("table-{}-by-day{with}", self.rows),
            false => format!("table-{}-in-{}{with}", self.rows, self.files),
        }
    }

    fn partition_columns(&self) -> Vec<String> {
        self.by_day.then(|| "day".to_owned()).into_iter().collect()
    }
}

/// Where the data of a bench lies. What is there already is used again.
#[derive(Debug, Clone)]
pub struct Lab {
    directory: PathBuf,
    shape: Shape,
}

impl Lab {
    /// A lab in `directory`, with the base table made if it is missing.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written.
    pub async fn open(directory: &Path, shape: Shape) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let lab = Self {
            directory: directory.canonicalize()?,
            shape,
        };
        // Under another name until it is complete: a run that was stopped leaves nothing that looks whole.
        if !lab.base(false).is_dir() {
            let unfinished = tempfile::tempdir_in(&lab.directory)?;
            write_table(unfinished.path(), shape).await?;
            fs::rename(unfinished.keep(), lab.base(false))?;
        }
        if !lab.base(true).is_dir() {
            let unfinished = tempfile::tempdir_in(&lab.directory)?;
            with_vectors(&lab.base(false), unfinished.path(), shape).await?;
            fs::rename(unfinished.keep(), lab.base(true))?;
        }
        Ok(lab)
    }

    /// The base table's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    fn base(&self, vectors: bool) -> PathBuf {
        self.directory.join(self.shape.name(vectors))
    }

    /// The Parquet file with the source of `workload`, made if it is missing.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn source(&self, workload: &Workload) -> Result<PathBuf> {
        let path = self
            .directory
            .join(format!("{}-{}.parquet", workload.name, self.shape.rows));
        if !path.is_file() {
            let unfinished = path.with_extension("unfinished");
            write_source(&unfinished, &workload.keys(self.shape.rows), self.shape.rows)?;
            fs::rename(&unfinished, &path)?;
        }
        Ok(path)
    }

    /// A copy of the base table that goes away with its owner, with or without deletion vectors turned on. Data files
    /// are linked: no engine changes a file.
    ///
    /// # Errors
    ///
    /// When the copy cannot be written.
    pub fn fresh_table(&self, vectors: bool) -> Result<TempDir> {
        let copy = tempfile::Builder::new().prefix("run-").tempdir_in(&self.directory)?;
        copy_tree(&self.base(vectors), copy.path())?;
        Ok(copy)
    }
}

fn properties() -> Result<WriterProperties> {
    let row_group = usize::try_from(CHUNK)?;
    Ok(WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(row_group))
        .build())
}

/// One commit with all files. Row `i` of the table has the id `2 * i`.
async fn write_table(directory: &Path, shape: Shape) -> Result {
    let url = table_url(directory)?;
    let schema = rows(&[], 0, shape.rows)?.schema();
    let mut writer = RecordBatchWriter::try_new(
        url.as_str(),
        SchemaRef::clone(&schema),
        Some(shape.partition_columns()),
        None,
    )?
    .with_writer_properties(properties()?);
    let mut actions = Vec::new();
    let files = if shape.by_day { DAYS } else { shape.files.max(1) };
    for file in 0..files {
        // Rounded up, as the day of a row is rounded down: a file of a partitioned table has one day.
        let (mut from, to) = (
            (shape.rows * file).div_ceil(files),
            (shape.rows * (file + 1)).div_ceil(files),
        );
        while from < to {
            let until = to.min(from + CHUNK);
            let ids: Vec<i64> = (from..until)
                .map(|i| i64::try_from(i * 2))
                .collect::<std::result::Result<_, _>>()?;
            writer.write(rows(&ids, 0, shape.rows)?).await?;
            from = until;
        }
        actions.extend(writer.flush().await?.into_iter().map(Action::Add));
    }
    let columns: StructType = schema.as_ref().try_into_kernel()?;
    CreateBuilder::new()
        .with_location(url.as_str())
        .with_columns(columns.fields().cloned())
        .with_partition_columns(shape.partition_columns())
        .with_actions(actions)
        .await?;
    Ok(())
}

/// The files of the table in `from` as a table in `to` that has deletion vectors turned on.
async fn with_vectors(from: &Path, to: &Path, shape: Shape) -> Result {
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
        .with_partition_columns(shape.partition_columns())
        .with_configuration_property(TableProperty::EnableDeletionVectors, Some("true"))
        .with_actions(files.collect::<Vec<_>>())
        .await?;
    Ok(())
}

fn write_source(path: &Path, keys: &[i64], total: u64) -> Result {
    let schema = rows(&[], 1, total)?.schema();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema, Some(properties()?))?;
    for part in keys.chunks(usize::try_from(CHUNK)?) {
        writer.write(&rows(part, 1, total)?)?;
    }
    writer.close()?;
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

fn copy_tree(from: &Path, to: &Path) -> Result {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy_tree(&source, &target)?;
        } else if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[tokio::test]
    async fn the_base_table_has_the_files_and_rows_of_its_shape() {
        let directory = tempfile::tempdir().unwrap();
        for (by_day, files) in [(false, 3), (true, 90)] {
            let shape = Shape {
                rows: 1_000,
                files: 3,
                by_day,
            };
            let lab = Lab::open(directory.path(), shape).await.unwrap();
            for vectors in [false, true] {
                let copy = lab.fresh_table(vectors).unwrap();
                assert_eq!(check::changes(copy.path(), 0).unwrap().files_added, files);
                assert_eq!(check::content(copy.path()).await.unwrap().rows, 1_000);
            }
        }
    }
}
