//! What the target's scan reads, and what it leaves unread.

use std::fs;
use std::sync::Arc;

use alluvium_delta::scan::{
    FILES_PRUNED_DYNAMIC, FILES_PRUNED_STATIC, FILES_SKIPPED, FILES_TOTAL, ScanDesc, register_store, rewrite_scan,
};
use datafusion::arrow::array::{
    ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, UInt32Type};
use datafusion::datasource::MemTable;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::read_support::{
    Lake, batch, counter, deletion_vector, explain, id_name, id_stats, ids, in_partition, metadata, run, show,
};

/// Ten files of ten ids each, `0..10`, `10..20`, and so on.
fn ten_files() -> Lake {
    let mut lake = Lake::create(&id_name(), &[]);
    let adds: Vec<Value> = (0..10)
        .map(|i| {
            lake.file(
                &format!("part-{i}.parquet"),
                &ids(i * 10..i * 10 + 10),
                id_stats(i * 10, i * 10 + 9),
            )
        })
        .collect();
    lake.commit(&adds);
    lake
}

fn source(context: &SessionContext, keys: &[i64]) {
    let batch = batch(vec![("id", Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef)]);
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    context.register_table("source", Arc::new(table)).unwrap();
}

fn ints(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let columns = batches
        .iter()
        .map(|b| b.column_by_name(column).unwrap().as_primitive::<Int64Type>());
    let mut all: Vec<i64> = columns.flat_map(|c| c.iter().flatten().collect::<Vec<_>>()).collect();
    all.sort_unstable();
    all
}

#[tokio::test]
async fn rows_come_with_file_and_position() {
    let lake = ten_files();
    let shown = lake
        .query("SELECT id, name, __file, __row FROM target WHERE id IN (7, 42) ORDER BY id")
        .await;
    let expected = "\
+----+------+--------+-------+
| id | name | __file | __row |
+----+------+--------+-------+
| 7  | n7   | 0      | 7     |
| 42 | n42  | 4      | 2     |
+----+------+--------+-------+";
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_filter_leaves_files_unopened() {
    let lake = ten_files();
    for i in (0..10).filter(|i| *i != 4) {
        fs::write(lake.path(&format!("part-{i}.parquet")), "damaged").unwrap();
    }
    let context = lake.session(SessionConfig::new()).await;
    let (plan, rows) = run(&context, "SELECT id FROM target WHERE id BETWEEN 43 AND 44").await;
    assert_eq!(ints(&rows, "id"), [43, 44]);
    assert_eq!(
        (counter(&plan, FILES_PRUNED_STATIC), counter(&plan, FILES_SKIPPED)),
        (9, 9)
    );
    assert_eq!(counter(&plan, FILES_TOTAL), 10);
    let shown = explain(&plan);
    assert!(
        shown.contains("LoadDeltaScanExec: table=t, columns=[id], files=1, pruned=9, filter="),
        "{shown}"
    );
    assert!(!shown.contains("part-"), "{shown}");
}

#[tokio::test]
async fn a_join_leaves_files_unopened() {
    for (partitions, single) in [(1, true), (4, true), (4, false)] {
        let lake = ten_files();
        for i in [0, 1, 2, 4, 5, 6, 7, 9] {
            fs::remove_file(lake.path(&format!("part-{i}.parquet"))).unwrap();
        }
        let mut config = SessionConfig::new().with_target_partitions(partitions);
        if !single {
            // No side is small enough to be collected: every partition brings bounds of its own.
            config = config
                .set_usize("datafusion.optimizer.hash_join_single_partition_threshold", 0)
                .set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
        }
        let context = lake.session(config).await;
        source(&context, &[31, 33, 38, 84, 86, 1000]);
        let sql = "SELECT s.id, t.__row FROM source s LEFT JOIN target t ON s.id = t.id";
        let (plan, rows) = run(&context, sql).await;
        assert_eq!(ints(&rows, "id"), [31, 33, 38, 84, 86, 1000]);
        assert_eq!(ints(&rows, "__row"), [1, 3, 4, 6, 8]);
        assert_eq!(
            (counter(&plan, FILES_PRUNED_DYNAMIC), counter(&plan, FILES_SKIPPED)),
            (8, 8),
            "{partitions}"
        );
        let shown = explain(&plan);
        assert!(shown.contains("files=10, pruned=0, dynamic_filter=[id]"), "{shown}");
    }
}

#[tokio::test]
async fn an_empty_source_opens_nothing() {
    let lake = ten_files();
    (0..10).for_each(|i| fs::remove_file(lake.path(&format!("part-{i}.parquet"))).unwrap());
    let context = lake.session(SessionConfig::new().with_target_partitions(2)).await;
    source(&context, &[]);
    let (_, rows) = run(&context, "SELECT s.id FROM source s LEFT JOIN target t ON s.id = t.id").await;
    assert_eq!(ints(&rows, "id"), Vec::<i64>::new());
}

#[tokio::test]
async fn positions_hold_when_row_groups_pages_and_rows_are_left_out() {
    let mut lake = Lake::create(&id_name(), &[]);
    let small = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(100)
        .build();
    let add = lake.file_with("a.parquet", &ids(0..10_000), id_stats(0, 9_999), small);
    lake.commit(&[add]);
    let context = lake.session(SessionConfig::new().with_target_partitions(1)).await;
    source(&context, &[5_555, 5_556, 9_001]);
    for columns in ["t.id AS id, t.__row", "t.id AS id, t.name, t.__row"] {
        let sql = format!("SELECT {columns} FROM source s LEFT JOIN target t ON s.id = t.id");
        let (plan, rows) = run(&context, &sql).await;
        assert_eq!(ints(&rows, "id"), [5_555, 5_556, 9_001]);
        assert_eq!(ints(&rows, "__row"), [5_555, 5_556, 9_001]);
        let scan = counter(&plan, "row_groups_pruned_statistics") + counter(&plan, "bytes_scanned");
        assert!(scan > 0);
    }
}

#[tokio::test]
async fn nothing_but_positions_or_nothing_at_all_can_be_read() {
    let lake = ten_files();
    let shown = lake.query("SELECT COUNT(*) AS n FROM target").await;
    assert!(shown.contains("| 100 |"), "{shown}");
    let context = lake.session(SessionConfig::new().with_target_partitions(3)).await;
    let (_, rows) = run(&context, "SELECT __file, __row FROM target").await;
    let mut pairs: Vec<(u32, i64)> = Vec::new();
    for batch in &rows {
        let files = batch.column(0).as_primitive::<UInt32Type>();
        let positions = batch.column(1).as_primitive::<Int64Type>();
        pairs.extend(files.values().iter().copied().zip(positions.values().iter().copied()));
    }
    pairs.sort_unstable();
    let expected: Vec<(u32, i64)> = (0..10).flat_map(|f| (0..10).map(move |r| (f, r))).collect();
    assert_eq!(pairs, expected);
}

#[tokio::test]
async fn partition_columns_are_read_and_prune() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("day", DataType::Utf8, true),
        Field::new("id", DataType::Int64, true),
        Field::new(
            "at",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            true,
        ),
        Field::new("name", DataType::Utf8, true),
    ]));
    let mut lake = Lake::create(&schema, &["at", "day"]);
    let a = lake.file("day=a/1.parquet", &ids([1]), id_stats(1, 1));
    let b = lake.file("day=b/1.parquet", &ids([2]), id_stats(2, 2));
    let c = lake.file("day=c/1.parquet", &ids([3]), Value::Null);
    lake.commit(&[
        in_partition(a, json!({"day": "a", "at": "2024-01-01T10:00:00.123456Z"})),
        in_partition(b, json!({"day": "b b", "at": "2024-01-02 10:00:00"})),
        in_partition(c, json!({"day": "", "at": null})),
    ]);
    let expected = "\
+-----+----+-----------------------------+------+
| day | id | at                          | name |
+-----+----+-----------------------------+------+
| a   | 1  | 2024-01-01T10:00:00.123456Z | n1   |
| b b | 2  | 2024-01-02T10:00:00Z        | n2   |
|     | 3  |                             | n3   |
+-----+----+-----------------------------+------+";
    assert_eq!(
        lake.query("SELECT day, id, at, name FROM target ORDER BY id").await,
        expected
    );
    assert_eq!(
        lake.query("SELECT day, id, at, name FROM t ORDER BY id").await,
        expected
    );
    assert_eq!(lake.query("SELECT * FROM t ORDER BY id").await, expected);

    let context = lake.session(SessionConfig::new()).await;
    for (filter, left) in [
        ("day = 'a'", 1),
        ("day IS NULL", 1),
        ("day IS NOT NULL", 2),
        ("at < TIMESTAMP '2024-01-02T00:00:00Z'", 1),
        ("at >= TIMESTAMP '2024-01-02T00:00:00Z' AND id = 2", 1),
    ] {
        let (plan, rows) = run(&context, &format!("SELECT id FROM target WHERE {filter}")).await;
        let found: usize = rows.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(
            (found, 3 - counter(&plan, FILES_SKIPPED)),
            (left, left),
            "{filter}\n{}",
            explain(&plan)
        );
    }
}

#[tokio::test]
async fn old_files_and_other_physical_types_are_adapted() {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("at", utc, true),
        Field::new("extra", DataType::Utf8, true),
    ]));
    let mut lake = Lake::create(&id_name(), &[]);
    let id = |i: i64| Arc::new(Int64Array::from(vec![i])) as ArrayRef;
    let micros = TimestampMicrosecondArray::from(vec![1_000_001]).with_timezone("UTC");
    let new = batch(vec![
        ("id", id(2)),
        ("at", Arc::new(micros)),
        ("extra", Arc::new(StringArray::from(vec!["x"]))),
    ]);
    let nanos = TimestampNanosecondArray::from(vec![2_000_002_000]);
    let actions = [
        lake.file("old.parquet", &batch(vec![("id", id(1))]), Value::Null),
        lake.file("new.parquet", &new, Value::Null),
        lake.file(
            "nanos.parquet",
            &batch(vec![("at", Arc::new(nanos)), ("id", id(3))]),
            Value::Null,
        ),
    ];
    lake.commit(&[&[metadata(&schema, &[], json!({}))], actions.as_slice()].concat());
    let expected = "\
+----+-----------------------------+-------+-------+
| id | at                          | extra | __row |
+----+-----------------------------+-------+-------+
| 1  |                             |       | 0     |
| 2  | 1970-01-01T00:00:01.000001Z | x     | 0     |
| 3  | 1970-01-01T00:00:02.000002Z |       | 0     |
+----+-----------------------------+-------+-------+";
    assert_eq!(
        lake.query("SELECT id, at, extra, __row FROM target ORDER BY id").await,
        expected
    );
    let one = lake
        .query("SELECT id FROM target WHERE extra IS NULL AND at IS NOT NULL")
        .await;
    assert!(one.contains("| 3  |"), "{one}");
}

#[tokio::test]
async fn a_rewrite_reads_one_file_in_order() {
    let lake = ten_files();
    let snapshot = lake.snapshot().await;
    let context = SessionContext::new_with_config(SessionConfig::new().with_batch_size(3));
    register_store(&snapshot, &context.runtime_env()).unwrap();
    let task = snapshot.files().await.unwrap()[4].clone();
    let rows = rewrite_scan(&ScanDesc::of(&snapshot), &task, &context.task_ctx()).unwrap();
    let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    let names: Vec<_> = rows[0].schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["id", "name", "__row"]);
    let positions: Vec<i64> = rows
        .iter()
        .flat_map(|b| b.column(2).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(positions, (0..10).collect::<Vec<i64>>());
    assert_eq!(ints(&rows, "id"), (40..50).collect::<Vec<i64>>());
}

#[tokio::test]
async fn deleted_rows_are_not_read() {
    let protocol = json!({
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
    });
    let mut lake = Lake::with(&id_name(), &[], json!({}), protocol);
    let plain = lake.file("a.parquet", &ids(0..5), id_stats(0, 4));
    let mut cut = lake.file("b.parquet", &ids(10..15), id_stats(10, 14));
    cut["add"]["deletionVector"] = deletion_vector(&lake, &[1, 3]);
    lake.commit(&[plain, cut]);
    let context = lake.session(SessionConfig::new().with_target_partitions(1)).await;
    for sql in ["SELECT id, __row FROM target", "SELECT id FROM target"] {
        let (_, rows) = run(&context, sql).await;
        assert_eq!(ints(&rows, "id"), [0, 1, 2, 3, 4, 10, 12, 14]);
    }
    let counted = lake.query("SELECT COUNT(*) AS n FROM target").await;
    assert!(counted.contains("| 8 |"), "{counted}");
    let same = lake.query("SELECT id FROM t ORDER BY id").await;
    assert_eq!(same, lake.query("SELECT id FROM target ORDER BY id").await);
    let snapshot = lake.snapshot().await;
    alluvium_delta::table::features::check_writable(&snapshot).unwrap();

    let task = snapshot.files().await.unwrap()[1].clone();
    let kept = rewrite_scan(&ScanDesc::of(&snapshot), &task, &context.task_ctx()).unwrap();
    let kept: Vec<RecordBatch> = kept.try_collect().await.unwrap();
    assert_eq!(ints(&kept, "__row"), [0, 2, 4], "{}", show(&kept));
}

#[tokio::test]
async fn a_large_file_is_read_by_several_partitions() {
    let mut lake = Lake::create(&id_name(), &[]);
    let filler: Vec<String> = (0_u64..40_000)
        .map(|i| format!("{:0>500}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect();
    let rows = batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..40_000)) as ArrayRef),
        ("name", Arc::new(StringArray::from(filler))),
    ]);
    let groups = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2_000))
        .set_dictionary_enabled(false)
        .build();
    let add = lake.file_with("large.parquet", &rows, id_stats(0, 39_999), groups);
    lake.commit(&[add]);
    let context = lake.session(SessionConfig::new().with_target_partitions(2)).await;
    let (plan, rows) = run(&context, "SELECT id, __row FROM target").await;
    assert_eq!(
        plan.properties().output_partitioning().partition_count(),
        2,
        "{}",
        explain(&plan)
    );
    let expected: Vec<i64> = (0..40_000).collect();
    assert_eq!((ints(&rows, "id"), ints(&rows, "__row")), (expected.clone(), expected));
    for batch in &rows {
        assert_eq!(batch.column(0), batch.column(1));
    }
    source(&context, &[50_000]);
    let (plan, _) = run(&context, "SELECT s.id FROM source s LEFT JOIN target t ON s.id = t.id").await;
    assert_eq!(counter(&plan, FILES_SKIPPED), 1);
}

#[tokio::test]
async fn a_file_that_is_gone_is_a_storage_error() {
    let lake = ten_files();
    fs::remove_file(lake.path("part-3.parquet")).unwrap();
    for table in ["target", "t"] {
        let context = lake.session(SessionConfig::new()).await;
        let e = context
            .sql(&format!("SELECT id FROM {table}"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap_err();
        let e = alluvium_core::LoadError::from(e);
        assert_eq!(e.code(), "58030", "{e}");
    }
}

#[tokio::test]
async fn explain_analyze_tells_what_was_left_out() {
    let lake = ten_files();
    let shown = lake.query("EXPLAIN ANALYZE SELECT id FROM target WHERE id = 42").await;
    for part in [
        "files_total=10",
        "files_skipped=9",
        "files_pruned_static=9",
        "bytes_scanned=",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}
