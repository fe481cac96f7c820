//! Files of several row groups, written again where some of them have no marked row.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_exec::action;
use datafusion::arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use datafusion::parquet::bloom_filter::Sbbf;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::prelude::SessionContext;

use crate::write_support::*;

const ROWS: i64 = 1000;
const GROUP: i64 = 100;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("qty", DataType::Int64, true),
        Field::new("price", DataType::Float64, true),
        // No value has come yet.
        Field::new("note", DataType::Utf8, true),
    ]))
}

fn batch(schema: &SchemaRef) -> RecordBatch {
    let names = (0..ROWS).map(|i| (i % 7 != 0).then(|| format!("name {}", i % 40)));
    let prices = (0..ROWS).map(|i| {
        if i == 555 {
            f64::NAN
        } else {
            f64::from(i32::try_from(i).unwrap()) / 8.0
        }
    });
    RecordBatch::try_new(
        Arc::clone(schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(names.collect::<StringArray>()),
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i * 3))),
            Arc::new(Float64Array::from_iter_values(prices)),
            new_null_array(&DataType::Utf8, usize::try_from(ROWS).unwrap()),
        ],
    )
    .unwrap()
}

/// A table of one file with ten row groups, pages of 20 rows, and bloom filters of ids.
async fn table() -> Table {
    let table = Table::create(schema(), &[], &[]).await;
    load(&session(1), table.spec().await, inserting(&batch(&schema())))
        .await
        .unwrap();
    let path = only_file(&table);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(usize::try_from(GROUP).unwrap()))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(10)
        .set_column_bloom_filter_enabled(ColumnPath::from("id"), true)
        .set_column_dictionary_enabled(ColumnPath::from("id"), false)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), schema(), Some(properties)).unwrap();
    writer.write(&batch(&schema())).unwrap();
    writer.close().unwrap();
    table.with_size(1, std::fs::metadata(&path).unwrap().len())
}

fn only_file(table: &Table) -> PathBuf {
    let files = table.data_files();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

/// The file that a load has added.
fn added(table: &Table, version: u64) -> PathBuf {
    let adds = table.actions(version, "add");
    assert_eq!(adds.len(), 1, "{adds:?}");
    table.path().join(adds[0]["path"].as_str().unwrap())
}

fn metadata(path: &PathBuf) -> Arc<ParquetMetaData> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).unwrap(), options);
    Arc::clone(reader.unwrap().metadata())
}

/// The bytes of column `column` of row group `group`.
fn chunk(path: &PathBuf, group: usize, column: usize) -> Vec<u8> {
    let (start, length) = metadata(path).row_group(group).column(column).byte_range();
    let (start, length) = (usize::try_from(start).unwrap(), usize::try_from(length).unwrap());
    std::fs::read(path).unwrap()[start..start + length].to_vec()
}

/// The only row of a query.
async fn row(table: &Table, sql: &str) -> String {
    lines(&table.query(sql).await).join("\n")
}

async fn delete_ids(table: &Table, ids: &[i64]) {
    delete_within(&session(2), table, ids).await;
}

async fn delete_within(session: &SessionContext, table: &Table, ids: &[i64]) {
    let at = table.positions().await;
    let (files, rows): (Vec<u32>, Vec<i64>) = ids.iter().map(|id| at[id]).unzip();
    let mut columns: Vec<(String, ArrayRef)> = schema()
        .fields()
        .iter()
        .map(|field| (field.name().clone(), new_null_array(field.data_type(), ids.len())))
        .collect();
    columns.push((
        "__action".into(),
        Arc::new(UInt8Array::from(vec![action::DELETE; ids.len()])),
    ));
    columns.push(("__file".into(), Arc::new(UInt32Array::from(files))));
    columns.push(("__row".into(), Arc::new(Int64Array::from(rows))));
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, c)| (name, c, true)));
    let batch = batch.unwrap();
    let changes = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    load(session, table.spec().await, changes).await.unwrap();
}

#[tokio::test]
async fn row_groups_without_a_marked_row_are_copied_with_all_that_belongs_to_them() {
    let table = table().await;
    let before = only_file(&table);
    delete_ids(&table, &[250, 251, 299]).await;
    let after = added(&table, 2);
    let (old, new) = (metadata(&before), metadata(&after));
    assert_eq!(new.num_row_groups(), 10);
    for group in (0..10).filter(|group| *group != 2) {
        let (was, is) = (old.row_group(group), new.row_group(group));
        assert_eq!(is.num_rows(), was.num_rows());
        for column in 0..5 {
            assert_eq!(
                chunk(&before, group, column),
                chunk(&after, group, column),
                "{group}/{column}"
            );
            assert_eq!(is.column(column).statistics(), was.column(column).statistics());
            let pages = |m: &ParquetMetaData| m.offset_index().unwrap()[group][column].page_locations.len();
            assert_eq!(pages(&new), pages(&old));
            assert_eq!(
                new.column_index().unwrap()[group][column],
                old.column_index().unwrap()[group][column]
            );
        }
        let file = File::open(&after).unwrap();
        let bloom = Sbbf::read_from_column_chunk(is.column(0), &file).unwrap().unwrap();
        let first = i64::try_from(group).unwrap() * GROUP;
        assert!((first..first + GROUP).all(|id| bloom.check(&id)) && !bloom.check(&(ROWS + first)));
    }
    assert_eq!(new.row_group(2).num_rows(), GROUP - 3);
    let names = (0..ROWS).filter(|i| i % 7 != 0 && ![250, 251, 299].contains(i)).count();
    let sum = ROWS * (ROWS - 1) / 2 - (250 + 251 + 299);
    assert_eq!(
        row(&table, "SELECT count(*), sum(id), sum(qty), count(name) FROM t").await,
        format!("{},{sum},{},{names}", ROWS - 3, sum * 3)
    );
    assert_eq!(row(&table, "SELECT max(id) FROM t WHERE id < 252").await, "249");
}

#[tokio::test]
async fn row_groups_that_lose_every_row_are_left_out() {
    let table = table().await;
    let gone: Vec<i64> = (300..400).chain([0]).collect();
    delete_ids(&table, &gone).await;
    let new = metadata(&added(&table, 2));
    assert_eq!(new.num_row_groups(), 9);
    assert_eq!(new.row_group(0).num_rows(), GROUP - 1);
    let left = "SELECT count(*), min(id), count(*) FILTER (WHERE id BETWEEN 300 AND 399) FROM t";
    assert_eq!(row(&table, left).await, format!("{},1,0", ROWS - 101));
    // And again, on what was spliced.
    delete_ids(&table, &[999]).await;
    assert_eq!(
        row(&table, "SELECT count(*), max(id) FROM t").await,
        format!("{},998", ROWS - 102)
    );
}

#[tokio::test]
async fn without_room_for_a_row_group_the_file_is_encoded_instead() {
    let table = table().await;
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(1500)));
    let state = SessionStateBuilder::new_from_existing(session(1).state())
        .with_runtime_env(runtime.build_arc().unwrap())
        .build();
    delete_within(&SessionContext::new_with_state(state), &table, &[250]).await;
    let new = metadata(&added(&table, 2));
    assert_eq!(new.file_metadata().num_rows(), ROWS - 1);
    assert_ne!(new.row_group(0).num_rows(), GROUP, "the first row group was copied");
}

#[tokio::test]
async fn bounds_in_the_log_hold_for_copied_rows_too() {
    let table = table().await;
    delete_ids(&table, &[5]).await;
    let stats = table.actions(2, "add")[0]["stats"].as_str().unwrap().to_owned();
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["numRecords"], ROWS - 1);
    assert_eq!(
        (&stats["minValues"]["id"], &stats["maxValues"]["id"]),
        (&0.into(), &999.into())
    );
    assert_eq!(stats["nullCount"]["name"], 143);
    // A NaN is among the copied rows, so there is no bound.
    assert!(stats["maxValues"].get("price").is_none(), "{stats}");
}

#[tokio::test]
async fn every_set_of_marks_leaves_the_other_rows() {
    for seed in 0..12_i64 {
        let table = table().await;
        let hit = |id: &i64| (id * 7919 + seed * 104_729) % 1009 < seed * seed * 4 || id / 100 == seed;
        let gone: Vec<i64> = (0..ROWS).filter(hit).collect();
        if gone.is_empty() {
            continue;
        }
        delete_ids(&table, &gone).await;
        let kept: Vec<i64> = (0..ROWS).filter(|id| !hit(id)).collect();
        let mut stored = Vec::new();
        let file = File::open(added(&table, 2)).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            stored.extend(batch.column(0).as_primitive::<Int64Type>().values().iter().copied());
        }
        assert_eq!(stored, kept, "seed {seed}");
    }
}
