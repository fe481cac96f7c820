//! Telling a table whose open versions use another marker from what the log knows of its files, before any work. The
//! versions that are read are checked once more, row by row.

use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;

use super::validity::Validity;
use crate::bind::target::TargetTable;

/// The year 9000: ends from here on are markers, not times.
const FAR_FUTURE: i64 = 221_845_392_000_000_000;

/// Refuses a table that has NULL ends where another marker is written, or ends in the far future where none is.
pub(super) async fn check(table: &TargetTable, validity: &Validity, open_until: Option<i64>) -> Result<()> {
    let Some(base) = &table.base else { return Ok(()) };
    let schema = table.stored_schema();
    let Ok(index) = schema.index_of(&validity.to) else {
        return Ok(());
    };
    for file in base.files().await?.iter().filter(|file| file.deletion_vector.is_none()) {
        let statistics = file.statistics();
        let Some(ends) = statistics.column_statistics.get(index) else {
            continue;
        };
        let nulls = matches!(&ends.null_count, Precision::Exact(n) | Precision::Inexact(n) if *n > 0);
        let latest = ends.max_value.get_value().and_then(micros);
        let other = match open_until {
            Some(_) => nulls,
            None => latest.is_some_and(|latest| latest >= FAR_FUTURE),
        };
        if other {
            return Err(LoadError::new(
                SqlState::InvalidParameter,
                format!("the open versions of table \"{}\" use another marker", table.name),
            )
            .detail(match open_until {
                Some(_) => format!("It has versions that end at NULL in \"{}\".", validity.to),
                None => format!("It has versions that end in the far future in \"{}\".", validity.to),
            })
            .hint("Write the ACTIVE UNTIL that the table was loaded with.")
            .at(table.span));
        }
    }
    Ok(())
}

fn micros(value: &ScalarValue) -> Option<i64> {
    match value.cast_to(&DataType::Timestamp(TimeUnit::Microsecond, None)) {
        Ok(ScalarValue::TimestampMicrosecond(micros, _)) => micros,
        _ => None,
    }
}
