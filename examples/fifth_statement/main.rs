//! Adds a statement to a session: `UPDATE ONLY INTO` updates the rows it knows and inserts nothing. Its folder is what
//! `crates/statements/README.md` asks for.
//!
//!     cargo run --example fifth_statement

mod update_only;

use std::error::Error;
use std::sync::Arc;

use alluvium::{Outcome, Session, render_error};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use update_only::UpdateOnly;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

#[tokio::main]
async fn main() -> Result {
    run().await
}

/// Takes revisions of known earthquakes, and leaves new ones to another load.
pub async fn run() -> Result {
    let warehouse = tempfile::tempdir()?;
    let session = Session::builder()
        .with_warehouse(warehouse.path().display().to_string())
        .with_statement(Arc::new(UpdateOnly::new()))
        // With several, a message about rows says "at least".
        .with_threads(1)
        .build()
        .await?;
    let create = format!("CREATE TABLE earthquakes USING DELTA AS SELECT * FROM '{DATA}/earthquakes-1.csv'");
    session.execute(&create).await?;
    let revise = format!("UPDATE ONLY INTO earthquakes USING '{DATA}/earthquakes-2.csv' KEYS (id)");

    // All that is shared works for it: EXPLAIN, DRY RUN, PREPARE, RETURNING ..
    let explained = session.execute(&format!("EXPLAIN {revise}")).await?;
    assert!(
        pretty_format_batches(&explained.batches)?
            .to_string()
            .contains("UpdateOnly")
    );
    let dry = session.execute(&format!("{revise} DRY RUN")).await?;
    assert_eq!(text(&dry, "status")?, "DRY RUN");
    session.execute(&format!("PREPARE revise AS {revise}")).await?;

    let revised = session.execute("EXECUTE revise").await?;
    println!("{}", pretty_format_batches(&revised.batches)?);
    assert_eq!(count(&revised, "num_updated_rows")?, 157);
    assert_eq!(count(&revised, "num_skipped_rows")?, 227);
    assert_eq!(count(&revised, "num_inserted_rows")?, 0);
    let again = session.execute(&revise).await?;
    assert_eq!(text(&again, "status")?, "NO CHANGES");

    // .. and its errors read like those of the other statements.
    fails(
        &session,
        "UPDATE ONLY INTO earthquakes KEYS (id) ON UNKNOWN KEY ERROR SELECT 'x1' AS id, 9.5 AS mag",
        UNKNOWN,
    )
    .await?;
    fails(&session, "UPDATE ONLY INTO earthquakes USING quakes", NO_KEYS).await?;
    fails(
        &session,
        "UPSERT INTO earthquakes USING quakes KEYS (id) ON UNKNOWN KEY SKIP",
        NOT_OURS,
    )
    .await?;
    let history = session.execute("SELECT * FROM table_history('earthquakes')").await?;
    println!("{}", pretty_format_batches(&history.batches)?);
    assert_eq!(history.num_rows(), 2);
    Ok(())
}

const UNKNOWN: &str = r#"ERROR 22023: a source row has a key that table "earthquakes" does not hold
DETAIL: It is the row with (id, mag)=(x1, 9.5).
HINT: Leave such rows out, or write ON UNKNOWN KEY SKIP."#;

const NO_KEYS: &str = "ERROR 42601: UPDATE ONLY needs KEYS (..)
LINE 1: UPDATE ONLY INTO earthquakes USING quakes
        ^^^^^^^^^^^
HINT: Add KEYS (column, ..) with the columns that identify a row.";

const NOT_OURS: &str = "ERROR 42601: ON UNKNOWN KEY is not valid in UPSERT
LINE 1: UPSERT INTO earthquakes USING quakes KEYS (id) ON UNKNOWN KEY SKIP
                                                       ^^^^^^^^^^^^^^
HINT: It is a clause of UPDATE ONLY.";

/// The statement fails, and the message is this one.
async fn fails(session: &Session, statement: &str, expected: &str) -> Result {
    match session.execute(statement).await {
        Ok(_) => Err(format!("this was taken: {statement}").into()),
        Err(error) => {
            let shown = render_error(&error, statement);
            println!("{shown}\n");
            assert_eq!(shown.trim_end(), expected);
            Ok(())
        }
    }
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
