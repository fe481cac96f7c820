//! One column per line, for rows that are wider than the screen.

use std::io::{self, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;

use super::cell::{cell, printable, width};

/// Writes the result.
pub(crate) fn write(out: &mut dyn Write, schema: &Schema, batches: &[RecordBatch]) -> io::Result<()> {
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|f| printable(f.name()).replace('\n', "\\n"))
        .collect();
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let mut buffer = String::new();
    let mut number = 0_usize;
    for batch in batches {
        for row in 0..batch.num_rows() {
            number += 1;
            writeln!(out, "-[ ROW {number} ]{}", "-".repeat(20))?;
            for (name, array) in names.iter().zip(batch.columns()) {
                write_value(out, widest, name, &cell(&mut buffer, array.as_ref(), row))?;
            }
        }
    }
    Ok(())
}

fn write_value(out: &mut dyn Write, widest: usize, name: &str, text: &str) -> io::Result<()> {
    let mut label = name;
    for line in text.split('\n') {
        let fill = " ".repeat(widest.saturating_sub(width(label)));
        writeln!(out, "{}", format!("{label}{fill} | {line}").trim_end())?;
        label = "";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cities, empty, shown};
    use super::*;

    #[test]
    fn every_column_has_its_line() {
        let (schema, batches) = cities();
        let rule = "-".repeat(20);
        assert_eq!(
            shown(|out| write(out, &schema, &batches)),
            format!(
                "-[ ROW 1 ]{rule}\nid     | 1\nname   | Oslo\namount | 1.50\n\
                 -[ ROW 2 ]{rule}\nid     | 22\nname   | NULL\namount | NULL\n\
                 -[ ROW 3 ]{rule}\nid     | 333\nname   | 東京, \"Tōkyō\"\n       | JP\namount | -0.25\n"
            )
        );
        let (schema, batches) = empty();
        assert_eq!(shown(|out| write(out, &schema, &batches)), "");
    }
}
