//! The operator of the comparison.

use std::fmt;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_exec::changed::distinct;
use alluvium_exec::node::RowSpec;
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

use super::pending::{Pending, Places, Spot};
use super::stored::StoredColumns;
use super::{CompareSpec, proof};

/// How much may wait for a comparison. The more, the fewer times a file is opened.
const MOST_BYTES: usize = 32 << 20;

/// Appends to every row whether it differs from the stored row it matches.
#[derive(Debug)]
pub(crate) struct CompareStoredExec {
    spec: Arc<CompareSpec>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CompareStoredExec {
    pub(crate) fn new(spec: Arc<CompareSpec>, input: Arc<dyn ExecutionPlan>) -> Self {
        let given = input.schema();
        let fields = given.fields().iter().cloned();
        let schema = Arc::new(Schema::new(
            fields
                .chain(spec.appended().into_iter().map(Arc::new))
                .collect::<Vec<_>>(),
        ));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            spec,
            input,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for CompareStoredExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.spec.compared().join(", ");
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let table = self.spec.snapshot().name();
                write!(f, "CompareStoredExec: table={table}, columns=[{columns}]")
            }
            DisplayFormatType::TreeRender => write!(f, "columns=[{columns}]"),
        }
    }
}

impl ExecutionPlan for CompareStoredExec {
    fn name(&self) -> &'static str {
        CompareSpec::EXEC_NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Rows come in the order of the files; mixing them would have files opened again and again.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(Arc::clone(&self.spec), input))),
            _ => Err(LoadError::internal("a comparison has exactly one input").into()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), 2);
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let task = Task {
            places: Places::find(&input.schema(), self.spec.compared().len())?,
            held: MemoryConsumer::new("CompareStoredExec").register(context.memory_pool()),
            spec: Arc::clone(&self.spec),
            schema: self.schema(),
            context,
            output: builder.tx(),
            rows_proven: counter("rows_proven_different"),
            values_read: counter("values_read"),
        };
        builder.spawn(async move { Ok(task.run(input).await?) });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct Task {
    spec: Arc<CompareSpec>,
    places: Places,
    schema: SchemaRef,
    context: Arc<TaskContext>,
    output: Sender<DfResult<RecordBatch>>,
    held: MemoryReservation,
    rows_proven: Count,
    values_read: Count,
}

impl Task {
    async fn run(self, mut input: SendableRecordBatchStream) -> Result<()> {
        let stored = StoredColumns::open(self.spec.snapshot(), self.spec.compared(), &self.context).await?;
        let mut pending = Pending::default();
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let size = get_record_batch_memory_size(&batch);
            let full = self.held.size() + size > MOST_BYTES || self.held.try_grow(size).is_err();
            pending.push(batch, &self.places)?;
            if (full || pending.is_decided()) && !self.flush(&mut pending, &stored).await? {
                return Ok(());
            }
        }
        drop(input);
        if !pending.is_empty() {
            self.flush(&mut pending, &stored).await?;
        }
        Ok(())
    }

    /// Compares what waits and sends it on; false when nobody listens any more.
    async fn flush(&self, pending: &mut Pending, stored: &StoredColumns) -> Result<bool> {
        let spots = pending.take_spots();
        let mut equal = Vec::new();
        for of_file in spots.chunk_by(|a, b| a.file == b.file) {
            equal.extend(self.compare(of_file.to_vec(), pending, stored).await?);
        }
        for batch in pending.finish(&equal, &self.schema)? {
            if self.output.send(Ok(batch)).await.is_err() {
                return Ok(false);
            }
        }
        self.held.free();
        Ok(true)
    }

    /// The rows of one file that are equal in every column.
    async fn compare(&self, mut alive: Vec<Spot>, pending: &Pending, stored: &StoredColumns) -> Result<Vec<Spot>> {
        let Some(file) = alive.first().map(|spot| spot.file) else {
            return Ok(alive);
        };
        self.drop_proven(file, &mut alive, pending)?;
        for (column, place) in self.places.new.iter().enumerate() {
            if alive.is_empty() {
                break;
            }
            let positions: Vec<u64> = alive.iter().map(|spot| spot.position).collect();
            let old = stored.read(column, file, &positions).await?;
            self.values_read.add(old.len());
            let new = pending.values(*place, &alive)?;
            retain_unless(&mut alive, &distinct(&old, &new)?);
        }
        Ok(alive)
    }

    /// Leaves out the rows that cannot be equal by what the log says about their file.
    fn drop_proven(&self, file: u32, alive: &mut Vec<Spot>, pending: &Pending) -> Result<()> {
        let snapshot = self.spec.snapshot();
        let stats = &snapshot.loaded_files()?.stats;
        let row = usize::try_from(file).unwrap_or(usize::MAX);
        for (name, place) in self.spec.compared().iter().zip(&self.places.new) {
            let Some(bounds) = stats
                .column(snapshot.schema().index_of(name)?)
                .filter(|_| !alive.is_empty())
            else {
                continue;
            };
            if let Some(proven) = proof::outside(bounds, row, &pending.values(*place, alive)?)? {
                self.rows_proven.add(proven.true_count());
                retain_unless(alive, &proven);
            }
        }
        Ok(())
    }
}

/// Leaves out the rows for which `differs`.
fn retain_unless(spots: &mut Vec<Spot>, differs: &BooleanArray) {
    let mut differs = differs.iter();
    spots.retain(|_| differs.next().flatten() != Some(true));
}
