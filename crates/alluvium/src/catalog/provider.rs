//! The session's catalog.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_core::LoadError;
use alluvium_delta::{DeltaTable, TableLocator};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::TableType;

use super::files;

/// A catalog whose schemas hold what a session registers (views, in-memory tables, external files) and, behind that,
/// Delta tables: attached ones first, then those of the warehouse.
///
/// The warehouse's own tables belong to the default schema; a directory of tables below the root is a schema.
#[derive(Debug)]
pub(crate) struct WarehouseCatalog {
    /// The catalog that had this place before; it keeps what is registered.
    previous: Arc<dyn CatalogProvider>,
    locator: Arc<TableLocator>,
    /// What is registered in schemas that only the warehouse knows.
    registered: Mutex<HashMap<String, Arc<dyn SchemaProvider>>>,
}

impl WarehouseCatalog {
    pub(crate) fn new(previous: Arc<dyn CatalogProvider>, locator: Arc<TableLocator>) -> Self {
        Self {
            previous,
            locator,
            registered: Mutex::default(),
        }
    }

    fn registered(&self, name: &str) -> Arc<dyn SchemaProvider> {
        let make = || {
            let schema: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
            schema
        };
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(registered.entry(name.to_owned()).or_insert_with(make))
    }
}

impl CatalogProvider for WarehouseCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.previous.schema_names().into_iter().collect();
        names.insert(self.locator.default_schema().to_owned());
        names.extend(self.locator.tables().into_keys());
        names.into_iter().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let registered = match self.previous.schema(name) {
            Some(schema) => schema,
            None if name == self.locator.default_schema() || self.locator.tables().contains_key(name) => {
                self.registered(name)
            }
            None => return None,
        };
        Some(Arc::new(WarehouseSchema {
            name: name.to_owned(),
            registered,
            locator: Arc::clone(&self.locator),
        }))
    }

    fn register_schema(&self, name: &str, schema: Arc<dyn SchemaProvider>) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.previous.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if self.locator.tables().contains_key(name) {
            return Err(
                LoadError::unsupported(format!("schema \"{name}\" holds Delta tables and cannot be dropped"))
                    .hint("Drop its tables one by one: the schema goes with the last.")
                    .into(),
            );
        }
        self.previous.deregister_schema(name, cascade)
    }
}

/// One schema of a [`WarehouseCatalog`].
#[derive(Debug)]
struct WarehouseSchema {
    name: String,
    registered: Arc<dyn SchemaProvider>,
    locator: Arc<TableLocator>,
}

impl WarehouseSchema {
    fn reference(&self, table: &str) -> TableReference {
        TableReference::partial(self.name.as_str(), table)
    }

    /// The Delta table of this name at its newest snapshot.
    async fn delta_table(&self, table: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = self.reference(table);
        let known = self.locator.root().is_some() || self.locator.attachment(&name).is_some();
        if !known || files::is_file_name(table) && !self.locator.knows(&name) {
            return Ok(None);
        }
        let handle = self.locator.handle(&name)?;
        let snapshot = handle.snapshot().await?;
        self.locator.noted(&name, snapshot.is_some());
        Ok(snapshot.map(|snapshot| {
            let table: Arc<dyn TableProvider> = Arc::new(DeltaTable::new(handle, snapshot));
            table
        }))
    }
}

#[async_trait]
impl SchemaProvider for WarehouseSchema {
    /// For a remote warehouse: the names seen when the session began, and those its statements used since.
    fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.registered.table_names().into_iter().collect();
        names.extend(self.locator.tables().remove(&self.name).unwrap_or_default());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.registered.table(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.delta_table(name).await,
        }
    }

    /// Without opening the table, so that one broken table does not hide the others from a listing.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.registered.table_type(name).await? {
            Some(found) => Ok(Some(found)),
            None => Ok(self.locator.knows(&self.reference(name)).then_some(TableType::Base)),
        }
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.registered.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.registered.table_exist(name) {
            return self.registered.deregister_table(name);
        }
        let Some(handle) = self.locator.detach(&self.reference(name)) else {
            return Ok(None);
        };
        tracing::debug!(?handle, "detached a table");
        Ok(None)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.registered.table_exist(name) || self.locator.knows(&self.reference(name))
    }
}
