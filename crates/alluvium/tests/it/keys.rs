//! The table property `alluvium.keys`: what it does to files, and to how much of them is read.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fs::File;

use alluvium::Session;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::laws::run;
use crate::support::{Scratch, rows};

/// A session with more partitions than a small load needs.
async fn session(scratch: &Scratch) -> Session {
    let builder = Session::builder().with_warehouse(scratch.text("w")).with_threads(4);
    builder.with_batch_size(100).build().await.unwrap()
}

/// What a data file holds: its columns with Bloom filters, and its rows.
pub struct DataFile {
    name: String,
    pub filtered: Vec<String>,
    rows: Vec<RecordBatch>,
}

impl DataFile {
    /// Whether a table lists it, by paths below its directory.
    pub fn is_one_of(&self, paths: &[String]) -> bool {
        paths.iter().any(|path| self.name.ends_with(path.as_str()))
    }

    /// The numbers of a column.
    pub fn column(&self, name: &str) -> Vec<Option<i64>> {
        let columns = self.rows.iter().map(|batch| batch.column_by_name(name).unwrap());
        columns
            .flat_map(|column| column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>())
            .collect()
    }
}

/// Every data file of table `name`.
pub fn data_files(scratch: &Scratch, name: &str) -> Vec<DataFile> {
    let files = scratch.files(&format!("w/{name}"));
    let parquet = files.keys().filter(|path| path.ends_with(".parquet"));
    parquet
        .map(|path| {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
            let columns = reader.metadata().row_group(0).columns().iter();
            DataFile {
                name: path.clone(),
                filtered: columns
                    .filter(|column| column.bloom_filter_offset().is_some())
                    .map(|column| column.column_path().string())
                    .collect(),
                rows: reader.build().unwrap().map(Result::unwrap).collect(),
            }
        })
        .collect()
}

/// `id` from 0 to 2999 and some without, mixed up, in parts.
pub const MIXED: &str = "SELECT CASE WHEN value % 100 = 7 THEN NULL ELSE value * 7919 % 3000 END AS id, value % 3 AS part, \
     'v' || value AS v, value * 1.5 AS f FROM generate_series(0, 2999)";

#[test]
fn rows_of_a_file_are_in_the_order_of_the_key() {
    run(async {
        for (layout, keys, filtered) in [
            ("", "id", vec!["id"]),
            ("PARTITIONED BY (part)", "id", vec!["id"]),
            ("PARTITIONED BY (part)", "part, id", vec!["id"]),
            ("", "f, id, v", vec!["id", "v"]),
            ("PARTITIONED BY (part)", "part", vec![]),
            ("", "", vec![]),
        ] {
            let scratch = Scratch::new();
            let session = session(&scratch).await;
            let properties = format!("{layout} TBLPROPERTIES ('alluvium.keys' = '{keys}')");
            rows(
                &session,
                &format!("CREATE TABLE made USING DELTA {properties} AS {MIXED}"),
            )
            .await;
            let columns = "(id BIGINT, part BIGINT, v STRING, f DOUBLE)";
            rows(
                &session,
                &format!("CREATE TABLE filled {columns} USING DELTA {properties}"),
            )
            .await;
            rows(&session, &format!("INSERT INTO filled {MIXED}")).await;
            let load = format!("INSERT ONLY INTO loaded KEYS (v) CREATE IF NOT EXISTS {properties} {MIXED}");
            rows(&session, &load).await;
            for table in ["made", "filled", "loaded"] {
                let files = data_files(&scratch, table);
                assert_eq!(
                    files.len(),
                    if layout.is_empty() { 1 } else { 3 },
                    "{table} {properties}"
                );
                for file in files {
                    assert_eq!(file.filtered, filtered, "{table} {properties}");
                    let first = if keys.starts_with('f') { "part" } else { "id" };
                    let found = file.column(first);
                    assert_eq!(
                        found.is_sorted(),
                        first == "id" && !filtered.is_empty(),
                        "{table} {properties}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_table_that_a_load_creates_remembers_the_keys_it_is_given() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        for (table, clauses, keys) in [
            ("a", "KEYS (id) CREATE IF NOT EXISTS", None),
            (
                "b",
                "CREATE IF NOT EXISTS TBLPROPERTIES ('alluvium.keys' = 'id, \"Part\"') KEYS (id)",
                Some(r#""alluvium.keys":"id, \"Part\"""#),
            ),
        ] {
            let source = "SELECT 1 AS id, 2 AS \"Part\"";
            rows(&session, &format!("MERGE OVERWRITE INTO {table} {clauses} {source}")).await;
            let log = std::fs::read_to_string(scratch.path(&format!("w/{table}/_delta_log/00000000000000000000.json")));
            let log = log.unwrap();
            match keys {
                Some(keys) => assert!(log.contains(keys), "{table}: {log}"),
                None => assert!(!log.contains("alluvium.keys"), "{table}: {log}"),
            }
        }
    });
}

/// What a property names may be gone, or another engine may have written anything.
#[test]
fn a_property_that_does_not_fit_is_not_followed() {
    run(async {
        for odd in ["gone", "id, gone", "id,,", "v", "\\\"id", "'"] {
            let scratch = Scratch::new();
            let session = scratch.session().await;
            rows(
                &session,
                "CREATE TABLE t (id BIGINT, v ARRAY<INT>) USING DELTA TBLPROPERTIES ('alluvium.keys' = 'id')",
            )
            .await;
            let path = scratch.path("w/t/_delta_log/00000000000000000000.json");
            let log = std::fs::read_to_string(&path).unwrap();
            std::fs::write(
                &path,
                log.replace(r#""alluvium.keys":"id""#, &format!(r#""alluvium.keys":"{odd}""#)),
            )
            .unwrap();
            let session = scratch.session().await;
            rows(&session, "UPSERT INTO t KEYS (id) VALUES (2, [1]), (1, [2])").await;
            let files = data_files(&scratch, "t");
            assert!(files.iter().all(|file| file.filtered.is_empty()), "{odd}");
            assert_eq!(
                rows(&session, "SELECT id FROM t ORDER BY id").await,
                ["1", "2"],
                "{odd}"
            );
        }
    });
}

/// How many row groups the Bloom filters have ruled out, of those that were asked.
async fn ruled_out(session: &Session, sql: &str) -> (usize, usize) {
    let plan = rows(session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
    let all = plan.split("row_groups_pruned_bloom_filter=").skip(1);
    let mut sum = (0, 0);
    for text in all {
        let numbers: Vec<usize> = text
            .split([',', ']'])
            .next()
            .unwrap()
            .split(' ')
            .filter_map(|w| w.parse().ok())
            .collect();
        let [asked, left, ..] = numbers.as_slice() else {
            panic!("{plan}")
        };
        sum = (sum.0 + asked - left, sum.1 + asked);
    }
    sum
}

#[test]
fn row_groups_without_a_key_are_not_read() {
    run(async {
        for (keys, ruled) in [("id", 2), ("", 0)] {
            let scratch = Scratch::new();
            let session = scratch.session().await;
            let create = "CREATE TABLE t (id BIGINT, v STRING) USING DELTA TBLPROPERTIES";
            rows(&session, &format!("{create} ('alluvium.keys' = '{keys}')")).await;
            // Three files of the same range of keys.
            for rest in 0..3 {
                let insert = format!("INSERT INTO t SELECT value * 3 + {rest}, 'v' FROM generate_series(0, 999)");
                rows(&session, &insert).await;
            }
            for statement in [
                "UPSERT INTO t KEYS (id)",
                "INSERT ONLY INTO t KEYS (id)",
                "MERGE OVERWRITE INTO t KEYS (id)",
            ] {
                let sql = format!("{statement} SELECT 1501 AS id, 'new' AS v DRY RUN");
                assert_eq!(ruled_out(&session, &sql).await.0, ruled, "{keys}: {statement}");
            }
            assert_eq!(
                ruled_out(&session, "SELECT v FROM t WHERE id = 1501").await.0,
                ruled,
                "{keys}"
            );
            rows(&session, "UPSERT INTO t KEYS (id) SELECT 1501 AS id, 'new' AS v").await;
            // One file has a deletion vector now, and the new one holds nothing but the key.
            let found = rows(&session, "SELECT v FROM t WHERE id = 1501").await;
            assert_eq!(found, ["new"], "{keys}");
            assert_eq!(
                ruled_out(&session, "SELECT v FROM t WHERE id = 1501").await.0,
                ruled,
                "{keys}"
            );
        }
    });
}
