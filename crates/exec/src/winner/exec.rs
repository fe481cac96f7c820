//! Choosing winners on one partition, whose rows come key by key, the best of each key first.

use std::collections::VecDeque;
use std::sync::Arc;

use alluvium_core::{LoadError, SqlState};
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::{SortOptions, filter_record_batch, partition};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::row::{OwnedRow, RowConverter};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::{LexRequirement, PhysicalSortRequirement};
use datafusion::physical_plan::metrics::{Count, MetricBuilder};

use super::{WinnerMode, WinnerSpec};
use crate::keys::{Columns, by_key, comparable, key_order, nulls, shown_value};
use crate::metrics::SKIPPED_ROWS;
use crate::node::RowSpec;
use crate::row_exec::{Requirements, RowExec, RowOperator, RowStep, StepContext};

/// The physical node that chooses winners.
pub type WinnerExec = RowExec<WinnerSpec>;

impl RowOperator for WinnerSpec {
    fn requirements(&self, schema: &Schema, config: &Arc<ConfigOptions>) -> Result<Requirements> {
        let mut ordering = key_order(schema, &self.keys, Self::NAME, config)?;
        let last = self.tie_breaker().map(|name| (name.to_owned(), SortOptions::default()));
        for (name, options) in self.order.iter().chain(&last) {
            let expr = comparable(schema, name, Self::NAME, config)?;
            ordering.push(PhysicalSortRequirement::new(expr, Some(*options)));
        }
        Ok(Requirements {
            distribution: by_key(schema, &self.keys, Self::NAME, config)?,
            ordering: LexRequirement::new(ordering),
        })
    }

    fn start(&self, context: StepContext<'_>) -> Result<Box<dyn RowStep>> {
        let part = |names: &[String]| Part::try_new(&context.input_schema, names);
        let order: Vec<String> = self.order.iter().map(|(name, _)| name.clone()).collect();
        let content = match &self.mode {
            WinnerMode::Sequence { content } => part(content)?,
            WinnerMode::First | WinnerMode::WithTies => part(&[])?,
        };
        Ok(Box::new(Winner {
            keys: part(&self.keys)?,
            order: part(&order)?,
            content,
            last: None,
            skipped: MetricBuilder::new(context.metrics).counter(SKIPPED_ROWS, context.partition),
            spec: self.clone(),
            schema: context.schema,
        }))
    }
}

struct Winner {
    spec: WinnerSpec,
    keys: Part,
    order: Part,
    content: Part,
    last: Option<Last>,
    skipped: Count,
    schema: SchemaRef,
}

/// The last row of the batch before.
struct Last {
    key: OwnedRow,
    order: OwnedRow,
    content: OwnedRow,
    /// Whether it was first in its key, or tied for it.
    leading: bool,
}

impl RowStep for Winner {
    fn push(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let winners = self.winners(&batch)?;
        let losers = batch.num_rows() - winners.count_set_bits();
        let winners = BooleanArray::new(winners, None);
        if self.spec.flag.is_some() {
            let mut columns = batch.columns().to_vec();
            columns.push(Arc::new(winners));
            out.push_back(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
            return Ok(());
        }
        self.skipped.add(losers);
        if losers == 0 {
            out.push_back(batch);
        } else if losers < batch.num_rows() {
            out.push_back(filter_record_batch(&batch, &winners)?);
        }
        Ok(())
    }
}

impl Winner {
    fn winners(&mut self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let keys = self.keys.of(batch)?;
        let order = self.order.of(batch)?;
        let content = self.content.of(batch)?;
        let alone = match self.spec.nulls_equal {
            true => None,
            false => nulls(&keys.arrays),
        };
        let changes = Changes {
            key: keys.changes(self.last.as_ref().map(|l| &l.key), alone.as_ref())?,
            order: order.changes(self.last.as_ref().map(|l| &l.order), None)?,
            content: content.changes(self.last.as_ref().map(|l| &l.content), None)?,
        };
        let leading = self.last.as_ref().is_some_and(|l| l.leading);
        let (winners, leading) = match self.judge(&changes, leading) {
            Ok(judged) => judged,
            Err(row) => return Err(self.conflict(&keys, &order, row)?.into()),
        };
        self.last = Some(Last {
            key: keys.last()?,
            order: order.last()?,
            content: content.last()?,
            leading,
        });
        Ok(winners)
    }

    /// The winners, and whether the last row leads its key. An error is a row that ties but differs.
    fn judge(&self, changes: &Changes, mut leading: bool) -> Result<(BooleanBuffer, bool), usize> {
        let mut winners = Vec::with_capacity(changes.key.len());
        for row in 0..changes.key.len() {
            let first = changes.key[row];
            let ties = !first && leading && !changes.order[row];
            leading = first || ties;
            winners.push(match &self.spec.mode {
                WinnerMode::First => first,
                WinnerMode::WithTies => leading,
                // Also among losers: which of two such rows wins must not depend on what else the batch holds.
                WinnerMode::Sequence { .. } if !first && !changes.order[row] && changes.content[row] => {
                    return Err(row);
                }
                WinnerMode::Sequence { .. } => first,
            });
        }
        Ok((BooleanBuffer::from(winners), leading))
    }

    fn conflict(&self, keys: &Values<'_>, order: &Values<'_>, row: usize) -> Result<LoadError> {
        let sequence = order
            .arrays
            .iter()
            .map(|array| shown_value(array, row))
            .collect::<Result<Vec<_>>>()?;
        let message = format!(
            "source rows with the same key and sequence differ for table \"{}\"",
            self.spec.table
        );
        Ok(LoadError::new(SqlState::CardinalityViolation, message)
            .detail(format!(
                "Key {} occurs several times with sequence ({}) and different content.",
                keys.part.columns.shown(&keys.arrays, row)?,
                sequence.join(", ")
            ))
            .hint("Add an expression to SEQUENCE BY that tells such rows apart."))
    }
}

/// For each row, whether it differs from the one before.
struct Changes {
    key: Vec<bool>,
    order: Vec<bool>,
    content: Vec<bool>,
}

/// Columns that are compared together.
struct Part {
    columns: Columns,
    converter: RowConverter,
}

impl Part {
    fn try_new(schema: &Schema, names: &[String]) -> Result<Self> {
        let columns = Columns::try_new(schema, names, WinnerSpec::NAME)?;
        let converter = columns.converter()?;
        Ok(Self { columns, converter })
    }

    fn of(&self, batch: &RecordBatch) -> Result<Values<'_>> {
        Ok(Values {
            part: self,
            arrays: self.columns.arrays(batch)?,
            rows: batch.num_rows(),
        })
    }
}

/// The values of a [`Part`] in one batch.
struct Values<'a> {
    part: &'a Part,
    arrays: Vec<ArrayRef>,
    rows: usize,
}

impl Values<'_> {
    /// For each row, whether it differs from the one before, `before` being the row before the first. Rows that are
    /// NULL in `alone` differ from all others.
    fn changes(&self, before: Option<&OwnedRow>, alone: Option<&NullBuffer>) -> Result<Vec<bool>> {
        let mut changes = vec![false; self.rows];
        if !self.arrays.is_empty() {
            for range in partition(&self.arrays)?.ranges() {
                changes[range.start] = true;
            }
        }
        changes[0] = match before {
            Some(before) => *before != self.row(0)?,
            None => true,
        };
        if let Some(alone) = alone {
            for (change, valid) in changes.iter_mut().zip(alone.iter()) {
                *change |= !valid;
            }
        }
        Ok(changes)
    }

    fn last(&self) -> Result<OwnedRow> {
        self.row(self.rows - 1)
    }

    fn row(&self, row: usize) -> Result<OwnedRow> {
        let one: Vec<ArrayRef> = self.arrays.iter().map(|a| a.slice(row, 1)).collect();
        if one.is_empty() {
            let parser = self.part.converter.parser();
            let row = parser.parse(&[]).owned();
            return Ok(row);
        }
        Ok(self.part.converter.convert_columns(&one)?.row(0).owned())
    }
}
