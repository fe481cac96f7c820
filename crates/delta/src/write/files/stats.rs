//! The statistics of a file in the log: bounds that hold for every row, or none at all.
//!
//! They come from the row groups' own statistics, so nothing is computed twice; only NaN is looked for on the way,
//! because Parquet leaves it out of its bounds while a reader that prunes by them must not lose such rows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDateTime};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, DecimalType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::arrow::datatypes::{Fields, Schema};
use datafusion::arrow::temporal_conversions::date32_to_datetime;
use datafusion::common::ScalarValue;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::file::metadata::ParquetMetaData;

/// How many columns get statistics unless the table says otherwise.
const DEFAULT_COLUMNS: usize = 32;

/// A column of the file that gets statistics: a primitive one, or one inside structs.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// Its index among Parquet's columns.
    parquet: usize,
    /// Where it is in a batch: column, then child, then child..
    place: Vec<usize>,
    names: Vec<String>,
    field: FieldRef,
}

impl Leaf {
    /// Whether rows that nobody looks at may hold a NaN here. `bounded` tells for which columns of the table the log has
    /// bounds, so that there is none.
    pub(super) fn may_hide_nan(&self, bounded: impl Fn(&str) -> bool) -> bool {
        let known = matches!(self.names.as_slice(), [name] if bounded(name));
        self.field.data_type().is_floating() && !known
    }

    /// Whether `batch` holds a NaN in this column.
    pub(super) fn has_nan(&self, batch: &RecordBatch) -> bool {
        if !self.field.data_type().is_floating() {
            return false;
        }
        let Some((&first, rest)) = self.place.split_first() else {
            return false;
        };
        let mut column: &ArrayRef = batch.column(first);
        for &child in rest {
            column = column.as_struct().column(child);
        }
        match column.data_type() {
            DataType::Float32 => column.as_primitive::<Float32Type>().values().iter().any(|v| v.is_nan()),
            DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().any(|v| v.is_nan()),
            _ => true,
        }
    }
}

/// The columns of `schema` (a file's) that get statistics, as the table's properties want it.
pub(super) fn leaves(schema: &Schema, properties: &HashMap<String, String>) -> Vec<Leaf> {
    let named: Option<Vec<String>> = properties.get("delta.dataSkippingStatsColumns").map(|list| {
        list.split(',')
            .map(|name| name.trim().trim_matches('`').to_owned())
            .collect()
    });
    let limit = match properties
        .get("delta.dataSkippingNumIndexedCols")
        .map(|n| n.trim().parse::<i64>())
    {
        Some(Ok(count)) => usize::try_from(count).unwrap_or(usize::MAX),
        Some(Err(_)) | None => DEFAULT_COLUMNS,
    };
    let mut next = 0;
    let mut found = Vec::new();
    for (index, field) in schema.fields().iter().enumerate() {
        let wanted = match &named {
            Some(names) => names
                .iter()
                .any(|n| n == field.name() || n.starts_with(&format!("{}.", field.name()))),
            None => index < limit,
        };
        let mut sink = Vec::new();
        collect(field, vec![index], vec![field.name().clone()], &mut next, &mut sink);
        if wanted {
            found.extend(sink);
        }
    }
    found
}

fn collect(field: &FieldRef, place: Vec<usize>, names: Vec<String>, next: &mut usize, found: &mut Vec<Leaf>) {
    match field.data_type() {
        DataType::Struct(children) => {
            for (index, child) in children.iter().enumerate() {
                let place = place.iter().copied().chain([index]).collect();
                let names = names.iter().cloned().chain([child.name().clone()]).collect();
                collect(child, place, names, next, found);
            }
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..) => {
            *next += leaf_count(field.data_type());
        }
        _ => {
            found.push(Leaf {
                parquet: *next,
                place,
                names,
                field: Arc::clone(field),
            });
            *next += 1;
        }
    }
}

/// How many Parquet columns a type takes.
pub(super) fn leaf_count(data_type: &DataType) -> usize {
    let of = |fields: &Fields| fields.iter().map(|f| leaf_count(f.data_type())).sum();
    match data_type {
        DataType::Struct(children) => of(children),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => leaf_count(item.data_type()),
        _ => 1,
    }
}

/// The `stats` of a file as the log wants them. `nan` tells for each leaf whether a NaN was written.
pub(super) fn statistics(leaves: &[Leaf], nan: &[bool], metadata: &ParquetMetaData) -> String {
    let mut min = Tree::default();
    let mut max = Tree::default();
    let mut nulls = Tree::default();
    for (leaf, nan) in leaves.iter().zip(nan) {
        let Some(bounds) = bounds(leaf, metadata) else {
            continue;
        };
        nulls.insert(&leaf.names, bounds.null_count.to_string());
        if *nan {
            continue;
        }
        if let Some(value) = bounds.min.and_then(|v| bound(&v, false)) {
            min.insert(&leaf.names, value);
        }
        if let Some(value) = bounds.max.and_then(|v| bound(&v, true)) {
            max.insert(&leaf.names, value);
        }
    }
    let mut json = format!("{{\"numRecords\":{}", metadata.file_metadata().num_rows());
    for (key, tree) in [("minValues", min), ("maxValues", max), ("nullCount", nulls)] {
        let _ = write!(json, ",\"{key}\":");
        tree.write(&mut json);
    }
    json.push('}');
    json
}

struct Bounds {
    min: Option<ScalarValue>,
    max: Option<ScalarValue>,
    null_count: u64,
}

/// What the row groups say about a column, put together. `None`: nothing reliable.
fn bounds(leaf: &Leaf, metadata: &ParquetMetaData) -> Option<Bounds> {
    let field: &Field = &leaf.field;
    let schema = metadata.file_metadata().schema_descr();
    let converter = StatisticsConverter::from_column_index(leaf.parquet, field, schema).ok()?;
    let null_counts = converter.row_group_null_counts(metadata.row_groups()).ok()?;
    if null_counts.null_count() > 0 {
        return None;
    }
    let all_null: Vec<bool> = metadata
        .row_groups()
        .iter()
        .zip(null_counts.values())
        .map(|(group, nulls)| u64::try_from(group.num_rows()).is_ok_and(|rows| rows == *nulls))
        .collect();
    let extreme = |values: datafusion::parquet::errors::Result<ArrayRef>, wanted| {
        values.ok().and_then(|values| extreme(&values, &all_null, wanted))
    };
    Some(Bounds {
        min: extreme(converter.row_group_mins(metadata.row_groups()), Ordering::Less),
        max: extreme(converter.row_group_maxes(metadata.row_groups()), Ordering::Greater),
        null_count: null_counts.values().iter().sum(),
    })
}

/// The smallest or greatest of the row groups' bounds; none if a row group with values has no bound.
fn extreme(values: &ArrayRef, all_null: &[bool], wanted: Ordering) -> Option<ScalarValue> {
    let mut best: Option<ScalarValue> = None;
    for (row, all_null) in all_null.iter().enumerate() {
        if *all_null {
            continue;
        }
        let value = ScalarValue::try_from_array(values, row).ok().filter(|v| !v.is_null())?;
        best = match best {
            Some(known) if value.partial_cmp(&known)? != wanted => Some(known),
            _ => Some(value),
        };
    }
    best
}

/// A bound as JSON text; none where JSON has no such value. Times are kept to the millisecond, upper bounds rounded up.
fn bound(value: &ScalarValue, upper: bool) -> Option<String> {
    match value {
        ScalarValue::Boolean(Some(v)) => Some(v.to_string()),
        ScalarValue::Int8(Some(v)) => Some(v.to_string()),
        ScalarValue::Int16(Some(v)) => Some(v.to_string()),
        ScalarValue::Int32(Some(v)) => Some(v.to_string()),
        ScalarValue::Int64(Some(v)) => Some(v.to_string()),
        ScalarValue::Float32(Some(v)) => v.is_finite().then(|| serde_json::json!(v).to_string()),
        ScalarValue::Float64(Some(v)) => v.is_finite().then(|| serde_json::json!(v).to_string()),
        ScalarValue::Decimal128(Some(v), precision, scale) => {
            Some(Decimal128Type::format_decimal(*v, *precision, *scale))
        }
        ScalarValue::Date32(Some(v)) => in_range(date32_to_datetime(*v)?).map(|d| quoted(&d.format("%Y-%m-%d"))),
        ScalarValue::TimestampMicrosecond(Some(v), zone) => {
            let micros = if upper { v.checked_add(999)? } else { *v };
            let time = in_range(DateTime::from_timestamp_millis(micros.div_euclid(1000))?.naive_utc())?;
            let format = if zone.is_some() {
                "%Y-%m-%dT%H:%M:%S%.3fZ"
            } else {
                "%Y-%m-%dT%H:%M:%S%.3f"
            };
            Some(quoted(&time.format(format)))
        }
        ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)) => {
            Some(quoted(v))
        }
        _ => None,
    }
}

fn in_range(time: NaiveDateTime) -> Option<NaiveDateTime> {
    (0..=9999).contains(&time.year()).then_some(time)
}

fn quoted(text: &impl ToString) -> String {
    serde_json::Value::String(text.to_string()).to_string()
}

/// A JSON object whose values are JSON text already: numbers keep all their digits.
#[derive(Default)]
struct Tree(BTreeMap<String, Node>);

enum Node {
    Value(String),
    Tree(Tree),
}

impl Tree {
    fn insert(&mut self, names: &[String], value: String) {
        match names {
            [] => (),
            [last] => {
                self.0.insert(last.clone(), Node::Value(value));
            }
            [first, rest @ ..] => {
                let child = self
                    .0
                    .entry(first.clone())
                    .or_insert_with(|| Node::Tree(Tree::default()));
                if let Node::Tree(child) = child {
                    child.insert(rest, value);
                }
            }
        }
    }

    fn write(&self, json: &mut String) {
        json.push('{');
        for (index, (name, node)) in self.0.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            json.push_str(&quoted(name));
            json.push(':');
            match node {
                Node::Value(text) => json.push_str(text),
                Node::Tree(child) => child.write(json),
            }
        }
        json.push('}');
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BinaryArray, Decimal128Array, Float64Array, Int64Array, StructArray};
    use datafusion::arrow::array::{TimestampMicrosecondArray, UInt8Array};
    use datafusion::parquet::arrow::ArrowWriter;

    use super::*;

    fn array(values: impl Array + 'static) -> ArrayRef {
        Arc::new(values)
    }

    fn stats_of(columns: Vec<(&str, ArrayRef)>) -> serde_json::Value {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let leaves = leaves(&batch.schema(), &HashMap::new());
        let nan: Vec<bool> = leaves.iter().map(|l| l.has_nan(&batch)).collect();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let metadata = writer.finish().unwrap();
        serde_json::from_str(&statistics(&leaves, &nan, &metadata)).unwrap()
    }

    #[test]
    fn infinities_and_nan_leave_bounds_out() {
        let stats = stats_of(vec![
            ("inf", array(Float64Array::from(vec![1.0, f64::INFINITY]))),
            ("nan", Arc::new(Float64Array::from(vec![1.0, f64::NAN]))),
        ]);
        assert_eq!(stats["minValues"], serde_json::json!({"inf": 1.0}));
        assert_eq!(stats["maxValues"], serde_json::json!({}));
        assert_eq!(stats["nullCount"], serde_json::json!({"inf": 0, "nan": 0}));
    }

    #[test]
    fn upper_bounds_of_times_are_rounded_up() {
        let times = TimestampMicrosecondArray::from(vec![1_704_103_200_123_456]).with_timezone("UTC");
        let stats = stats_of(vec![("t", array(times))]);
        assert_eq!(stats["minValues"]["t"], "2024-01-01T10:00:00.123Z");
        assert_eq!(stats["maxValues"]["t"], "2024-01-01T10:00:00.124Z");
    }

    #[test]
    fn binary_has_a_null_count_only_and_structs_are_nested() {
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
        let field = Arc::new(Field::new("a", DataType::Int64, true));
        let stats = stats_of(vec![
            ("b", array(BinaryArray::from(vec![&b"\xdd\x1c"[..], b"\xff"]))),
            ("s", Arc::new(StructArray::from(vec![(field, inner)]))),
        ]);
        assert_eq!(stats["minValues"], serde_json::json!({"s": {"a": 3}}));
        assert_eq!(stats["nullCount"], serde_json::json!({"b": 0, "s": {"a": 1}}));
        assert_eq!(stats["numRecords"], 2);
    }

    #[test]
    fn decimals_keep_all_their_digits() {
        let value = 12_345_678_901_234_567_890_123_456_789_012_345_678_i128;
        let batch = Decimal128Array::from(vec![value])
            .with_precision_and_scale(38, 2)
            .unwrap();
        let text = bound(&ScalarValue::try_from_array(&batch, 0).unwrap(), false).unwrap();
        assert_eq!(text, "123456789012345678901234567890123456.78");
        assert_eq!(
            bound(
                &ScalarValue::try_from_array(&UInt8Array::from(vec![1]), 0).unwrap(),
                false
            ),
            None
        );
    }
}
