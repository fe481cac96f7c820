//! Some late columns of a row group: what is fetched for them, and their values. Both are the work of a task, so that
//! threads without rows of their own take part in it.

use std::ops::Range;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, new_null_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use object_store::ObjectStore;
use object_store::path::Path;

use super::chunk::{Reading, Scratch};
use super::file::Place;
use super::groups::Group;

/// Columns are fetched together up to so many bytes.
const TOGETHER: u64 = 4 << 20;

/// Neighbouring late columns of the rows of a row group.
pub(super) struct Part {
    pub(super) group: Arc<Group>,
    wanted: Arc<Wanted>,
    bytes: u64,
    task: Option<SpawnedTask<object_store::Result<Done>>>,
}

struct Wanted {
    /// Which of the late columns.
    columns: Range<usize>,
    /// What is read for each, if it is stored.
    readings: Vec<Option<Reading>>,
}

/// The values of a part's columns.
pub(super) struct Gathered {
    pub(super) arrays: Vec<ArrayRef>,
    pub(super) pages: usize,
}

/// A part that was worked on.
pub(super) struct Done {
    /// `None`: some columns are stored in a way that is not known here, or are damaged.
    pub(super) gathered: Option<Gathered>,
    pub(super) scratch: Scratch,
    /// How much larger it has become.
    pub(super) grown: usize,
}

impl Part {
    /// The late columns that `group` has not yet, taken apart. `None`: they cannot be gathered.
    pub(super) fn of(group: &Arc<Group>) -> Option<Vec<Self>> {
        let mut parts: Vec<(Wanted, u64)> = Vec::new();
        for (column, place) in group.file.places()?.iter().enumerate().skip(group.done) {
            let reading = match place {
                Place::Missing => None,
                Place::Stored(index, form) => {
                    let chunk = group.file.chunk(group.number, *index, *form)?;
                    Some(chunk.reading(&group.rows)?)
                }
            };
            let more = reading.as_ref().map_or(0, Reading::bytes);
            match parts.last_mut() {
                Some((part, bytes)) if bytes.saturating_add(more) <= TOGETHER => {
                    part.columns.end += 1;
                    part.readings.push(reading);
                    *bytes += more;
                }
                _ => {
                    let columns = column..column + 1;
                    let readings = vec![reading];
                    parts.push((Wanted { columns, readings }, more));
                }
            }
        }
        let part = |(wanted, bytes)| Self {
            group: Arc::clone(group),
            wanted: Arc::new(wanted),
            bytes,
            task: None,
        };
        Some(parts.into_iter().map(part).collect())
    }

    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn is_begun(&self) -> bool {
        self.task.is_some()
    }

    /// Begins to fetch and to gather, whether somebody waits for it yet or not.
    pub(super) fn begin(&mut self, store: &Arc<dyn ObjectStore>, path: Path, late: &SchemaRef, mut scratch: Scratch) {
        let (group, wanted) = (Arc::clone(&self.group), Arc::clone(&self.wanted));
        let (store, late) = (Arc::clone(store), Arc::clone(late));
        self.task = Some(SpawnedTask::spawn(async move {
            let readings = wanted.readings.iter().flatten();
            let ranges: Vec<_> = readings.flat_map(|reading| reading.ranges.clone()).collect();
            let fetched = match ranges.is_empty() {
                true => Vec::new(),
                false => store.get_ranges(&path, &ranges).await?,
            };
            let before = scratch.memory();
            let gathered = wanted.gathered(&group, fetched, &late, &mut scratch);
            let grown = scratch.memory().saturating_sub(before);
            Ok(Done {
                gathered,
                scratch,
                grown,
            })
        }));
    }

    /// What has become of [`Self::begin`].
    pub(super) async fn done(&mut self) -> Result<Done> {
        let task = self.task.take();
        let task = task.ok_or_else(|| LoadError::internal("late columns were not fetched"))?;
        let done = task.join().await.map_err(|e| LoadError::internal(e.to_string()))?;
        Ok(done.map_err(DataFusionError::from)?)
    }
}

impl Wanted {
    fn gathered(
        &self,
        group: &Group,
        fetched: Vec<Bytes>,
        late: &SchemaRef,
        scratch: &mut Scratch,
    ) -> Option<Gathered> {
        let (mut arrays, mut pages) = (Vec::with_capacity(self.readings.len()), 0);
        let mut fetched = fetched.into_iter();
        let places = group.file.places()?.get(self.columns.clone())?;
        let fields = late.fields().get(self.columns.clone())?;
        for ((place, reading), field) in places.iter().zip(&self.readings).zip(fields) {
            let data_type = field.data_type();
            arrays.push(match (place, reading) {
                (Place::Stored(index, form), Some(reading)) => {
                    let chunk = group.file.chunk(group.number, *index, *form)?;
                    // Gone when the column is done, so that what comes next can be read into the same memory.
                    let parts: Vec<Bytes> = fetched.by_ref().take(reading.ranges.len()).collect();
                    let (array, unpacked) = chunk.gather(reading, &parts, &group.rows, data_type, scratch)?;
                    pages += unpacked;
                    array
                }
                _ => new_null_array(data_type, group.rows.len()),
            });
        }
        Some(Gathered { arrays, pages })
    }
}
