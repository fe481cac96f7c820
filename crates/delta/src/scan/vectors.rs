//! Deletion vectors: rows of a file that are no longer part of the table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor as KernelDescriptor;
use delta_kernel::{DeltaResult, FileMeta, FileSlice, StorageHandler};
use deltalake::kernel::DeletionVectorDescriptor;
use object_store::ObjectStore;
use roaring::RoaringTreemap;
use url::Url;

use crate::scan::ScanDesc;

/// Reads the deleted positions that `descriptor` describes.
pub(crate) async fn read(
    desc: &ScanDesc,
    descriptor: &DeletionVectorDescriptor,
    ctx: &TaskContext,
) -> Result<RoaringTreemap> {
    let damaged = |cause: &str| {
        LoadError::new(
            SqlState::Storage,
            format!("a deletion vector of table \"{}\" cannot be read", desc.table),
        )
        .detail(cause.to_owned())
    };
    let mut kernel = KernelDescriptor::try_from(descriptor.clone()).map_err(|e| damaged(&e.to_string()))?;
    let mut fetched = Fetched::default();
    if let Some(url) = kernel
        .absolute_path(&desc.location)
        .map_err(|e| damaged(&e.to_string()))?
    {
        let path = url.as_str().strip_prefix(desc.location.as_str());
        let path = path.ok_or_else(|| damaged("It is outside the table."))?;
        let store = ctx.runtime_env().object_store(desc.store_url()?)?;
        let (version, vector) = ranges(descriptor).ok_or_else(|| damaged("Its place in the file is not possible."))?;
        let parts = store
            .get_ranges(&desc.path_of(path)?, &[version, vector])
            .await
            .map_err(|e| damaged(&e.to_string()))?;
        // A file may hold the vectors of many others: only this one is fetched, and stands in its file as if it were alone.
        kernel.offset = Some(1);
        fetched.0.insert(url, parts.concat().into());
    }
    // On a thread of its own: kernel panics on some kinds of damage, and that must not end the process.
    let root = desc.location.clone();
    let treemap = SpawnedTask::spawn_blocking(move || kernel.read(Arc::new(fetched), &root))
        .join()
        .await;
    match treemap {
        Ok(treemap) => treemap.map_err(|e| damaged(&e.to_string())),
        Err(_) => Err(damaged("It is shorter than it says.")),
    }
}

/// Where the version byte of the file is, and the vector with its length before and its checksum behind it.
fn ranges(descriptor: &DeletionVectorDescriptor) -> Option<(Range<u64>, Range<u64>)> {
    let begin = u64::try_from(descriptor.offset.unwrap_or(1))
        .ok()
        .filter(|begin| *begin > 0)?;
    let length = u64::try_from(descriptor.size_in_bytes).ok()?;
    Some((0..1, begin..begin + 4 + length + 4))
}

/// Files that were fetched already, for kernel, which would block a thread for each.
#[derive(Debug, Default)]
struct Fetched(HashMap<Url, bytes::Bytes>);

impl StorageHandler for Fetched {
    fn list_from(&self, path: &Url) -> DeltaResult<Box<dyn Iterator<Item = DeltaResult<FileMeta>>>> {
        Err(delta_kernel::Error::FileNotFound(path.to_string()))
    }

    fn read_files(&self, files: Vec<FileSlice>) -> DeltaResult<Box<dyn Iterator<Item = DeltaResult<bytes::Bytes>>>> {
        let found: Vec<_> = files
            .iter()
            .map(|(url, _)| {
                self.0
                    .get(url)
                    .cloned()
                    .ok_or_else(|| delta_kernel::Error::FileNotFound(url.to_string()))
            })
            .collect();
        Ok(Box::new(found.into_iter()))
    }

    fn copy_atomic(&self, _src: &Url, dest: &Url) -> DeltaResult<()> {
        Err(delta_kernel::Error::FileNotFound(dest.to_string()))
    }

    fn put(&self, path: &Url, _data: bytes::Bytes, _overwrite: bool) -> DeltaResult<()> {
        Err(delta_kernel::Error::FileNotFound(path.to_string()))
    }

    fn delete(&self, path: &Url) -> DeltaResult<()> {
        Err(delta_kernel::Error::FileNotFound(path.to_string()))
    }

    fn head(&self, path: &Url) -> DeltaResult<FileMeta> {
        Err(delta_kernel::Error::FileNotFound(path.to_string()))
    }
}
