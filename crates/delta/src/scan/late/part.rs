//! Some late columns of a row group: what is fetched for them, and their values.

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
    /// Which of the late columns.
    columns: Range<usize>,
    /// What is read for each, if it is stored.
    readings: Vec<Option<Reading>>,
    bytes: u64,
    fetch: Option<SpawnedTask<object_store::Result<Vec<Bytes>>>>,
}

/// The values of a part's columns.
pub(super) struct Gathered {
    pub(super) arrays: Vec<ArrayRef>,
    pub(super) pages: usize,
}

impl Part {
    /// The late columns that `group` has not yet, taken apart. `None`: they cannot be gathered.
    pub(super) fn of(group: &Arc<Group>) -> Option<Vec<Self>> {
        let mut parts: Vec<Self> = Vec::new();
        for (column, place) in group.file.places()?.iter().enumerate().skip(group.done) {
            let reading = match place {
                Place::Missing => None,
                Place::Stored(index, form) => {
                    let chunk = group.file.chunk(group.number, *index, *form)?;
                    Some(chunk.reading(&group.rows)?)
                }
            };
            let bytes = reading.as_ref().map_or(0, Reading::bytes);
            match parts.last_mut() {
                Some(part) if part.bytes.saturating_add(bytes) <= TOGETHER => {
                    part.columns.end += 1;
                    part.readings.push(reading);
                    part.bytes += bytes;
                }
                _ => parts.push(Self {
                    group: Arc::clone(group),
                    columns: column..column + 1,
                    readings: std::iter::once(reading).collect(),
                    bytes,
                    fetch: None,
                }),
            }
        }
        Some(parts)
    }

    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn is_begun(&self) -> bool {
        self.fetch.is_some()
    }

    /// Begins to fetch what is read, whether somebody waits for it yet or not.
    pub(super) fn begin(&mut self, store: &Arc<dyn ObjectStore>, path: Path) {
        let ranges: Vec<_> = self
            .readings
            .iter()
            .flatten()
            .flat_map(|reading| reading.ranges.clone())
            .collect();
        let store = Arc::clone(store);
        self.fetch = Some(SpawnedTask::spawn(async move {
            match ranges.is_empty() {
                true => Ok(Vec::new()),
                false => store.get_ranges(&path, &ranges).await,
            }
        }));
    }

    /// What [`Self::begin`] has fetched.
    pub(super) async fn fetched(&mut self) -> Result<Vec<Bytes>> {
        let fetch = self.fetch.take();
        let fetch = fetch.ok_or_else(|| LoadError::internal("late columns were not fetched"))?;
        let fetched = fetch.join().await.map_err(|e| LoadError::internal(e.to_string()))?;
        Ok(fetched.map_err(DataFusionError::from)?)
    }

    /// The values of the columns. `None`: some are stored in a way that is not known here, or are damaged.
    pub(super) fn gathered(&self, fetched: Vec<Bytes>, late: &SchemaRef, scratch: &mut Scratch) -> Option<Gathered> {
        let group = &self.group;
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
