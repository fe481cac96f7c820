//! What a table demands of its rows and wants from its writers.

use std::num::NonZeroU64;

use alluvium_core::{LoadError, Result, SqlState};
use deltalake::table::config::TablePropertiesExt;
use serde_json::Value;

use crate::table::TableSnapshot;

const CONSTRAINT: &str = "delta.constraints.";

impl TableSnapshot {
    /// Whether rows may only be added.
    pub fn is_append_only(&self) -> bool {
        self.eager().table_properties().append_only()
    }

    /// Whether changes are recorded in the change data feed.
    pub fn change_data_feed(&self) -> bool {
        self.eager().table_properties().enable_change_data_feed()
    }

    /// Whether rows are taken out of files by deletion vectors: the property is on, and the protocol knows the feature.
    pub fn deletion_vectors_enabled(&self) -> bool {
        let property = self.properties().get("delta.enableDeletionVectors");
        let listed = || {
            let protocol = serde_json::to_value(self.eager().protocol()).unwrap_or_default();
            ["readerFeatures", "writerFeatures"].iter().all(|key| {
                let names = protocol.get(key).and_then(Value::as_array).into_iter().flatten();
                names.filter_map(Value::as_str).any(|name| name == "deletionVectors")
            })
        };
        property.is_some_and(|on| on.eq_ignore_ascii_case("true")) && listed()
    }

    /// How many bytes a data file should have.
    pub fn target_file_size(&self) -> NonZeroU64 {
        self.eager().table_properties().target_file_size()
    }

    /// The CHECK constraints, name and SQL, by name.
    pub fn constraints(&self) -> Vec<(String, String)> {
        let named = self
            .properties()
            .iter()
            .filter_map(|(key, sql)| Some((key.strip_prefix(CONSTRAINT)?, sql)));
        let mut all: Vec<_> = named.map(|(name, sql)| (name.to_owned(), sql.clone())).collect();
        all.sort();
        all
    }

    /// The invariants, column and SQL, in declared order.
    pub fn invariants(&self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for column in self.column_metadata()? {
            let Some(text) = column.text("delta.invariants") else {
                continue;
            };
            let parsed: Option<Value> = serde_json::from_str(text).ok();
            let sql = parsed
                .as_ref()
                .and_then(|v| v.pointer("/expression/expression")?.as_str());
            let sql = sql.ok_or_else(|| self.damaged("an invariant that cannot be read"))?;
            all.push((column.path.clone(), sql.to_owned()));
        }
        Ok(all)
    }

    /// The generated columns, column and SQL, in declared order.
    pub fn generated_columns(&self) -> Result<Vec<(String, String)>> {
        let columns = self.column_metadata()?;
        let generated = columns
            .iter()
            .filter_map(|c| Some((c.path.clone(), c.text("delta.generationExpression")?)));
        Ok(generated.map(|(path, sql)| (path, sql.to_owned())).collect())
    }

    /// Every field of the schema with what the log notes about it, nested ones after the column they are in.
    pub(super) fn column_metadata(&self) -> Result<Vec<ColumnMetadata>> {
        let metadata = serde_json::to_value(self.eager().metadata()).ok();
        let text = metadata.as_ref().and_then(|m| m.get("schemaString")?.as_str());
        let schema: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
        let schema = schema.ok_or_else(|| self.damaged("a schema that cannot be read"))?;
        let mut all = Vec::new();
        collect("", &schema, &mut all);
        Ok(all)
    }

    fn damaged(&self, what: &str) -> LoadError {
        LoadError::new(
            SqlState::Storage,
            format!("the log of table \"{}\" holds {what}", self.name()),
        )
    }
}

/// A field of the schema as the log describes it.
pub(super) struct ColumnMetadata {
    /// Its name, with those it is nested in before it.
    pub(super) path: String,
    /// The name of a primitive type.
    pub(super) primitive: Option<String>,
    metadata: Value,
}

impl ColumnMetadata {
    /// The note `key` if it is a text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key)?.as_str()
    }

    /// Whether there is a note whose key begins with `prefix`.
    pub(super) fn has(&self, prefix: &str) -> bool {
        self.metadata
            .as_object()
            .is_some_and(|notes| notes.keys().any(|key| key.starts_with(prefix)))
    }
}

fn collect(path: &str, data_type: &Value, all: &mut Vec<ColumnMetadata>) {
    for field in data_type.get("fields").and_then(Value::as_array).into_iter().flatten() {
        let name = field.get("name").and_then(Value::as_str).unwrap_or_default();
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        let inner = field.get("type").unwrap_or(&Value::Null);
        all.push(ColumnMetadata {
            path: path.clone(),
            primitive: inner.as_str().map(ToOwned::to_owned),
            metadata: field.get("metadata").cloned().unwrap_or_default(),
        });
        collect(&path, inner, all);
    }
    for key in ["elementType", "keyType", "valueType"] {
        if let Some(inner) = data_type.get(key) {
            all.push(ColumnMetadata {
                path: path.to_owned(),
                primitive: inner.as_str().map(ToOwned::to_owned),
                metadata: Value::Null,
            });
            collect(path, inner, all);
        }
    }
}
