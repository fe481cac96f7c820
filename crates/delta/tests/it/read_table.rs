//! Opening tables: snapshots, file lists, statistics, and demands that are refused.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use alluvium_core::LoadError;
use alluvium_delta::TableHandle;
use alluvium_delta::table::features::check_writable;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use serde_json::{Value, json};
use url::Url;

use crate::read_support::{Lake, add, id_name, id_stats, ids, metadata};

#[tokio::test]
async fn a_place_without_a_table_has_no_snapshot() {
    let lake = Lake::empty();
    assert!(lake.handle.snapshot().await.unwrap().is_none());
    let nowhere = TableHandle::new(Url::parse("file:///no/such/place/").unwrap(), HashMap::new());
    assert!(nowhere.snapshot().await.unwrap().is_none());
}

#[tokio::test]
async fn a_damaged_log_is_an_error() {
    let lake = Lake::create(&id_name(), &[]);
    fs::write(lake.path("_delta_log/00000000000000000000.json"), "{not json").unwrap();
    let e = lake.handle.snapshot().await.unwrap_err();
    assert_eq!(e.code(), "58030", "{e}");
}

#[tokio::test]
async fn a_snapshot_stays_the_same_until_the_table_changes() {
    let mut lake = Lake::create(&id_name(), &[]);
    let first = lake.snapshot().await;
    assert!(Arc::ptr_eq(&first, &lake.snapshot().await));
    let add = lake.file("a.parquet", &ids(0..3), id_stats(0, 2));
    lake.commit(&[add]);
    let second = lake.snapshot().await;
    assert_eq!((first.version(), second.version()), (0, 1));
    assert_eq!(
        (first.files().await.unwrap().len(), second.files().await.unwrap().len()),
        (0, 1)
    );

    let adopted = lake.handle.adopt(first.eager().clone()).await.unwrap();
    assert_eq!(adopted.version(), 1, "an older state does not replace a newer one");
}

#[tokio::test]
async fn statistics_are_read_from_the_log() {
    let mut lake = Lake::create(&id_name(), &[]);
    let stats = json!({
        "numRecords": 3,
        "minValues": {"id": -5, "name": "aaa"}, "maxValues": {"id": 9007199254740993_i64, "name": "zz"},
        "nullCount": {"id": 0, "name": 2},
    });
    let adds = [
        lake.file("b.parquet", &ids(0..3), stats),
        lake.file("a.parquet", &ids(0..3), Value::Null),
    ];
    lake.commit(&adds);
    let files = lake.snapshot().await.files().await.unwrap();
    assert_eq!(
        files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
        ["a.parquet", "b.parquet"]
    );
    assert_eq!(
        (files[0].ordinal, files[0].num_records, files[1].num_records),
        (0, None, Some(3))
    );

    let nothing = files[0].statistics();
    assert_eq!(nothing.num_rows, Precision::Absent);
    assert_eq!(nothing.column_statistics[0].min_value, Precision::Absent);
    let known = files[1].statistics();
    assert_eq!(known.num_rows, Precision::Exact(3));
    assert_eq!(
        known.column_statistics[0].max_value,
        Precision::Inexact(ScalarValue::Int64(Some(9007199254740993)))
    );
    assert_eq!(
        known.column_statistics[1].min_value,
        Precision::Inexact(ScalarValue::from("aaa"))
    );
    assert_eq!(known.column_statistics[1].null_count, Precision::Exact(2));
}

#[tokio::test]
async fn files_outside_the_table_are_refused() {
    for (path, code, words) in [
        ("file:///somewhere/else/a.parquet", "0A000", "shallow clone"),
        ("../other/a.parquet", "58030", "outside the table"),
        ("x/%2E%2E/%2E%2E/a.parquet", "58030", "outside the table"),
    ] {
        let mut lake = Lake::create(&id_name(), &[]);
        lake.commit(&[add(path, 10, json!({}), Value::Null)]);
        let snapshot = lake.snapshot().await;
        let e = snapshot.files().await.unwrap_err();
        assert!(e.code() == code && e.message().contains(words), "{path}: {e}");
        assert_eq!(check_writable(&snapshot).unwrap_err().code(), code);
    }
}

async fn check(properties: Value, protocol: Value, schema: Option<&str>) -> Result<(), LoadError> {
    let mut lake = Lake::empty();
    let mut metadata = metadata(&id_name(), &[], properties);
    if let Some(schema) = schema {
        metadata["metaData"]["schemaString"] = schema.into();
    }
    lake.commit(&[json!({"protocol": protocol}), metadata]);
    let snapshot = lake.handle.snapshot().await?.unwrap();
    check_writable(&snapshot)
}

fn features(reader: &[&str], writer: &[&str]) -> Value {
    json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer})
}

fn refused(result: Result<(), LoadError>, feature: &str) {
    let e = result.unwrap_err();
    let text = format!("{} {}", e.message(), e.detail_text().unwrap_or_default());
    assert!(
        e.code() == "0A000" && text.contains(feature),
        "{feature}: {} {text}",
        e.code()
    );
}

#[tokio::test]
async fn what_our_operators_honour_is_let_in() {
    check(json!({}), json!({"minReaderVersion": 1, "minWriterVersion": 2}), None)
        .await
        .unwrap();
    let all = [
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "timestampNtz",
    ];
    check(
        json!({"delta.appendOnly": "true"}),
        features(&["timestampNtz"], &all),
        None,
    )
    .await
    .unwrap();
    let vectors = features(&["deletionVectors"], &["deletionVectors"]);
    for on in ["false", "true"] {
        check(json!({"delta.enableDeletionVectors": on}), vectors.clone(), None)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn what_they_do_not_is_refused_by_name() {
    for feature in [
        "rowTracking",
        "identityColumns",
        "icebergCompatV1",
        "clustering",
        "domainMetadata",
        "inCommitTimestamp",
        "allowColumnDefaults",
        "checkpointProtection",
        "somethingNew",
    ] {
        let listed = match feature {
            "rowTracking" | "clustering" => features(&[], &[feature, "domainMetadata"]),
            _ => features(&[], &[feature]),
        };
        let e = check(json!({}), listed, None).await;
        refused(e, feature);
    }
    for feature in ["v2Checkpoint", "typeWidening", "variantType", "vacuumProtocolCheck"] {
        refused(check(json!({}), features(&[feature], &[feature]), None).await, feature);
    }
    let unknown = check(json!({}), features(&["fromTheFuture"], &["fromTheFuture"]), None).await;
    refused(unknown, "fromTheFuture");
    refused(
        check(json!({}), json!({"minReaderVersion": 1, "minWriterVersion": 9}), None).await,
        "minWriterVersion 9",
    );
}

#[tokio::test]
async fn notes_on_columns_are_refused_by_name() {
    let legacy = || json!({"minReaderVersion": 1, "minWriterVersion": 6});
    let identity = json!({"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": true, "metadata": {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": false}},
    ]});
    refused(
        check(json!({}), legacy(), Some(&identity.to_string())).await,
        "identityColumns",
    );
}

#[tokio::test]
async fn promises_of_a_table_can_be_asked_for() {
    let schema = json!({"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": true, "metadata": {"delta.invariants": "{\"expression\":{\"expression\":\"id > 3\"}}"}},
        {"name": "twice", "type": "long", "nullable": true, "metadata": {"delta.generationExpression": "id * 2"}},
    ]});
    let properties = json!({
        "delta.constraints.b": "id < 9", "delta.constraints.a": "twice > 0", "delta.enableChangeDataFeed": "true",
        "delta.targetFileSize": "1048576", "delta.appendOnly": "true",
    });
    let mut lake = Lake::empty();
    let mut metadata = metadata(&id_name(), &[], properties);
    metadata["metaData"]["schemaString"] = schema.to_string().into();
    lake.commit(&[
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}),
        metadata,
    ]);
    let snapshot = lake.snapshot().await;
    check_writable(&snapshot).unwrap();
    let pairs = |list: Vec<(String, String)>| list.into_iter().map(|(a, b)| format!("{a}: {b}")).collect::<Vec<_>>();
    assert_eq!(pairs(snapshot.constraints()), ["a: twice > 0", "b: id < 9"]);
    assert_eq!(pairs(snapshot.invariants().unwrap()), ["id: id > 3"]);
    assert_eq!(pairs(snapshot.generated_columns().unwrap()), ["twice: id * 2"]);
    assert!(snapshot.change_data_feed() && snapshot.is_append_only());
    assert_eq!(snapshot.target_file_size().get(), 1_048_576);
    assert_eq!(snapshot.name(), "t");
}

#[tokio::test]
async fn credentials_are_not_shown() {
    let options = HashMap::from([("aws_secret_access_key".to_owned(), "SECRETKEY".to_owned())]);
    let handle = TableHandle::new(
        Url::parse("s3://user:SECRETPW@bucket/t?sig=SECRETSIG").unwrap(),
        options,
    );
    let shown = format!("{handle:?}");
    assert!(!shown.contains("SECRET"), "{shown}");
}
