//! Timestamps as other writers store them, those included that nanoseconds do not reach: in sources and in files of a table.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use alluvium::Session;
use datafusion::parquet::data_type::{Int64Type, Int96, Int96Type};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

use crate::laws::{ResultRow, run};
use crate::support::{Scratch, rows};

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The day number of 1970-01-01 in INT96 timestamps.
const JULIAN_EPOCH: i64 = 2_440_588;

/// Microseconds, among them times that nanoseconds in 64 bits do not reach.
const TIMES: [(i64, &str); 4] = [
    (1_704_103_200_123_456, "2024-01-01T10:00:00.123456Z"),
    (-2_208_988_800_000_000, "1900-01-01T00:00:00Z"),
    (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
    (253_370_764_800_000_000, "9999-01-01T00:00:00Z"),
];

fn int96(micros: i64) -> Int96 {
    let day = u32::try_from(micros.div_euclid(MICROS_PER_DAY) + JULIAN_EPOCH).unwrap();
    let nanos = u64::try_from(micros.rem_euclid(MICROS_PER_DAY) * 1000).unwrap();
    let [low, high] = [nanos & u64::from(u32::MAX), nanos >> 32].map(|half| u32::try_from(half).unwrap());
    let mut value = Int96::new();
    value.set_data(low, high, day);
    value
}

/// Writes rows `(ts, n)` with `n` counting from `first`, in a physical type of timestamps.
fn write(path: &Path, physical: &str, first: i64) {
    let schema = format!("message m {{ optional {physical}; optional int64 n; }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let properties = Arc::new(WriterProperties::new());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let defined = vec![1i16; TIMES.len()];
    let mut column = group.next_column().unwrap().unwrap();
    if physical.starts_with("int96") {
        let values: Vec<Int96> = TIMES.iter().map(|(micros, _)| int96(*micros)).collect();
        column
            .typed::<Int96Type>()
            .write_batch(&values, Some(&defined), None)
            .unwrap();
    } else {
        let values: Vec<i64> = TIMES.iter().map(|(micros, _)| *micros).collect();
        column
            .typed::<Int64Type>()
            .write_batch(&values, Some(&defined), None)
            .unwrap();
    }
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let numbers: Vec<i64> = (first..).take(TIMES.len()).collect();
    column
        .typed::<Int64Type>()
        .write_batch(&numbers, Some(&defined), None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

const PHYSICAL: [&str; 3] = [
    "int96 ts",
    "int64 ts (TIMESTAMP(MICROS,true))",
    "int64 ts (TIMESTAMP(MICROS,false))",
];

/// Appends a commit that adds `file` to table `t`.
fn add(scratch: &Scratch, version: u32, file: &str) {
    let size = std::fs::metadata(scratch.path(&format!("w/t/{file}"))).unwrap().len();
    let action = format!(
        r#"{{"add":{{"path":"{file}","partitionValues":{{}},"size":{size},"modificationTime":0,"dataChange":true}}}}"#
    );
    std::fs::write(scratch.path(&format!("w/t/_delta_log/{version:020}.json")), action).unwrap();
}

async fn stored(session: &Session) -> Vec<String> {
    rows(session, "SELECT ts, n FROM t ORDER BY n").await
}

fn expected(first: i64) -> Vec<String> {
    let numbered = TIMES.iter().zip(first..);
    numbered.map(|((_, text), n)| format!("{text}|{n}")).collect()
}

/// FI-060: the same instants match, whatever type the file of the table holds them in.
#[test]
fn times_of_foreign_files_of_a_table_match() {
    run(async {
        for physical in PHYSICAL {
            let scratch = Scratch::new();
            let session = scratch.session().await;
            rows(&session, "CREATE TABLE t (ts TIMESTAMP, n BIGINT) USING DELTA").await;
            write(&scratch.path("w/t/foreign.parquet"), physical, 1);
            add(&scratch, 1, "foreign.parquet");
            assert_eq!(stored(&session).await, expected(1), "{physical}");
            let values: Vec<String> = TIMES
                .iter()
                .zip(11..)
                .map(|((_, text), n)| format!("(TIMESTAMP '{text}', {n})"))
                .collect();
            let load = format!("UPSERT INTO t KEYS (ts) VALUES {}", values.join(", "));
            let row = ResultRow::of(&session.execute(&load).await.unwrap());
            assert_eq!((row.counts.updated, row.counts.inserted), (4, 0), "{physical}");
            assert_eq!(stored(&session).await, expected(11), "{physical}");
        }
    });
}

/// FI-060: and whatever type a source file holds them in.
#[test]
fn times_of_foreign_source_files_match() {
    run(async {
        for physical in PHYSICAL {
            let scratch = Scratch::new();
            let session = scratch.session().await;
            let source = scratch.path("source.parquet");
            write(&source, physical, 1);
            let file = source.to_str().unwrap();
            rows(&session, "CREATE TABLE t (ts TIMESTAMP, n BIGINT) USING DELTA").await;
            let load = format!("UPSERT INTO t USING '{file}' KEYS (ts)");
            let row = ResultRow::of(&session.execute(&load).await.unwrap());
            assert_eq!(row.counts.inserted, 4, "{physical}");
            assert_eq!(stored(&session).await, expected(1), "{physical}");
            write(&source, physical, 21);
            let row = ResultRow::of(&session.execute(&load).await.unwrap());
            assert_eq!((row.counts.updated, row.counts.inserted), (4, 0), "{physical}");
            assert_eq!(stored(&session).await, expected(21), "{physical}");
        }
    });
}
