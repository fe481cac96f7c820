//! Columns that are read for a few rows, against the same rows of a scan of everything.

use std::fs;
use std::sync::Arc;

use alluvium_delta::scan::{PAGES_UNPACKED, ROWS_FETCHED_LATE};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value, json};

use crate::read_support::{Lake, batch, counter, deletion_vector, explain, in_partition, metadata, run, show};

const ROWS: i64 = 6_000;

fn fields(names: &[&str]) -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let all = [
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("status", DataType::Utf8),
        ("at", utc),
        ("day", DataType::Date32),
        ("qty", DataType::Int32),
        ("score", DataType::Float64),
        ("price", DataType::Decimal128(12, 2)),
        ("open", DataType::Boolean),
        ("region", DataType::Utf8),
        (
            "tags",
            DataType::List(Arc::new(Field::new("element", DataType::Int32, true))),
        ),
    ];
    let wanted = all.into_iter().filter(|(name, _)| names.contains(name));
    let fields = wanted.map(|(name, data_type)| Field::new(name, data_type, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns of `schema` for ids from `first`, in an order that is not theirs, some of them NULL.
fn rows(schema: &SchemaRef, first: i64) -> RecordBatch {
    let ids = (0..ROWS).map(|i| first + i * 7 % ROWS);
    let present = |i: i64, every: i64| (i % every != 0).then_some(i);
    let small = |i: i64| i32::try_from(i % 1_000).unwrap();
    let columns = schema.fields().iter().map(|field| -> (&str, ArrayRef) {
        let ids = ids.clone();
        let array: ArrayRef = match field.name().as_str() {
            "id" => Arc::new(ids.collect::<Int64Array>()),
            "name" => Arc::new(
                ids.map(|i| present(i, 6).map(|i| format!("name {i}")))
                    .collect::<StringArray>(),
            ),
            "status" => Arc::new(
                ids.map(|i| Some(["new", "paid", ""][usize::try_from(i % 3).unwrap()]))
                    .collect::<StringArray>(),
            ),
            "at" => Arc::new(
                ids.map(|i| present(i / 100, 3))
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("UTC"),
            ),
            "day" => Arc::new(ids.map(|i| Some(small(i))).collect::<Date32Array>()),
            "qty" => Arc::new(ids.map(|i| present(i, 9).map(small)).collect::<Int32Array>()),
            "score" => Arc::new(ids.map(|i| Some(f64::from(small(i)) / 8.0)).collect::<Float64Array>()),
            "price" => {
                let values = ids
                    .map(|i| present(i, 4).map(|i| i128::from(i) * 101))
                    .collect::<Decimal128Array>();
                Arc::new(values.with_precision_and_scale(12, 2).unwrap())
            }
            "open" => Arc::new(ids.map(|i| present(i, 5).map(|i| i % 2 == 0)).collect::<BooleanArray>()),
            _ => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                ids.map(|i| Some(vec![Some(small(i)), None])),
            )),
        };
        (field.name(), array)
    });
    batch(columns.collect())
}

fn small_pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(2_500))
        .set_data_page_row_count_limit(400)
        .set_write_batch_size(100)
}

const OLD: &[&str] = &["id", "name", "status", "at", "day", "qty"];
const NEW: &[&str] = &["score", "price", "open"];

/// Files of two partitions, one of them from before some columns were added, two of them with deleted rows.
fn history(pages: &dyn Fn() -> WriterPropertiesBuilder) -> Lake {
    let protocol = json!({
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
    });
    let names = |more: &[&'static str]| [OLD, NEW, more].concat();
    let mut lake = Lake::with(&fields(&names(&["region"])), &["region"], json!({}), protocol);
    let deleted: Vec<u64> = (0..u64::try_from(ROWS).unwrap()).filter(|row| row % 5 == 2).collect();
    let files = [(OLD.to_vec(), false), (names(&[]), true), (names(&[]), false)];
    let mut adds = vec![metadata(&fields(&names(&["region"])), &["region"], json!({}))];
    for (number, (columns, cut)) in files.iter().enumerate() {
        let region = ["north", "south"][number % 2];
        let rows = rows(&fields(columns), ROWS * i64::try_from(number).unwrap());
        let path = format!("region={region}/{number}.parquet");
        let mut add = lake.file_with(&path, &rows, json!({"numRecords": ROWS}), pages().build());
        if *cut {
            add["add"]["deletionVector"] = deletion_vector(&lake, &deleted);
        }
        adds.push(in_partition(add, json!({"region": region})));
    }
    lake.commit(&adds);
    lake
}

/// A session in which `known` has the rows of `target`, and `source` these keys.
async fn session(lake: &Lake, config: SessionConfig, keys: impl Iterator<Item = i64>) -> SessionContext {
    let context = lake.session(config).await;
    let (_, rows) = run(&context, "SELECT * FROM target").await;
    let schema = Arc::new(context.table("target").await.unwrap().schema().as_arrow().clone());
    context
        .register_table("known", Arc::new(MemTable::try_new(schema, vec![rows]).unwrap()))
        .unwrap();
    let keys = batch(vec![("id", Arc::new(keys.collect::<Int64Array>()) as ArrayRef)]);
    let source = MemTable::try_new(keys.schema(), vec![vec![keys]]).unwrap();
    context.register_table("source", Arc::new(source)).unwrap();
    context
}

/// How many rows were fetched late, and how many pages unpacked for them, of a join that has to give the same rows as one
/// with the table in memory.
async fn compared(context: &SessionContext, columns: &str) -> (usize, usize) {
    compared_where(context, columns, "TRUE").await
}

async fn compared_where(context: &SessionContext, columns: &str, condition: &str) -> (usize, usize) {
    let sql = |table: &str| {
        format!(
            "SELECT s.id AS sid, {columns} FROM source s JOIN {table} t ON s.id = t.id WHERE {condition} \
             ORDER BY s.id, t.__file"
        )
    };
    let (plan, rows) = run(context, &sql("target")).await;
    let (_, known) = run(context, &sql("known")).await;
    assert_eq!(show(&rows), show(&known), "{}", explain(&plan));
    assert!(rows.iter().any(|batch| batch.num_rows() > 0));
    (counter(&plan, ROWS_FETCHED_LATE), counter(&plan, PAGES_UNPACKED))
}

fn every(step: usize) -> impl Iterator<Item = i64> {
    (0..4 * ROWS).step_by(step)
}

#[tokio::test]
async fn a_few_rows_are_fetched_by_position() {
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    for (version, indexed) in versions
        .into_iter()
        .flat_map(|version| [(version, true), (version, false)])
    {
        let pages = || {
            let pages = small_pages()
                .set_writer_version(version)
                .set_offset_index_disabled(!indexed);
            match version {
                WriterVersion::PARQUET_1_0 => pages,
                // What it would choose on its own is not known.
                WriterVersion::PARQUET_2_0 => pages.set_encoding(datafusion::parquet::basic::Encoding::PLAIN),
            }
        };
        let lake = history(&pages);
        for partitions in [1, 3] {
            let config = SessionConfig::new()
                .with_target_partitions(partitions)
                .with_batch_size(50);
            let context = session(&lake, config, every(37)).await;
            let (fetched, pages) = compared(&context, "t.*").await;
            let wanted = usize::try_from(3 * ROWS).unwrap() / 37;
            let deleted = wanted / 3 / 5;
            assert!(
                fetched.abs_diff(wanted - deleted) < 9,
                "{fetched} rows of {wanted} {version:?} {indexed}"
            );
            assert!(pages > 0);
            for columns in [
                "t.status",
                "t.region, t.price",
                "t.open, t.__row",
                "t.score, t.__file, t.region",
            ] {
                assert!(compared(&context, columns).await.0 == fetched, "{columns}");
            }
        }
    }
}

#[tokio::test]
async fn many_rows_are_read_as_ever() {
    let lake = history(&small_pages);
    for step in [1, 2, 10] {
        let config = SessionConfig::new().with_target_partitions(2).with_batch_size(300);
        let context = session(&lake, config, every(step)).await;
        assert_eq!(compared(&context, "t.*").await, (0, 0), "one in {step}");
    }
}

#[tokio::test]
async fn other_filters_leave_rows_out_too() {
    let lake = history(&small_pages);
    for partitions in [1, 3] {
        let config = || {
            SessionConfig::new()
                .with_target_partitions(partitions)
                .with_batch_size(100)
        };
        let few = session(&lake, config(), every(37)).await;
        let many = session(&lake, config(), every(2)).await;
        for columns in ["t.*", "t.name", "t.region, t.open, t.__row"] {
            let condition = "t.qty > 950 AND t.status <> 'paid'";
            let all = compared(&few, columns).await.0;
            let (fetched, _) = compared_where(&few, columns, condition).await;
            assert_eq!(fetched, all, "the keys are looked at first");
            // With all filters together few are left after all.
            let (fetched, pages) = compared_where(&many, columns, condition).await;
            assert!(fetched > 0 && pages > 0, "{columns}");
            let (fetched, _) = compared_where(&many, columns, "t.qty > 2").await;
            assert_eq!(fetched, 0, "{columns}");
        }
    }
}

#[tokio::test]
async fn a_range_of_keys_needs_few_pages() {
    let lake = history(&small_pages);
    let context = session(
        &lake,
        SessionConfig::new().with_target_partitions(1),
        [7, 14, 21].into_iter(),
    )
    .await;
    let (fetched, pages) = compared(&context, "t.name, t.status").await;
    assert_eq!(fetched, 3);
    // Of each column the dictionary and one page.
    assert_eq!(pages, 4);
}

#[tokio::test]
async fn little_memory_is_enough() {
    let lake = history(&small_pages);
    let context = session(&lake, SessionConfig::new().with_target_partitions(1), every(37)).await;
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(64 * 1024)))
        .build_arc()
        .unwrap();
    let small = SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(1), runtime);
    for table in ["target", "source", "known"] {
        small
            .register_table(table, context.table_provider(table).await.unwrap())
            .unwrap();
    }
    let sql = "SELECT t.* FROM source s JOIN target t ON s.id = t.id";
    let (plan, rows) = run(&small, sql).await;
    assert!(rows.iter().any(|batch| batch.num_rows() > 0));
    assert!(counter(&plan, ROWS_FETCHED_LATE) > 0);
}

#[tokio::test]
async fn nested_columns_are_read_as_ever() {
    let schema = fields(&["id", "name", "tags"]);
    let mut lake = Lake::create(&schema, &[]);
    let add = lake.file_with("a.parquet", &rows(&schema, 0), Value::Null, small_pages().build());
    lake.commit(&[add]);
    let context = session(&lake, SessionConfig::new(), every(50)).await;
    assert_eq!(compared(&context, "t.tags, t.name").await, (0, 0));
    assert!(compared(&context, "t.name").await.0 > 0);
}

#[tokio::test]
async fn columns_stored_as_another_type_are_read_as_ever() {
    let mut lake = Lake::create(&fields(&["id", "qty", "name"]), &[]);
    let schema = fields(&["id", "name", "qty"]);
    let narrow = rows(&schema, 0);
    let wide = {
        let rows = rows(&schema, ROWS);
        let qty = datafusion::arrow::compute::cast(rows.column_by_name("qty").unwrap(), &DataType::Int64).unwrap();
        batch(vec![
            ("id", rows.column(0).clone()),
            ("name", rows.column(1).clone()),
            ("qty", qty),
        ])
    };
    let adds = [("narrow", &narrow), ("wide", &wide)]
        .map(|(name, rows)| lake.file_with(&format!("{name}.parquet"), rows, Value::Null, small_pages().build()));
    lake.commit(&adds);
    let context = session(&lake, SessionConfig::new().with_target_partitions(1), every(50)).await;
    let (both, _) = compared(&context, "t.name").await;
    let (one, _) = compared(&context, "t.name, t.qty").await;
    assert_eq!(both, 2 * one);
}

#[tokio::test]
async fn damage_is_an_error_and_no_other_row() {
    let lake = history(&small_pages);
    let context = session(&lake, SessionConfig::new().with_target_partitions(1), every(37)).await;
    let path = lake.path("region=north/2.parquet");
    let whole = fs::read(&path).unwrap();
    let reader = datafusion::parquet::file::metadata::ParquetMetaDataReader::new();
    let metadata = reader.parse_and_finish(&bytes::Bytes::from(whole.clone())).unwrap();
    let column = metadata
        .row_group(1)
        .columns()
        .iter()
        .find(|c| c.column_path().string() == "name")
        .unwrap();
    let (start, length) = column.byte_range();
    let mut damaged = whole;
    for byte in damaged
        .iter_mut()
        .skip(usize::try_from(start).unwrap())
        .take(usize::try_from(length).unwrap())
    {
        *byte = 0xff;
    }
    fs::write(&path, damaged).unwrap();
    let query = context
        .sql("SELECT t.* FROM source s JOIN target t ON s.id = t.id")
        .await
        .unwrap();
    let e = alluvium_core::LoadError::from(query.collect().await.unwrap_err());
    assert_ne!(e.code(), "XX000", "{e}");
}
