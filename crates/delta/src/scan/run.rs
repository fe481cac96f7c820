//! One partition of the scan at work.

use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::common;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::scan::covered::{Covered, Range};
use crate::scan::late::LateScan;
use crate::scan::reader::Reader;
use crate::scan::tasks::ScanTask;
use crate::scan::{FILES_PRUNED_DYNAMIC, FILES_SKIPPED, ScanPlan, prune, tasks};

/// What is left to read, and with which filters (see [`LateScan`]).
#[derive(Default)]
struct Reading {
    covered: Vec<Covered>,
    tasks: Vec<ScanTask>,
    pruning: Vec<Arc<dyn PhysicalExpr>>,
    passing: Vec<Arc<dyn PhysicalExpr>>,
    late: bool,
}

/// One partition at work.
pub(super) struct Run {
    pub(super) plan: Arc<ScanPlan>,
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) reader: Reader,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) partition: usize,
}

impl Run {
    /// Called when the first row is wanted: joins above have read their other side by then, so their filters stand.
    pub(super) async fn start(
        self,
        tasks: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let table = &self.plan.table;
        let schema = tasks.schema();
        let batch = concat_batches(&schema, &common::collect(tasks).await?)?;
        let mut reading = match self.filters.is_empty() {
            true => Reading {
                tasks: tasks::decode(table, &batch)?,
                ..Reading::default()
            },
            false => self.filtered(batch)?,
        };
        let covered = std::mem::take(&mut reading.covered);
        let rows = self.read(reading, context)?;
        if covered.is_empty() {
            return Ok(rows);
        }
        let (output, size) = (Arc::clone(self.reader.output()), context.session_config().batch_size());
        let schema = Arc::clone(&output);
        let unread = covered
            .into_iter()
            .flat_map(move |file| file.batches(Arc::clone(&output), size));
        let unread = stream::iter(unread.map(|batch| Ok(batch?)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, unread.chain(rows))))
    }

    fn read(&self, reading: Reading, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let late = LateScan {
            reader: &self.reader,
            tasks: reading.tasks,
            pruning: reading.pruning,
            passing: reading.passing,
            partition: self.partition,
            context,
            metrics: &self.metrics,
        };
        if reading.late && late.gathers() {
            return Ok(late.stream()?);
        }
        let filters = late.pruning.into_iter().chain(late.passing).collect();
        Ok(self
            .reader
            .stream(late.tasks, filters, reading.late, self.partition, context))
    }

    /// The tasks that can hold rows, and the filters for reading them.
    fn filtered(&self, batch: RecordBatch) -> Result<Reading> {
        let table = &self.plan.table;
        let prunable = prune::prunable(&self.filters)?;
        let stats = tasks::decode_stats(&table.schema, &batch)?;
        let keep = prune::keep(Arc::clone(&prunable), &table.schema, &stats);
        let standing = !self
            .filters
            .iter()
            .any(|f| matches!(DynamicFilterTracking::classify(f), DynamicFilterTracking::Watching(_)));
        let (covered, unread) = match self.plan.range_of.filter(|_| standing) {
            Some(index) => self.range(index)?.covered(&batch, &stats)?,
            None => (Vec::new(), BooleanArray::from(vec![false; batch.num_rows()])),
        };
        let keep: Vec<bool> = keep
            .into_iter()
            .zip(unread.values())
            .map(|(keep, unread)| keep && !unread)
            .collect();
        let dropped: Vec<bool> = keep.iter().map(|keep| !keep).collect();
        let skipped = tasks::files_begun(&batch, &dropped)?;
        for name in [FILES_PRUNED_DYNAMIC, FILES_SKIPPED] {
            MetricBuilder::new(&self.metrics)
                .counter(name, self.partition)
                .add(skipped);
        }
        let kept = filter_record_batch(&batch, &keep.into())?;
        let late = self.reader.decodes_late(&self.filters);
        let pruning = match standing {
            true => self.reader.usable(&[prunable])?,
            false => Vec::new(),
        };
        // The filters themselves say more about rows than their bounds do, and may still grow sharper.
        let passing = match late || !standing {
            true => self.reader.usable(&self.filters)?,
            false => Vec::new(),
        };
        let tasks = tasks::decode(table, &kept)?;
        Ok(Reading {
            covered,
            tasks,
            pruning,
            passing,
            late,
        })
    }

    /// The range that the filters, which stand, are of table column `index`.
    fn range(&self, index: usize) -> Result<Range<'_>> {
        let current = self.filters.iter().map(|f| snapshot_physical_expr(Arc::clone(f)));
        Ok(Range {
            name: self.plan.table.schema.field(index).name(),
            index,
            condition: conjunction(current.collect::<Result<Vec<_>>>()?),
            output: self.reader.output(),
        })
    }
}
