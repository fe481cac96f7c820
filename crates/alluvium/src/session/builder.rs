//! Building a session from what an embedding program has.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState, StatementKind};
use alluvium_delta::LocalReads;
use datafusion::execution::context::SessionContext;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

use super::Session;
use crate::{catalog, context};

/// Makes a [`Session`]. Every part is optional.
#[derive(Default)]
pub struct SessionBuilder {
    state: Option<SessionStateBuilder>,
    config: Option<SessionConfig>,
    runtime: Option<Arc<RuntimeEnv>>,
    warehouse: Option<String>,
    storage_options: HashMap<String, String>,
    memory_limit: Option<usize>,
    threads: Option<usize>,
    batch_size: Option<usize>,
    settings: Vec<(String, String)>,
    statements: Vec<Arc<dyn StatementKind>>,
}

impl SessionBuilder {
    /// Starts from an embedding program's own state: its functions, rules, catalogs and query planner are kept.
    pub fn from_state(mut self, state: SessionStateBuilder) -> Self {
        self.state = Some(state);
        self
    }

    /// Starts from these settings.
    pub fn with_config(mut self, config: SessionConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Uses this memory pool, disk manager and object store registry.
    pub fn with_runtime(mut self, runtime: Arc<RuntimeEnv>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes every Delta table below this directory or URL a table by its name.
    pub fn with_warehouse(mut self, location: impl Into<String>) -> Self {
        self.warehouse = Some(location.into());
        self
    }

    /// Adds an option for the warehouse's object store, such as a region or a credential.
    pub fn with_storage_option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.storage_options.insert(key.into(), value.into());
        self
    }

    /// Bounds the memory of operators, in bytes. What does not fit is spilled to disk.
    pub fn with_memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// How many partitions a plan uses at most.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// How many rows a batch holds at most.
    pub fn with_batch_size(mut self, rows: usize) -> Self {
        self.batch_size = Some(rows);
        self
    }

    /// Adds a statement of the embedding program's own: its texts are parsed, planned, explained and prepared like ours.
    pub fn with_statement(mut self, kind: Arc<dyn StatementKind>) -> Self {
        self.statements.push(kind);
        self
    }

    /// Sets a DataFusion setting by its name, such as `datafusion.execution.collect_statistics`.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Makes the session.
    ///
    /// # Errors
    ///
    /// 22023 for a setting that does not exist or a value that does not fit; 58030 when the warehouse cannot be
    /// reached.
    pub async fn build(mut self) -> Result<Session> {
        let config = self.session_config()?;
        let runtime = self.session_runtime()?;
        let shared = self.runtime.is_some() || self.state.is_some();
        let mut builder = self
            .state
            .unwrap_or_else(|| SessionStateBuilder::new().with_default_features());
        builder = builder.with_config(config);
        if let Some(runtime) = runtime {
            builder = builder.with_runtime_env(runtime);
        }
        builder = catalog::with_type_planner(builder);
        let state = context::install_in(builder.build(), self.statements);
        if !shared {
            read_local_files(state.runtime_env())?;
        }
        let state = catalog::install(state, self.warehouse.as_deref(), self.storage_options).await?;
        Ok(Session::new(SessionContext::new_with_state(state)))
    }

    fn session_config(&mut self) -> Result<SessionConfig> {
        let of_state = self.state.as_mut().and_then(|state| state.config().take());
        let mut config = self
            .config
            .take()
            .or(of_state)
            .unwrap_or_default()
            .with_information_schema(true);
        if let Some(threads) = self.threads {
            config = config.with_target_partitions(threads.max(1));
        }
        if let Some(rows) = self.batch_size {
            config = config.with_batch_size(rows.max(1));
        }
        let options = config.options_mut();
        // Delta's strings are Arrow's Utf8: reading views only to cast them back costs a copy of every string.
        options.execution.parquet.schema_force_view_types = false;
        options.sql_parser.map_string_types_to_utf8view = false;
        // Read as nanoseconds, times of old files would wrap around before 1678 and after 2262.
        options.execution.parquet.coerce_int96 = Some("us".to_owned());
        for (key, value) in &self.settings {
            options.set(key, value).map_err(|e| {
                LoadError::new(
                    SqlState::InvalidParameter,
                    format!("setting \"{key}\" cannot be \"{value}\""),
                )
                .detail(e.strip_backtrace())
                .hint("SHOW ALL lists the settings and their values.")
            })?;
        }
        Ok(config)
    }

    fn session_runtime(&self) -> Result<Option<Arc<RuntimeEnv>>> {
        match (&self.runtime, self.memory_limit) {
            (Some(runtime), None) => Ok(Some(Arc::clone(runtime))),
            (None, None) => Ok(None),
            (runtime, Some(bytes)) => {
                let builder = match runtime {
                    Some(runtime) => RuntimeEnvBuilder::from_runtime_env(runtime),
                    None => RuntimeEnvBuilder::new(),
                };
                let pool = Arc::new(FairSpillPool::new(bytes));
                Ok(Some(builder.with_memory_pool(pool).build_arc()?))
            }
        }
    }
}

/// Sources that are local files are read into memory that is used again. Not in the runtime of somebody else.
fn read_local_files(runtime: &RuntimeEnv) -> Result<()> {
    let files = ObjectStoreUrl::local_filesystem();
    let reads = LocalReads::over(runtime.object_store(&files)?, "file");
    runtime.register_object_store(files.as_ref(), reads);
    Ok(())
}
