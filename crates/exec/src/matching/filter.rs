//! What the source's keys say about stored rows, for the scan below.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, in_list, is_null, lit};

use super::build::Built;
use super::index::KeyTable;
use super::parts::KeyColumn;

/// Up to this many keys a scan is told them one by one, so that files between them can be left out.
const MOST_LISTED: usize = 256;
/// A source of more rows meets so many stored ones that looking each up before its other columns are read does not pay.
const MOST_LOOKED_UP: usize = 1_000_000;

/// What every stored row that has a match fulfils: its keys lie between the lowest and the highest of the source, and are
/// among them.
pub(super) fn filter_of(
    source: &Built,
    columns: &[Arc<dyn PhysicalExpr>],
    nulls_equal: bool,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let rows = source.keys.rows();
    if rows == 0 {
        return Ok(lit(false));
    }
    let mut bounds = Vec::new();
    for (key, column) in source.keys.columns().iter().zip(columns) {
        let Some(bound) = bound_of(key, column, schema)? else {
            continue;
        };
        bounds.push(match nulls_equal && key.null_count() > 0 {
            true => binary(bound, Operator::Or, is_null(Arc::clone(column))?),
            false => bound,
        });
    }
    if rows <= MOST_LOOKED_UP {
        bounds.push(Arc::new(KnownKeys {
            columns: columns.to_vec(),
            table: Arc::clone(&source.table),
        }));
    }
    let all = bounds.into_iter().reduce(|all, one| binary(all, Operator::And, one));
    Ok(all.unwrap_or_else(|| lit(true)))
}

fn bound_of(key: &KeyColumn, column: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let data_type = &key.data_type;
    if data_type.is_nested() || data_type.is_floating() || key.null_count() == key.len() {
        return Ok(None);
    }
    if key.len() <= MOST_LISTED {
        let key = key.joined()?;
        let values = (0..key.len()).filter(|row| key.is_valid(*row));
        let literal = |row| -> Result<Arc<dyn PhysicalExpr>> {
            Ok(Arc::new(Literal::new(ScalarValue::try_from_array(&key, row)?)))
        };
        let values = values.map(literal).collect::<Result<Vec<_>>>()?;
        return in_list(Arc::clone(column), values, &false, schema).map(Some);
    }
    let (Ok(mut low), Ok(mut high)) = (MinAccumulator::try_new(data_type), MaxAccumulator::try_new(data_type)) else {
        return Ok(None);
    };
    for part in &key.parts {
        low.update_batch(std::slice::from_ref(part))?;
        high.update_batch(std::slice::from_ref(part))?;
    }
    let from = binary(
        Arc::clone(column),
        Operator::GtEq,
        Arc::new(Literal::new(low.evaluate()?)),
    );
    let to = binary(
        Arc::clone(column),
        Operator::LtEq,
        Arc::new(Literal::new(high.evaluate()?)),
    );
    Ok(Some(binary(from, Operator::And, to)))
}

fn binary(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, op, right))
}

/// Whether the source has a key. A scan evaluates it before it decodes the columns that only matches need.
struct KnownKeys {
    columns: Vec<Arc<dyn PhysicalExpr>>,
    table: Arc<KeyTable>,
}

impl PhysicalExpr for KnownKeys {
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.columns.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            columns: children,
            table: Arc::clone(&self.table),
        }))
    }

    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = self
            .columns
            .iter()
            .map(|c| c.evaluate(batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(Arc::new(self.table.known(&keys)?)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for KnownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        write!(f, "in_source({})", columns.join(", "))
    }
}

impl fmt::Debug for KnownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for KnownKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.columns == other.columns
    }
}

impl Eq for KnownKeys {}

impl Hash for KnownKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.table), state);
        self.columns.hash(state);
    }
}
