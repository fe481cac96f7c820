//! Tables that other engines wrote: files with old timestamps, checkpoints and column mappings that are refused by name.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use alluvium::Session;
use datafusion::parquet::data_type::{Int64Type, Int96, Int96Type};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

use crate::laws::run;
use crate::support::{Scratch, failure, rows};

/// Days from the Julian epoch to 1970.
const JULIAN_1970: u32 = 2_440_588;

/// Writes rows `(ts, v)` with timestamps as 96-bit integers: nanoseconds of a Julian day.
fn int96_file(path: &Path, rows: &[(u32, u64, i64)]) {
    let schema = Arc::new(parse_message_type("message m { required INT96 ts; required INT64 v; }").unwrap());
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let instants: Vec<Int96> = rows
        .iter()
        .map(|(days, nanos, _)| {
            let mut value = Int96::new();
            let (low, high) = (nanos & u64::from(u32::MAX), nanos >> 32);
            let word = |part: u64| u32::try_from(part).unwrap();
            value.set_data(word(low), word(high), JULIAN_1970 + days);
            value
        })
        .collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&instants, None, None).unwrap();
    column.close().unwrap();
    let values: Vec<i64> = rows.iter().map(|(_, _, v)| *v).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// The log entry that adds a file, without statistics.
fn add(log: &Path, version: u64, file: &Path) {
    let size = fs::metadata(file).unwrap().len();
    let name = file.file_name().unwrap().to_str().unwrap();
    let entry = format!(
        r#"{{"add":{{"path":"{name}","partitionValues":{{}},"size":{size},"modificationTime":0,"dataChange":true}}}}"#
    );
    fs::write(log.join(format!("{version:020}.json")), entry).unwrap();
}

/// FI-060: instants that another writer stored as INT96 are met by microseconds of UTC.
#[test]
fn timestamps_of_old_writers_are_matched() {
    run(async {
        for vectors in [true, false] {
            let scratch = Scratch::new();
            let session = scratch.session().await;
            let properties = format!("TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')");
            rows(
                &session,
                &format!("CREATE TABLE t (ts TIMESTAMP, v BIGINT) USING DELTA {properties}"),
            )
            .await;
            let table = scratch.path("w/t");
            let file = table.join("old.parquet");
            // 2024-01-01 00:00:00.000001 and 2024-01-02 12:00:00
            int96_file(&file, &[(19_723, 1_000, 1), (19_724, 43_200_000_000_000, 2)]);
            add(&table.join("_delta_log"), 1, &file);
            let session = scratch.session().await;
            let load = "UPSERT INTO t KEYS (ts) VALUES (TIMESTAMP '2024-01-01T00:00:00.000001Z', 10), \
                        (TIMESTAMP '2024-01-02T12:00:00Z', 2), (TIMESTAMP '2024-01-03T00:00:00Z', 3)";
            let outcome = rows(&session, load).await;
            // affected, inserted, updated, deleted, unchanged
            assert!(outcome[0].starts_with("2|1|1|0|1|"), "{outcome:?}");
            let stored = rows(&session, "SELECT v FROM t ORDER BY ts").await;
            assert_eq!(stored, ["10", "2", "3"]);
        }
    });
}

async fn plain(scratch: &Scratch, properties: &str) -> Session {
    let session = scratch.session().await;
    rows(
        &session,
        &format!("CREATE TABLE t (id BIGINT, v STRING) USING DELTA TBLPROPERTIES ({properties})"),
    )
    .await;
    rows(&session, "INSERT INTO t VALUES (1, 'a')").await;
    session
}

/// Replaces text in the first log entry.
fn edit(scratch: &Scratch, from: &str, to: &str) {
    let path = scratch.path("w/t/_delta_log/00000000000000000000.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// FI-142: a table that keeps its files in V2 checkpoints is refused, and untouched.
#[test]
fn v2_checkpoints_are_refused_by_name() {
    run(async {
        let scratch = Scratch::new();
        plain(&scratch, "'delta.enableDeletionVectors' = 'true'").await;
        edit(&scratch, r#""deletionVectors""#, r#""deletionVectors","v2Checkpoint""#);
        let before = scratch.files("w");
        let session = scratch.session().await;
        for load in [
            "UPSERT INTO t KEYS (id) VALUES (1, 'x'), (9, 'y')",
            "INSERT ONLY INTO t KEYS (id) VALUES (9, 'y')",
        ] {
            let (code, text) = failure(&session, load).await;
            assert_eq!(code, "0A000", "{text}");
            assert!(text.contains("v2Checkpoint"), "{text}");
        }
        assert_eq!(scratch.files("w"), before);
    });
}

/// FI-146: columns that are stored under other names or by number are refused.
#[test]
fn column_mapping_is_refused_by_name() {
    run(async {
        for mode in ["id", "name"] {
            let scratch = Scratch::new();
            plain(&scratch, "'delta.enableDeletionVectors' = 'true', 'kept' = 'yes'").await;
            edit(&scratch, r#""deletionVectors""#, r#""columnMapping","deletionVectors""#);
            let mapped = format!(r#""delta.columnMapping.mode":"{mode}","kept":"yes""#);
            edit(&scratch, r#""kept":"yes""#, &mapped);
            let noted = |name: &str, id: usize| {
                format!(
                    r#"\"name\":\"{name}\",\"metadata\":{{\"delta.columnMapping.id\":{id},\"delta.columnMapping.physicalName\":\"{name}\"}}"#
                )
            };
            let path = scratch.path("w/t/_delta_log/00000000000000000000.json");
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .replace(r#"\"metadata\":{}"#, "")
                .replace(r#"\"name\":\"id\""#, &noted("id", 1))
                .replace(r#"\"name\":\"v\""#, &noted("v", 2))
                .replace(",}", "}");
            fs::write(&path, text).unwrap();
            let before = scratch.files("w");
            let session = scratch.session().await;
            let (code, text) = failure(&session, "UPSERT INTO t KEYS (id) VALUES (1, 'new')").await;
            assert_eq!(code, "0A000", "{text}");
            assert!(text.contains("columnMapping"), "{text}");
            assert_eq!(scratch.files("w"), before);
        }
    });
}

/// FI-105: long texts, more than 32-bit offsets hold if they were put together, go through batch by batch.
#[test]
fn long_texts_are_never_put_together() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        rows(&session, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        let texts = |from: i64, to: i64, c: &str| {
            format!("SELECT value AS id, repeat('{c}', 20000000) AS v FROM generate_series({from}, {to})")
        };
        rows(&session, "SET datafusion.execution.batch_size = 4").await;
        for (from, to, c, counts) in [(1, 6, "a", "6|6|0"), (5, 8, "b", "4|2|2")] {
            let outcome = rows(&session, &format!("UPSERT INTO t KEYS (id) {}", texts(from, to, c))).await;
            assert!(outcome[0].starts_with(counts), "{outcome:?}");
        }
        let stored = rows(
            &session,
            "SELECT count(*), sum(length(v)), min(substr(v, 20000000)) FROM t",
        )
        .await;
        assert_eq!(stored, ["8|160000000|a"]);
    });
}

/// FI-101: one row costs one file, whatever the size of the table.
#[test]
fn one_row_costs_one_file() {
    run(async {
        for vectors in ["true", "false"] {
            let scratch = Scratch::new();
            let owner = scratch.session().await;
            let properties = format!("TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')");
            rows(
                &owner,
                &format!("CREATE TABLE t (id BIGINT, v STRING) USING DELTA {properties}"),
            )
            .await;
            for file in 0..20 {
                let rows_of_file = format!(
                    "INSERT INTO t SELECT value, 'a text of some length ' || value FROM generate_series({}, {})",
                    file * 5000 + 1,
                    (file + 1) * 5000
                );
                rows(&owner, &rows_of_file).await;
            }
            let builder = Session::builder().with_warehouse(scratch.text("w"));
            let session = builder
                .with_memory_limit(64 << 20)
                .with_threads(2)
                .build()
                .await
                .unwrap();
            let outcome = rows(&session, "UPSERT INTO t KEYS (id) VALUES (7777, 'new')").await;
            // files added, removed, skipped, vectors
            let files: Vec<&str> = outcome[0].split('|').skip(7).take(4).collect();
            let expected = if vectors == "true" {
                ["1", "0", "19", "1"]
            } else {
                ["2", "1", "19", "0"]
            };
            assert_eq!(files, expected, "{outcome:?}");
        }
    });
}
