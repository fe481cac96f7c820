//! The end of every load: one commit, or none.

mod collect;
mod entry;
mod log;
mod returning;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use alluvium_core::syntax::OnEmpty;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use self::collect::{Collected, collect};
use self::entry::EntrySent;
use self::log::{Committed, commit};
use self::returning::ReturnedRows;
use super::exec::single;
use super::job::LoadJob;
use super::result::{LoadCounts, LoadStatus, count_batch, count_schema, result_batch, result_schema};

/// What a load gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// The result row, or the `RETURNING` rows.
    Result,
    /// DataFusion's `count`, for plain `INSERT`.
    Count,
}

/// Drains every action row, then commits once or not at all, and only then gives something back.
///
/// Runs in the caller's process, on one partition, once per instance: a second run would commit a second time.
#[derive(Debug)]
pub(super) struct LoadCommitExec {
    input: Arc<dyn ExecutionPlan>,
    job: Arc<LoadJob>,
    output: Output,
    started: AtomicBool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LoadCommitExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, job: Arc<LoadJob>, output: Output) -> Self {
        let schema = match output {
            Output::Result => job.spec.returning.clone().unwrap_or_else(result_schema),
            Output::Count => count_schema(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            input,
            job,
            output,
            started: AtomicBool::new(false),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for LoadCommitExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.job.spec;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "LoadCommitExec: statement={}, table={}",
                    spec.statement, spec.target.name
                )?;
                write!(f, ", operation={}", spec.operation.kind.name())?;
                if !spec.removed_files.is_empty() {
                    write!(f, ", removed_files={}", spec.removed_files.len())?;
                }
                if spec.dry_run {
                    write!(f, ", dry_run=true")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => write!(f, "table={}", spec.target.name),
        }
    }
}

impl ExecutionPlan for LoadCommitExec {
    fn name(&self) -> &'static str {
        "LoadCommitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let [input] = single(children)?;
        Ok(Arc::new(Self::new(input, Arc::clone(&self.job), self.output)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(LoadError::internal(format!("a commit has no partition {partition}")).into());
        }
        if self.started.swap(true, Ordering::SeqCst) {
            return Err(LoadError::unsupported("running the plan of a load a second time")
                .hint("Plan the statement again.")
                .into());
        }
        let run = CommitRun {
            job: Arc::clone(&self.job),
            input: Arc::clone(&self.input),
            output: self.output,
            schema: self.schema(),
            metrics: self.metrics.clone(),
            context,
        };
        let batches =
            futures::stream::once(async move { run.run().await.map_err(DataFusionError::from) }).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Deletes the statement's files unless it is told not to: the last thing that happens to a cancelled load.
struct Discarding {
    job: Arc<LoadJob>,
    armed: bool,
    /// Once it is sent, nobody can tell whether the log refers to the files.
    entry: EntrySent,
}

impl Discarding {
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Discarding {
    fn drop(&mut self) {
        if self.armed
            && !self.entry.is_sent()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let job = Arc::clone(&self.job);
            runtime.spawn(async move { job.files.discard().await });
        }
    }
}

/// One run of the commit.
struct CommitRun {
    job: Arc<LoadJob>,
    input: Arc<dyn ExecutionPlan>,
    output: Output,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
    context: Arc<TaskContext>,
}

/// How the run ended.
struct End {
    counts: LoadCounts,
    version: Option<i64>,
    status: LoadStatus,
    notices: Vec<String>,
}

impl CommitRun {
    async fn run(self) -> Result<SendableRecordBatchStream> {
        let mut discarding = Discarding {
            job: Arc::clone(&self.job),
            armed: true,
            entry: EntrySent::default(),
        };
        let done = self.load(&mut discarding).await;
        if discarding.armed {
            discarding.disarm();
            let job = Arc::clone(&self.job);
            // In a task of its own, which goes on if this is dropped.
            let cleaned = tokio::spawn(async move { job.files.discard().await });
            if let Err(e) = cleaned.await {
                tracing::warn!("files of an abandoned statement are left to VACUUM: {e}");
            }
        }
        let (end, rows) = done?;
        self.give_back(end, rows)
    }

    /// Everything up to the commit. Leaves `discarding` armed where the files are of no use.
    async fn load(&self, discarding: &mut Discarding) -> Result<(End, ReturnedRows)> {
        let started = Instant::now();
        if self.known_transaction().await? {
            return Ok((
                self.end(LoadCounts::default(), LoadStatus::Skipped),
                self.returned_rows(),
            ));
        }
        let mut rows = self.returned_rows();
        let collected = collect(&self.job, &self.input, &self.context, &mut rows).await?;
        if let Some(status) = self.without_commit(&collected)? {
            if matches!(status, LoadStatus::Skipped | LoadStatus::NoChanges) {
                rows = self.returned_rows();
            }
            return Ok((self.end(collected.counts, status), rows));
        }
        let status = if collected.changes(&self.job.spec) {
            LoadStatus::Committed
        } else {
            LoadStatus::NoChanges
        };
        let counts = collected.counts;
        match commit(&self.job, collected, started.elapsed(), &discarding.entry).await {
            Ok(Committed { version, notices }) => {
                discarding.disarm();
                let mut end = self.end(counts, status);
                end.version = Some(version);
                end.notices.extend(notices);
                Ok((end, rows))
            }
            Err(failed) => {
                discarding.armed = failed.nothing_committed || !discarding.entry.is_sent();
                Err(failed.error)
            }
        }
    }

    /// Whether the table has recorded the statement's transaction already.
    async fn known_transaction(&self) -> Result<bool> {
        let spec = &self.job.spec;
        match (&spec.transaction, &spec.target.base) {
            (Some((app, version)), Some(base)) => Ok(base
                .transaction_version(app)
                .await?
                .is_some_and(|known| known >= *version)),
            _ => Ok(false),
        }
    }

    /// The status of a load that does not commit, if this is one.
    fn without_commit(&self, collected: &Collected) -> Result<Option<LoadStatus>> {
        let spec = &self.job.spec;
        if collected.counts.source == 0 {
            match spec.on_empty {
                OnEmpty::Skip => return Ok(Some(LoadStatus::Skipped)),
                OnEmpty::Error => {
                    let message = format!("the source has no rows for table \"{}\"", spec.target.name);
                    return Err(LoadError::new(SqlState::InvalidParameter, message)
                        .hint("Write ON EMPTY SOURCE SKIP instead of ERROR where that may happen."));
                }
                OnEmpty::Apply => (),
            }
        }
        if spec.dry_run {
            return Ok(Some(LoadStatus::DryRun));
        }
        let changes = collected.changes(spec);
        Ok((!changes && spec.transaction.is_none()).then_some(LoadStatus::NoChanges))
    }

    fn end(&self, counts: LoadCounts, status: LoadStatus) -> End {
        let mut counts = counts;
        if status == LoadStatus::Skipped {
            // Nothing was done, whatever the writers had prepared.
            counts = LoadCounts {
                source: counts.source,
                ..LoadCounts::default()
            };
        }
        End {
            counts,
            version: None,
            status,
            notices: self.job.spec.notice.iter().cloned().collect(),
        }
    }

    fn returned_rows(&self) -> ReturnedRows {
        ReturnedRows::new(self.job.spec.returning.clone(), &self.context, &self.metrics)
    }

    /// The rows of the statement. Nothing fails here for a reason that has to do with the data: it is committed.
    fn give_back(&self, end: End, rows: ReturnedRows) -> Result<SendableRecordBatchStream> {
        let batch = match self.output {
            Output::Count => count_batch(end.counts.inserted)?,
            Output::Result if self.job.spec.returning.is_some() => return rows.stream(),
            Output::Result => {
                let notice = (!end.notices.is_empty()).then(|| end.notices.join(" "));
                result_batch(&end.counts, end.version, end.status, notice.as_deref())?
            }
        };
        let once = futures::stream::once(async move { Ok(batch) }).boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), once)))
    }
}
