//! CSV after RFC 4180: a header per result, commas, quotes only where needed, lines that end in a line feed.
//!
//! NULL is an empty field; an empty text is `""`, so that the two can be told apart.

use std::io::{self, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;

use super::value::write_text;

/// Writes the result.
pub(crate) fn write(out: &mut dyn Write, schema: &Schema, batches: &[RecordBatch]) -> io::Result<()> {
    let mut line = String::new();
    for (i, field) in schema.fields().iter().enumerate() {
        push_field(&mut line, i, Some(field.name()));
    }
    writeln!(out, "{line}")?;
    let mut text = String::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            line.clear();
            for (i, column) in batch.columns().iter().enumerate() {
                text.clear();
                let filled = write_text(&mut text, column.as_ref(), row);
                push_field(&mut line, i, filled.then_some(text.as_str()));
            }
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn push_field(line: &mut String, position: usize, text: Option<&str>) {
    if position > 0 {
        line.push(',');
    }
    match text {
        None => {}
        Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
            line.push('"');
            line.push_str(&text.replace('"', "\"\""));
            line.push('"');
        }
        Some(text) => line.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cities, empty, shown};
    use super::*;

    #[test]
    fn fields_are_quoted_only_where_needed() {
        let (schema, batches) = cities();
        assert_eq!(
            shown(|out| write(out, &schema, &batches)),
            "id,name,amount\n1,Oslo,1.50\n22,,\n333,\"東京, \"\"Tōkyō\"\"\nJP\",-0.25\n"
        );
    }

    #[test]
    fn no_rows_leave_the_header() {
        let (schema, batches) = empty();
        assert_eq!(shown(|out| write(out, &schema, &batches)), "id,name,amount\n");
    }

    #[test]
    fn empty_text_differs_from_null() {
        let mut line = String::new();
        push_field(&mut line, 0, Some(""));
        push_field(&mut line, 1, None);
        assert_eq!(line, "\"\",");
    }
}
