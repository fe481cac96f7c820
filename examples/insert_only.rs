//! Replays deliveries of earthquakes into an append-only log: known quakes are left alone, nothing is rewritten.
//!
//!     cargo run --example insert_only

use std::error::Error;

use alluvium::{Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

#[tokio::main]
async fn main() -> Result {
    run().await
}

/// Loads two deliveries and then replays both.
pub async fn run() -> Result {
    let warehouse = tempfile::tempdir()?;
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .build()
        .await?;
    session
        .execute(
            "CREATE TABLE first_reports (id STRING NOT NULL, time TIMESTAMP, mag DOUBLE, place STRING, status STRING)
             USING DELTA TBLPROPERTIES ('delta.appendOnly' = 'true')",
        )
        .await?;

    let first = load(&session, "earthquakes-1.csv").await?;
    assert_eq!(count(&first, "num_inserted_rows")?, 1_480);

    // Of the second delivery 157 records are revisions of known quakes. A log of first reports skips them.
    let second = load(&session, "earthquakes-2.csv").await?;
    println!("{}", pretty_format_batches(&second.batches)?);
    assert_eq!(count(&second, "num_inserted_rows")?, 227);
    assert_eq!(count(&second, "num_skipped_rows")?, 157);
    assert_eq!(count(&second, "num_files_removed")?, 0);

    // A pipeline that died starts over: everything is known, and no version is added.
    for delivery in ["earthquakes-1.csv", "earthquakes-2.csv"] {
        let again = load(&session, delivery).await?;
        assert_eq!(count(&again, "num_inserted_rows")?, 0);
    }
    let history = session
        .execute("SELECT count(*) AS versions FROM table_history('first_reports')")
        .await?;
    assert_eq!(number(&history, "versions")?, 3);

    let automatic = session
        .execute("SELECT count(*) AS n FROM first_reports WHERE status = 'automatic'")
        .await?;
    println!("{} first reports were automatic", number(&automatic, "n")?);
    Ok(())
}

/// Only the columns the table has land in it; `COLUMNS` names them, and the keys see the whole source.
async fn load(session: &Session, delivery: &str) -> Result<Outcome> {
    let statement = format!(
        "INSERT ONLY INTO first_reports USING '{DATA}/{delivery}' KEYS (id)
         COLUMNS (id, time, mag, place, status) COMMENT '{delivery}'"
    );
    Ok(session.execute(&statement).await?)
}

/// One of the counts in the result row of a load.
fn count(outcome: &Outcome, column: &str) -> Result<u64> {
    let first = outcome.batches.first().ok_or("no rows")?;
    let values = first.column_by_name(column).ok_or("no such column")?;
    Ok(values.as_primitive::<UInt64Type>().value(0))
}

/// A number in the first row of a query.
fn number(outcome: &Outcome, column: &str) -> Result<i64> {
    let first = outcome.batches.first().ok_or("no rows")?;
    let values = first.column_by_name(column).ok_or("no such column")?;
    Ok(values.as_primitive::<Int64Type>().value(0))
}
