//! Tables without deletion vectors: new versions of rows stand where the old ones stood, and new rows among their keys.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::ops::RangeInclusive;
use std::sync::Arc;

use alluvium::Session;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::file::statistics::Statistics;

use crate::kernel::compared;
use crate::laws::run;
use crate::support::{Scratch, rows};

/// A value of every kind of column for a row number `n`, some of them NULL.
const VALUES: &str = "n % 3 = 0 AS flag, CAST(n % 100 AS TINYINT) AS tiny, CAST(n % 300 AS SMALLINT) AS small, \
     CASE WHEN n % 7 <> 0 THEN CAST(n AS INT) END AS num, n * 1000003 AS long, CAST(n AS FLOAT) / 8 AS single, \
     CASE WHEN n % 5 <> 0 THEN CAST(n AS DOUBLE) / 16 END AS dbl, CAST(n % 9999 AS DECIMAL(9, 2)) AS price, \
     CAST(n AS DECIMAL(38, 10)) AS huge, CASE WHEN n % 11 <> 0 THEN 'text ' || n END AS name, \
     CAST('few ' || (n % 4) AS STRING) AS few, arrow_cast('bytes ' || n, 'Binary') AS bytes, \
     DATE '2024-01-01' + CAST(n % 900 AS INT) AS day, to_timestamp_micros(n * 1000003) AS time";

/// Rows `ids` (an expression over `value`), whose values are those of row `n`.
fn source(ids: &str, n: &str, values: RangeInclusive<u32>) -> String {
    let (first, last) = values.into_inner();
    format!("SELECT id, {VALUES} FROM (SELECT {ids} AS id, {n} AS n FROM generate_series({first}, {last}))")
}

/// Table `name` with even ids up to 8000 in four files.
async fn table(session: &Session, name: &str, vectors: bool) {
    let properties = format!("TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')");
    let empty = format!("{} WHERE id < 0", source("value * 2", "value", 0..=1));
    rows(
        session,
        &format!("CREATE TABLE {name} USING DELTA {properties} AS {empty}"),
    )
    .await;
    for file in 0..4 {
        let part = source("value * 2", "value", file * 1000..=file * 1000 + 999);
        rows(session, &format!("INSERT INTO {name} {part}")).await;
    }
}

async fn footers(session: &Session, scratch: &Scratch, name: &str) -> Vec<Arc<ParquetMetaData>> {
    let paths = rows(session, &format!("SELECT path FROM table_files('{name}')")).await;
    let open = |path: &String| {
        let file = scratch.path(&format!("w/{name}/{path}"));
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap());
        Arc::clone(reader.unwrap().metadata())
    };
    paths.iter().map(open).collect()
}

/// The lowest and the highest id of a file.
fn ids(file: &ParquetMetaData) -> (i64, i64) {
    let of_group = |group: usize| match file.row_group(group).column(0).statistics() {
        Some(Statistics::Int64(ids)) => (*ids.min_opt().unwrap(), *ids.max_opt().unwrap()),
        other => unreachable!("{other:?}"),
    };
    let groups = (0..file.num_row_groups()).map(of_group);
    groups.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap()
}

/// A table without vectors and one with them, after the same loads.
async fn both(session: &Session, loads: &[String]) {
    for (name, vectors) in [("t", false), ("twin", true)] {
        table(session, name, vectors).await;
        for load in loads {
            rows(session, &load.replace("INTO t", &format!("INTO {name}"))).await;
        }
    }
    let read = |name: &'static str| async move {
        let mut found = rows(session, &format!("SELECT * FROM {name}")).await;
        found.sort();
        found
    };
    assert_eq!(read("t").await, read("twin").await);
}

fn upsert(source: &str) -> String {
    format!("UPSERT INTO t KEYS (id) {source}")
}

#[test]
fn files_keep_their_ranges_of_keys() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        // One row in ten is updated; then others are, new ones arrive between them, and some beyond the last.
        let updates = upsert(&source("value * 20", "value * 20 + 7", 0..=399));
        let mixed = upsert(&format!(
            "{} UNION ALL {}",
            source("value * 22", "value + 5", 0..=360),
            source("value * 26 + 3", "value", 0..=310)
        ));
        both(&session, &[updates, mixed]).await;
        assert!(compared(&scratch, &session, "t").await > 4200);
        let files = footers(&session, &scratch, "t").await;
        let mut ranges: Vec<(i64, i64)> = files.iter().map(|file| ids(file)).collect();
        ranges.sort_unstable();
        // The four files, and one of the rows beyond the last.
        let apart = ranges.windows(2).filter(|pair| pair[0].1 < pair[1].0).count();
        assert_eq!((ranges.len(), apart), (5, 4), "{ranges:?}");
    });
}

#[test]
fn rows_that_do_not_change_are_not_read_as_rows_nor_moved() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        // One file, so that there is one order of rows.
        let all = source("value * 2", "value", 0..=3999);
        let properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')";
        rows(&session, &format!("CREATE TABLE t USING DELTA {properties} AS {all}")).await;
        let before = rows(&session, "SELECT id FROM t").await;
        let update = upsert(&source("value * 40", "value + 1", 0..=199));
        rows(&session, &update).await;
        // Every id is where it was.
        assert_eq!(rows(&session, "SELECT id FROM t").await, before);
    });
}

#[test]
fn many_small_loads_do_not_leave_many_row_groups() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let load = |nth: u32| {
            upsert(&format!(
                "{} UNION ALL {}",
                source(&format!("value * 500 + {}", nth * 2), "value", 0..=15),
                source(&format!("value * 500 + {}", nth * 2 + 1), "value", 0..=15)
            ))
        };
        let loads: Vec<String> = (0..12).map(load).collect();
        both(&session, &loads).await;
        let files = footers(&session, &scratch, "t").await;
        assert_eq!(files.len(), 4);
        let groups: Vec<usize> = files.iter().map(|file| file.num_row_groups()).collect();
        assert_eq!(groups, [2, 2, 2, 2]);
        assert_eq!(compared(&scratch, &session, "t").await, 4000 + 12 * 16);
    });
}

#[test]
fn rows_that_lose_and_rows_that_change_may_be_in_one_file() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let changes = source("value * 8", "value + 3", 0..=900);
        let delete = format!("UPSERT INTO t KEYS (id) USING ({changes}) APPLY AS DELETE WHEN id % 80 = 0");
        let first = source("value * 2", "value + 1", 0..=999);
        let gone = format!("UPSERT INTO t KEYS (id) USING ({first}) APPLY AS DELETE WHEN id % 4 = 0");
        both(&session, &[delete, gone]).await;
        assert!(compared(&scratch, &session, "t").await > 3000);
    });
}

#[test]
fn new_versions_without_room_in_memory_go_elsewhere() {
    run(async {
        let scratch = Scratch::new();
        let builder = Session::builder().with_warehouse(scratch.text("w"));
        let session = builder
            .with_memory_limit(24 << 20)
            .with_threads(2)
            .build()
            .await
            .unwrap();
        let wide = |n: &str, step: u32| {
            format!(
                "SELECT value * {step} AS id, repeat('some text ' || ({n}), 60) AS v FROM generate_series(0, {})",
                40_000 / step - 1
            )
        };
        for (name, vectors) in [("t", "false"), ("twin", "true")] {
            let properties = format!("TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')");
            rows(
                &session,
                &format!("CREATE TABLE {name} (id BIGINT, v STRING) USING DELTA {properties}"),
            )
            .await;
            rows(&session, &format!("INSERT INTO {name} {}", wide("value", 1))).await;
            rows(
                &session,
                &format!("UPSERT INTO {name} KEYS (id) {}", wide("value + 1", 2)),
            )
            .await;
        }
        let session = scratch.session().await;
        let differing = "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM twin)";
        assert_eq!(rows(&session, differing).await, ["0"]);
        assert_eq!(
            rows(&session, "SELECT count(*), count(DISTINCT id) FROM t").await,
            ["40000|40000"]
        );
    });
}
