//! One partition of the scan at work.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_plan::common;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};

use crate::scan::reader::Reader;
use crate::scan::tasks::ScanTask;
use crate::scan::{FILES_PRUNED_DYNAMIC, FILES_SKIPPED, ScanPlan, prune, tasks};

/// What is left to read, and with which filters (see [`Reader::stream`]).
struct Reading {
    tasks: Vec<ScanTask>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
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
        let Reading { tasks, filters, late } = match self.filters.is_empty() {
            true => Reading {
                tasks: tasks::decode(table, &batch)?,
                filters: Vec::new(),
                late: false,
            },
            false => self.filtered(batch)?,
        };
        Ok(self.reader.stream(tasks, filters, late, self.partition, context))
    }

    /// The tasks that can hold rows, and the filters for reading them.
    fn filtered(&self, batch: RecordBatch) -> Result<Reading> {
        let table = &self.plan.table;
        let prunable = prune::prunable(&self.filters)?;
        let stats = tasks::decode_stats(&table.schema, &batch)?;
        let keep = prune::keep(Arc::clone(&prunable), &table.schema, &stats);
        let dropped: Vec<bool> = keep.iter().map(|keep| !keep).collect();
        let skipped = tasks::files_begun(&batch, &dropped)?;
        for name in [FILES_PRUNED_DYNAMIC, FILES_SKIPPED] {
            MetricBuilder::new(&self.metrics)
                .counter(name, self.partition)
                .add(skipped);
        }
        let kept = filter_record_batch(&batch, &keep.into())?;
        let late = self.reader.decodes_late(&self.filters);
        let standing = !self
            .filters
            .iter()
            .any(|f| matches!(DynamicFilterTracking::classify(f), DynamicFilterTracking::Watching(_)));
        let mut filters = match standing {
            true => self.reader.usable(&[prunable])?,
            false => Vec::new(),
        };
        // The filters themselves say more about rows than their bounds do, and may still grow sharper.
        if late || !standing {
            filters.extend(self.reader.usable(&self.filters)?);
        }
        let tasks = tasks::decode(table, &kept)?;
        Ok(Reading { tasks, filters, late })
    }
}
