//! Loads from change stream to committed table.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::syntax::OnEmpty;
use alluvium_delta::write::LoadTarget;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt64Type};

use crate::write_support::*;

/// A table of three rows in one file.
async fn three_rows(partitions: usize) -> Table {
    let table = Table::create(id_name_qty(), &[], &[]).await;
    let rows = [insert(1, "a", 10), insert(2, "b", 20), insert(3, "c", 30)];
    let result = load(
        &session(partitions),
        table.spec().await,
        change_stream(&rows, partitions, false),
    )
    .await
    .unwrap();
    assert_eq!(
        outcome(&result),
        "affected_rows=3 inserted_rows=3 files_added=1 version=1 COMMITTED"
    );
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_inserted_updated_and_deleted_in_one_commit() {
    for partitions in [1, 4] {
        let table = three_rows(partitions).await;
        let at = table.positions().await;
        let rows = [insert(4, "d", 40), update(1, "A", 11, at[&1]), delete(at[&2])];
        let changes = change_stream(&rows, partitions, false);
        let result = load(&session(partitions), table.spec().await, changes).await.unwrap();
        assert_eq!(
            outcome(&result),
            "affected_rows=3 inserted_rows=1 updated_rows=1 deleted_rows=1 files_added=2 files_removed=1 version=2 COMMITTED"
        );
        assert_eq!(lines(&table.rows().await), ["1,A,11", "3,c,30", "4,d,40"]);
        let info = &table.actions(2, "commitInfo")[0];
        assert_eq!(info["operation"], "MERGE");
        assert_eq!(info["operationMetrics"]["numTargetRowsCopied"], "1");
        assert_eq!(info["engineInfo"], "alluvium/0.1.0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_rows_all_go_is_only_removed() {
    let table = three_rows(4).await;
    let rows: Vec<Row> = table.positions().await.values().map(|at| delete(*at)).collect();
    let result = load(&session(4), table.spec().await, change_stream(&rows, 3, false))
        .await
        .unwrap();
    assert_eq!(
        outcome(&result),
        "affected_rows=3 deleted_rows=3 files_removed=1 version=2 COMMITTED"
    );
    assert!(lines(&table.rows().await).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_dropped_from_metadata_and_their_rows_counted() {
    let table = three_rows(1).await;
    let mut spec = table.spec().await;
    spec.removed_files = vec![0];
    let result = load(&session(4), spec, change_stream(&[insert(9, "z", 1)], 1, false))
        .await
        .unwrap();
    assert_eq!(
        outcome(&result),
        "affected_rows=4 inserted_rows=1 deleted_rows=3 files_added=1 files_removed=1 version=2 COMMITTED"
    );
    assert_eq!(lines(&table.rows().await), ["9,z,1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_but_leaves_nothing_behind() {
    for partitions in [1, 4] {
        let table = three_rows(partitions).await;
        let before = table.data_files();
        let at = table.positions().await;
        let mut spec = table.spec().await;
        spec.dry_run = true;
        let rows = [insert(4, "d", 40), update(1, "A", 11, at[&1])];
        let result = load(&session(partitions), spec, change_stream(&rows, 2, false))
            .await
            .unwrap();
        assert_eq!(
            outcome(&result),
            "affected_rows=2 inserted_rows=1 updated_rows=1 files_added=2 files_removed=1 DRY RUN"
        );
        assert_eq!(table.data_files(), before);
        assert_eq!(table.snapshot().await.version(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_load_leaves_the_folder_as_it_was() {
    for partitions in [1, 4] {
        let table = three_rows(partitions).await;
        let before = table.data_files();
        let mut rows: Vec<Row> = (10..500).map(|id| insert(id, "x", id)).collect();
        rows[400].id = None;
        let mut spec = table.spec().await;
        spec.target_file_size = Some(1);
        let error = load(&session(partitions), spec, change_stream(&rows, partitions, false))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "23502");
        assert!(error.message().contains("\"id\""), "{error}");
        assert_eq!(
            error.detail_text(),
            Some("Failing row contains (id, name, qty)=(NULL, x, 410).")
        );
        assert_eq!(table.data_files(), before);
        assert_eq!(table.snapshot().await.version(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_updates_of_one_row_are_an_error() {
    for partitions in [1, 2] {
        let table = three_rows(partitions).await;
        let at = table.positions().await[&1];
        let rows = [update(1, "A", 1, at), update(1, "B", 2, at)];
        let result = load(
            &session(partitions),
            table.spec().await,
            change_stream(&rows, partitions, false),
        )
        .await;
        assert_eq!(result.unwrap_err().code(), "21000");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_recorded_and_not_repeated() {
    let table = three_rows(1).await;
    let context = session(4);
    let with = |mut spec: alluvium_delta::write::LoadSpec, version| {
        spec.transaction = Some(("app".to_owned(), version));
        spec
    };
    let result = load(
        &context,
        with(table.spec().await, 7),
        change_stream(&[insert(4, "d", 1)], 1, false),
    )
    .await
    .unwrap();
    assert_eq!(
        outcome(&result),
        "affected_rows=1 inserted_rows=1 files_added=1 version=2 COMMITTED"
    );
    let again = load(
        &context,
        with(table.spec().await, 7),
        change_stream(&[insert(4, "d", 1)], 1, false),
    )
    .await
    .unwrap();
    assert_eq!(outcome(&again), "SKIPPED");
    let nothing = load(&context, with(table.spec().await, 8), change_stream(&[], 1, false))
        .await
        .unwrap();
    assert_eq!(outcome(&nothing), "version=3 NO CHANGES");
    assert_eq!(table.actions(3, "txn")[0]["version"], 8);
    assert_eq!(table.entry(3).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_do_is_no_commit() {
    let table = three_rows(1).await;
    let result = load(&session(4), table.spec().await, change_stream(&[], 1, false))
        .await
        .unwrap();
    assert_eq!(outcome(&result), "NO CHANGES");
    let mut spec = table.spec().await;
    spec.on_empty = OnEmpty::Skip;
    assert_eq!(
        outcome(&load(&session(4), spec, change_stream(&[], 1, false)).await.unwrap()),
        "SKIPPED"
    );
    let mut spec = table.spec().await;
    spec.on_empty = OnEmpty::Error;
    let error = load(&session(4), spec, change_stream(&[], 1, false)).await.unwrap_err();
    assert_eq!(error.code(), "22023");
    assert_eq!(table.snapshot().await.version(), 1);
}

fn new_table(table: &Table, properties: &[(&str, &str)]) -> LoadTarget {
    LoadTarget {
        name: "t".into(),
        handle: Arc::clone(&table.handle),
        base: None,
        schema: id_name_qty(),
        partition_columns: vec!["name".into()],
        properties: properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect::<HashMap<_, _>>(),
        evolved: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_created_with_its_first_rows() {
    let table = Table::nowhere();
    let mut spec = spec_for(new_table(&table, &[("delta.appendOnly", "true"), ("owner", "me")]));
    spec.comment = Some("first".into());
    let rows = [insert(1, "a", 1), insert(2, "b", 2)];
    let result = load(&session(4), spec, change_stream(&rows, 2, false)).await.unwrap();
    assert_eq!(
        outcome(&result),
        "affected_rows=2 inserted_rows=2 files_added=2 version=0 COMMITTED"
    );
    assert_eq!(
        lines(&table.query("SELECT id, name, qty FROM t ORDER BY id").await),
        ["1,a,1", "2,b,2"]
    );
    assert_eq!(table.actions(0, "commitInfo")[0]["userMetadata"], "first");
    assert_eq!(table.snapshot().await.properties()["owner"], "me");
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_loses_cleanly_against_another_creation() {
    let table = Table::nowhere();
    let context = session(4);
    let slow = plan(
        &context,
        spec_for(new_table(&table, &[])),
        change_stream(&[insert(1, "a", 1)], 1, false),
    )
    .await;
    load(
        &context,
        spec_for(new_table(&table, &[])),
        change_stream(&[insert(2, "b", 2)], 1, false),
    )
    .await
    .unwrap();
    let error = run_plan(&context, slow).await.unwrap_err();
    assert_eq!(error.code(), "40001");
    assert!(error.retryable());
    assert_eq!(lines(&table.query("SELECT id FROM t").await), ["2"]);
    assert_eq!(table.data_files().len(), 1);
    assert_eq!(table.snapshot().await.version(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_between_is_a_conflict() {
    let table = three_rows(1).await;
    let context = session(4);
    let at = table.positions().await;
    let slow = plan(
        &context,
        table.spec().await,
        change_stream(&[update(1, "A", 1, at[&1])], 1, false),
    )
    .await;
    load(
        &context,
        table.spec().await,
        change_stream(&[update(2, "B", 2, at[&2])], 1, false),
    )
    .await
    .unwrap();
    let files = table.data_files();
    let error = run_plan(&context, Arc::clone(&slow)).await.unwrap_err();
    assert_eq!(error.code(), "40001");
    assert!(
        error.detail_text().unwrap().contains("version 1"),
        "{:?}",
        error.detail_text()
    );
    assert_eq!(table.data_files(), files);
    assert_eq!(lines(&table.rows().await), ["1,a,10", "2,B,2", "3,c,30"]);
    assert!(run_plan(&context, slow).await.is_err(), "a plan runs once");
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_read_other_rows_do_not_conflict() {
    let table = Table::create(id_name_qty(), &["name"], &[]).await;
    let context = session(4);
    let mut mine = table.spec().await;
    mine.operation.read_predicate = Some("name = 'mine'".into());
    let slow = plan(&context, mine, change_stream(&[insert(1, "mine", 1)], 1, false)).await;
    let mut theirs = table.spec().await;
    theirs.operation.read_predicate = Some("name = 'theirs'".into());
    load(&context, theirs, change_stream(&[insert(2, "theirs", 2)], 1, false))
        .await
        .unwrap();
    assert_eq!(
        outcome(&run_plan(&context, slow).await.unwrap()),
        "affected_rows=1 inserted_rows=1 files_added=1 version=2 COMMITTED"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn evolution_is_committed_with_the_rows_and_without() {
    let table = three_rows(1).await;
    let id = table.snapshot().await.eager().metadata().id().to_owned();
    let mut fields: Vec<Field> = id_name_qty()
        .fields()
        .iter()
        .take(2)
        .map(|f| f.as_ref().clone())
        .collect();
    // The change stream made by hand has these names: a table without `qty` and `added` gains one of them.
    fields.push(Field::new("qty", DataType::Int64, true));
    let mut target = table.target().await;
    fields.push(Field::new("__file", DataType::UInt32, true));
    fields.pop();
    fields.push(Field::new(
        "seen",
        DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None),
        true,
    ));
    target.schema = Arc::new(Schema::new(fields));
    target.evolved = true;
    let at = table.positions().await;
    let context = session(4);
    context
        .register_table("c", Arc::new(change_stream(&[update(1, "A", 11, at[&1])], 1, false)))
        .unwrap();
    let input = context
        .sql("SELECT c.*, TIMESTAMP '2024-05-06 07:08:09' AS seen FROM c")
        .await
        .unwrap();
    let batches = input.collect().await.unwrap();
    let cast: Vec<_> = batches.iter().map(with_microseconds).collect();
    let changes = datafusion::datasource::MemTable::try_new(cast[0].schema(), vec![cast]).unwrap();
    let result = load(&context, spec_for(target), changes).await.unwrap();
    assert_eq!(
        outcome(&result),
        "affected_rows=1 updated_rows=1 files_added=1 files_removed=1 version=2 COMMITTED"
    );
    assert_eq!(
        lines(&table.rows().await),
        ["1,A,11,2024-05-06T07:08:09", "2,b,20,", "3,c,30,"]
    );
    let snapshot = table.snapshot().await;
    assert_eq!(snapshot.eager().metadata().id(), id);
    assert_eq!(
        table.actions(2, "protocol")[0]["readerFeatures"],
        serde_json::json!(["timestampNtz"])
    );
}

fn with_microseconds(batch: &datafusion::arrow::array::RecordBatch) -> datafusion::arrow::array::RecordBatch {
    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::compute::cast;
    use datafusion::arrow::datatypes::TimeUnit;
    let columns = batch
        .schema_ref()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let wanted = match field.data_type() {
                DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
                other => other.clone(),
            };
            (field.name().clone(), cast(column, &wanted).unwrap(), true)
        });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn returned_rows_come_after_the_commit() {
    let table = three_rows(1).await;
    let context = session(4);
    let at = table.positions().await;
    let rows = [insert(4, "d", 40), update(1, "A", 11, at[&1]), delete(at[&2])];
    context
        .register_table("c", Arc::new(change_stream(&rows, 3, false)))
        .unwrap();
    let input = context
        .sql("SELECT *, __action + 0 AS __ret_0, id AS __ret_1 FROM c")
        .await
        .unwrap();
    let batches = input.collect().await.unwrap();
    let changes = datafusion::datasource::MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    let mut spec = table.spec().await;
    let fields = vec![
        Field::new("what", changes_type(&changes, "__ret_0"), true),
        Field::new("id", DataType::Int64, true),
    ];
    spec.returning = Some(Arc::new(Schema::new(fields)));
    let result = load(&context, spec, changes).await.unwrap();
    let mut shown = lines(&show(&result));
    shown.sort();
    assert_eq!(shown, ["1,4", "2,1", "3,"]);
    assert_eq!(table.snapshot().await.version(), 2);
}

fn changes_type(changes: &datafusion::datasource::MemTable, column: &str) -> DataType {
    use datafusion::catalog::TableProvider;
    changes.schema().field_with_name(column).unwrap().data_type().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn change_data_shows_every_row_before_and_after() {
    for partitions in [1, 4] {
        let table = Table::create(id_name_qty(), &[], &[("delta.enableChangeDataFeed", "true")]).await;
        let context = session(partitions);
        let rows = [insert(1, "a", 10), insert(2, "b", 20), insert(3, "c", 30)];
        load(&context, table.spec().await, change_stream(&rows, 1, false))
            .await
            .unwrap();
        assert!(table.actions(1, "cdc").is_empty());
        let at = table.positions().await;
        let mut changed = update(1, "A", 11, at[&1]);
        changed.old = (Some(1), Some("a"), Some(10));
        let mut gone = delete(at[&2]);
        gone.old = (Some(2), Some("b"), Some(20));
        let mut spec = table.spec().await;
        spec.change_data = true;
        let rows = [insert(4, "d", 40), changed, gone];
        load(&context, spec, change_stream(&rows, partitions.min(3), true))
            .await
            .unwrap();
        assert_eq!(table.actions(2, "cdc").len(), 1);
        assert_eq!(
            changes_of(&table, 2).await,
            [
                "1,A,11,update_postimage",
                "1,a,10,update_preimage",
                "2,b,20,delete",
                "4,d,40,insert"
            ]
        );
        assert_eq!(lines(&table.rows().await), ["1,A,11", "3,c,30", "4,d,40"]);
    }
}

async fn changes_of(table: &Table, version: u64) -> Vec<String> {
    use datafusion::prelude::{ParquetReadOptions, SessionContext};
    let context = SessionContext::new();
    let mut shown = Vec::new();
    for cdc in table.actions(version, "cdc") {
        let path = table.path().join(cdc["path"].as_str().unwrap());
        let rows = context
            .read_parquet(path.to_str().unwrap(), ParquetReadOptions::default())
            .await
            .unwrap();
        shown.extend(lines(&show(&rows.collect().await.unwrap())));
    }
    shown.sort();
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn small_loads_make_few_files() {
    let table = Table::create(id_name_qty(), &["name"], &[]).await;
    let context = session(8);
    let names = ["p", "q", "r"];
    for round in 0..4 {
        let rows: Vec<Row> = (0..3)
            .map(|i| insert(round * 10 + i, names[usize::try_from(i).unwrap()], 0))
            .collect();
        load(&context, table.spec().await, change_stream(&rows, 3, false))
            .await
            .unwrap();
    }
    let at = table.positions().await;
    assert_eq!(table.snapshot().await.files().await.unwrap().len(), 12);
    let mut rows: Vec<Row> = at
        .iter()
        .map(|(id, at)| update(*id, names[usize::try_from(id % 10).unwrap()], 1, *at))
        .collect();
    rows.extend((100..114).map(|id| insert(id, names[usize::try_from(id % 3).unwrap()], 0)));
    let result = load(&context, table.spec().await, change_stream(&rows, 8, false))
        .await
        .unwrap();
    let column = |name: &str| {
        result[0]
            .column_by_name(name)
            .unwrap()
            .as_primitive::<UInt64Type>()
            .value(0)
    };
    assert_eq!(column("num_files_removed"), 12);
    assert!(column("num_files_added") <= 3, "{}", column("num_files_added"));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_loads_roll_over_at_the_target_size() {
    let table = Table::create(id_name_qty(), &[], &[("delta.targetFileSize", "64kb")]).await;
    let rows: Vec<Row> = (0..60_000)
        .map(|id| insert((id * 7_919) % 1_000_003, "name", (id * 104_729) % 999_983))
        .collect();
    load(&session(1), table.spec().await, change_stream(&rows, 1, false))
        .await
        .unwrap();
    let sizes: Vec<u64> = table
        .snapshot()
        .await
        .files()
        .await
        .unwrap()
        .iter()
        .map(|f| f.size)
        .collect();
    assert!(sizes.len() >= 4, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 2 * 65_536), "{sizes:?}");
    assert_eq!(lines(&table.query("SELECT count(*) FROM t").await), ["60000"]);
}
