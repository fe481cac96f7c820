//! The least work that a load can be: reading keys, and writing files again. No floor makes a commit or checks anything,
//! and each knows beforehand which files it has to do with.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::{DataFrame, ParquetReadOptions, SessionConfig, SessionContext};
use deltalake::parquet::arrow::ArrowWriter;
use deltalake::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use deltalake::parquet::schema::types::ColumnPath;
use futures::StreamExt;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::Result;
use crate::reads::share_store;
use crate::source::{WINDOW_FROM, WINDOW_TO};
use crate::tables::properties;
use crate::workload::{Base, Load, Workload};

/// Reads the key columns of the files that may hold a key of the source, and the sources.
pub(crate) async fn read_keys(workload: &Workload, table: &Path, sources: &[PathBuf]) -> Result<Duration> {
    let context = context()?;
    let files = match workload.load {
        Load::Window => partly_in_window(table)?,
        _ => with_keys(table, &ids(&context, sources, "true").await?)?,
    };
    let columns: &[&str] = match (workload.load, workload.base) {
        (Load::Window, _) => &["day"],
        (_, Base::History) => &["id", "row_hash", "is_current"],
        _ => &["id"],
    };
    let started = Instant::now();
    if let Some(stored) = frame(&context, &files).await? {
        read(stored.select_columns(columns)?, None).await?;
    }
    if let Some(source) = frame(&context, sources).await? {
        read(source, None).await?;
    }
    Ok(started.elapsed())
}

/// Decodes and encodes the files with changed rows, and the rows of the sources that come into the table.
pub(crate) async fn rewrite(workload: &Workload, table: &Path, sources: &[PathBuf]) -> Result<Duration> {
    let context = context()?;
    let coming_in = coming_in(workload.load);
    let changed = format!("({coming_in}) AND id % 2 = 0");
    let files = match workload.load {
        Load::Window => partly_in_window(table)?,
        _ => with_keys(table, &ids(&context, sources, &changed).await?)?,
    };
    let into = table.join("rewritten");
    fs::create_dir(&into)?;
    let started = Instant::now();
    if let Some(stored) = frame(&context, &files).await? {
        read(stored, Some(into.join("stored"))).await?;
    }
    if let Some(source) = frame(&context, sources).await? {
        let condition = source.parse_sql_expr(coming_in)?;
        read(source.filter(condition)?, Some(into.join("source"))).await?;
    }
    Ok(started.elapsed())
}

/// Without dictionaries of values that hardly repeat, which would be made and thrown away.
fn cheapest() -> Result<WriterProperties> {
    let single = [
        "id",
        "sk",
        "updated_at",
        "amount",
        "score",
        "note",
        "row_hash",
        "valid_from",
        "valid_to",
    ];
    let without = |builder: WriterPropertiesBuilder, name: &str| {
        builder.set_column_dictionary_enabled(ColumnPath::from(name), false)
    };
    Ok(single.into_iter().fold(properties()?.into_builder(), without).build())
}

/// Which rows of the source end in the table.
fn coming_in(load: Load) -> &'static str {
    match load {
        Load::Upsert | Load::Window | Load::HistoryOfChanges => "true",
        Load::InsertOnly => "id % 2 = 1",
        Load::Newest => "ver = 3",
        Load::HistoryOfExtract => "id % 2 = 1 OR ver > CASE WHEN id % 10 = 0 THEN 1 ELSE 0 END",
    }
}

fn context() -> Result<SessionContext> {
    let mut config = SessionConfig::new();
    // Writers take strings as they come; views of them would only cost more.
    config.options_mut().execution.parquet.schema_force_view_types = false;
    let context = SessionContext::new_with_config(config);
    share_store(&context)?;
    Ok(context)
}

/// The rows of these files, if there are any.
async fn frame(context: &SessionContext, files: &[PathBuf]) -> Result<Option<DataFrame>> {
    if files.is_empty() {
        return Ok(None);
    }
    let paths: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    Ok(Some(context.read_parquet(paths, ParquetReadOptions::default()).await?))
}

/// Reads rows, all partitions at once, and writes each partition to a file if there is a name for it.
async fn read(frame: DataFrame, into: Option<PathBuf>) -> Result {
    let mut tasks = JoinSet::new();
    for (number, mut batches) in frame.execute_stream_partitioned().await?.into_iter().enumerate() {
        let path = into
            .as_ref()
            .map(|path| path.with_extension(format!("{number}.parquet")));
        tasks.spawn(async move {
            let schema = batches.schema();
            let mut writer = match path {
                Some(path) => Some(ArrowWriter::try_new(File::create(path)?, schema, Some(cheapest()?))?),
                None => None,
            };
            while let Some(batch) = batches.next().await {
                let batch = batch?;
                if let Some(writer) = &mut writer {
                    writer.write(&batch)?;
                }
            }
            if let Some(writer) = writer {
                writer.close()?;
            }
            Result::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// The ids of those rows of the sources for which `condition` holds, in order.
async fn ids(context: &SessionContext, sources: &[PathBuf], condition: &str) -> Result<Vec<i64>> {
    let mut ids: Vec<i64> = Vec::new();
    if let Some(source) = frame(context, sources).await? {
        let condition = source.parse_sql_expr(condition)?;
        let found = source.filter(condition)?.select_columns(&["id"])?.collect().await?;
        for batch in &found {
            ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// The files between whose lowest and highest id one of `ids` lies.
fn with_keys(table: &Path, ids: &[i64]) -> Result<Vec<PathBuf>> {
    files(table, |stats| {
        let end = |pointer: &str| stats.pointer(pointer).and_then(Value::as_i64);
        let (Some(low), Some(high)) = (end("/minValues/id"), end("/maxValues/id")) else {
            return false;
        };
        let next = ids.get(ids.partition_point(|id| *id < low));
        next.is_some_and(|id| *id <= high)
    })
}

/// The files of which the window takes some days and leaves others.
fn partly_in_window(table: &Path) -> Result<Vec<PathBuf>> {
    files(table, |stats| {
        let end = |pointer: &str| stats.pointer(pointer).and_then(Value::as_str);
        let inside = |day: &str| (WINDOW_FROM..WINDOW_TO).contains(&day);
        let (low, high) = (end("/minValues/day"), end("/maxValues/day"));
        low.is_some_and(inside) != high.is_some_and(inside)
    })
}

/// The files of a table that was just made for which its statistics satisfy a condition.
fn files(table: &Path, wanted: impl Fn(&Value) -> bool) -> Result<Vec<PathBuf>> {
    let log = fs::read_to_string(table.join("_delta_log").join(format!("{:020}.json", 0)))?;
    let mut files = Vec::new();
    for line in log.lines() {
        let action: Value = serde_json::from_str(line)?;
        let text = |pointer: &str| action.pointer(pointer).and_then(Value::as_str);
        if let (Some(path), Some(stats)) = (text("/add/path"), text("/add/stats"))
            && wanted(&serde_json::from_str(stats)?)
        {
            files.push(table.join(path));
        }
    }
    Ok(files)
}
