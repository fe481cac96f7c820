//! Reads of local files into memory that was used for reads before.
//!
//! What is read of a file is needed until it is decompressed, a moment later. Memory that is new for every read is cleared
//! twice, by the kernel page after page and by whoever has to hand out bytes that are something, and given back with
//! a message to all processors: more work than copying the bytes.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// Fewer bytes are read as the store does it.
const WORTH: u64 = 64 * 1024;
/// Smaller memory is not worth keeping.
const WORTH_KEEPING: usize = 16 * 1024;
/// Bytes that wait for their next use, in the whole process.
const MOST_KEPT: usize = 32 << 20;
/// More runs of a file are read as the store does it, which opens the file once.
const MOST_RUNS: usize = 32;

static MEMORY: Memory = Memory(Mutex::new(Vec::new()));

/// `store`, which reads large ranges of local files into memory that is used again. Files that are not local, and everything
/// but reading, are left to the store.
#[derive(Debug)]
pub struct LocalReads(Arc<dyn ObjectStore>);

impl LocalReads {
    /// Around `store` if addresses of this scheme are local files: of any other store, asking for a file is a request.
    pub fn over(store: Arc<dyn ObjectStore>, scheme: &str) -> Arc<dyn ObjectStore> {
        match scheme {
            "file" => Arc::new(Self(store)),
            _ => store,
        }
    }

    /// The files of `runs`, each open. `None`: some run is not of a local file, or not there.
    async fn open(&self, location: &Path, runs: Vec<Vec<Range<u64>>>) -> Result<Option<Vec<Run>>> {
        let mut open = Vec::with_capacity(runs.len());
        for ranges in runs {
            let whole = whole(&ranges);
            let options = GetOptions {
                range: Some(GetRange::Bounded(whole.clone())),
                ..GetOptions::default()
            };
            let got = self.0.get_opts(location, options).await?;
            match got.payload {
                GetResultPayload::File(file, _) if got.range == whole => open.push(Run { file, ranges }),
                _ => return Ok(None),
            }
        }
        Ok(Some(open))
    }
}

/// Ranges of a file that follow each other.
struct Run {
    file: File,
    ranges: Vec<Range<u64>>,
}

impl Run {
    /// Each range in memory of its own, so that none is kept for another's sake.
    fn read(mut self) -> Option<Vec<Bytes>> {
        self.file.seek(SeekFrom::Start(whole(&self.ranges).start)).ok()?;
        let mut read = Vec::with_capacity(self.ranges.len());
        for range in self.ranges {
            let mut room = Room::of(usize::try_from(range.end - range.start).ok()?);
            self.file.read_exact(room.bytes.get_mut(..room.length)?).ok()?;
            read.push(Bytes::from_owner(room));
        }
        Some(read)
    }
}

/// Ranges that follow each other, together.
fn runs(ranges: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
    let together = |a: &Range<u64>, b: &Range<u64>| a.start <= a.end && a.end == b.start && b.start <= b.end;
    ranges.chunk_by(together).map(<[_]>::to_vec).collect()
}

/// From the first byte of a run to its last.
fn whole(run: &[Range<u64>]) -> Range<u64> {
    let ends = run.first().zip(run.last());
    ends.map_or(0..0, |(first, last)| first.start..last.end)
}

fn read(runs: Vec<Run>) -> Option<Vec<Bytes>> {
    let read = runs.into_iter().map(Run::read).collect::<Option<Vec<_>>>()?;
    Some(read.into_iter().flatten().collect())
}

#[async_trait]
impl ObjectStore for LocalReads {
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let runs = runs(ranges);
        let total = ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start))
            .sum::<u64>();
        if total >= WORTH
            && runs.len() <= MOST_RUNS
            && let Some(runs) = self.open(location, runs).await?
            && let Ok(Some(parts)) = SpawnedTask::spawn_blocking(move || read(runs)).join().await
        {
            return Ok(parts);
        }
        // Also when something was wrong: the store has the words for it.
        self.0.get_ranges(location, ranges).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.0.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, opts).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.rename_opts(from, to, options).await
    }
}

impl fmt::Display for LocalReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Memory that waits for its next use, the longest waiting first.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<Vec<u8>>>);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The smallest of at least `length` bytes, if there is one that is not far too large.
    fn take(&self, length: usize) -> Option<Vec<u8>> {
        let mut kept = self.lock();
        let fits = |bytes: &Vec<u8>| bytes.len() >= length && bytes.len() / 4 <= length;
        let fitting = kept.iter().enumerate().filter(|(_, bytes)| fits(bytes));
        let (at, _) = fitting.min_by_key(|(_, bytes)| bytes.len())?;
        Some(kept.remove(at))
    }

    fn keep(&self, bytes: Vec<u8>) {
        let mut kept = self.lock();
        kept.push(bytes);
        let mut size: usize = kept.iter().map(Vec::len).sum();
        while size > MOST_KEPT {
            size -= kept.remove(0).len();
        }
    }
}

/// Memory in use.
#[derive(Debug)]
struct Room {
    bytes: Vec<u8>,
    length: usize,
}

impl Room {
    fn of(length: usize) -> Self {
        let known = match length < WORTH_KEEPING {
            true => None,
            false => MEMORY.take(length),
        };
        Self {
            bytes: known.unwrap_or_else(|| vec![0; length]),
            length,
        }
    }
}

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes.len() >= WORTH_KEEPING {
            MEMORY.keep(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::local::LocalFileSystem;
    use object_store::memory::InMemory;

    use super::*;

    fn content() -> Vec<u8> {
        (0..300_000_u32).flat_map(u32::to_le_bytes).collect()
    }

    async fn check(store: Arc<dyn ObjectStore>) {
        let (path, content) = (Path::from("file"), content());
        store.put(&path, content.clone().into()).await.unwrap();
        let reads = LocalReads::over(Arc::clone(&store), "file");
        let one = |range: Range<u64>| std::iter::once(range).collect::<Vec<_>>();
        for ranges in [
            vec![],
            one(3..9),
            one(0..1_200_000),
            vec![10..70_000, 70_000..200_000, 1_000_000..1_000_001],
            vec![500_000..600_000, 0..100_000, 50..60],
        ] {
            // Twice, the second time into memory of the first.
            for _ in 0..2 {
                let read = reads.get_ranges(&path, &ranges).await.unwrap();
                let wanted = ranges.iter().map(|range| {
                    let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
                    &content[start.unwrap()..end.unwrap()]
                });
                assert!(read.iter().eq(wanted), "{ranges:?}");
            }
        }
        let beyond = [0..70_000, 1_199_000..1_300_000];
        let known = store.get_ranges(&path, &beyond).await.map(|parts| parts.len());
        let ours = reads.get_ranges(&path, &beyond).await.map(|parts| parts.len());
        assert_eq!(format!("{ours:?}"), format!("{known:?}"));
        let missing = reads.get_ranges(&Path::from("none"), &one(0..70_000)).await;
        assert!(matches!(missing, Err(object_store::Error::NotFound { .. })));
    }

    #[tokio::test]
    async fn ranges_are_what_the_store_has() {
        let directory = tempfile::tempdir().unwrap();
        check(Arc::new(LocalFileSystem::new_with_prefix(directory.path()).unwrap())).await;
        check(Arc::new(InMemory::new())).await;
    }

    #[test]
    fn other_stores_are_left_alone() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        assert!(Arc::ptr_eq(&store, &LocalReads::over(Arc::clone(&store), "s3")));
        assert!(!Arc::ptr_eq(&store, &LocalReads::over(Arc::clone(&store), "file")));
    }

    #[test]
    fn memory_is_used_again_but_not_hoarded() {
        let memory = Memory::default();
        assert!(memory.take(100).is_none());
        memory.keep(vec![1; 100]);
        memory.keep(vec![2; 300]);
        assert_eq!(memory.take(101).map(|bytes| bytes.len()), Some(300));
        assert!(memory.take(20).is_none(), "too large for that");
        assert_eq!(memory.take(90).map(|bytes| bytes.len()), Some(100));
        for _ in 0..20 {
            memory.keep(vec![0; MOST_KEPT / 10]);
        }
        assert_eq!(memory.lock().len(), 10);
        memory.keep(vec![0; MOST_KEPT + 1]);
        assert!(memory.lock().is_empty());
    }
}
