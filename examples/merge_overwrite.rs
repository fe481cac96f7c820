//! Replaces a window of days in a table of daily weather with what a corrected delivery holds.
//!
//!     cargo run --example merge_overwrite

use std::error::Error;

use alluvium::{Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

/// A week of December. The upper bound of `FROM .. TO` is outside.
const WEEK: &str = "WINDOW date FROM DATE '2015-12-07' TO DATE '2015-12-14'";

#[tokio::main]
async fn main() -> Result {
    run().await
}

/// Loads two months, then corrects a week and retracts a station from it.
pub async fn run() -> Result {
    let warehouse = tempfile::tempdir()?;
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .build()
        .await?;
    let create = format!(
        "CREATE TABLE weather USING DELTA AS
         SELECT location, date, precipitation, temp_max, temp_min, weather FROM '{DATA}/weather.csv'"
    );
    session.execute(&create).await?;

    // The week again, as a view that stands for a corrected delivery: in Seattle, the gauge had shown too little.
    let corrected = format!(
        "CREATE VIEW corrected AS
         SELECT location, date, precipitation + CASE location WHEN 'Seattle' THEN 0.5 ELSE 0.0 END AS precipitation,
                temp_max, temp_min, weather
         FROM '{DATA}/weather.csv' WHERE date >= DATE '2015-12-07' AND date < DATE '2015-12-14'"
    );
    session.execute(&corrected).await?;
    let dry = session
        .execute(&format!("MERGE OVERWRITE INTO weather USING corrected {WEEK} DRY RUN"))
        .await?;
    assert_eq!(text(&dry, "status")?, "DRY RUN");

    let replaced = session
        .execute(&format!("MERGE OVERWRITE INTO weather USING corrected {WEEK}"))
        .await?;
    println!("{}", pretty_format_batches(&replaced.batches)?);
    assert_eq!(count(&replaced, "num_deleted_rows")?, 14);
    assert_eq!(count(&replaced, "num_inserted_rows")?, 14);

    // A delivery that reaches beyond its window is an error, and nothing has changed.
    let outside = session
        .execute(&format!(
            "MERGE OVERWRITE INTO weather USING weather AS all_days {WEEK}"
        ))
        .await;
    match outside {
        Ok(_) => return Err("a row outside the window was taken".into()),
        Err(error) => {
            println!("{error}");
            assert_eq!(error.code(), "44000");
        }
    }

    // A window is any predicate on the table's columns. An empty delivery empties it only when told so.
    let retracted = session
        .execute(
            "MERGE OVERWRITE INTO weather
             WINDOW (date >= DATE '2015-12-07' AND date < DATE '2015-12-14' AND location = 'New York')
             ON EMPTY SOURCE APPLY
             SELECT * FROM corrected WHERE FALSE",
        )
        .await?;
    assert_eq!(count(&retracted, "num_deleted_rows")?, 7);

    let left = session
        .execute(
            "SELECT location, count(*) AS days, round(sum(precipitation), 1) AS millimetres
             FROM weather GROUP BY location ORDER BY location",
        )
        .await?;
    println!("{}", pretty_format_batches(&left.batches)?);
    assert_eq!(text(&left, "location")?, "New York");
    assert_eq!(left.num_rows(), 2);
    Ok(())
}

/// One of the counts in the result row of a load.
fn count(outcome: &Outcome, column: &str) -> Result<u64> {
    let first = outcome.batches.first().ok_or("no rows")?;
    let values = first.column_by_name(column).ok_or("no such column")?;
    Ok(values.as_primitive::<UInt64Type>().value(0))
}

/// A text in the first row.
fn text<'a>(outcome: &'a Outcome, column: &str) -> Result<&'a str> {
    let first = outcome.batches.first().ok_or("no rows")?;
    let values = first.column_by_name(column).ok_or("no such column")?;
    Ok(values.as_string::<i32>().value(0))
}
