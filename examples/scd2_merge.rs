//! Keeps the history of airports that were renamed, and asks what an airport was called on a past day.
//!
//!     cargo run --example scd2_merge

use std::error::Error;

use alluvium::{Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

/// Every row says since when it holds, so rows may come in any order.
const MERGE: &str = "SCD2 MERGE INTO airports KEYS (iata) SEQUENCE BY since
                     VALIDITY COLUMNS (valid_from, valid_to, is_current) CREATE IF NOT EXISTS";

#[tokio::main]
async fn main() -> Result {
    run().await
}

/// Loads airports, then names given later, one of them late, and looks back.
pub async fn run() -> Result {
    let warehouse = tempfile::tempdir()?;
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .build()
        .await?;
    // The list has no dates; all later names are known to be younger than this one.
    let first = session
        .execute(&format!(
            "{MERGE} SELECT *, DATE '2000-01-01' AS since FROM '{DATA}/airports.csv'"
        ))
        .await?;
    assert_eq!(count(&first, "num_inserted_rows")?, 11);

    // Five names of four airports: two of Oakland are chained in one load.
    let names = format!("SELECT * FROM '{DATA}/airport-names.csv'");
    let recent = session
        .execute(&format!("{MERGE} {names} WHERE since >= DATE '2010-01-01'"))
        .await?;
    println!("{}", pretty_format_batches(&recent.batches)?);
    assert_eq!(count(&recent, "num_inserted_rows")?, 5);
    assert_eq!(count(&recent, "num_updated_rows")?, 4);

    // A name from before those. It takes its place in the history of Burbank.
    let late = session
        .execute(&format!("{MERGE} {names} WHERE since < DATE '2010-01-01'"))
        .await?;
    assert_eq!(count(&late, "num_inserted_rows")?, 1);
    let again = session.execute(&format!("{MERGE} {names}")).await?;
    assert_eq!(text(&again, "status")?, "NO CHANGES");

    let history = session
        .execute("SELECT name, valid_from, valid_to, is_current FROM airports WHERE iata = 'BUR' ORDER BY valid_from")
        .await?;
    println!("{}", pretty_format_batches(&history.batches)?);
    assert_eq!(history.num_rows(), 3);

    // As of a day: an interval holds its start and not its end, and the open version has no end.
    for (day, name) in [
        ("2003-12-16", "Burbank-Glendale-Pasadena"),
        ("2003-12-17", "Bob Hope"),
        ("2010-06-01", "Bob Hope"),
        ("2025-01-01", "Hollywood Burbank"),
    ] {
        let then = session.execute(&as_of(day)).await?;
        assert_eq!(then.num_rows(), 1);
        assert_eq!(text(&then, "name")?, name);
    }
    Ok(())
}

fn as_of(day: &str) -> String {
    format!(
        "SELECT name FROM airports WHERE iata = 'BUR'
         AND valid_from <= DATE '{day}' AND (valid_to IS NULL OR valid_to > DATE '{day}')"
    )
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
