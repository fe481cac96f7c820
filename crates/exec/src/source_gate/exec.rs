//! The gate's work on one partition.

use std::collections::VecDeque;
use std::sync::Arc;

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::metrics::{Count, MetricBuilder};

use super::{GateSpec, RowCheck, Rule};
use crate::keys::{Columns, index_of, is_true};
use crate::metrics::{CHECKED_ROWS, SOURCE_ROWS};
use crate::node::RowSpec;
use crate::row_exec::{Requirements, RowExec, RowOperator, RowStep, StepContext};

/// The physical node of the gate.
pub type SourceGateExec = RowExec<GateSpec>;

/// A sample row shows at most this many columns.
const SAMPLE_COLUMNS: usize = 5;
/// The bits of the row in [`crate::columns::ORDINAL`].
const ROW_BITS: u32 = 40;

impl RowOperator for GateSpec {
    fn requirements(&self, _schema: &Schema, _config: &Arc<ConfigOptions>) -> Result<Requirements> {
        Ok(Requirements {
            distribution: Distribution::UnspecifiedDistribution,
            ordering: None,
        })
    }

    fn start(&self, context: StepContext<'_>) -> Result<Box<dyn RowStep>> {
        let input = &context.input_schema;
        let partition =
            u64::try_from(context.partition).map_err(|_| LoadError::internal("a partition number out of range"))?;
        let checks = self
            .checks
            .iter()
            .map(|check| Check::try_new(input, check))
            .collect::<Result<Vec<_>>>()?;
        let counter = if self.checks_only { CHECKED_ROWS } else { SOURCE_ROWS };
        Ok(Box::new(Gate {
            rows: MetricBuilder::new(context.metrics).counter(counter, context.partition),
            sample: Columns::try_new(input, &sample_columns(input, &self.key_columns), Self::NAME)?,
            next_ordinal: self.ordinal.then_some(partition << ROW_BITS),
            several_partitions: context.partitions > 1,
            failed: false,
            schema: context.schema,
            checks,
        }))
    }
}

/// The key columns first, then whatever else fits.
fn sample_columns(schema: &Schema, keys: &[String]) -> Vec<String> {
    let others = schema.fields().iter().map(|f| f.name());
    let others = others.filter(|name| !name.starts_with("__") && !keys.contains(name));
    keys.iter().chain(others).take(SAMPLE_COLUMNS).cloned().collect()
}

struct Gate {
    rows: Count,
    sample: Columns,
    checks: Vec<Check>,
    next_ordinal: Option<u64>,
    several_partitions: bool,
    failed: bool,
    schema: SchemaRef,
}

struct Check {
    spec: RowCheck,
    column: usize,
    exempt: Option<usize>,
    /// How many rows offend, and the first of them.
    found: Option<(usize, String)>,
}

impl RowStep for Gate {
    /// After a row has failed, no more rows pass: the statement fails, and an error further down must not hide this one.
    fn push(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        self.rows.add(batch.num_rows());
        for check in &mut self.checks {
            self.failed |= check.look_at(&batch, &self.sample)?;
        }
        if !self.failed {
            let batch = self.with_ordinal(batch)?;
            out.push_back(batch);
        }
        Ok(())
    }

    fn finish(&mut self, _out: &mut VecDeque<RecordBatch>) -> Result<()> {
        match self
            .checks
            .iter()
            .find_map(|check| check.error(self.several_partitions))
        {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Gate {
    fn with_ordinal(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(next) = &mut self.next_ordinal else {
            return Ok(batch);
        };
        let rows = u64::try_from(batch.num_rows()).map_err(|_| LoadError::internal("a batch of too many rows"))?;
        let ordinals: ArrayRef = Arc::new(UInt64Array::from_iter_values(*next..*next + rows));
        *next += rows;
        let mut columns = batch.columns().to_vec();
        columns.push(ordinals);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Check {
    fn try_new(input: &Schema, spec: &RowCheck) -> Result<Self> {
        let exempt = spec.exempt.as_deref();
        Ok(Self {
            column: index_of(input, &spec.column, GateSpec::NAME)?,
            exempt: exempt.map(|name| index_of(input, name, GateSpec::NAME)).transpose()?,
            spec: spec.clone(),
            found: None,
        })
    }

    /// Counts the offending rows of `batch`; returns whether there are any.
    fn look_at(&mut self, batch: &RecordBatch, sample: &Columns) -> Result<bool> {
        let Some(offending) = self.offending(batch)? else {
            return Ok(false);
        };
        let Some(first) = offending.set_indices().next() else {
            return Ok(false);
        };
        let (count, _) = match &mut self.found {
            Some(found) => found,
            None => {
                let columns: Vec<ArrayRef> = sample.indices().iter().map(|i| Arc::clone(batch.column(*i))).collect();
                self.found.insert((0, sample.shown(&columns, first)?))
            }
        };
        *count += offending.count_set_bits();
        Ok(true)
    }

    /// The offending rows, `None` if there can be none.
    fn offending(&self, batch: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let offending = match &self.spec.rule {
            Rule::NotNull { .. } => match batch.column(self.column).logical_nulls() {
                Some(nulls) if nulls.null_count() > 0 => !nulls.inner(),
                _ => return Ok(None),
            },
            Rule::IsTrue { .. } => !&is_true(batch, self.column)?,
        };
        Ok(Some(match self.exempt {
            Some(exempt) => &offending & &!&is_true(batch, exempt)?,
            None => offending,
        }))
    }

    fn error(&self, several_partitions: bool) -> Option<LoadError> {
        let (count, sample) = self.found.as_ref()?;
        let (error, hint) = match &self.spec.rule {
            Rule::NotNull { subject, hint } => {
                let message = format!("{subject} of the source is NULL");
                (LoadError::new(SqlState::NotNullViolation, message), hint)
            }
            Rule::IsTrue { state, message, hint } => (LoadError::new(*state, message.clone()), hint),
        };
        let error = error.detail(detail(*count, sample, several_partitions));
        Some(if hint.is_empty() {
            error
        } else {
            error.hint(hint.clone())
        })
    }
}

/// Other partitions may have found more, of which this one does not know.
fn detail(count: usize, sample: &str, several_partitions: bool) -> String {
    let rows = match count {
        1 => "1 row".to_owned(),
        _ => format!("{count} rows"),
    };
    match (several_partitions, count) {
        (false, 1) => format!("It is the row with {sample}."),
        (false, _) => format!("{rows} of the source, the first with {sample}."),
        (true, _) => format!("At least {rows} of the source, one with {sample}."),
    }
}
