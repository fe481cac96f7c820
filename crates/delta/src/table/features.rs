//! Which demands of a table our operators honour. Everything that is not known here is refused by name: a writer that
//! ignores a demand it does not know damages the table.

use alluvium_core::{LoadError, Result, SqlState};
use serde_json::Value;

use crate::table::TableSnapshot;

/// Features that our operators honour, or that demand nothing of a load unless a property or column says so, which is
/// checked beside.
const HONOURED: &[&str] = &[
    "appendOnly",
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "changeDataFeed",
    "timestampNtz",
    "timestampWithoutTimezone",
    "deletionVectors",
    "columnMapping",
];

/// Properties that turn on something we do not do, with the feature's name.
const REFUSED_WHEN_TRUE: &[(&str, &str)] = &[
    ("delta.enableRowTracking", "rowTracking"),
    ("delta.enableInCommitTimestamps", "inCommitTimestamp"),
    ("delta.enableTypeWidening", "typeWidening"),
    ("delta.enableIcebergCompatV1", "icebergCompatV1"),
    ("delta.enableIcebergCompatV2", "icebergCompatV2"),
    ("delta.enableIcebergCompatV3", "icebergCompatV3"),
];

/// Notes on columns that demand something we do not do, with the feature's name.
const REFUSED_NOTES: &[(&str, &str)] = &[
    ("delta.identity.", "identityColumns"),
    ("delta.typeChanges", "typeWidening"),
    ("CURRENT_DEFAULT", "allowColumnDefaults"),
];

/// The highest protocol versions whose demands are all listed as features.
const MAX_READER: i64 = 3;
const MAX_WRITER: i64 = 7;

/// Refuses a table that demands more than our operators do, by name and before any work.
///
/// # Errors
///
/// 0A000 naming the table and the feature, or 58030 when the log names files outside the table.
pub fn check_writable(snapshot: &TableSnapshot) -> Result<()> {
    check_protocol(snapshot)?;
    check_properties(snapshot)?;
    check_columns(snapshot)?;
    snapshot.loaded_files()?;
    Ok(())
}

fn check_protocol(snapshot: &TableSnapshot) -> Result<()> {
    let protocol = serde_json::to_value(snapshot.eager().protocol())
        .map_err(|e| LoadError::new(SqlState::Storage, "the protocol of the table cannot be read").caused_by(e))?;
    for (key, max) in [("minReaderVersion", MAX_READER), ("minWriterVersion", MAX_WRITER)] {
        let version = protocol.get(key).and_then(Value::as_i64).unwrap_or_default();
        if version > max {
            return Err(refused(
                snapshot,
                &format!("{key} {version}"),
                &format!("Up to {max} is supported."),
            ));
        }
    }
    for key in ["readerFeatures", "writerFeatures"] {
        for feature in protocol.get(key).and_then(Value::as_array).into_iter().flatten() {
            let feature = feature.as_str().unwrap_or_default();
            if !HONOURED.contains(&feature) {
                return Err(refused(snapshot, feature, "Its protocol lists the feature."));
            }
        }
    }
    Ok(())
}

fn check_properties(snapshot: &TableSnapshot) -> Result<()> {
    let value = |key: &str| snapshot.properties().get(key).map(String::as_str).unwrap_or_default();
    let on = REFUSED_WHEN_TRUE
        .iter()
        .find(|(key, _)| value(key).eq_ignore_ascii_case("true"));
    if let Some((key, feature)) = on {
        return Err(refused(snapshot, feature, &format!("Its property {key} is true.")));
    }
    let mode = value("delta.columnMapping.mode");
    if !matches!(mode, "" | "none") {
        return Err(refused(
            snapshot,
            "columnMapping",
            &format!("Its column mapping mode is {mode}."),
        ));
    }
    if value("delta.checkpointPolicy").eq_ignore_ascii_case("v2") {
        return Err(refused(
            snapshot,
            "v2Checkpoint",
            "Its property delta.checkpointPolicy is v2.",
        ));
    }
    Ok(())
}

fn check_columns(snapshot: &TableSnapshot) -> Result<()> {
    for column in snapshot.column_metadata()? {
        if let Some((_, feature)) = REFUSED_NOTES.iter().find(|(note, _)| column.has(note)) {
            return Err(refused(
                snapshot,
                feature,
                &format!("Column \"{}\" uses it.", column.path),
            ));
        }
        if column.primitive.as_deref() == Some("variant") {
            return Err(refused(
                snapshot,
                "variantType",
                &format!("Column \"{}\" is a variant.", column.path),
            ));
        }
    }
    Ok(())
}

fn refused(snapshot: &TableSnapshot, feature: &str, why: &str) -> LoadError {
    LoadError::unsupported(format!(
        "table \"{}\" uses the feature {feature}, which is not supported for writing",
        snapshot.name()
    ))
    .detail(why)
    .hint("Load into a table without it; this one was not touched.")
}
