//! The rows of `RETURNING`, kept until the commit is done: in memory while the pool has room, on disk after that.

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

/// Rows that wait for the commit.
pub(super) struct ReturnedRows {
    schema: Option<SchemaRef>,
    memory: Vec<RecordBatch>,
    held: MemoryReservation,
    spill: SpillManager,
    disk: Vec<Arc<dyn SpillFile>>,
}

impl ReturnedRows {
    pub(super) fn new(
        schema: Option<SchemaRef>,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let spilled = schema.clone().unwrap_or_else(|| Arc::new(Schema::empty()));
        Self {
            schema,
            memory: Vec::new(),
            held: MemoryConsumer::new("LoadCommitExec returned rows")
                .with_can_spill(true)
                .register(context.memory_pool()),
            spill: SpillManager::new(context.runtime_env(), SpillMetrics::new(metrics, 0), spilled),
            disk: Vec::new(),
        }
    }

    /// Keeps a batch; its columns are those of `RETURNING`, by place.
    pub(super) fn keep(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(schema) = &self.schema else {
            return Ok(());
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?;
        let refused = self.held.try_grow(batch.get_array_memory_size()).is_err();
        self.memory.push(batch);
        if refused {
            self.disk.extend(
                self.spill
                    .spill_record_batch_and_finish(&self.memory, "rows returned by a load")?,
            );
            self.memory.clear();
            self.held.free();
        }
        Ok(())
    }

    /// The rows kept.
    pub(super) fn stream(mut self) -> Result<SendableRecordBatchStream> {
        let schema = self
            .schema
            .take()
            .ok_or_else(|| LoadError::internal("no rows are returned"))?;
        let spill = self.spill;
        let disk = futures::stream::iter(self.disk)
            .map(move |file| spill.read_spill_as_stream(file, None))
            .try_flatten();
        let held = self.held;
        let memory = futures::stream::iter(self.memory).map(move |batch| {
            held.shrink(batch.get_array_memory_size().min(held.size()));
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, disk.chain(memory))))
    }
}
