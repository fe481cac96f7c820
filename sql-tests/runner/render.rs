//! Values as text, the same for every engine and machine.

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::database::Failure;
use crate::scratch::Scratch;

/// Timestamps without their offset: everything a test stores is UTC or has no zone.
const TIMESTAMP: &str = "%Y-%m-%dT%H:%M:%S%.f";

const OPTIONS: FormatOptions = FormatOptions::new()
    .with_null("NULL")
    .with_timestamp_format(Some(TIMESTAMP))
    .with_timestamp_tz_format(Some(TIMESTAMP));

/// The cells of an answer, row by row. A plan becomes one row per line.
pub fn rows(schema: &Schema, batches: &[RecordBatch], scratch: &Scratch) -> Result<Vec<Vec<String>>, Failure> {
    let mut out = vec![];
    for batch in batches {
        out.extend(batch_rows(batch).map_err(|e| Failure::broken(e.to_string()))?);
    }
    let is_plan = schema.fields().last().is_some_and(|f| f.name() == "plan");
    if is_plan {
        out = out.iter().flat_map(|row| plan_lines(row)).collect();
    }
    for cell in out.iter_mut().flatten() {
        *cell = escape(&scratch.mask(cell));
    }
    Ok(out)
}

fn batch_rows(batch: &RecordBatch) -> Result<Vec<Vec<String>>, ArrowError> {
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|c| Column::try_new(c.as_ref()))
        .collect::<Result<_, _>>()?;
    let row = |i| columns.iter().map(|c| c.cell(i)).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}

struct Column<'a> {
    formatter: ArrayFormatter<'a>,
    array: &'a dyn Array,
}

impl<'a> Column<'a> {
    fn try_new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let formatter = ArrayFormatter::try_new(array, &OPTIONS)?;
        Ok(Self { formatter, array })
    }

    fn cell(&self, row: usize) -> String {
        let text = self.formatter.value(row).to_string();
        let is_text = matches!(
            self.array.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        match text.as_str() {
            "" if is_text => "(empty)".to_owned(),
            _ => text,
        }
    }
}

/// Line breaks and tabs as two characters, so that a value stays on its line and is not taken for a gap.
fn escape(cell: &str) -> String {
    cell.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

/// `type`, then the plan's lines with their number and one `-` per space of indentation, since the comparison takes
/// any run of spaces for one.
fn plan_lines(row: &[String]) -> Vec<Vec<String>> {
    let Some((plan, head)) = row.split_last() else {
        return vec![];
    };
    let lines = plan.lines().enumerate().map(|(number, line)| {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        vec![format!("{:02}){}{text}", number + 1, "-".repeat(depth))]
    });
    std::iter::once(head.to_vec()).chain(lines).collect()
}
