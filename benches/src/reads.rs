//! What a load reads of its table, counted where the table format library asks the file system.

use std::collections::HashSet;
use std::fs;
use std::path::Path as FilePath;
use std::sync::Arc;

use alluvium_testkit::stores::{Operation, RecordingStore, Request};
use datafusion::prelude::SessionContext;
use deltalake::DeltaResult;
use deltalake::logstore::{ObjectStoreFactory, ObjectStoreRef, StorageConfig, object_store_factories, store_for};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use url::Url;

use crate::Result;

/// What was read of the data files of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// Different files of which anything was read, deletion vectors included.
    pub files: u64,
    /// Bytes that were asked for. Those asked for twice count twice.
    pub bytes: u64,
}

/// Writes down the requests to local files from when it was made. A process needs one and keeps it.
#[derive(Debug, Clone)]
pub struct Recorder(RecordingStore);

impl Recorder {
    /// Puts itself between the table format library and the file system.
    ///
    /// # Errors
    ///
    /// None in practice: the scheme is well formed.
    pub fn install() -> Result<Self> {
        let recorder = Self(RecordingStore::new(Arc::new(LocalFileSystem::new())));
        object_store_factories().insert(Url::parse("file://")?, Arc::new(recorder.clone()));
        Ok(recorder)
    }

    /// What was read of the table in `directory` since the last call. The log is not part of it.
    ///
    /// # Errors
    ///
    /// When the size of a file that was read as a whole is not to be had.
    pub fn take(&self, directory: &FilePath) -> Result<Reads> {
        let table = Path::from_absolute_path(directory)?;
        let log = table.clone().join("_delta_log");
        let (mut files, mut bytes) = (HashSet::new(), 0);
        for request in self.0.take() {
            let of_table = request.path.prefix_matches(&table) && !request.path.prefix_matches(&log);
            if of_table && request.operation == Operation::Get {
                bytes += size(&request)?;
                files.insert(request.path);
            }
        }
        let files = u64::try_from(files.len())?;
        Ok(Reads { files, bytes })
    }
}

/// Lets a session read local files through the store of the table format library, where the recorder stands if there is
/// one.
pub(crate) fn share_store(context: &SessionContext) -> Result {
    let root = Url::parse("file:///")?;
    let store = store_for(&root, std::iter::empty::<(String, String)>())?;
    context.register_object_store(&root, store);
    Ok(())
}

impl ObjectStoreFactory for Recorder {
    fn parse_url_opts(&self, url: &Url, _: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        Ok((Arc::new(self.0.clone()), Path::from_url_path(url.path())?))
    }
}

/// How many bytes a request was for. Ranges are written as `0-10,20-30`, `5-` or `-8`.
fn size(request: &Request) -> Result<u64> {
    let whole = || -> Result<u64> { Ok(fs::metadata(format!("/{}", request.path))?.len()) };
    let Some(ranges) = &request.range else {
        return whole();
    };
    let one = |range: &str| -> Result<u64> {
        match range.split_once('-').ok_or("no range")? {
            ("", length) => Ok(length.parse()?),
            (from, "") => Ok(whole()?.saturating_sub(from.parse()?)),
            (from, to) => Ok(to.parse::<u64>()?.saturating_sub(from.parse()?)),
        }
    };
    ranges.split(',').filter(|range| !range.is_empty()).map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_their_sizes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        fs::write(&file, [0; 100]).unwrap();
        let path = Path::from_absolute_path(&file).unwrap();
        for (range, expected) in [("0-10,20-30", 20), ("90-", 10), ("-8", 8), ("", 0)] {
            let range = Some(range.to_owned());
            let request = Request {
                range,
                ..Request::new(Operation::Get, &path)
            };
            assert_eq!(size(&request).unwrap(), expected);
        }
        assert_eq!(size(&Request::new(Operation::Get, &path)).unwrap(), 100);
    }
}
