//! Columns of answers: their letters in `query` records, and the short form of a load's result row.

use alluvium::Outcome;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type, Schema, SchemaRef, UInt64Type};
use sqllogictest::ColumnType;

use crate::database::Failure;

/// The columns of a load's result row that do not depend on how rows are spread over files, in the order in which
/// records show them.
const LOAD_COLUMNS: [&str; 7] = [
    "num_inserted_rows",
    "num_updated_rows",
    "num_deleted_rows",
    "num_unchanged_rows",
    "num_skipped_rows",
    "num_source_rows",
    "status",
];

/// First line of a record that wants a load's whole result row.
const FULL: &str = "-- full result";

/// The letter of a column in a `query` record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnKind {
    /// `B`
    Boolean,
    /// `D`
    Date,
    /// `I`
    Integer,
    /// `P`
    Timestamp,
    /// `R`: floats and decimals
    Real,
    /// `T`
    Text,
    /// `?`: lists, structs, binary; in a record it stands for any type.
    Any,
}

impl ColumnType for ColumnKind {
    fn from_char(value: char) -> Option<Self> {
        Some(match value {
            'B' => Self::Boolean,
            'D' => Self::Date,
            'I' => Self::Integer,
            'P' => Self::Timestamp,
            'R' => Self::Real,
            'T' => Self::Text,
            '?' => Self::Any,
            _ => return None,
        })
    }

    fn to_char(&self) -> char {
        match self {
            Self::Boolean => 'B',
            Self::Date => 'D',
            Self::Integer => 'I',
            Self::Timestamp => 'P',
            Self::Real => 'R',
            Self::Text => 'T',
            Self::Any => '?',
        }
    }
}

/// Whether the columns are of the kinds that the record names.
#[expect(clippy::ptr_arg, reason = "the runner's function type")]
pub fn column_validator(actual: &Vec<ColumnKind>, expected: &Vec<ColumnKind>) -> bool {
    let fits = |(a, e): (&ColumnKind, &ColumnKind)| *e == ColumnKind::Any || a == e;
    actual.len() == expected.len() && actual.iter().zip(expected).all(fits)
}

/// The kinds of a schema's columns.
pub fn kinds(schema: &Schema) -> Vec<ColumnKind> {
    schema.fields().iter().map(|f| kind(f.data_type())).collect()
}

fn kind(data_type: &DataType) -> ColumnKind {
    match data_type {
        DataType::Boolean => ColumnKind::Boolean,
        DataType::Date32 | DataType::Date64 => ColumnKind::Date,
        DataType::Timestamp(_, _) => ColumnKind::Timestamp,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnKind::Text,
        DataType::Dictionary(_, value) => kind(value),
        t if t.is_integer() => ColumnKind::Integer,
        t if t.is_floating() || t.is_decimal() => ColumnKind::Real,
        _ => ColumnKind::Any,
    }
}

/// Reduces a load's result row to [`LOAD_COLUMNS`], unless the record asks for all of it. Other answers stay.
pub fn project(sql: &str, outcome: &Outcome) -> Result<(SchemaRef, Vec<RecordBatch>), Failure> {
    if !is_load_result(outcome) || sql.starts_with(FULL) {
        return Ok((outcome.schema.clone(), outcome.batches.clone()));
    }
    let wanted: Result<Vec<usize>, _> = LOAD_COLUMNS.iter().map(|c| outcome.schema.index_of(c)).collect();
    let wanted = wanted.map_err(|e| Failure::broken(format!("a load's result row lacks a column: {e}")))?;
    let batches: Result<Vec<_>, _> = outcome.batches.iter().map(|b| b.project(&wanted)).collect();
    let schema = outcome.schema.project(&wanted);
    match (schema, batches) {
        (Ok(schema), Ok(batches)) => Ok((schema.into(), batches)),
        (Err(e), _) | (_, Err(e)) => Err(Failure::broken(e.to_string())),
    }
}

fn is_load_result(outcome: &Outcome) -> bool {
    outcome
        .schema
        .fields()
        .first()
        .is_some_and(|f| f.name() == "num_affected_rows")
}

/// Checks on every load what holds for every load: one row, counts that add up, a version exactly where one was
/// committed.
pub fn check_load_result(outcome: &Outcome) -> Result<(), Failure> {
    if !is_load_result(outcome) {
        return Ok(());
    }
    let rows: usize = outcome.batches.iter().map(RecordBatch::num_rows).sum();
    let batch = outcome.batches.iter().find(|b| b.num_rows() == 1);
    let (Some(batch), 1) = (batch, rows) else {
        return Err(Failure::broken(format!("a load returned {rows} result rows")));
    };
    let result = LoadResult { batch };
    let parts = ["num_inserted_rows", "num_updated_rows", "num_deleted_rows"];
    let sum = parts.iter().map(|c| result.count(c)).sum::<Result<u64, _>>()?;
    let affected = result.count("num_affected_rows")?;
    if affected != sum {
        return Err(Failure::broken(format!(
            "num_affected_rows is {affected}, the parts add up to {sum}"
        )));
    }
    result.check_version(affected)
}

struct LoadResult<'a> {
    batch: &'a RecordBatch,
}

impl LoadResult<'_> {
    fn column(&self, name: &str) -> Result<&dyn Array, Failure> {
        let column = self.batch.column_by_name(name);
        column
            .map(AsRef::as_ref)
            .ok_or_else(|| Failure::broken(format!("a load's result row has no {name}")))
    }

    fn count(&self, name: &str) -> Result<u64, Failure> {
        let column = self.column(name)?;
        column
            .as_primitive_opt::<UInt64Type>()
            .filter(|c| c.is_valid(0))
            .map(|c| c.value(0))
            .ok_or_else(|| Failure::broken(format!("{name} is not a UInt64 value")))
    }

    fn check_version(&self, affected: u64) -> Result<(), Failure> {
        let version = self.column("table_version")?;
        let version = version
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| Failure::broken("table_version is not Int64"))?;
        let status = self.column("status")?;
        let status = status
            .as_string_opt::<i32>()
            .map(|s| s.value(0))
            .ok_or_else(|| Failure::broken("status is not Utf8"))?;
        let right = match status {
            "COMMITTED" => version.is_valid(0),
            // A TRANSACTION without changes commits its record only.
            "NO CHANGES" => affected == 0,
            "SKIPPED" => affected == 0 && version.is_null(0),
            "DRY RUN" => version.is_null(0),
            _ => false,
        };
        let fault = || Failure::broken(format!("status {status} contradicts the rest of the result row"));
        right.then_some(()).ok_or_else(fault)
    }
}
