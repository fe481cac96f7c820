//! A directory with the tables, the sources of the workloads, and fresh copies of the tables to load into.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use deltalake::parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use crate::Result;
use crate::columns::of_source;
use crate::rows::Row;
use crate::tables::{self, CHUNK, Layout, Shape, properties};
use crate::workload::{Base, Size, Workload};

/// Where the data of a bench lies. It is made when it is needed; what is there already is used again.
#[derive(Debug, Clone)]
pub struct Lab {
    directory: PathBuf,
    shape: Shape,
}

impl Lab {
    /// A lab in `directory`.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written.
    pub fn open(directory: &Path, shape: Shape) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = directory.canonicalize()?;
        Ok(Self { directory, shape })
    }

    /// The Parquet files with the sources of `workload`.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn sources(&self, workload: &Workload) -> Result<Vec<PathBuf>> {
        let size = match workload.size {
            Size::OneIn(n) => format!("one-in-{n}"),
            Size::Rows(n) => n.to_string(),
        };
        let directory = format!("source-{}-{size}-of-{}", workload.name, self.shape.rows);
        let directory = self.directory.join(directory);
        // Under another name until it is complete: a run that was stopped leaves nothing that looks whole.
        if !directory.is_dir() {
            let unfinished = tempfile::tempdir_in(&self.directory)?;
            let keys = workload.base.keys(self.shape.rows);
            for (number, rows) in workload.rows(self.shape.rows).iter().enumerate() {
                let path = unfinished.path().join(format!("{number:02}.parquet"));
                write_source(&path, workload.base, rows, keys)?;
            }
            fs::rename(unfinished.keep(), &directory)?;
        }
        let mut files = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<PathBuf>>>()?;
        files.sort();
        Ok(files)
    }

    /// A copy of the table that `base` means, which goes away with its owner, with or without deletion vectors turned
    /// on. Data files are linked: no engine changes a file.
    ///
    /// # Errors
    ///
    /// When the table or the copy cannot be written.
    pub async fn fresh_table(&self, base: Base, vectors: bool) -> Result<TempDir> {
        let original = self.table(Layout::of(base, self.shape), vectors).await?;
        let copy = tempfile::Builder::new().prefix("run-").tempdir_in(&self.directory)?;
        copy_tree(&original, copy.path())?;
        Ok(copy)
    }

    async fn table(&self, layout: Layout, vectors: bool) -> Result<PathBuf> {
        let plain = self.directory.join(layout.name(false));
        if !plain.is_dir() {
            let unfinished = tempfile::tempdir_in(&self.directory)?;
            tables::write(unfinished.path(), layout).await?;
            fs::rename(unfinished.keep(), &plain)?;
        }
        let with_vectors = self.directory.join(layout.name(true));
        if vectors && !with_vectors.is_dir() {
            let unfinished = tempfile::tempdir_in(&self.directory)?;
            tables::with_vectors(&plain, unfinished.path(), layout).await?;
            fs::rename(unfinished.keep(), &with_vectors)?;
        }
        Ok(if vectors { with_vectors } else { plain })
    }
}

fn write_source(path: &Path, base: Base, rows: &[Row], keys: u64) -> Result {
    let schema = of_source(base, &[], keys)?.schema();
    let mut writer = ArrowWriter::try_new(File::create(path)?, schema, Some(properties()?))?;
    for part in rows.chunks(usize::try_from(CHUNK)?) {
        writer.write(&of_source(base, part, keys)?)?;
    }
    writer.close()?;
    Ok(())
}

/// Links the files of a directory into another one, or copies them where links do not work.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result {
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
    async fn tables_have_the_files_and_rows_of_their_shape() {
        let directory = tempfile::tempdir().unwrap();
        let shape = Shape {
            rows: 1_000,
            files: 4,
            by_day: false,
        };
        let lab = Lab::open(directory.path(), shape).unwrap();
        let tables = [
            (Base::Given, 4, 1_000),
            (Base::ByDay, 90, 1_000),
            (Base::History, 2, 600),
            (Base::Wide, 2, 50),
        ];
        for (base, files, rows) in tables {
            for vectors in [false, true] {
                let copy = lab.fresh_table(base, vectors).await.unwrap();
                assert_eq!(
                    check::changes_from(copy.path(), 0).unwrap().files_added,
                    files,
                    "{base:?}"
                );
                assert_eq!(check::content(copy.path(), base).await.unwrap().rows, rows, "{base:?}");
            }
        }
    }
}
