//! The duplicate check's work on one partition.

use std::collections::VecDeque;
use std::sync::Arc;

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::row::OwnedRow;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::LexRequirement;

use super::UniqueKeysSpec;
use crate::keys::{Columns, by_key, index_of, key_order, live};
use crate::node::RowSpec;
use crate::row_exec::{Requirements, RowExec, RowOperator, RowStep, StepContext};
use crate::seen::Seen;

/// The physical node of the duplicate check.
pub type UniqueKeysExec = RowExec<UniqueKeysSpec>;

/// A message lists at most this many keys.
const SHOWN_KEYS: usize = 5;

impl RowOperator for UniqueKeysSpec {
    fn requirements(&self, schema: &Schema, config: &Arc<ConfigOptions>) -> Result<Requirements> {
        let ordering = match self.sorted {
            true => LexRequirement::new(key_order(schema, &self.keys, Self::NAME, config)?),
            false => None,
        };
        Ok(Requirements {
            distribution: by_key(schema, &self.keys, Self::NAME, config)?,
            ordering,
        })
    }

    fn start(&self, context: StepContext<'_>) -> Result<Box<dyn RowStep>> {
        let input = &context.input_schema;
        let keys = Columns::try_new(input, &self.keys, Self::NAME)?;
        if keys.is_empty() {
            return Err(LoadError::internal("a duplicate check without keys").into());
        }
        let exempt = self.exempt.as_deref();
        let name = format!("{}[{}]", Self::EXEC_NAME, context.partition);
        Ok(Box::new(Check {
            seen: Seen::try_new(&keys, self.sorted, &name, context.pool)?,
            exempt: exempt.map(|name| index_of(input, name, Self::NAME)).transpose()?,
            spec: self.clone(),
            duplicates: Vec::new(),
            more: false,
            keys,
        }))
    }
}

struct Check {
    spec: UniqueKeysSpec,
    keys: Columns,
    exempt: Option<usize>,
    seen: Seen,
    duplicates: Vec<Duplicate>,
    /// There are duplicates of more keys than those listed.
    more: bool,
}

struct Duplicate {
    key: OwnedRow,
    shown: String,
    rows: usize,
}

impl RowStep for Check {
    /// After a duplicate has been found, no more rows pass: the statement fails, and an error further down must not
    /// hide this one.
    fn push(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let keys = self.keys.arrays(&batch)?;
        let live = live(&batch, &keys, self.spec.nulls_equal, self.exempt)?;
        let fresh = self.seen.fresh(&keys, live.as_ref())?;
        let looked_at = live.as_ref().map_or(batch.num_rows(), BooleanBuffer::count_set_bits);
        if fresh.count_set_bits() < looked_at {
            let repeated = match live {
                Some(live) => &live & &!&fresh,
                None => !&fresh,
            };
            self.add(&keys, repeated)?;
        }
        if self.duplicates.is_empty() {
            out.push_back(batch);
        }
        Ok(())
    }

    fn finish(&mut self, _out: &mut VecDeque<RecordBatch>) -> Result<()> {
        match self.duplicates.is_empty() {
            true => Ok(()),
            false => Err(self.error().into()),
        }
    }
}

impl Check {
    /// Counts rows whose key has been met before.
    fn add(&mut self, keys: &[ArrayRef], repeated: BooleanBuffer) -> Result<()> {
        let mask = BooleanArray::new(repeated, None);
        let keys: Vec<ArrayRef> = keys.iter().map(|k| filter(k, &mask)).collect::<Result<_, _>>()?;
        let rows = self.keys.converter()?.convert_columns(&keys)?;
        for (i, row) in rows.iter().enumerate() {
            if let Some(known) = self.duplicates.iter_mut().find(|d| d.key.row() == row) {
                known.rows += 1;
            } else if self.duplicates.len() < SHOWN_KEYS {
                self.duplicates.push(Duplicate {
                    key: row.owned(),
                    shown: self.keys.shown(&keys, i)?,
                    rows: 2,
                });
            } else {
                self.more = true;
            }
        }
        Ok(())
    }

    fn error(&self) -> LoadError {
        let mut lines: Vec<String> = self
            .duplicates
            .iter()
            .map(|d| format!("Key {} occurs {} times in the source.", d.shown, d.rows))
            .collect();
        if self.more {
            lines.push("There are more such keys.".into());
        }
        let message = format!(
            "several source rows have the same key for table \"{}\"",
            self.spec.table
        );
        let hint = match self.spec.hint.as_str() {
            "" => "Add SEQUENCE BY or DEDUPLICATE BY to keep one row per key.",
            hint => hint,
        };
        let error = LoadError::new(SqlState::CardinalityViolation, message)
            .detail(lines.join("\n"))
            .hint(hint);
        match self.spec.span {
            Some(span) => error.at(span),
            None => error,
        }
    }
}
