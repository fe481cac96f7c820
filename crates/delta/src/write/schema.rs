//! The table's schema, protocol and metadata as the log wants them.

use std::collections::{BTreeSet, HashMap};

use alluvium_core::{LoadError, Result, SqlState};
use delta_kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake::TableProperty;
use deltalake::kernel::{
    DataType, Metadata, MetadataExt, Protocol, StructField, StructType, StructTypeExt, contains_timestampntz,
    new_metadata,
};
use serde_json::{Value, json};

use crate::keys::KEYS;
use crate::table::TableSnapshot;

use super::spec::LoadTarget;

/// Features that writers of version 2 to 6 have implied: when a protocol starts to list its features they are named.
const IMPLIED: [(i64, &str); 7] = [
    (2, "appendOnly"),
    (2, "invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed"),
    (4, "generatedColumns"),
    (5, "columnMapping"),
    (6, "identityColumns"),
];

/// The schema of the table as it will be. Columns that exist keep everything the log says about them.
pub(super) fn kernel_schema(target: &LoadTarget) -> Result<StructType> {
    let known = target.base.as_ref().map(|base| (base.eager().schema(), base.schema()));
    let fields = target.schema.fields().iter().map(|field| -> Result<StructField> {
        if let Some((kernel, arrow)) = &known
            && let (Some(stored), Ok(same)) = (kernel.field(field.name()), arrow.field_with_name(field.name()))
            && same.data_type() == field.data_type()
        {
            return Ok(stored.clone());
        }
        field.as_ref().try_into_kernel().map_err(|e| {
            LoadError::new(
                SqlState::DatatypeMismatch,
                format!("type of column {:?} cannot be stored", field.name()),
            )
            .detail(format!("{}: {e}", field.data_type()))
        })
    });
    StructType::try_new(fields.collect::<Result<Vec<_>>>()?).map_err(|e| {
        LoadError::new(
            SqlState::DuplicateColumn,
            format!("the columns do not form a table: {e}"),
        )
    })
}

/// The actions that make a new schema part of `base`.
pub(super) fn evolution(target: &LoadTarget, base: &TableSnapshot) -> Result<(Option<Protocol>, Metadata)> {
    let schema = kernel_schema(target)?;
    let metadata = base
        .eager()
        .metadata()
        .clone()
        .with_schema(&schema)
        .map_err(unwritable)?;
    let protocol = if contains_timestampntz(schema.fields()) {
        with_timestamp_ntz(base.eager().protocol())?
    } else {
        None
    };
    Ok((protocol, metadata))
}

/// `protocol` with naive timestamps allowed, unless they are already.
fn with_timestamp_ntz(protocol: &Protocol) -> Result<Option<Protocol>> {
    let mut wanted = Features::of(protocol)?;
    wanted.require_both("timestampNtz");
    let wanted = wanted.into_protocol()?;
    Ok((wanted != *protocol).then_some(wanted))
}

/// Protocol and metadata of a table that is created.
pub(super) fn creation(
    schema: &StructType,
    partition_columns: &[String],
    properties: &HashMap<String, String>,
    comment: Option<&str>,
) -> Result<(Protocol, Metadata)> {
    let mut features = Features {
        reader: 1,
        writer: 2,
        ..Features::default()
    };
    if contains_timestampntz(schema.fields()) {
        features.require_both("timestampNtz");
    }
    let unreadable = |e| LoadError::internal(format!("the new schema cannot be read: {e}"));
    if !schema.get_generated_columns().map_err(unreadable)?.is_empty() {
        features.require_writer(4, "generatedColumns");
    }
    let mut configuration = HashMap::new();
    for (key, value) in properties {
        features.require_for(key, value)?;
        if !key.starts_with("delta.feature.") && key != "delta.minReaderVersion" && key != "delta.minWriterVersion" {
            configuration.insert(key.clone(), value.clone());
        }
    }
    if !schema.get_invariants().map_err(unreadable)?.is_empty() {
        features.require_writer(2, "invariants");
    }
    let metadata = new_metadata(schema, partition_columns, configuration).map_err(unwritable)?;
    let metadata = match comment {
        Some(comment) => metadata.with_description(comment.to_owned()).map_err(unwritable)?,
        None => metadata,
    };
    Ok((features.into_protocol()?, metadata))
}

fn unwritable(e: impl std::fmt::Display) -> LoadError {
    LoadError::internal(format!("the table's metadata cannot be written: {e}"))
}

/// A protocol while it is put together.
#[derive(Debug, Default)]
struct Features {
    reader: i64,
    writer: i64,
    reader_features: BTreeSet<String>,
    writer_features: BTreeSet<String>,
}

impl Features {
    fn of(protocol: &Protocol) -> Result<Self> {
        let value = serde_json::to_value(protocol).map_err(unwritable)?;
        let version = |key: &str| value.get(key).and_then(Value::as_i64).unwrap_or(1);
        let names = |key: &str| -> BTreeSet<String> {
            let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Ok(Self {
            reader: version("minReaderVersion"),
            writer: version("minWriterVersion"),
            reader_features: names("readerFeatures"),
            writer_features: names("writerFeatures"),
        })
    }

    /// A feature that concerns writers only, and the version that brought it.
    fn require_writer(&mut self, version: i64, name: &str) {
        self.writer = self.writer.max(version);
        self.writer_features.insert(name.to_owned());
    }

    /// A feature that readers and writers must know by name.
    fn require_both(&mut self, name: &str) {
        self.list_implied();
        (self.reader, self.writer) = (3, 7);
        self.reader_features.insert(name.to_owned());
        self.writer_features.insert(name.to_owned());
    }

    /// From now on features are named: so must be those that the versions have implied.
    fn list_implied(&mut self) {
        if self.writer < 7 {
            let implied = IMPLIED.iter().filter(|(version, _)| *version <= self.writer);
            self.writer_features.extend(implied.map(|(_, name)| (*name).to_owned()));
        }
        if self.reader == 2 {
            self.reader_features.insert("columnMapping".to_owned());
        }
    }

    /// What a table property asks of the protocol; refuses what is not supported.
    fn require_for(&mut self, key: &str, value: &str) -> Result<()> {
        let on = value.trim().eq_ignore_ascii_case("true");
        match key {
            "delta.enableChangeDataFeed" if on => self.require_writer(4, "changeDataFeed"),
            "delta.appendOnly" if on => self.require_writer(2, "appendOnly"),
            "delta.enableDeletionVectors" if on => self.require_both("deletionVectors"),
            "delta.columnMapping.mode" if !value.trim().eq_ignore_ascii_case("none") => {
                return Err(refused(key, value));
            }
            "delta.enableRowTracking" | "delta.enableInCommitTimestamps" | "delta.enableTypeWidening" if on => {
                return Err(refused(key, value));
            }
            "delta.minReaderVersion" => self.reader = self.reader.max(version(key, value, 3)?),
            "delta.minWriterVersion" => self.writer = self.writer.max(version(key, value, 7)?),
            _ if key.starts_with("delta.constraints.") => self.require_writer(3, "checkConstraints"),
            _ => match key.strip_prefix("delta.feature.") {
                Some("appendOnly") => self.require_writer(2, "appendOnly"),
                Some("invariants") => self.require_writer(2, "invariants"),
                Some("checkConstraints") => self.require_writer(3, "checkConstraints"),
                Some("changeDataFeed") => self.require_writer(4, "changeDataFeed"),
                Some("generatedColumns") => self.require_writer(4, "generatedColumns"),
                Some(name @ ("timestampNtz" | "deletionVectors")) => self.require_both(name),
                Some(_) => return Err(refused(key, value)),
                None if key.starts_with("delta.") && key.parse::<TableProperty>().is_err() => {
                    return Err(
                        LoadError::new(SqlState::InvalidParameter, format!("unknown table property {key:?}"))
                            .hint("Properties of your own must not begin with \"delta.\"."),
                    );
                }
                None if key.starts_with("alluvium.") && key != KEYS => {
                    return Err(
                        LoadError::new(SqlState::InvalidParameter, format!("unknown table property {key:?}"))
                            .hint(format!("The only one that begins with \"alluvium.\" is {KEYS:?}.")),
                    );
                }
                None => (),
            },
        }
        Ok(())
    }

    fn into_protocol(mut self) -> Result<Protocol> {
        // A property that came after the first named feature may have raised nothing but the list.
        if self.writer < 7 && self.reader < 3 {
            self.reader_features.clear();
            self.writer_features.clear();
        } else {
            self.list_implied();
            self.writer = 7;
        }
        let mut value = json!({"minReaderVersion": self.reader, "minWriterVersion": self.writer});
        if self.reader >= 3 {
            value["readerFeatures"] = json!(self.reader_features);
        }
        if self.writer >= 7 {
            value["writerFeatures"] = json!(self.writer_features);
        }
        serde_json::from_value(value).map_err(unwritable)
    }
}

fn version(key: &str, value: &str, highest: i64) -> Result<i64> {
    value
        .trim()
        .parse()
        .ok()
        .filter(|v| (1..=highest).contains(v))
        .ok_or_else(|| {
            LoadError::new(
                SqlState::InvalidParameter,
                format!("table property {key:?} has no usable value"),
            )
            .detail(format!(
                "The value is {value:?}; it must be a number from 1 to {highest}."
            ))
        })
}

fn refused(key: &str, value: &str) -> LoadError {
    LoadError::unsupported(format!("table property {key:?} = {value:?} is not supported"))
        .hint("Leave it out: a table with this feature could not be loaded here.")
}

/// Whether values of this type can be partition values.
pub(super) fn can_partition(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Primitive(kind) if !matches!(kind, deltalake::kernel::PrimitiveType::Binary))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(properties: &[(&str, &str)], ntz: bool) -> Result<Value> {
        let data_type = if ntz { DataType::TIMESTAMP_NTZ } else { DataType::LONG };
        let schema = StructType::try_new(vec![StructField::nullable("a", data_type)]).unwrap();
        let properties = properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let (protocol, _) = creation(&schema, &[], &properties, None)?;
        Ok(serde_json::to_value(protocol).unwrap())
    }

    #[test]
    fn plain_tables_keep_the_oldest_protocol() {
        let protocol = created(&[("delta.enableChangeDataFeed", "true")], false).unwrap();
        assert_eq!(protocol["minWriterVersion"], 4);
        assert_eq!(protocol["minReaderVersion"], 1);
        assert_eq!(protocol.get("writerFeatures").and_then(Value::as_array), None);
    }

    #[test]
    fn naive_timestamps_are_a_named_feature_beside_the_implied_ones() {
        let protocol = created(&[("delta.constraints.c", "a > 0")], true).unwrap();
        assert_eq!(protocol["minReaderVersion"], 3);
        let mut features: Vec<&str> = protocol["writerFeatures"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f.as_str().unwrap())
            .collect();
        features.sort_unstable();
        assert_eq!(
            features,
            ["appendOnly", "checkConstraints", "invariants", "timestampNtz"]
        );
        assert_eq!(protocol["readerFeatures"], json!(["timestampNtz"]));
    }

    #[test]
    fn misspelled_properties_are_noticed() {
        assert_eq!(
            created(&[("delta.apendOnly", "true")], false).unwrap_err().code(),
            "22023"
        );
        assert_eq!(created(&[("alluvium.key", "a")], false).unwrap_err().code(), "22023");
        created(&[("owner", "me"), ("delta.targetFileSize", "1mb")], false).unwrap();
    }

    #[test]
    fn features_that_are_not_honoured_are_refused_by_name() {
        let error = created(&[("delta.columnMapping.mode", "name")], false).unwrap_err();
        assert_eq!(error.code(), "0A000");
        assert!(error.message().contains("delta.columnMapping.mode"));
    }
}
