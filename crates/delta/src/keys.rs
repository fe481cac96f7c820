//! The table property `alluvium.keys`: by which columns rows of the table are looked up.
//!
//! Writers put the rows of a file in the order of these columns and give their row groups Bloom filters on them. Neither is
//! needed to read the table right: a property that no longer fits the table, however it came about, is not followed.

use std::collections::HashMap;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::checked_cast::sql_type_name;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The property's name.
pub const KEYS: &str = "alluvium.keys";

/// Where the columns that the property names are in `schema`. None where it is not set, or empty.
///
/// # Errors
///
/// 22023 for a text that is no list of names, 42703 for a column that does not exist, 42701 for one that is named twice,
/// 42804 for one that cannot be a key.
pub fn key_columns(properties: &HashMap<String, String>, schema: &Schema) -> Result<Vec<usize>> {
    let Some(text) = properties.get(KEYS).filter(|text| !text.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    let mut columns = Vec::new();
    for name in names(text)? {
        let column = find(&name, text, schema)?;
        if columns.contains(&column) {
            let what = format!(
                "column \"{}\" is named twice in table property '{KEYS}' = '{text}'",
                name.value
            );
            return Err(LoadError::new(SqlState::DuplicateColumn, what).hint("Name each key column once."));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// As [`key_columns`], but none where the property does not fit the table.
pub(crate) fn usable_key_columns(properties: &HashMap<String, String>, schema: &Schema) -> Vec<usize> {
    key_columns(properties, schema).unwrap_or_else(|e| {
        tracing::debug!("the table's keys are not followed: {e}");
        Vec::new()
    })
}

/// The names in `text`, a list as in SQL.
fn names(text: &str) -> Result<Vec<Ident>> {
    let parsed = || {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).ok()?;
        let names = parser.parse_comma_separated(Parser::parse_identifier).ok()?;
        matches!(parser.peek_token_ref().token, Token::EOF).then_some(names)
    };
    parsed().ok_or_else(|| {
        let what = format!("table property '{KEYS}' = '{text}' is no list of columns");
        LoadError::new(SqlState::InvalidParameter, what)
            .hint("Write names with commas between them, in double quotes where SQL needs them: 'id, \"Line no\"'.")
    })
}

/// The column `name`. No two columns of a table differ in nothing but case, so that names without quotes need not be folded.
fn find(name: &Ident, text: &str, schema: &Schema) -> Result<usize> {
    let same = |column: &str| match name.quote_style {
        Some(_) => column == name.value,
        None => column.to_lowercase() == name.value.to_lowercase(),
    };
    let Some(column) = schema.fields().iter().position(|field| same(field.name())) else {
        let what = format!(
            "column \"{}\" of table property '{KEYS}' = '{text}' does not exist",
            name.value
        );
        let known: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(
            LoadError::new(SqlState::UndefinedColumn, what).hint(format!("Columns here: {}.", known.join(", ")))
        );
    };
    let data_type = schema.field(column).data_type();
    match data_type.is_nested() {
        true => Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!(
                "column \"{}\" of table property '{KEYS}' = '{text}' has type {}, which cannot be a key",
                name.value,
                sql_type_name(data_type)
            ),
        )
        .hint("Name columns of plain types.")),
        false => Ok(column),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    fn found(text: &str) -> Result<Vec<usize>> {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("Line\"no", DataType::Int64, true),
            Field::new("list", DataType::new_list(DataType::Int64, true), true),
        ]);
        key_columns(&HashMap::from([(KEYS.to_owned(), text.to_owned())]), &schema)
    }

    #[test]
    fn names_are_read_as_sql_reads_them() {
        assert_eq!(found("ID").unwrap(), [0]);
        assert_eq!(found(" \"Line\"\"no\" , id").unwrap(), [1, 0]);
        assert_eq!(found(" ").unwrap(), [0; 0]);
    }

    #[test]
    fn what_does_not_fit_the_table_is_refused_or_not_followed() {
        for (text, code) in [
            ("id,", "22023"),
            ("id; list", "22023"),
            ("\"ID\"", "42703"),
            ("id, nope", "42703"),
            ("id, Id", "42701"),
            ("list", "42804"),
        ] {
            let error = found(text).unwrap_err();
            assert_eq!(error.code(), code, "{text}");
            assert!(
                error.message().contains(&format!("'alluvium.keys' = '{text}'")),
                "{error}"
            );
            assert!(error.hint_text().is_some(), "{text}");
        }
        let gone = HashMap::from([(KEYS.to_owned(), "gone".to_owned())]);
        assert_eq!(usable_key_columns(&gone, &Schema::empty()), [0; 0]);
    }
}
