//! The work on one partition: rows pass, and the first row of each key comes a second time as a probe row.

use std::collections::VecDeque;
use std::sync::Arc;

use alluvium_core::LoadError;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt8Array, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{Schema, SchemaRef, UInt8Type};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::LexRequirement;

use super::KeyGroupsSpec;
use crate::columns;
use crate::keys::{Columns, by_key, index_of, key_order, live};
use crate::node::RowSpec;
use crate::row_exec::{Requirements, RowExec, RowOperator, RowStep, StepContext};
use crate::seen::Seen;

/// The physical node that adds probe rows.
pub type KeyGroupsExec = RowExec<KeyGroupsSpec>;

impl RowOperator for KeyGroupsSpec {
    fn passes_through(&self) -> bool {
        false
    }

    fn requirements(&self, schema: &Schema, config: &Arc<ConfigOptions>) -> Result<Requirements> {
        let keys = &self.set.keys;
        let ordering = match self.sorted {
            true => LexRequirement::new(key_order(schema, keys, Self::NAME, config)?),
            false => None,
        };
        Ok(Requirements {
            distribution: by_key(schema, keys, Self::NAME, config)?,
            ordering,
        })
    }

    fn start(&self, context: StepContext<'_>) -> Result<Box<dyn RowStep>> {
        let input = &context.input_schema;
        let keys = Columns::try_new(input, &self.set.keys, Self::NAME)?;
        if keys.is_empty() {
            return Err(LoadError::internal("a key set without columns").into());
        }
        let name = format!("{}[{}]", Self::EXEC_NAME, context.partition);
        Ok(Box::new(Groups {
            seen: Seen::try_new(&keys, self.sorted, &name, context.pool)?,
            probe: (self.number > 1)
                .then(|| index_of(input, columns::PROBE, Self::NAME))
                .transpose()?,
            spec: self.clone(),
            schema: context.schema,
            keys,
        }))
    }
}

struct Groups {
    spec: KeyGroupsSpec,
    keys: Columns,
    /// The column of probe numbers, if an operator below has added it.
    probe: Option<usize>,
    seen: Seen,
    schema: SchemaRef,
}

impl RowStep for Groups {
    fn push(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let keys = self.keys.arrays(&batch)?;
        let mut live = live(&batch, &keys, self.spec.set.nulls_equal, None)?;
        if let Some(probe) = self.probe {
            let ordinary = ordinary(batch.column(probe))?;
            live = Some(live.map_or(ordinary.clone(), |live| &live & &ordinary));
        }
        let fresh = self.seen.fresh(&keys, live.as_ref())?;
        let probes = match fresh.count_set_bits() {
            0 => None,
            _ => Some(self.probes(&batch, fresh)?),
        };
        out.push_back(self.ordinary_rows(batch)?);
        out.extend(probes);
        Ok(())
    }
}

impl Groups {
    fn ordinary_rows(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.probe.is_some() {
            return Ok(batch);
        }
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(UInt8Array::from_value(0, batch.num_rows())));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The rows of `fresh` as probe rows. Columns outside the key are NULL where that is allowed, to keep them small.
    fn probes(&self, batch: &RecordBatch, fresh: BooleanBuffer) -> Result<RecordBatch> {
        let rows = fresh.count_set_bits();
        let mask = BooleanArray::new(fresh, None);
        let fields = self.schema.fields().iter().enumerate();
        let columns = fields.map(|(i, field)| match batch.columns().get(i) {
            Some(column) if Some(i) != self.probe => match self.keys.indices().contains(&i) || !field.is_nullable() {
                true => Ok(filter(column, &mask)?),
                false => Ok(new_null_array(column.data_type(), rows)),
            },
            _ => Ok(self.number(rows)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }

    fn number(&self, rows: usize) -> ArrayRef {
        Arc::new(UInt8Array::from_value(self.spec.number, rows))
    }
}

/// Where the row is not itself a probe row.
fn ordinary(probe: &ArrayRef) -> Result<BooleanBuffer> {
    let numbers = probe
        .as_primitive_opt::<UInt8Type>()
        .ok_or_else(|| LoadError::internal("probe numbers are not UInt8"))?;
    let values = numbers.values();
    Ok(BooleanBuffer::collect_bool(numbers.len(), |row| values[row] == 0))
}
