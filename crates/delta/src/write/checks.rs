//! Checks on rows that are about to be written: NOT NULL and constraints.

use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// A rule whose result is a `__check_<i>` column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Check {
    /// `CHECK`, with its name and text.
    Constraint { name: String, text: String },
    /// An invariant of a column.
    Invariant { column: String, text: String },
    /// A generated column that the statement gives a value.
    Generated { column: String, text: String },
}

impl Check {
    fn violated(&self, table: &str) -> LoadError {
        let (message, hint) = match self {
            Self::Constraint { name, text } => (
                format!("row violates check constraint {name:?} of table {table:?}"),
                format!("The constraint is CHECK ({text})."),
            ),
            Self::Invariant { column, text } => (
                format!("row violates the invariant of column {column:?} of table {table:?}"),
                format!("The invariant is {text}."),
            ),
            Self::Generated { column, text } => (
                format!("value of generated column {column:?} of table {table:?} differs from its expression"),
                format!("The column is generated as {text}: leave it out of the source."),
            ),
        };
        LoadError::new(SqlState::CheckViolation, message).hint(hint)
    }
}

/// Fails if one of `results` (the `__check_<i>` columns) is not true for a row. `columns` are the rows themselves.
pub(super) fn require_checks(
    table: &str,
    checks: &[Check],
    results: &[ArrayRef],
    columns: &[ArrayRef],
    schema: &SchemaRef,
) -> Result<()> {
    for (check, result) in checks.iter().zip(results) {
        let holds = result
            .as_boolean_opt()
            .ok_or_else(|| LoadError::internal("a check is not a boolean"))?;
        if let Some(row) = first_not_true(holds) {
            return Err(check.violated(table).detail(failing_row(columns, schema, row)));
        }
    }
    Ok(())
}

fn first_not_true(values: &BooleanArray) -> Option<usize> {
    if values.null_count() == 0 && values.true_count() == values.len() {
        return None;
    }
    values.iter().position(|value| value != Some(true))
}

/// Fails if a column of `schema` that must not be NULL is, at any depth.
pub(super) fn require_not_null(table: &str, columns: &[ArrayRef], schema: &SchemaRef) -> Result<()> {
    for (column, field) in columns.iter().zip(schema.fields()) {
        if let Some(found) = find_null(column, field, None) {
            let name = std::iter::once(field.name().clone())
                .chain(found.path)
                .collect::<Vec<_>>()
                .join(".");
            let message = format!("null value in column {name:?} of table {table:?} violates its NOT NULL constraint");
            let error = LoadError::new(SqlState::NotNullViolation, message)
                .hint("Leave such rows out of the source, or give the column a value there.");
            return Err(match found.row {
                Some(row) => error.detail(failing_row(columns, schema, row)),
                None => error,
            });
        }
    }
    Ok(())
}

/// A NULL where none may be: the path below the column, and the row if it can be told.
struct FoundNull {
    path: Vec<String>,
    row: Option<usize>,
}

/// Looks for a NULL in `column` (declared as `field`) that is visible: `parent` tells which parents are there at all.
fn find_null(column: &ArrayRef, field: &Field, parent: Option<&NullBuffer>) -> Option<FoundNull> {
    let own = column.logical_nulls();
    if let Some(nulls) = own
        .as_ref()
        .filter(|nulls| !field.is_nullable() && nulls.null_count() > 0)
    {
        let row = (0..column.len()).find(|row| nulls.is_null(*row) && parent.is_none_or(|p| p.is_valid(*row)));
        if row.is_some() {
            return Some(FoundNull { path: Vec::new(), row });
        }
    }
    let visible = NullBuffer::union(parent, own.as_ref());
    match column.data_type() {
        DataType::Struct(children) => {
            let parts = column.as_struct_opt()?;
            let declared = declared_children(field, children.len());
            (0..children.len()).find_map(|index| {
                let child = declared.get(index).unwrap_or(&children[index]);
                find_null(parts.column(index), child, visible.as_ref()).map(|found| FoundNull {
                    path: std::iter::once(child.name().clone()).chain(found.path).collect(),
                    row: found.row,
                })
            })
        }
        DataType::List(item) => {
            let lists = column.as_list_opt::<i32>()?;
            let first = usize::try_from(*lists.offsets().first()?).ok()?;
            let last = usize::try_from(*lists.offsets().last()?).ok()?;
            below(
                &lists.values().slice(first, last.checked_sub(first)?),
                item_field(field).unwrap_or(item),
            )
        }
        DataType::Map(entries, _) => {
            let entries_array: ArrayRef = Arc::new(column.as_map_opt()?.entries().clone());
            below(&entries_array, item_field(field).unwrap_or(entries))
        }
        _ => None,
    }
}

/// Looks inside the items of a list or map. Which row they belong to is not worked out.
fn below(items: &ArrayRef, field: &FieldRef) -> Option<FoundNull> {
    find_null(items, field, None).map(|found| FoundNull {
        path: std::iter::once(field.name().clone()).chain(found.path).collect(),
        row: None,
    })
}

fn declared_children(field: &Field, count: usize) -> &[FieldRef] {
    match field.data_type() {
        DataType::Struct(children) if children.len() == count => children,
        _ => &[],
    }
}

fn item_field(field: &Field) -> Option<&FieldRef> {
    match field.data_type() {
        DataType::List(item) | DataType::Map(item, _) => Some(item),
        _ => None,
    }
}

/// Values in a message are cut here.
const LONGEST_VALUE: usize = 64;
/// No more columns than this are shown.
const MOST_COLUMNS: usize = 16;

/// `Failing row contains (id)=(1), ..`: one row, in full for most tables.
pub(super) fn failing_row(columns: &[ArrayRef], schema: &SchemaRef, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let shown = columns.iter().zip(schema.fields()).take(MOST_COLUMNS);
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (column, field) in shown {
        let value = ArrayFormatter::try_new(column.as_ref(), &options)
            .and_then(|f| f.value(row).try_to_string())
            .unwrap_or_else(|_| "?".to_owned());
        names.push(field.name().clone());
        values.push(match value.char_indices().nth(LONGEST_VALUE) {
            Some((cut, _)) => format!("{}..", &value[..cut]),
            None => value,
        });
    }
    if columns.len() > MOST_COLUMNS {
        names.push("..".to_owned());
        values.push("..".to_owned());
    }
    format!("Failing row contains ({})=({}).", names.join(", "), values.join(", "))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StructArray};
    use datafusion::arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn a_null_inside_a_struct_that_is_null_itself_is_no_violation() {
        let child = Arc::new(Field::new("a", DataType::Int64, false));
        let declared: SchemaRef = Arc::new(Schema::new(vec![Field::new(
            "s",
            DataType::Struct(vec![Arc::clone(&child)].into()),
            true,
        )]));
        let nullable = Arc::new(Field::new("a", DataType::Int64, true));
        let with = |valid: Vec<bool>| -> ArrayRef {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
            Arc::new(StructArray::new(
                vec![Arc::clone(&nullable)].into(),
                vec![values],
                Some(NullBuffer::from(valid)),
            ))
        };
        assert!(require_not_null("t", &[with(vec![true, false])], &declared).is_ok());
        let error = require_not_null("t", &[with(vec![true, true])], &declared).unwrap_err();
        assert_eq!(error.code(), "23502");
        assert!(error.message().contains("\"s.a\""), "{error}");
    }

    #[test]
    fn a_check_that_is_null_is_violated() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let check = Check::Constraint {
            name: "positive".into(),
            text: "id > 0".into(),
        };
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let results: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None]));
        let error = require_checks("t", &[check], &[results], &[ids], &schema).unwrap_err();
        assert_eq!(error.code(), "23514");
        assert_eq!(error.detail_text(), Some("Failing row contains (id)=(NULL)."));
    }
}
