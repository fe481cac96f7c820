//! JSON: one array of row objects per result, or one object per line.

use std::collections::HashSet;
use std::io::{self, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;

use super::value::{write_json, write_quoted};

/// Writes the result as one line: an array of row objects.
pub(crate) fn write_array(out: &mut dyn Write, schema: &Schema, batches: &[RecordBatch]) -> io::Result<()> {
    let mut separator = "";
    out.write_all(b"[")?;
    each_row(schema, batches, |row| {
        write!(out, "{separator}{row}")?;
        separator = ",";
        Ok(())
    })?;
    out.write_all(b"]\n")
}

/// Writes one object per row and line.
pub(crate) fn write_lines(out: &mut dyn Write, schema: &Schema, batches: &[RecordBatch]) -> io::Result<()> {
    each_row(schema, batches, |row| writeln!(out, "{row}"))
}

fn each_row(schema: &Schema, batches: &[RecordBatch], mut write: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let keys = keys(schema);
    let mut row_text = String::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            row_text.clear();
            row_text.push('{');
            for (i, (key, column)) in keys.iter().zip(batch.columns()).enumerate() {
                if i > 0 {
                    row_text.push(',');
                }
                row_text.push_str(key);
                write_json(&mut row_text, column.as_ref(), row);
            }
            row_text.push('}');
            write(&row_text)?;
        }
    }
    Ok(())
}

/// The quoted names with their colon. A join can return two columns of one name; as an object has room for one, the
/// later ones get a number, so that no value is lost.
fn keys(schema: &Schema) -> Vec<String> {
    let mut taken: HashSet<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let mut seen = HashSet::new();
    schema
        .fields()
        .iter()
        .map(|field| {
            let name = match seen.insert(field.name().clone()) {
                true => field.name().clone(),
                false => unused_name(field.name(), &mut taken),
            };
            let mut key = String::new();
            write_quoted(&mut key, &name);
            key.push(':');
            key
        })
        .collect()
}

fn unused_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut number = 1_u32;
    loop {
        let candidate = format!("{name}_{number}");
        if taken.insert(candidate.clone()) {
            return candidate;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cities, empty, shown, two_of_one_name};
    use super::*;

    #[test]
    fn a_result_is_one_line_with_an_array_of_objects() {
        let (schema, batches) = cities();
        assert_eq!(
            shown(|out| write_array(out, &schema, &batches)),
            "[{\"id\":1,\"name\":\"Oslo\",\"amount\":\"1.50\"},{\"id\":22,\"name\":null,\"amount\":null},\
             {\"id\":333,\"name\":\"東京, \\\"Tōkyō\\\"\\nJP\",\"amount\":\"-0.25\"}]\n"
        );
    }

    #[test]
    fn no_rows_are_an_empty_array_or_no_line() {
        let (schema, batches) = empty();
        assert_eq!(shown(|out| write_array(out, &schema, &batches)), "[]\n");
        assert_eq!(shown(|out| write_array(out, &schema, &[])), "[]\n");
        assert_eq!(shown(|out| write_lines(out, &schema, &batches)), "");
    }

    #[test]
    fn every_row_is_a_line_that_other_parsers_read() {
        let (schema, batches) = cities();
        let text = shown(|out| write_lines(out, &schema, &batches));
        let rows: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2]["name"], "東京, \"Tōkyō\"\nJP");
    }

    #[test]
    fn columns_of_one_name_are_all_kept() {
        let (schema, batches) = two_of_one_name();
        assert_eq!(
            shown(|out| write_array(out, &schema, &batches)),
            "[{\"id\":1,\"id_2\":3,\"id_1\":2}]\n"
        );
    }
}
