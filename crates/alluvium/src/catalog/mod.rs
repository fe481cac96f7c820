//! Which tables a session sees, and by which names.
//!
//! - [`provider`]: the session's catalog: what was registered in it, the tables attached by location, and every Delta
//!   table of the warehouse directory by its name.
//! - [`files`]: CSV, JSON and Parquet files as tables by their path.
//! - [`types`]: SQL type names as microsecond timestamps.
//!
//! Where a table is, is decided by [`TableLocator`] of the delta crate, which also lies in the session's configuration;
//! nothing here reads a log.

mod files;
mod now;
mod provider;
pub(crate) mod types;

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use alluvium_delta::TableLocator;
use datafusion::catalog::{CatalogProvider, DynamicFileCatalog, MemoryCatalogProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};

use files::FileTables;
use provider::WarehouseCatalog;

/// Makes timestamps of SQL text microseconds, unless the session has a type planner of its own.
pub(crate) fn with_type_planner(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    match builder.type_planner().is_some() {
        true => builder,
        false => builder.with_type_planner(Arc::new(types::LoadTypePlanner)),
    }
}

/// Puts our catalog in the place of the session's default catalog, whose tables stay visible in it, and makes files
/// readable by path.
///
/// # Errors
///
/// 22023 for a warehouse that is no location, 58030 when it cannot be reached.
pub(crate) async fn install(
    mut state: SessionState,
    warehouse: Option<&str>,
    storage_options: HashMap<String, String>,
) -> Result<SessionState> {
    let names = state.config_options().catalog.clone();
    let locator = TableLocator::try_new(
        warehouse,
        storage_options,
        &names.default_catalog,
        &names.default_schema,
    )?;
    locator.refresh().await?;
    let catalogs = Arc::clone(state.catalog_list());
    let previous: Arc<dyn CatalogProvider> = match catalogs.catalog(&names.default_catalog) {
        Some(catalog) => catalog,
        None => Arc::new(MemoryCatalogProvider::new()),
    };
    let ours = Arc::new(WarehouseCatalog::new(previous, Arc::clone(&locator)));
    catalogs.register_catalog(names.default_catalog, ours);
    let files = Arc::new(FileTables::new(&state));
    state.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, files)));
    state.config_mut().set_extension(locator);
    state.register_udf(Arc::new(now::now()))?;
    Ok(state)
}

/// The table that `name` means in this session, or `None`.
///
/// # Errors
///
/// 42602 for a name that no table can have; whatever opening the table fails with.
pub(crate) async fn find(state: &SessionState, name: &TableReference) -> Result<Option<Arc<dyn TableProvider>>> {
    let resolved = resolve(state, name);
    let schema = resolved.schema().unwrap_or_default();
    let Some(catalog) = resolved
        .catalog()
        .and_then(|catalog| state.catalog_list().catalog(catalog))
    else {
        return Ok(None);
    };
    match catalog.schema(schema) {
        Some(schema) => schema.table(resolved.table()).await.map_err(LoadError::from),
        None => Ok(None),
    }
}

/// `name` with the session's current catalog and schema filled in.
pub(crate) fn resolve(state: &SessionState, name: &TableReference) -> TableReference {
    let names = &state.config_options().catalog;
    name.clone()
        .resolve(&names.default_catalog, &names.default_schema)
        .into()
}
