//! The tables a session knows, for `\d` and completion.

use std::sync::Arc;

use alluvium::{LoadError, Result, Session, sql_type_name};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::execution::context::SessionContext;

/// One table.
pub(super) struct Listed {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) in_default_schema: bool,
}

/// All tables but those that describe tables, in order.
pub(super) fn tables(context: &SessionContext) -> Vec<Listed> {
    let state = context.state();
    let defaults = &state.config_options().catalog;
    let mut tables = vec![];
    for catalog_name in context.catalog_names() {
        let Some(catalog) = context.catalog(&catalog_name) else {
            continue;
        };
        let is_default = catalog_name == defaults.default_catalog;
        for schema_name in catalog.schema_names() {
            let Some(schema) = catalog
                .schema(&schema_name)
                .filter(|_| schema_name != "information_schema")
            else {
                continue;
            };
            let in_default_schema = is_default && schema_name == defaults.default_schema;
            let shown = if is_default {
                schema_name
            } else {
                format!("{catalog_name}.{schema_name}")
            };
            let listed = |name| Listed {
                schema: shown.clone(),
                name,
                in_default_schema,
            };
            tables.extend(schema.table_names().into_iter().map(listed));
        }
    }
    tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    tables
}

/// The tables as rows, for `\d`.
pub(super) fn tables_batch(tables: &[Listed]) -> Result<RecordBatch> {
    let schemas: ArrayRef = Arc::new(StringArray::from_iter_values(tables.iter().map(|t| &t.schema)));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(tables.iter().map(|t| &t.name)));
    batch([("schema", schemas), ("table", names)])
}

/// The columns of table `name` as rows, for `\d name`: their types as `CREATE TABLE` takes them.
pub(super) async fn columns_batch(session: &Session, name: &str) -> Result<RecordBatch> {
    let frame = session.sql(&format!("SELECT * FROM {name}")).await?;
    let fields = frame.schema().fields();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(fields.iter().map(|f| f.name())));
    let types = fields.iter().map(|f| sql_type_name(f.data_type()));
    let types: ArrayRef = Arc::new(StringArray::from_iter_values(types));
    let nullable = fields.iter().map(|f| if f.is_nullable() { "YES" } else { "NO" });
    let nullable: ArrayRef = Arc::new(StringArray::from_iter_values(nullable));
    batch([("column", names), ("type", types), ("nullable", nullable)])
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<RecordBatch> {
    RecordBatch::try_from_iter(columns).map_err(|e| LoadError::internal(e.to_string()))
}

/// The names as they can be written in a statement.
pub(super) fn table_names(context: &SessionContext) -> Vec<String> {
    let written = |table: Listed| match table.in_default_schema {
        true => written(&table.name),
        false => format!("{}.{}", table.schema, written(&table.name)),
    };
    tables(context).into_iter().map(written).collect()
}

fn written(name: &str) -> String {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::datasource::empty::EmptyTable;

    use super::*;

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        let context = SessionContext::new();
        for name in ["orders", "\"My Table\"", "\"2024\""] {
            context
                .register_table(name, Arc::new(EmptyTable::new(Arc::new(Schema::empty()))))
                .unwrap();
        }
        assert_eq!(table_names(&context), ["\"2024\"", "\"My Table\"", "orders"]);
        assert!(
            tables(&context)
                .iter()
                .all(|t| t.schema == "public" && t.in_default_schema)
        );
    }
}
