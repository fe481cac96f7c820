//! What can be told about a table without reading its rows: its commits, its files, its properties. All of it as Arrow
//! batches, for `DESCRIBE` and for table functions.

use std::sync::{Arc, LazyLock};

use alluvium_core::secrets::{is_secret_key, redact};
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
    TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde_json::{Map, Value};

use crate::table::TableSnapshot;

/// How many commit files are read at a time.
const READ_AHEAD: usize = 8;

const UTC: &str = "UTC";

static HISTORY: LazyLock<SchemaRef> = LazyLock::new(|| {
    schema([
        ("version", DataType::Int64, false),
        ("timestamp", timestamp_type(), true),
        ("operation", DataType::Utf8, true),
        ("operation_parameters", DataType::Utf8, true),
        ("operation_metrics", DataType::Utf8, true),
        ("user_metadata", DataType::Utf8, true),
        ("engine_info", DataType::Utf8, true),
    ])
});

static FILES: LazyLock<SchemaRef> = LazyLock::new(|| {
    schema([
        ("path", DataType::Utf8, false),
        ("partition_values", DataType::Utf8, false),
        ("size", DataType::UInt64, false),
        ("num_records", DataType::UInt64, true),
        ("deletion_vector", DataType::Boolean, false),
    ])
});

static DETAIL: LazyLock<SchemaRef> = LazyLock::new(|| {
    let names = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    schema([
        ("format", DataType::Utf8, false),
        ("id", DataType::Utf8, false),
        ("name", DataType::Utf8, true),
        ("description", DataType::Utf8, true),
        ("location", DataType::Utf8, false),
        ("created_at", timestamp_type(), true),
        ("version", DataType::Int64, false),
        ("partition_columns", names.clone(), false),
        ("num_files", DataType::UInt64, false),
        ("size_in_bytes", DataType::UInt64, false),
        ("properties", DataType::Utf8, false),
        ("min_reader_version", DataType::Int64, false),
        ("min_writer_version", DataType::Int64, false),
        ("table_features", names, false),
    ])
});

/// The columns of [`history`].
pub fn history_schema() -> SchemaRef {
    Arc::clone(&HISTORY)
}

/// The columns of [`files`].
pub fn files_schema() -> SchemaRef {
    Arc::clone(&FILES)
}

/// The columns of [`detail`].
pub fn detail_schema() -> SchemaRef {
    Arc::clone(&DETAIL)
}

/// The commits up to the snapshot's version that the log still holds, newest first, at most `limit` of them.
/// Parameters and metrics are JSON objects.
///
/// # Errors
///
/// 58030 when the log cannot be read.
pub async fn history(snapshot: &TableSnapshot, limit: Option<usize>) -> Result<RecordBatch> {
    let store = snapshot.log_store().object_store(None);
    let failed = |e: object_store::Error| {
        LoadError::new(
            SqlState::Storage,
            format!("reading the history of table \"{}\" failed", snapshot.name()),
        )
        .detail(redact(&e.to_string()))
    };
    let mut commits: Vec<(i64, ObjectMeta)> = store
        .list(Some(&Path::from("_delta_log")))
        .try_filter_map(|object| async { Ok(commit_version(&object.location).map(|version| (version, object))) })
        .try_collect()
        .await
        .map_err(failed)?;
    commits.retain(|(version, _)| u64::try_from(*version).is_ok_and(|version| version <= snapshot.version()));
    commits.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    commits.truncate(limit.unwrap_or(usize::MAX));
    let read = commits
        .into_iter()
        .map(|(version, object)| read_commit(store.as_ref(), version, object));
    let entries: Vec<Entry> = stream::iter(read)
        .buffered(READ_AHEAD)
        .try_collect()
        .await
        .map_err(failed)?;
    let text = |part: fn(&Entry) -> Option<String>| -> ArrayRef {
        Arc::new(entries.iter().map(part).collect::<StringArray>())
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(entries.iter().map(|e| e.version).collect::<Int64Array>()),
        timestamps(entries.iter().map(Entry::timestamp).collect()),
        text(|e| e.text("operation")),
        text(|e| e.json("operationParameters")),
        text(|e| e.json("operationMetrics")),
        text(|e| e.text("userMetadata")),
        text(|e| e.text("engineInfo")),
    ];
    Ok(RecordBatch::try_new(history_schema(), columns)?)
}

/// `00000000000000000012.json` is version 12.
fn commit_version(path: &Path) -> Option<i64> {
    let digits = path.filename()?.strip_suffix(".json")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// One commit as the log tells it.
struct Entry {
    version: i64,
    /// When the file was written, in milliseconds.
    written: i64,
    info: Map<String, Value>,
}

async fn read_commit(store: &dyn ObjectStore, version: i64, object: ObjectMeta) -> object_store::Result<Entry> {
    let bytes = store.get(&object.location).await?.bytes().await?;
    let info = bytes
        .split(|byte| *byte == b'\n')
        .find_map(|line| match serde_json::from_slice(line).ok()? {
            Value::Object(mut action) => match action.remove("commitInfo")? {
                Value::Object(info) => Some(info),
                _ => None,
            },
            _ => None,
        });
    Ok(Entry {
        version,
        written: object.last_modified.timestamp_millis(),
        info: info.unwrap_or_default(),
    })
}

impl Entry {
    /// Microseconds.
    fn timestamp(&self) -> Option<i64> {
        let said = ["inCommitTimestamp", "timestamp"]
            .iter()
            .find_map(|key| self.info.get(*key)?.as_i64());
        said.unwrap_or(self.written).checked_mul(1000)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.info.get(key)?.as_str().map(str::to_owned)
    }

    fn json(&self, key: &str) -> Option<String> {
        match self.info.get(key)? {
            Value::Null => None,
            value => Some(redacted(value).to_string()),
        }
    }
}

/// Another engine may have written properties with credentials into its operation parameters.
fn redacted(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    let shown = map.iter().map(|(key, value)| {
        let value = if is_secret_key(key) {
            Value::from("***")
        } else {
            value.clone()
        };
        (key.clone(), value)
    });
    Value::Object(shown.collect())
}

/// The data files of the snapshot. Partition values are a JSON object of the log's own spelling.
///
/// # Errors
///
/// 58030 when the log cannot be read.
pub async fn files(snapshot: &TableSnapshot) -> Result<RecordBatch> {
    let files = snapshot.files().await?;
    let partition_values = files.iter().map(|file| {
        let values = file
            .raw_partition_values
            .iter()
            .map(|(k, v)| (k.clone(), v.clone().map_or(Value::Null, Value::from)));
        Some(Value::Object(values.collect()).to_string())
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(
            files.iter().map(|file| file.path.as_str()),
        )),
        Arc::new(partition_values.collect::<StringArray>()),
        Arc::new(files.iter().map(|file| file.size).collect::<UInt64Array>()),
        Arc::new(files.iter().map(|file| file.num_records).collect::<UInt64Array>()),
        Arc::new(BooleanArray::from_iter(
            files.iter().map(|file| Some(file.deletion_vector.is_some())),
        )),
    ];
    Ok(RecordBatch::try_new(files_schema(), columns)?)
}

/// One row about the table. The location is shown without credentials.
///
/// # Errors
///
/// 58030 when the log cannot be read.
pub async fn detail(snapshot: &TableSnapshot) -> Result<RecordBatch> {
    let files = snapshot.files().await?;
    let (metadata, protocol) = (snapshot.eager().metadata(), snapshot.eager().protocol());
    let properties = snapshot
        .properties()
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let properties = redacted(&Value::Object(properties.collect())).to_string();
    let reader = protocol
        .reader_features()
        .into_iter()
        .flatten()
        .map(|f| f.as_ref().to_owned());
    let writer = protocol
        .writer_features()
        .into_iter()
        .flatten()
        .map(|f| f.as_ref().to_owned());
    let mut features: Vec<String> = reader.chain(writer).collect();
    features.sort();
    features.dedup();
    let text = |value: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let number = |value: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![value])) };
    let columns: Vec<ArrayRef> = vec![
        text(Some("delta")),
        text(Some(metadata.id())),
        text(metadata.name()),
        text(metadata.description()),
        text(Some(&redact(snapshot.location().as_str()))),
        timestamps(vec![metadata.created_time().and_then(|ms| ms.checked_mul(1000))]),
        Arc::new(Int64Array::from(vec![
            i64::try_from(snapshot.version()).unwrap_or(i64::MAX),
        ])),
        list(snapshot.partition_columns()),
        number(u64::try_from(files.len()).unwrap_or(u64::MAX)),
        number(files.iter().map(|file| file.size).sum()),
        text(Some(&properties)),
        Arc::new(Int64Array::from(vec![i64::from(protocol.min_reader_version())])),
        Arc::new(Int64Array::from(vec![i64::from(protocol.min_writer_version())])),
        list(&features),
    ];
    Ok(RecordBatch::try_new(detail_schema(), columns)?)
}

fn schema<const N: usize>(columns: [(&str, DataType, bool); N]) -> SchemaRef {
    Arc::new(Schema::new(
        columns
            .map(|(name, data_type, nullable)| Field::new(name, data_type, nullable))
            .to_vec(),
    ))
}

fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

fn timestamps(micros: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(micros).with_timezone(UTC))
}

fn list(names: &[String]) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for name in names {
        builder.values().append_value(name);
    }
    builder.append(true);
    Arc::new(builder.finish())
}
