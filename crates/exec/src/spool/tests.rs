use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::JoinType;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, execute_stream};
use datafusion::prelude::{SessionContext, col, lit};
use futures::StreamExt;

use super::*;
use crate::metrics::{SOURCE_ROWS, sum};
use crate::source_gate::{GateSpec, SourceGateNode};
use crate::testing::{SIZES, batch, cut, ints, run_plan, session, small_session, sorted_rows, source_of};

/// A source that counts how many rows it delivers, in two partitions.
fn counted(rows: i64, size: usize) -> LogicalPlan {
    let numbers = |range: std::ops::Range<i64>| cut(&batch(vec![("a", ints(range.map(Some)))]), size);
    let gate = GateSpec {
        table: "t".into(),
        key_columns: vec![],
        checks: vec![],
        ordinal: false,
        checks_only: false,
    };
    let input = source_of(vec![numbers(0..rows / 2), numbers(rows / 2..rows)]);
    SourceGateNode::try_new(input, gate).unwrap().into_plan()
}

fn union(rows: i64, size: usize) -> LogicalPlan {
    let spool = Spool::new(2);
    let source = counted(rows, size);
    let left = LogicalPlanBuilder::from(spool.reader(source.clone(), 0).unwrap())
        .filter(col("a").lt(lit(2i64)))
        .unwrap();
    let right = spool.reader(source, 1).unwrap();
    left.union(right).unwrap().build().unwrap()
}

fn join(rows: i64, size: usize) -> LogicalPlan {
    let spool = Spool::new(2);
    let source = counted(rows, size);
    let left = LogicalPlanBuilder::from(spool.reader(source.clone(), 0).unwrap())
        .alias("l")
        .unwrap();
    let right = LogicalPlanBuilder::from(spool.reader(source, 1).unwrap())
        .alias("r")
        .unwrap();
    left.join(
        right.build().unwrap(),
        JoinType::Inner,
        (vec!["l.a"], vec!["r.a"]),
        None,
    )
    .unwrap()
    .build()
    .unwrap()
}

#[tokio::test]
async fn two_branches_read_one_source_that_runs_once() {
    for size in SIZES {
        let (plan, batches) = run_plan(&session(2, size), union(6, size)).await.unwrap();
        assert_eq!(sorted_rows(&batches), ["0", "0", "1", "1", "2", "3", "4", "5"]);
        assert_eq!(sum(plan.as_ref(), SOURCE_ROWS), 6);
    }
}

#[tokio::test]
async fn a_join_may_drain_one_branch_before_the_other() {
    for size in SIZES {
        let (plan, batches) = run_plan(&session(2, size), join(20, size)).await.unwrap();
        assert_eq!(sorted_rows(&batches).len(), 20);
        assert_eq!(sum(plan.as_ref(), SOURCE_ROWS), 20);
    }
}

async fn planned(session: &SessionContext, plan: LogicalPlan) -> Arc<dyn ExecutionPlan> {
    session.state().create_physical_plan(&plan).await.unwrap()
}

#[tokio::test]
async fn a_plan_can_run_again() {
    let session = session(2, 3);
    let plan = planned(&session, union(6, 3)).await;
    for runs in 1..4 {
        let context = session.task_ctx();
        for _ in 0..2 {
            let batches = collect(Arc::clone(&plan), Arc::clone(&context)).await.unwrap();
            assert_eq!(sorted_rows(&batches).len(), 8);
        }
        assert_eq!(sum(plan.as_ref(), SOURCE_ROWS), runs * 12);
    }
}

#[tokio::test]
async fn readers_may_come_one_after_the_other_and_leave_early() {
    let session = session(1, 2);
    let plan = planned(&session, union(12, 2)).await;
    let readers = find_readers(&plan);
    let context = session.task_ctx();
    let mut first = readers[0].execute(0, Arc::clone(&context)).unwrap();
    first.next().await.unwrap().unwrap();
    drop(first);
    let second = readers[1].execute(0, Arc::clone(&context)).unwrap();
    let batches: Vec<RecordBatch> = second.map(|b| b.unwrap()).collect().await;
    assert_eq!(sorted_rows(&batches).len(), 6);
    assert_eq!(context.memory_pool().reserved(), 0);
}

#[tokio::test]
async fn a_reader_in_step_holds_one_batch_at_most() {
    let session = session(1, 1);
    let plan = planned(&session, union(1000, 1)).await;
    let readers = find_readers(&plan);
    let context = session.task_ctx();
    let mut first = readers[0].execute(0, Arc::clone(&context)).unwrap();
    let mut second = readers[1].execute(0, Arc::clone(&context)).unwrap();
    let mut most = 0;
    while first.next().await.is_some() {
        second.next().await.unwrap().unwrap();
        most = most.max(context.memory_pool().reserved());
    }
    assert!(most < 1000, "{most}");
}

fn find_readers(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    if plan.is::<SpoolExec>() {
        return vec![Arc::clone(plan)];
    }
    plan.children().into_iter().flat_map(find_readers).collect()
}

#[tokio::test]
async fn what_does_not_fit_in_memory_goes_to_disk() {
    let session = small_session(200_000);
    let plan = planned(&session, union(400_000, 1024)).await;
    let readers = find_readers(&plan);
    let context = session.task_ctx();
    for partition in 0..readers[0].output_partitioning().partition_count() {
        for reader in &readers {
            let mut stream = reader.execute(partition, Arc::clone(&context)).unwrap();
            let mut next = i64::try_from(partition).unwrap() * 200_000;
            while let Some(batch) = stream.next().await {
                for row in crate::testing::rows(&[batch.unwrap()]) {
                    assert_eq!(row, next.to_string());
                    next += 1;
                }
            }
        }
    }
    assert_eq!(context.memory_pool().reserved(), 0);
    assert!(
        readers
            .iter()
            .any(|r| r.metrics().unwrap().spill_count().unwrap_or(0) > 0)
    );
}

#[tokio::test]
async fn an_error_of_the_source_reaches_every_reader() {
    let session = session(1, 2);
    let spool = Spool::new(2);
    let input = source_of(vec![cut(&batch(vec![("a", ints([Some(1), None]))]), 2)]);
    let gate = GateSpec {
        table: "t".into(),
        key_columns: vec![],
        checks: vec![crate::source_gate::RowCheck::key("a")],
        ordinal: false,
        checks_only: false,
    };
    let source = SourceGateNode::try_new(input, gate).unwrap().into_plan();
    for reader in 0..2 {
        let plan = planned(&session, spool.reader(source.clone(), reader).unwrap()).await;
        let mut stream = execute_stream(plan, session.task_ctx()).unwrap();
        let error = LoadError::from(stream.next().await.unwrap().unwrap_err());
        assert_eq!(error.code(), "23502");
        assert!(error.detail_text().is_some());
    }
}

#[tokio::test]
async fn readers_with_other_partitions_are_refused() {
    let session = session(1, 2);
    let spool = Spool::new(2);
    let numbers = || cut(&batch(vec![("a", ints([Some(1)]))]), 1);
    let one = planned(&session, spool.reader(source_of(vec![numbers()]), 0).unwrap()).await;
    let two = planned(
        &session,
        spool.reader(source_of(vec![numbers(), numbers()]), 1).unwrap(),
    )
    .await;
    let context = session.task_ctx();
    let _held = one.execute(0, Arc::clone(&context)).unwrap();
    let error = LoadError::from(two.execute(0, context).err().unwrap());
    assert_eq!(error.code(), "XX000");
}

#[tokio::test]
async fn filters_and_projections_of_one_branch_stay_out_of_the_source() {
    let session = session(2, 8192);
    let plan = session.state().optimize(&union(6, 3)).unwrap();
    let text = plan.display_indent().to_string();
    let below: Vec<&str> = text.lines().skip_while(|l| !l.contains("Spool: reader=0/2")).collect();
    assert!(text.contains("Filter: s.a < Int64(2)"), "{text}");
    assert!(!below.iter().any(|l| l.contains("Filter")), "{text}");
}

/// Rows that the partitions of one plan share: whichever asks takes all that are left, as in a file scan.
#[derive(Debug)]
struct Shared {
    rows: Arc<std::sync::atomic::AtomicUsize>,
    batch: RecordBatch,
    properties: Arc<datafusion::physical_plan::PlanProperties>,
}

impl Shared {
    fn new(count: usize) -> Self {
        use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
        let batch = batch(vec![("k", ints([Some(1)]))]);
        let properties = datafusion::physical_plan::PlanProperties::new(
            datafusion::physical_expr::EquivalenceProperties::new(batch.schema()),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(2),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            rows: Arc::new(count.into()),
            batch,
            properties: Arc::new(properties),
        }
    }
}

impl datafusion::physical_plan::DisplayAs for Shared {
    fn fmt_as(&self, _: datafusion::physical_plan::DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl ExecutionPlan for Shared {
    fn name(&self) -> &str {
        "Shared"
    }

    fn properties(&self) -> &Arc<datafusion::physical_plan::PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(
            &Arc<dyn datafusion::physical_expr::PhysicalExpr>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
    ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: datafusion::physical_plan::ReplaceChildrenOptions,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<datafusion::execution::TaskContext>,
    ) -> datafusion::common::Result<datafusion::execution::SendableRecordBatchStream> {
        use std::sync::atomic::Ordering;
        let (rows, batch) = (Arc::clone(&self.rows), self.batch.clone());
        let take = move || {
            let left = rows.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |rows| rows.checked_sub(1));
            left.ok().map(|_| Ok(batch.clone()))
        };
        let schema = self.batch.schema();
        let stream = futures::stream::iter(std::iter::from_fn(take));
        Ok(Box::pin(
            datafusion::physical_plan::stream::RecordBatchStreamAdapter::new(schema, stream),
        ))
    }
}

#[tokio::test]
async fn partitions_that_share_their_work_are_moved_by_one_copy() {
    let spool = Spool::new(2);
    let reader = |reader| {
        let spec = SpoolSpec {
            shared: Arc::clone(&spool.shared),
            reader,
        };
        SpoolExec::new(Arc::new(spec), Arc::new(Shared::new(10)))
    };
    let (first, second) = (reader(0), reader(1));
    let context = session(2, 8).task_ctx();
    // Each reader begins with another partition.
    let streams = [(&first, 0), (&second, 1), (&first, 1), (&second, 0)]
        .map(|(reader, partition)| reader.execute(partition, Arc::clone(&context)).unwrap());
    let read = streams.map(datafusion::physical_plan::common::collect);
    let read = futures::future::try_join_all(read).await.unwrap();
    let rows: Vec<usize> = read
        .iter()
        .map(|batches| batches.iter().map(RecordBatch::num_rows).sum())
        .collect();
    assert_eq!((rows[0] + rows[2], rows[1] + rows[3]), (10, 10), "{rows:?}");
}
