//! Merge-on-read: a file with marked rows stays, and a deletion vector says which of its rows are gone.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use bytes::Bytes;
use datafusion::execution::TaskContext;
use delta_kernel::DeltaResult;
use delta_kernel::actions::deletion_vector_writer::{DeletionVector, StreamingDeletionVectorWriter};
use deltalake::kernel::{DeletionVectorDescriptor, StorageType};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::scan::{ScanDesc, read_vector};
use crate::table::{FileTask, TableSnapshot};

use super::super::actions::ActionRow;
use super::super::files::OpenFile;
use super::super::job::LoadJob;
use super::lost_mark;

/// A file of vectors is written when it has this many bytes, so that no more than this is held.
const FULL: usize = 8 << 20;

/// Whether the rows of `task` can be taken out by a vector: the format wants the number of its rows in the log.
pub(in crate::write) fn applies(base: &TableSnapshot, task: &FileTask) -> bool {
    base.deletion_vectors_enabled() && task.num_records.is_some() && task.removable
}

/// The vectors that one task writes: several in a file.
pub(in crate::write) struct VectorWriter<'a> {
    job: &'a LoadJob,
    base: &'a TableSnapshot,
    desc: &'a ScanDesc,
    current: Option<VectorFile>,
    rows: Vec<ActionRow>,
}

/// A file of vectors that is not written yet.
struct VectorFile {
    path: Path,
    id: Uuid,
    bytes: Vec<u8>,
    open: OpenFile,
}

impl<'a> VectorWriter<'a> {
    pub(in crate::write) fn new(job: &'a LoadJob, base: &'a TableSnapshot, desc: &'a ScanDesc) -> Self {
        Self {
            job,
            base,
            desc,
            current: None,
            rows: Vec::new(),
        }
    }

    /// Takes the `marked` rows out of `task`, beside those that are out already. A file without rows leaves the table.
    pub(in crate::write) async fn mask(
        &mut self,
        task: &FileTask,
        marked: RoaringTreemap,
        context: &TaskContext,
    ) -> Result<()> {
        let rows = task.num_records.unwrap_or_default();
        let known = match &task.deletion_vector {
            Some(descriptor) => read_vector(self.desc, descriptor, context).await?,
            None => RoaringTreemap::new(),
        };
        if marked.max().is_some_and(|last| last >= rows) || !known.is_disjoint(&marked) {
            return Err(lost_mark());
        }
        let mut all = known | marked;
        if all.len() == rows {
            self.rows.push(ActionRow::Remove(task.ordinal));
            return Ok(());
        }
        all.optimize();
        let mut add = self.base.add_action(task)?;
        add.stats = add.stats.map(|stats| with_loose_bounds(&stats));
        add.deletion_vector = Some(self.append(all)?);
        self.rows.push(ActionRow::Mask(task.ordinal, add));
        match &self.current {
            Some(file) if file.bytes.len() >= FULL => self.store().await,
            _ => Ok(()),
        }
    }

    /// Writes what is held; the action rows of everything done.
    pub(in crate::write) async fn finish(mut self) -> Result<Vec<ActionRow>> {
        self.store().await?;
        Ok(self.rows)
    }

    fn append(&mut self, positions: RoaringTreemap) -> Result<DeletionVectorDescriptor> {
        if self.current.is_none() {
            let (path, id, open) = self.job.files.create_vectors()?;
            self.current = Some(VectorFile {
                path,
                id,
                bytes: Vec::new(),
                open,
            });
        }
        match &mut self.current {
            Some(file) => file.append(positions),
            None => Err(LoadError::internal("there is no file for a deletion vector")),
        }
    }

    async fn store(&mut self) -> Result<()> {
        let Some(file) = self.current.take() else { return Ok(()) };
        let store = Arc::clone(self.job.files.store());
        let put = async move { store.put(&file.path, file.bytes.into()).await };
        let stored = file.open.appear(put).await?;
        stored.map(|_| ()).map_err(|e| {
            LoadError::new(
                SqlState::Storage,
                format!("a deletion vector of table {:?} cannot be written", self.job.table()),
            )
            .caused_by(e)
        })
    }
}

impl VectorFile {
    /// The vector goes to the end of the file as a piece of its own, whose first byte the descriptor names.
    fn append(&mut self, positions: RoaringTreemap) -> Result<DeletionVectorDescriptor> {
        let unwritable = |e| LoadError::internal(format!("a deletion vector cannot be written: {e}"));
        let mut piece = Vec::new();
        let mut writer = StreamingDeletionVectorWriter::new(&mut piece);
        let written = writer.write_deletion_vector(Positions(positions)).map_err(unwritable)?;
        writer.finalize().map_err(unwritable)?;
        // The version byte stands once, at the beginning of the file.
        let begin = if self.bytes.is_empty() { 0 } else { self.bytes.len() - 1 };
        let skip = usize::from(!self.bytes.is_empty());
        self.bytes.extend(piece.iter().skip(skip));
        let offset = i32::try_from(begin)
            .ok()
            .and_then(|begin| written.offset.checked_add(begin));
        Ok(DeletionVectorDescriptor {
            storage_type: StorageType::UuidRelativePath,
            path_or_inline_dv: z85::encode(self.id.as_bytes()),
            offset: Some(offset.ok_or_else(|| LoadError::internal("a file of deletion vectors is too large"))?),
            size_in_bytes: written.size_in_bytes,
            cardinality: written.cardinality,
        })
    }
}

/// Positions in the portable form, as they are.
struct Positions(RoaringTreemap);

impl DeletionVector for Positions {
    type IndexIterator = roaring::treemap::IntoIter;

    fn into_iter(self) -> Self::IndexIterator {
        self.0.into_iter()
    }

    fn cardinality(&self) -> u64 {
        self.0.len()
    }

    fn serialize(self) -> DeltaResult<Bytes> {
        let mut bytes = Vec::with_capacity(self.0.serialized_size());
        self.0
            .serialize_into(&mut bytes)
            .map_err(|e| delta_kernel::Error::generic(e.to_string()))?;
        Ok(bytes.into())
    }
}

const TIGHT: &str = "\"tightBounds\"";

/// Statistics of a file some rows of which are gone: bounds and counts are those of all its rows. The text is edited and
/// not written anew, because numbers in it may have more digits than any number type.
fn with_loose_bounds(stats: &str) -> String {
    if let Some((begin, end)) = top_level_value(stats, TIGHT) {
        let (before, after) = (stats.get(..begin), stats.get(end..));
        return format!("{}false{}", before.unwrap_or_default(), after.unwrap_or_default());
    }
    match stats.trim_start().strip_prefix('{') {
        Some(rest) if rest.trim_start().starts_with('}') => format!("{{{TIGHT}:false}}"),
        Some(rest) => format!("{{{TIGHT}:false,{rest}"),
        None => stats.to_owned(),
    }
}

/// Where the plain value of `key` (in quotes) stands in the outermost object of `json`.
fn top_level_value(json: &str, key: &str) -> Option<(usize, usize)> {
    let bytes = json.as_bytes();
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = end_of_string(bytes, at);
                let rest = json.get(end..)?;
                let value = rest.trim_start().strip_prefix(':').map(str::trim_start);
                if let Some(value) = value.filter(|_| depth == 1 && json.get(at..end) == Some(key)) {
                    let begin = json.len() - value.len();
                    let length = value.find([',', '}']).unwrap_or(value.len());
                    return Some((begin, begin + length));
                }
                at = end;
                continue;
            }
            _ => (),
        }
        at += 1;
    }
    None
}

/// The place after the string that begins at `begin`.
fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn bounds_become_loose_and_digits_stay() {
        for (stats, loose) in [
            (
                r#"{"numRecords":2,"minValues":{"d":1234567890123456789012.000000001}}"#,
                r#"{"tightBounds":false,"numRecords":2,"minValues":{"d":1234567890123456789012.000000001}}"#,
            ),
            (
                r#"{"numRecords":2,"tightBounds":true,"nullCount":{"tightBounds":0}}"#,
                r#"{"numRecords":2,"tightBounds":false,"nullCount":{"tightBounds":0}}"#,
            ),
            (
                r#"{"minValues":{"tightBounds":1,"a":"\"tightBounds\":true,{"},"tightBounds" : true }"#,
                r#"{"minValues":{"tightBounds":1,"a":"\"tightBounds\":true,{"},"tightBounds" : false}"#,
            ),
            ("{}", r#"{"tightBounds":false}"#),
        ] {
            assert_eq!(with_loose_bounds(stats), loose);
            assert_eq!(with_loose_bounds(loose), loose, "once more");
        }
    }

    #[test]
    fn vectors_share_a_file() {
        let store: Arc<dyn object_store::ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let files = super::super::super::files::StatementFiles::new(store, Uuid::nil());
        let (path, id, open) = files.create_vectors().unwrap();
        let mut file = VectorFile {
            path,
            id,
            bytes: Vec::new(),
            open,
        };
        let first = file.append(RoaringTreemap::from_iter([1_u64, 5])).unwrap();
        let second = file.append(RoaringTreemap::from_iter([7_u64, 1 << 33])).unwrap();
        assert_eq!((first.offset, first.cardinality), (Some(1), 2));
        let size = usize::try_from(first.size_in_bytes).unwrap();
        assert_eq!(second.offset, Some(i32::try_from(1 + 4 + size + 4).unwrap()));
        assert_eq!(first.path_or_inline_dv.len(), 20);
        assert_eq!(file.bytes[0], 1);
    }
}
