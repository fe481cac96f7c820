//! The condition that scans evaluate.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};

use super::open::OpenVersions;
use crate::metrics::{SOURCE_ROWS, UNCHANGED_ROWS};

/// What operator and condition share.
pub(super) struct Known {
    /// `None` before they are read, without the memory for them, and when the last partition has ended.
    versions: RwLock<Option<Arc<OpenVersions>>>,
    /// What went wrong in a scan, which would pass it on as text.
    error: Mutex<Option<DataFusionError>>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    unchanged: Count,
    /// No check below sees the rows that are left out, so that they are counted here.
    source: Count,
}

impl Known {
    pub(super) fn new() -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        Self {
            versions: RwLock::new(None),
            error: Mutex::new(None),
            unchanged: MetricBuilder::new(&metrics).global_counter(UNCHANGED_ROWS),
            source: MetricBuilder::new(&metrics).global_counter(SOURCE_ROWS),
            metrics,
        }
    }

    pub(super) fn set(&self, versions: Option<Arc<OpenVersions>>) {
        *self.versions.write().unwrap_or_else(PoisonError::into_inner) = versions;
    }

    /// The error behind one that comes from a scan.
    pub(super) fn cause_of(&self, error: DataFusionError) -> DataFusionError {
        let cause = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        cause.unwrap_or(error)
    }

    /// See [`OpenVersions::check`].
    pub(super) fn check(&self) -> Result<()> {
        self.versions().map_or(Ok(()), |versions| versions.check())
    }

    fn versions(&self) -> Option<Arc<OpenVersions>> {
        self.versions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// TRUE in rows that no open version agrees with.
pub(super) struct Tells {
    columns: Vec<Arc<dyn PhysicalExpr>>,
    known: Arc<Known>,
}

impl Tells {
    pub(super) fn new(columns: Vec<Arc<dyn PhysicalExpr>>, known: Arc<Known>) -> Self {
        Self { columns, known }
    }

    pub(super) fn telling(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let Some(versions) = self.known.versions() else {
            return Ok(vec![true; batch.num_rows()].into());
        };
        let columns = self
            .columns
            .iter()
            .map(|column| column.evaluate(batch)?.into_array(batch.num_rows()));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let telling = versions.telling(&columns, batch.num_rows())?;
        let skipped = telling.false_count();
        self.known.unchanged.add(skipped);
        self.known.source.add(skipped);
        Ok(telling)
    }
}

impl PhysicalExpr for Tells {
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.columns.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self::new(children, Arc::clone(&self.known))))
    }

    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _input_schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let telling = self.telling(batch).map_err(|error| {
            let text = DataFusionError::Execution(error.to_string());
            let mut first = self.known.error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
            text
        });
        Ok(ColumnarValue::Array(Arc::new(telling?)))
    }

    /// It remembers the rows it has seen. A scan that knows all of its columns to be constant would ask for one row else.
    fn is_volatile_node(&self) -> bool {
        true
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Tells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        write!(f, "tells_something({})", columns.join(", "))
    }
}

impl fmt::Debug for Tells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Tells {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.known, &other.known) && self.columns == other.columns
    }
}

impl Eq for Tells {}

impl Hash for Tells {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.known), state);
        self.columns.hash(state);
    }
}
