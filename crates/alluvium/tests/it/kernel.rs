//! What we write is read back equal by Delta Lake's kernel with its own engine, which shares no reader with ours.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use alluvium::Session;
use datafusion::arrow::array::RecordBatch;
use delta_kernel::Snapshot;
use delta_kernel::engine::arrow_data::EngineDataArrowExt;
use delta_kernel_default_engine::DefaultEngineBuilder;
use object_store::local::LocalFileSystem;
use url::Url;

use crate::laws::run;
use crate::python;
use crate::support::{Scratch, rows, text_lines};

/// The rows of a table as the kernel reads them.
fn kernel_rows(scratch: &Scratch, table: &str) -> Vec<String> {
    let engine = Arc::new(DefaultEngineBuilder::new(Arc::new(LocalFileSystem::new())).build());
    let root = Url::from_directory_path(scratch.path(&format!("w/{table}"))).unwrap();
    let snapshot = Snapshot::builder_for(root).build(engine.as_ref()).unwrap();
    let scan = snapshot.scan_builder().build().unwrap();
    let batches = scan.execute(engine).unwrap();
    let batches: Vec<RecordBatch> = batches.map(|data| data.try_into_record_batch().unwrap()).collect();
    let mut lines = text_lines(&batches);
    lines.sort();
    lines
}

/// Compares what the kernel reads with what a session does, and gives the number of rows.
pub async fn compared(scratch: &Scratch, session: &Session, table: &str) -> usize {
    let mut ours = rows(session, &format!("SELECT * FROM {table}")).await;
    ours.sort();
    assert_eq!(kernel_rows(scratch, table), ours, "{table}");
    ours.len()
}

/// The number of files of a table, and of those with a deletion vector.
async fn files(session: &Session, table: &str) -> String {
    let sql = format!("SELECT count(*), count(*) FILTER (WHERE deletion_vector) FROM table_files('{table}')");
    rows(session, &sql).await.remove(0)
}

#[test]
fn the_kernel_reads_values_of_all_types_and_partitions() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        python::fill(&session).await;
        assert_eq!(compared(&scratch, &session, "types").await, 2);
        assert_eq!(compared(&scratch, &session, "plain").await, 1400);
        assert_eq!(compared(&scratch, &session, "parts").await, 4);
    });
}

/// A load: the statement, what follows `SELECT value AS id`, the rows that are left, and the files and the deletion vectors
/// that a table has then, without partitions and with two.
type Load = (&'static str, &'static str, usize, [(usize, usize); 2]);

const LOADS: [Load; 6] = [
    (
        "UPSERT INTO t KEYS (id)",
        "'new' AS v FROM generate_series(100, 199)",
        1000,
        [(2, 1), (4, 2)],
    ),
    // The same file loses rows again, then all it has left.
    (
        "UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN true",
        "'x' AS v FROM generate_series(200, 399)",
        800,
        [(2, 1), (4, 2)],
    ),
    (
        "MERGE OVERWRITE INTO t WINDOW (v <> 'new') ON EMPTY SOURCE APPLY",
        "'x' AS v FROM generate_series(1, 0)",
        100,
        [(1, 0), (2, 0)],
    ),
    (
        "UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN true",
        "'x' AS v FROM generate_series(0, 149)",
        50,
        [(1, 1), (2, 2)],
    ),
    (
        "INSERT ONLY INTO t KEYS (id)",
        "'again' AS v FROM generate_series(0, 199)",
        200,
        [(2, 1), (4, 2)],
    ),
    // Half of the rows: every other one of a file, or all of a partition.
    (
        "MERGE OVERWRITE INTO t KEYS (part)",
        "'all' AS v FROM generate_series(7, 7)",
        101,
        [(3, 2), (3, 1)],
    ),
];

#[test]
fn the_kernel_reads_files_that_lost_rows() {
    run(async {
        for vectors in [true, false] {
            for (layout, partitions) in ["", "PARTITIONED BY (part)"].into_iter().enumerate() {
                let scratch = Scratch::new();
                let session = scratch.session().await;
                let create = format!(
                    "CREATE TABLE t (id BIGINT, part BIGINT, v STRING) USING DELTA {partitions} \
                     TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}', 'alluvium.keys' = 'id')"
                );
                rows(&session, &create).await;
                let source = "SELECT value AS id, value % 2 AS part,";
                rows(
                    &session,
                    &format!("INSERT INTO t {source} 'old' AS v FROM generate_series(0, 999)"),
                )
                .await;
                for (load, values, left, found) in LOADS {
                    rows(&session, &format!("{load} {source} {values}")).await;
                    let case = format!("vectors {vectors} {partitions}: {load}");
                    assert_eq!(compared(&scratch, &session, "t").await, left, "{case}");
                    let (all, marked) = found[layout];
                    let marked = if vectors { marked } else { 0 };
                    assert_eq!(files(&session, "t").await, format!("{all}|{marked}"), "{case}");
                }
            }
        }
    });
}

#[test]
fn the_kernel_reads_a_history() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let load = "SCD2 MERGE INTO h KEYS (id) SEQUENCE BY at CREATE IF NOT EXISTS";
        for (day, wanted) in [("2026-01-01", 100), ("2026-03-01", 200), ("2026-02-01", 300)] {
            let source = format!("SELECT value AS id, '{day}' AS v, TIMESTAMP '{day} 00:00:00' AS at");
            rows(&session, &format!("{load} {source} FROM generate_series(1, 100)")).await;
            assert_eq!(compared(&scratch, &session, "h").await, wanted, "{day}");
        }
    });
}
