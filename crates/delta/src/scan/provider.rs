//! The target of a load as a table.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::scan::{LoadDeltaScanExec, ScanDesc, ScanPlan, may_match, tasks};
use crate::table::TableSnapshot;

/// The target of a load: the table's columns, then `__file` ([`crate::FileTask::ordinal`]) and `__row` (the position
/// in the file).
#[derive(Debug, Clone)]
pub struct TargetScan {
    snapshot: Arc<TableSnapshot>,
    desc: Arc<ScanDesc>,
    schema: SchemaRef,
    left_out: Arc<[u32]>,
    range_of: Option<usize>,
    in_order: bool,
}

impl TargetScan {
    /// The target at `snapshot`.
    pub fn new(snapshot: Arc<TableSnapshot>) -> Self {
        let desc = Arc::new(ScanDesc::of(&snapshot));
        Self {
            snapshot,
            schema: desc.output_schema(),
            desc,
            left_out: Arc::default(),
            range_of: None,
            in_order: false,
        }
    }

    /// The same without the files of these ordinals, which are dealt with elsewhere.
    pub fn without_files(mut self, ordinals: &[u32]) -> Self {
        self.left_out = ordinals.into();
        self
    }

    /// The same for a plan that wants nothing but the positions of the rows in a range of table column `column`.
    pub fn positions_in(mut self, column: usize) -> Self {
        self.range_of = Some(column);
        self
    }

    /// The same, file after file in one partition, so that rows stay beside those they are beside in the table.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// The snapshot that is read.
    pub fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }

    /// The same table at another snapshot.
    pub fn repinned(&self, snapshot: Arc<TableSnapshot>) -> Self {
        Self {
            range_of: self.range_of,
            in_order: self.in_order,
            ..Self::new(snapshot)
        }
    }

    /// The files that can hold a row for which all `filters` are true.
    pub(crate) fn candidates(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<u32>> {
        let files = self.snapshot.loaded_files()?;
        let Some(filter) = conjunction(filters.iter().cloned()) else {
            return Ok(files.tasks.iter().map(|task| task.ordinal).collect());
        };
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let keep = may_match(&self.snapshot, &state.create_physical_expr(filter, &schema)?)?;
        let kept = files.tasks.iter().zip(keep).filter(|(_, keep)| *keep);
        Ok(kept.map(|(task, _)| task.ordinal).collect())
    }
}

#[async_trait]
impl TableProvider for TargetScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Files are left out by the filters, rows are not.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        register_store(&self.snapshot, state.runtime_env())?;
        let files = self.snapshot.loaded_files()?;
        let candidates = self.candidates(state, filters)?;
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let sized = files.tasks.iter().map(|task| (task.ordinal, task.size));
        let sized: Vec<_> = sized
            .filter(|(ordinal, _)| candidates.binary_search(ordinal).is_ok() && !self.left_out.contains(ordinal))
            .collect();
        let columns: BTreeSet<usize> = projection.iter().copied().collect();
        let partitions = match self.in_order {
            true => 1,
            false => state.config().target_partitions(),
        };
        let dealt = tasks::deal(&sized, partitions);
        let rows = dealt
            .iter()
            .map(|part| tasks::encode(&self.desc, files, part, &columns));
        let rows = rows.collect::<alluvium_core::Result<Vec<_>>>()?;
        let schema = rows
            .first()
            .map(|batch| batch.schema())
            .unwrap_or_else(|| Arc::clone(&self.schema));
        let partitions: Vec<_> = rows.into_iter().map(|batch| vec![batch]).collect();
        let plan = ScanPlan {
            table: Arc::clone(&self.desc),
            projection,
            files: sized.len(),
            pruned: files.tasks.len() - sized.len(),
            range_of: self.range_of,
        };
        let input = MemorySourceConfig::try_new_exec(&partitions, schema, None)?;
        Ok(Arc::new(LoadDeltaScanExec::try_new(plan, Vec::new(), input)?))
    }
}

/// Makes the store of `snapshot`'s table known to a session, unless it holds one for that location already.
pub fn register_store(snapshot: &TableSnapshot, runtime: &RuntimeEnv) -> alluvium_core::Result<()> {
    let url = ScanDesc::of(snapshot).store_url()?;
    if runtime.object_store(&url).is_err() {
        runtime.register_object_store(url.as_ref(), snapshot.log_store().root_object_store(None));
    }
    Ok(())
}
