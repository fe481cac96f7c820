//! Tables as DataFusion's catalogs hold them.

use std::sync::Arc;

use alluvium_core::LoadError;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::table::{TableHandle, TableSnapshot};

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
}

#[async_trait]
impl TableProvider for DeltaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.snapshot.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(LoadError::unsupported("reading the table").into())
    }
}
