//! Loads earthquakes from an embedding program, once through a session of ours and once through a plain
//! `SessionContext`.
//!
//!     cargo run --example upsert

use std::error::Error;
use std::sync::Arc;

use alluvium::{LoadContext, Session};
use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

#[tokio::main]
async fn main() -> Result {
    run().await
}

/// Both ways to embed, in turn.
pub async fn run() -> Result {
    with_a_session().await?;
    with_a_plain_context().await
}

/// A session has a warehouse: every Delta table below it is a table by its name.
async fn with_a_session() -> Result {
    let warehouse = tempfile::tempdir()?;
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .build()
        .await?;

    // No table yet: the first load creates it, with the types of the file, in the commit that holds the rows.
    let first = session
        .execute(&format!(
            "UPSERT INTO earthquakes USING '{DATA}/earthquakes-1.csv' KEYS (id) SEQUENCE BY updated
             CREATE IF NOT EXISTS"
        ))
        .await?;
    assert_eq!(count(&first.batches, "num_inserted_rows")?, 1_480);

    // `execute` starts again on the new snapshot when somebody else commits in between.
    let second = session
        .execute(&format!(
            "UPSERT INTO earthquakes USING '{DATA}/earthquakes-2.csv' KEYS (id) SEQUENCE BY updated"
        ))
        .await?;
    println!("{}", pretty_format_batches(&second.batches)?);
    assert_eq!(count(&second.batches, "num_inserted_rows")?, 227);
    assert_eq!(count(&second.batches, "num_updated_rows")?, 157);
    assert_eq!(text(&second.batches, "status")?, "COMMITTED");

    // The older delivery comes late. It changes nothing: `SEQUENCE BY` guards what is stored.
    let late = session
        .execute(&format!(
            "UPSERT INTO earthquakes USING '{DATA}/earthquakes-1.csv' KEYS (id) SEQUENCE BY updated"
        ))
        .await?;
    assert_eq!(count(&late.batches, "num_skipped_rows")?, 157);
    assert_eq!(count(&late.batches, "num_unchanged_rows")?, 1_323);
    assert_eq!(text(&late.batches, "status")?, "NO CHANGES");
    Ok(())
}

/// A context that a program has already keeps everything it knows. Whatever it can query can be a source.
async fn with_a_plain_context() -> Result {
    let directory = tempfile::tempdir()?;
    let location = directory.path().display();
    let context = SessionContext::new();
    context.register_batch("readings", readings()?)?;

    let create = format!(
        "CREATE TABLE sensors (sensor BIGINT NOT NULL, place STRING, celsius DOUBLE) USING DELTA LOCATION '{location}'"
    );
    context.load_sql(&create).await?.collect().await?;

    // `load_sql` plans; the commit happens when the frame is executed.
    let load = "UPSERT INTO sensors KEYS (sensor) SELECT sensor, place, celsius FROM readings WHERE celsius > -50
                RETURNING merge_action() AS action, sensor, celsius";
    let returned = context.load_sql(load).await?.collect().await?;
    println!("{}", pretty_format_batches(&returned)?);
    assert_eq!(returned.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);

    let stored = context
        .load_sql("SELECT place FROM sensors ORDER BY sensor")
        .await?
        .collect()
        .await?;
    assert_eq!(text(&stored, "place")?, "roof");
    Ok(())
}

fn readings() -> Result<RecordBatch> {
    let sensors = Int64Array::from(vec![1, 2, 3]);
    let places = StringArray::from(vec!["roof", "cellar", "broken"]);
    let celsius = Float64Array::from(vec![-3.5, 11.0, -273.0]);
    let columns: [(&str, ArrayRef); 3] = [
        ("sensor", Arc::new(sensors)),
        ("place", Arc::new(places)),
        ("celsius", Arc::new(celsius)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// One of the counts in the result row of a load.
fn count(batches: &[RecordBatch], column: &str) -> Result<u64> {
    let first = batches.first().ok_or("no rows")?;
    let values = first.column_by_name(column).ok_or("no such column")?;
    Ok(values.as_primitive::<UInt64Type>().value(0))
}

/// A text in the first row.
fn text<'a>(batches: &'a [RecordBatch], column: &str) -> Result<&'a str> {
    let first = batches.first().ok_or("no rows")?;
    let values = first.column_by_name(column).ok_or("no such column")?;
    Ok(values.as_string::<i32>().value(0))
}
