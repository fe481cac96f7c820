//! The rows that travel from the writers to the commit: what they have done, never table data (but for `RETURNING`).

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::columns;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, StringArray, UInt8Array, UInt32Array,
    new_null_array,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type, UInt32Type};
use deltalake::kernel::{Add, AddCDCFile};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const KIND: &str = "__kind";
const PAYLOAD: &str = "__payload";
const ORIGIN: &str = "__origin";

const ADD: u8 = 1;
const CHANGE: u8 = 2;
const UPDATED: u8 = 3;
const DELETED: u8 = 4;
const REMOVE: u8 = 5;
const COUNTS: u8 = 6;
/// A row for `RETURNING`.
const ROW: u8 = 7;
const MASK: u8 = 8;

/// The columns before those of `RETURNING`.
const FIXED: usize = 4;

/// One thing done.
#[derive(Debug)]
pub(super) enum ActionRow {
    /// A data file was written.
    Add(Add),
    /// A change data file was written.
    Change(AddCDCFile),
    /// These rows of a file have new versions.
    Updated(u32, RoaringTreemap),
    /// These rows of a file are gone.
    Deleted(u32, RoaringTreemap),
    /// A file is to be removed from the table.
    Remove(u32),
    /// A file stays, with this deletion vector instead of the one it had.
    Mask(u32, Add),
    /// What a task has counted.
    Counts(TaskCounts),
}

/// What a task has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskCounts {
    pub(super) inserted: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
    pub(super) unchanged: u64,
    pub(super) skipped: u64,
    /// Rows copied from rewritten files.
    pub(super) copied: u64,
    /// Bytes of data files written.
    pub(super) bytes: u64,
    /// Milliseconds spent rewriting.
    pub(super) rewrite_ms: u64,
}

impl TaskCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.unchanged += other.unchanged;
        self.skipped += other.skipped;
        self.copied += other.copied;
        self.bytes += other.bytes;
        self.rewrite_ms += other.rewrite_ms;
    }
}

/// Who sends rows. A task that an engine runs twice shows by its two attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) statement: String,
    /// Stage and partition.
    pub(super) task: String,
    pub(super) attempt: String,
}

impl Origin {
    pub(super) fn new(statement: Uuid, stage: &str, partition: usize) -> Self {
        Self {
            statement: statement.to_string(),
            task: format!("{stage}-{partition}"),
            attempt: Uuid::new_v4().to_string(),
        }
    }

    fn to_text(&self) -> String {
        format!("{}/{}/{}", self.statement, self.task, self.attempt)
    }

    fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            [statement, task, attempt] => Ok(Self {
                statement: (*statement).to_owned(),
                task: (*task).to_owned(),
                attempt: (*attempt).to_owned(),
            }),
            _ => Err(LoadError::internal(format!("an action row comes from {text:?}"))),
        }
    }
}

/// The schema of action rows; `returning` are the types of the `RETURNING` columns.
pub(super) fn action_schema(returning: Option<&SchemaRef>) -> SchemaRef {
    let mut fields = vec![
        Field::new(KIND, DataType::UInt8, false),
        Field::new(columns::FILE, DataType::UInt32, true),
        Field::new(PAYLOAD, DataType::Binary, true),
        Field::new(ORIGIN, DataType::Utf8, false),
    ];
    for (index, field) in returning.iter().flat_map(|schema| schema.fields()).enumerate() {
        fields.push(Field::new(columns::returning(index), field.data_type().clone(), true));
    }
    Arc::new(Schema::new(fields))
}

/// `rows` as a batch.
pub(super) fn action_batch(schema: &SchemaRef, origin: &Origin, rows: &[ActionRow]) -> Result<RecordBatch> {
    let mut kinds = Vec::with_capacity(rows.len());
    let mut files = Vec::with_capacity(rows.len());
    let mut payloads = Vec::with_capacity(rows.len());
    for row in rows {
        let (kind, file, payload) = encode(row)?;
        kinds.push(kind);
        files.push(file);
        payloads.push(payload);
    }
    let payloads: BinaryArray = payloads.iter().map(Option::as_deref).collect();
    let mut fixed: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from(kinds)),
        Arc::new(UInt32Array::from(files)),
        Arc::new(payloads),
        Arc::new(StringArray::from(vec![origin.to_text(); rows.len()])),
    ];
    let returning = schema.fields().iter().skip(FIXED);
    fixed.extend(returning.map(|field| new_null_array(field.data_type(), rows.len())));
    Ok(RecordBatch::try_new(Arc::clone(schema), fixed)?)
}

fn encode(row: &ActionRow) -> Result<(u8, Option<u32>, Option<Vec<u8>>)> {
    Ok(match row {
        ActionRow::Add(add) => (ADD, None, Some(json(add)?)),
        ActionRow::Change(change) => (CHANGE, None, Some(json(change)?)),
        ActionRow::Updated(file, positions) => (UPDATED, Some(*file), Some(bitmap(positions)?)),
        ActionRow::Deleted(file, positions) => (DELETED, Some(*file), Some(bitmap(positions)?)),
        ActionRow::Remove(file) => (REMOVE, Some(*file), None),
        ActionRow::Mask(file, add) => (MASK, Some(*file), Some(json(add)?)),
        ActionRow::Counts(counts) => (COUNTS, None, Some(json(counts)?)),
    })
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(unreadable)
}

fn bitmap(positions: &RoaringTreemap) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(positions.serialized_size());
    positions.serialize_into(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn unreadable(e: impl std::fmt::Display) -> LoadError {
    LoadError::internal(format!("an action row cannot be read or written: {e}"))
}

/// `returning` columns as rows of `schema`.
pub(super) fn returning_batch(
    schema: &SchemaRef,
    origin: &Origin,
    returning: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let mut all: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from(vec![ROW; rows])),
        new_null_array(&DataType::UInt32, rows),
        new_null_array(&DataType::Binary, rows),
        Arc::new(StringArray::from(vec![origin.to_text(); rows])),
    ];
    all.extend(returning);
    Ok(RecordBatch::try_new(Arc::clone(schema), all)?)
}

/// What a batch of action rows holds.
pub(super) struct Received {
    pub(super) actions: Vec<(Origin, ActionRow)>,
    /// The rows for `RETURNING`, their columns only.
    pub(super) returning: Option<RecordBatch>,
}

/// Takes a batch of action rows apart.
pub(super) fn receive(batch: &RecordBatch) -> Result<Received> {
    let kinds = batch.column(0).as_primitive::<UInt8Type>();
    let files = batch.column(1).as_primitive::<UInt32Type>();
    let payloads = batch.column(2).as_binary::<i32>();
    let origins = batch.column(3).as_string::<i32>();
    let mut actions = Vec::new();
    for (row, kind) in kinds.values().iter().enumerate().filter(|(_, kind)| **kind != ROW) {
        let file = || {
            files
                .is_valid(row)
                .then(|| files.value(row))
                .ok_or_else(|| unreadable("it names no file"))
        };
        let payload = payloads.value(row);
        let action = match *kind {
            ADD => ActionRow::Add(serde_json::from_slice(payload).map_err(unreadable)?),
            CHANGE => ActionRow::Change(serde_json::from_slice(payload).map_err(unreadable)?),
            UPDATED => ActionRow::Updated(file()?, RoaringTreemap::deserialize_from(payload).map_err(unreadable)?),
            DELETED => ActionRow::Deleted(file()?, RoaringTreemap::deserialize_from(payload).map_err(unreadable)?),
            REMOVE => ActionRow::Remove(file()?),
            MASK => ActionRow::Mask(file()?, serde_json::from_slice(payload).map_err(unreadable)?),
            COUNTS => ActionRow::Counts(serde_json::from_slice(payload).map_err(unreadable)?),
            other => return Err(unreadable(format!("kind {other}"))),
        };
        actions.push((Origin::parse(origins.value(row))?, action));
    }
    Ok(Received {
        actions,
        returning: returning_rows(batch, kinds)?,
    })
}

/// The `RETURNING` rows of a batch.
fn returning_rows(batch: &RecordBatch, kinds: &UInt8Array) -> Result<Option<RecordBatch>> {
    if batch.num_columns() == FIXED || !kinds.values().contains(&ROW) {
        return Ok(None);
    }
    let chosen: Vec<usize> = (FIXED..batch.num_columns()).collect();
    let mask: BooleanArray = kinds.values().iter().map(|kind| Some(*kind == ROW)).collect();
    Ok(Some(filter_record_batch(&batch.project(&chosen)?, &mask)?))
}

/// The rows of a batch that are not positions, for passing on, and the positions.
pub(super) fn split_positions(batch: &RecordBatch) -> Result<(RecordBatch, Vec<ActionRow>)> {
    let kinds = batch.column(0).as_primitive::<UInt8Type>();
    let is_position = |kind: u8| kind == UPDATED || kind == DELETED;
    if !kinds.values().iter().any(|kind| is_position(*kind)) {
        return Ok((batch.clone(), Vec::new()));
    }
    let marks: BooleanArray = kinds.values().iter().map(|kind| Some(is_position(*kind))).collect();
    let others: BooleanArray = kinds.values().iter().map(|kind| Some(!is_position(*kind))).collect();
    let positions = receive(&filter_record_batch(batch, &marks)?)?;
    Ok((
        filter_record_batch(batch, &others)?,
        positions.actions.into_iter().map(|(_, action)| action).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_way() {
        let schema = action_schema(None);
        let origin = Origin::new(Uuid::nil(), "write", 3);
        let positions = RoaringTreemap::from_iter([1_u64, 7, 1 << 40]);
        let counts = TaskCounts {
            inserted: 5,
            ..TaskCounts::default()
        };
        let rows = [
            ActionRow::Updated(9, positions.clone()),
            ActionRow::Remove(9),
            ActionRow::Counts(counts),
        ];
        let batch = action_batch(&schema, &origin, &rows).unwrap();

        let (others, marks) = split_positions(&batch).unwrap();
        assert_eq!(others.num_rows(), 2);
        assert!(matches!(&marks[..], [ActionRow::Updated(9, read)] if *read == positions));
        let received = receive(&others).unwrap();
        assert!(received.returning.is_none());
        assert_eq!(received.actions[0].0, origin);
        assert!(matches!(received.actions[1].1, ActionRow::Counts(read) if read == counts));
    }

    #[test]
    fn returned_rows_travel_beside_actions() {
        let wanted: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, false)]));
        let schema = action_schema(Some(&wanted));
        let origin = Origin::new(Uuid::nil(), "write", 0);
        let ids: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let batch = returning_batch(&schema, &origin, vec![Arc::clone(&ids)], 2).unwrap();
        let received = receive(&batch).unwrap();
        assert!(received.actions.is_empty());
        assert_eq!(received.returning.unwrap().column(0), &ids);
    }
}
