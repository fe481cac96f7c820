//! An aligned table: numbers to the right, everything else to the left, several lines in a cell where a value has them.

use std::io::{self, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;

use super::cell::{cell, printable, width};
use super::value::is_numeric;

struct Column {
    width: usize,
    right: bool,
}

/// Writes the result. Rows are formatted twice, once for the widths, so that a large result is not held as text.
pub(crate) fn write(out: &mut dyn Write, schema: &Schema, batches: &[RecordBatch]) -> io::Result<()> {
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|f| printable(f.name()).into_owned())
        .collect();
    let columns = columns(schema, &names, batches);
    write_row(out, &columns, &names)?;
    let rules: Vec<String> = columns.iter().map(|c| "-".repeat(c.width + 2)).collect();
    writeln!(out, "{}", rules.join("+"))?;
    let mut buffer = String::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .map(|array| cell(&mut buffer, array.as_ref(), row).into_owned())
                .collect();
            write_row(out, &columns, &cells)?;
        }
    }
    Ok(())
}

fn columns(schema: &Schema, names: &[String], batches: &[RecordBatch]) -> Vec<Column> {
    let mut columns: Vec<Column> = schema
        .fields()
        .iter()
        .zip(names)
        .map(|(field, name)| Column {
            width: width(name),
            right: is_numeric(field.data_type()),
        })
        .collect();
    let mut buffer = String::new();
    for batch in batches {
        for (column, array) in columns.iter_mut().zip(batch.columns()) {
            for row in 0..batch.num_rows() {
                column.width = column.width.max(width(&cell(&mut buffer, array.as_ref(), row)));
            }
        }
    }
    columns
}

fn write_row(out: &mut dyn Write, columns: &[Column], cells: &[String]) -> io::Result<()> {
    let mut cells: Vec<_> = cells.iter().map(|text| text.split('\n')).collect();
    let mut lines: Vec<Option<&str>> = cells.iter_mut().map(Iterator::next).collect();
    loop {
        let parts: Vec<String> = columns
            .iter()
            .zip(&lines)
            .map(|(column, line)| aligned(column, line.unwrap_or("")))
            .collect();
        writeln!(out, "{}", parts.join("|").trim_end())?;
        lines = cells.iter_mut().map(Iterator::next).collect();
        if lines.iter().all(Option::is_none) {
            return Ok(());
        }
    }
}

fn aligned(column: &Column, text: &str) -> String {
    let fill = " ".repeat(column.width.saturating_sub(width(text)));
    match column.right {
        true => format!(" {fill}{text} "),
        false => format!(" {text}{fill} "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cities, empty, shown};
    use super::*;

    #[test]
    fn numbers_stand_right_and_wide_characters_keep_the_columns_straight() {
        let (schema, batches) = cities();
        let expected = [
            "  id | name          | amount",
            "-----+---------------+--------",
            "   1 | Oslo          |   1.50",
            "  22 | NULL          |   NULL",
            " 333 | 東京, \"Tōkyō\" |  -0.25",
            "     | JP            |",
            "",
        ];
        assert_eq!(shown(|out| write(out, &schema, &batches)), expected.join("\n"));
    }

    #[test]
    fn no_rows_leave_the_head() {
        let (schema, batches) = empty();
        assert_eq!(
            shown(|out| write(out, &schema, &batches)),
            " id | name | amount\n----+------+--------\n"
        );
    }
}
