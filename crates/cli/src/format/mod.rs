//! Results as text. Each format is a file of its own; this one knows when which is used and what stands around it.

mod cell;
mod csv;
mod json;
mod table;
mod value;
mod vertical;

use std::io::{self, Write};
use std::time::Duration;

use alluvium::Outcome;
use clap::ValueEnum;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// An aligned table with row count and time
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One line per statement that returns rows: an array of row objects
    Json,
    /// One object per row and line
    Ndjson,
    /// One column per line
    Vertical,
}

impl Format {
    /// Whether the format is for people, so that counts and times may stand beside the rows.
    fn is_prose(self) -> bool {
        matches!(self, Self::Table | Self::Vertical)
    }
}

/// The format and what is written around the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) format: Format,
    /// No row counts, times, or confirmations.
    pub(crate) quiet: bool,
    /// Times beside row counts.
    pub(crate) timing: bool,
}

/// Writes what a statement returned.
pub(crate) fn write_outcome(out: &mut dyn Write, style: Style, outcome: &Outcome) -> io::Result<()> {
    if outcome.returns_rows {
        write_rows(out, style.format, outcome)?;
    }
    if style.quiet || !style.format.is_prose() {
        return Ok(());
    }
    let time = style.timing.then(|| seconds(outcome.elapsed));
    match (outcome.returns_rows, time) {
        (true, Some(time)) => writeln!(out, "({}, {time})", counted(outcome.num_rows())),
        (true, None) => writeln!(out, "({})", counted(outcome.num_rows())),
        (false, Some(time)) => writeln!(out, "OK ({time})"),
        (false, None) => writeln!(out, "OK"),
    }
}

fn write_rows(out: &mut dyn Write, format: Format, outcome: &Outcome) -> io::Result<()> {
    let (schema, batches) = (outcome.schema.as_ref(), outcome.batches.as_slice());
    match format {
        Format::Table => table::write(out, schema, batches),
        Format::Csv => csv::write(out, schema, batches),
        Format::Json => json::write_array(out, schema, batches),
        Format::Ndjson => json::write_lines(out, schema, batches),
        Format::Vertical => vertical::write(out, schema, batches),
    }
}

fn counted(rows: usize) -> String {
    match rows {
        1 => "1 row".to_owned(),
        rows => format!("{rows} rows"),
    }
}

/// A duration for people: milliseconds below a minute, tenths of seconds above.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    match whole {
        0..60 => format!("{:.3} s", duration.as_secs_f64()),
        _ => format!("{} min {}.{} s", whole / 60, whole % 60, duration.subsec_millis() / 100),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

    use super::*;

    pub(super) fn shown(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
            Field::new("amount", DataType::Decimal128(9, 2), true),
        ]))
    }

    fn batch(ids: Vec<i64>, names: Vec<Option<&str>>, amounts: Vec<Option<i128>>) -> RecordBatch {
        let amounts = Decimal128Array::from(amounts).with_precision_and_scale(9, 2).unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(StringArray::from(names)),
            Arc::new(amounts),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    pub(super) fn cities() -> (SchemaRef, Vec<RecordBatch>) {
        let first = batch(vec![1, 22], vec![Some("Oslo"), None], vec![Some(150), None]);
        let second = batch(vec![333], vec![Some("東京, \"Tōkyō\"\nJP")], vec![Some(-25)]);
        (schema(), vec![first, second])
    }

    pub(super) fn empty() -> (SchemaRef, Vec<RecordBatch>) {
        (schema(), vec![RecordBatch::new_empty(schema())])
    }

    pub(super) fn two_of_one_name() -> (SchemaRef, Vec<RecordBatch>) {
        let id = |name| Field::new(name, DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![id("id"), id("id"), id("id_1")]));
        let columns: Vec<ArrayRef> = [1, 3, 2]
            .into_iter()
            .map(|v| -> ArrayRef { Arc::new(Int64Array::from(vec![v])) })
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        (schema, vec![batch])
    }

    fn outcome(returns_rows: bool) -> Outcome {
        let (schema, batches) = cities();
        let batches = if returns_rows { batches } else { vec![] };
        Outcome {
            schema,
            batches,
            returns_rows,
            elapsed: Duration::from_millis(12),
        }
    }

    fn written(format: Format, quiet: bool, timing: bool, outcome: &Outcome) -> String {
        shown(|out| write_outcome(out, Style { format, quiet, timing }, outcome))
    }

    #[test]
    fn formats_for_people_end_with_row_count_and_time() {
        for format in [Format::Table, Format::Vertical] {
            let text = written(format, false, true, &outcome(true));
            assert_eq!(text.lines().last(), Some("(3 rows, 0.012 s)"));
            let text = written(format, false, false, &outcome(true));
            assert_eq!(text.lines().last(), Some("(3 rows)"));
            assert!(!written(format, true, true, &outcome(true)).contains("rows"));
            assert_eq!(written(format, false, true, &outcome(false)), "OK (0.012 s)\n");
        }
    }

    #[test]
    fn formats_for_programs_hold_rows_and_nothing_else() {
        for format in [Format::Csv, Format::Json, Format::Ndjson] {
            assert_eq!(written(format, false, true, &outcome(false)), "");
            assert_eq!(
                written(format, false, true, &outcome(true)),
                written(format, true, false, &outcome(true))
            );
        }
    }

    #[test]
    fn times_are_short() {
        assert_eq!(seconds(Duration::from_millis(1)), "0.001 s");
        assert_eq!(seconds(Duration::from_millis(59_999)), "59.999 s");
        assert_eq!(seconds(Duration::from_millis(61_250)), "1 min 1.2 s");
        assert_eq!(counted(1), "1 row");
        assert_eq!(counted(0), "0 rows");
    }
}
