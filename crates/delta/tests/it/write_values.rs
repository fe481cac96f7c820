//! Values that files, statistics or partitions are known to get wrong, and rules that rows must keep.

use std::sync::Arc;

use alluvium_delta::DeltaTable;
use alluvium_delta::write::{NewTable, create_table, insert};
use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::prelude::SessionContext;

use crate::write_support::*;

async fn loaded(columns: Vec<(&str, ArrayRef)>, partition_columns: &[&str]) -> Table {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let table = Table::create(batch.schema(), partition_columns, &[]).await;
    load(&session(4), table.spec().await, inserting(&batch)).await.unwrap();
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn infinities_nan_and_bytes_leave_a_log_that_reads_back() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"\xdd\x1c\x5c\xff"[..], b"", b"\0"]));
    let table = loaded(vec![("id", ids), ("x", numbers), ("b", bytes)], &[]).await;
    assert_eq!(
        lines(&table.query("SELECT id, x, encode(b, 'hex') FROM t ORDER BY id").await),
        ["1,inf,dd1c5cff", "2,-inf,", "3,NaN,00"]
    );
    let stats: serde_json::Value = serde_json::from_str(table.actions(1, "add")[0]["stats"].as_str().unwrap()).unwrap();
    assert_eq!(stats["maxValues"], serde_json::json!({"id": 3}));
    assert_eq!(stats["nullCount"], serde_json::json!({"id": 0, "x": 0, "b": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_values_read_back_exactly_whatever_they_hold() {
    let values = [
        "A/A",
        "/lead",
        "x:y",
        "50%",
        "100%25",
        "R&D",
        "a=b",
        "café",
        "🌊",
        "#h",
        "q?",
        "two words",
        "tab\there",
        "line\nend",
        "..",
        "../../etc",
        "'quoted'",
        "\"double\"",
        "back\\slash",
        "__HIVE_DEFAULT_PARTITION__",
        " lead",
        "trail ",
        "null",
    ];
    let names: ArrayRef = Arc::new(StringArray::from_iter(values.iter().map(|v| Some(*v)).chain([None])));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
        0..i64::try_from(values.len() + 1).unwrap(),
    ));
    let table = loaded(vec![("id", ids), ("p", names)], &["p"]).await;
    for (id, value) in values.iter().enumerate() {
        let literal = value.replace('\'', "''");
        let found = table.query(&format!("SELECT id FROM t WHERE p = '{literal}'")).await;
        assert_eq!(lines(&found), [id.to_string()], "{value}");
    }
    assert_eq!(
        lines(&table.query("SELECT id FROM t WHERE p IS NULL").await),
        [values.len().to_string()]
    );
    let root = table.path().canonicalize().unwrap();
    assert!(
        table
            .data_files()
            .iter()
            .all(|file| file.canonicalize().unwrap().starts_with(&root))
    );
    assert_eq!(table.data_files().len(), values.len() + 1);
    // The own reader agrees, so a load that comes later finds the same rows.
    let files = table.snapshot().await.files().await.unwrap();
    assert_eq!(files.len(), values.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_values_of_every_type_read_back() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let columns: Vec<(&str, ArrayRef, &str)> = vec![
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![150])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
            "1.50",
        ),
        ("b", Arc::new(BooleanArray::from(vec![true])), "true"),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![1_704_103_200_123_456]).with_timezone("UTC")),
            "2024-01-01T10:00:00.123456Z",
        ),
        (
            "ntz",
            Arc::new(TimestampMicrosecondArray::from(vec![1_704_103_200_123_456])),
            "2024-01-01T10:00:00.123456",
        ),
        ("f", Arc::new(Float64Array::from(vec![0.1])), "0.1"),
    ];
    for (name, column, shown) in columns {
        let table = loaded(vec![("id", Arc::clone(&ids)), (name, Arc::clone(&column))], &[name]).await;
        let files = table.snapshot().await.files().await.unwrap();
        assert_eq!(
            files[0].partition_values[0],
            ScalarValue::try_from_array(&column, 0).unwrap()
        );
        assert_eq!(lines(&table.query(&format!("SELECT {name} FROM t")).await), [shown]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_text_in_a_partition_column_is_refused() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![""]));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("p", names, true)]).unwrap();
    let table = Table::create(batch.schema(), &["p"], &[]).await;
    let error = load(&session(4), table.spec().await, inserting(&batch))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "22023");
    assert!(table.data_files().is_empty());
}

async fn with_constraint(text: &str) -> Table {
    let table = Table::nowhere();
    let new = NewTable {
        name: "t".into(),
        schema: id_name_qty(),
        partition_columns: Vec::new(),
        properties: Default::default(),
        constraints: vec![("positive".into(), text.into())],
        comment: Some("about".into()),
    };
    create_table(&table.handle, &new, &SessionContext::new().state())
        .await
        .unwrap();
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn constraints_hold_for_written_rows_only() {
    let table = with_constraint("qty > 0").await;
    let context = session(4);
    load(
        &context,
        table.spec().await,
        change_stream(&[insert(1, "a", 1)], 1, false),
    )
    .await
    .unwrap();
    for qty in [Some(0), None] {
        let mut bad = insert(2, "b", 0);
        bad.qty = qty;
        let error = load(&context, table.spec().await, change_stream(&[bad], 1, false))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "23514");
        assert!(error.message().contains("\"positive\""), "{error}");
    }
    let at = table.positions().await[&1];
    load(&context, table.spec().await, change_stream(&[delete(at)], 1, false))
        .await
        .unwrap();
    assert!(lines(&table.rows().await).is_empty());
    assert_eq!(table.snapshot().await.version(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_a_table_twice_or_with_a_bad_constraint_fails() {
    let table = with_constraint("qty > 0").await;
    let mut new = NewTable {
        name: "t".into(),
        schema: id_name_qty(),
        partition_columns: Vec::new(),
        properties: Default::default(),
        constraints: Vec::new(),
        comment: None,
    };
    let state = SessionContext::new().state();
    assert_eq!(
        create_table(&table.handle, &new, &state).await.unwrap_err().code(),
        "42P07"
    );
    new.constraints = vec![("c".into(), "nosuch > 0".into())];
    let elsewhere = Table::nowhere();
    assert_eq!(
        create_table(&elsewhere.handle, &new, &state).await.unwrap_err().code(),
        "0A000"
    );
}

fn generated_schema() -> SchemaRef {
    let day = Field::new("day", DataType::Date32, true)
        .with_metadata([("delta.generationExpression".to_owned(), "CAST(ts AS DATE)".to_owned())].into());
    Arc::new(Schema::new(vec![
        Field::new(
            "ts",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            true,
        ),
        day,
    ]))
}

async fn insert_sql(table: &Table, sql: &str, op: InsertOp) -> Result<Vec<RecordBatch>, alluvium_core::LoadError> {
    let context = session(4);
    let state = context.state();
    let input = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let provider = DeltaTable::new(Arc::clone(&table.handle), table.snapshot().await);
    let plan = insert::plan(&provider, &state, input, op).await?;
    let plan = optimized(&state, plan);
    run_plan(&context, plan).await
}

/// What DataFusion does to a plan that a provider has made.
fn optimized(
    state: &datafusion::execution::context::SessionState,
    mut plan: Arc<dyn datafusion::physical_plan::ExecutionPlan>,
) -> Arc<dyn datafusion::physical_plan::ExecutionPlan> {
    for rule in state.physical_optimizers() {
        plan = rule.optimize(plan, state.config_options()).unwrap();
    }
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_columns_are_computed_or_checked() {
    let table = Table::create(generated_schema(), &["day"], &[]).await;
    let ts = "arrow_cast('2024-05-06T07:08:09', 'Timestamp(Microsecond, Some(\"UTC\"))')";
    insert_sql(
        &table,
        &format!("SELECT {ts} AS ts, CAST(NULL AS DATE) AS day"),
        InsertOp::Append,
    )
    .await
    .unwrap();
    assert_eq!(lines(&table.query("SELECT day FROM t").await), ["2024-05-06"]);
    let wrong = format!("SELECT {ts} AS ts, DATE '2020-01-01' AS day");
    let error = insert_sql(&table, &wrong, InsertOp::Append).await.unwrap_err();
    assert_eq!(error.code(), "23514");
    assert!(error.message().contains("\"day\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_inserts_append_and_overwrite() {
    let table = Table::create(id_name_qty(), &[], &[]).await;
    let values =
        "SELECT arrow_cast(column1, 'Int64') AS id, column2 AS name, arrow_cast(column3, 'Int64') AS qty FROM ";
    let first = insert_sql(
        &table,
        &format!("{values} (VALUES (1, 'a', 1), (2, 'b', 2))"),
        InsertOp::Append,
    )
    .await
    .unwrap();
    assert_eq!(lines(&show(&first)), ["2"]);
    insert_sql(&table, &format!("{values} (VALUES (3, 'c', 3))"), InsertOp::Append)
        .await
        .unwrap();
    assert_eq!(lines(&table.rows().await), ["1,a,1", "2,b,2", "3,c,3"]);
    let all = insert_sql(&table, &format!("{values} (VALUES (9, 'z', 9))"), InsertOp::Overwrite)
        .await
        .unwrap();
    assert_eq!(lines(&show(&all)), ["1"]);
    assert_eq!(lines(&table.rows().await), ["9,z,9"]);
    assert_eq!(table.snapshot().await.version(), 3);
    assert_eq!(table.actions(3, "commitInfo")[0]["operation"], "WRITE");
    let replaced = insert_sql(&table, &format!("{values} (VALUES (9, 'z', 9))"), InsertOp::Replace).await;
    assert_eq!(replaced.unwrap_err().code(), "0A000");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_do_not_conflict_with_each_other() {
    let table = Table::create(id_name_qty(), &[], &[]).await;
    let context = session(4);
    let state = context.state();
    let sql = "SELECT arrow_cast(1, 'Int64') AS id, 'a' AS name, arrow_cast(1, 'Int64') AS qty";
    let input = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let provider = DeltaTable::new(Arc::clone(&table.handle), table.snapshot().await);
    let slow = insert::plan(&provider, &state, input, InsertOp::Append).await.unwrap();
    insert_sql(&table, sql, InsertOp::Append).await.unwrap();
    run_plan(&context, optimized(&state, slow)).await.unwrap();
    assert_eq!(lines(&table.query("SELECT count(*) FROM t").await), ["2"]);
}
