//! Tables as DataFusion's catalogs hold them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use deltalake::delta_datafusion::{DeltaScanConfig, DeltaScanNext};

use crate::scan::{TargetScan, register_store};
use crate::table::{TableHandle, TableSnapshot, features};
use crate::write::insert;

/// A Delta table at the version it had when its name was looked up.
#[derive(Debug, Clone)]
pub struct DeltaTable {
    handle: Arc<TableHandle>,
    snapshot: Arc<TableSnapshot>,
}

impl DeltaTable {
    /// The table at `snapshot`.
    pub fn new(handle: Arc<TableHandle>, snapshot: Arc<TableSnapshot>) -> Self {
        Self { handle, snapshot }
    }

    /// The handle.
    pub fn handle(&self) -> &Arc<TableHandle> {
        &self.handle
    }

    /// The pinned snapshot.
    pub fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }

    /// The same table at another snapshot.
    pub fn repinned(&self, snapshot: Arc<TableSnapshot>) -> Self {
        Self::new(Arc::clone(&self.handle), snapshot)
    }

    /// Our own reader, for tables with deletion vectors: deltalake reads those in one stream and without filters. And for
    /// filters of floats: deltalake leaves out rows by bounds that know neither NaN nor that there are two zeros.
    fn own_reader<'a>(&self, filters: impl IntoIterator<Item = &'a Expr>) -> alluvium_core::Result<Option<TargetScan>> {
        let files = self.snapshot.loaded_files()?;
        let vectors = files.tasks.iter().any(|file| file.deletion_vector.is_some());
        let ours = vectors || filters.into_iter().any(|filter| self.compares_floats(filter));
        let known = ours && features::check_writable(&self.snapshot).is_ok();
        Ok(known.then(|| TargetScan::new(Arc::clone(&self.snapshot))))
    }

    fn compares_floats(&self, filter: &Expr) -> bool {
        let schema = self.snapshot.schema();
        let is_float = |name: &str| schema.field_with_name(name).is_ok_and(|f| f.data_type().is_floating());
        filter.column_refs().iter().any(|column| is_float(column.name()))
    }

    /// deltalake's reader of the snapshot, which knows every table feature that can be read.
    fn reader(&self) -> Result<DeltaScanNext> {
        let config = DeltaScanConfig {
            wrap_partition_values: false,
            schema_force_view_types: false,
            ..DeltaScanConfig::new()
        };
        DeltaScanNext::new(self.snapshot.eager().clone(), config)
    }
}

#[async_trait]
impl TableProvider for DeltaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.snapshot.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        match self.own_reader(filters.iter().copied())? {
            Some(own) => own.supports_filters_pushdown(filters),
            None => self.reader()?.supports_filters_pushdown(filters),
        }
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Finds paths that lead out of the table before anything is read.
        self.snapshot.loaded_files()?;
        register_store(&self.snapshot, state.runtime_env())?;
        let ours = self.schema();
        let wanted = projection
            .cloned()
            .unwrap_or_else(|| (0..ours.fields().len()).collect());
        if let Some(own) = self.own_reader(filters)? {
            return own.scan(state, Some(&wanted), filters, limit).await;
        }
        // deltalake puts partition columns last.
        let reader = self.reader()?;
        let theirs = reader.schema();
        let moved = wanted.iter().map(|index| theirs.index_of(ours.field(*index).name()));
        let moved = moved.collect::<Result<Vec<_>, _>>()?;
        reader.scan(state, Some(&moved), filters, limit).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(insert::plan(self, state, input, insert_op).await?)
    }
}
