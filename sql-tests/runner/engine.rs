//! The configurations every file runs on. All of them must give the same answer.

use std::io;
use std::sync::Arc;

use alluvium::{LoadOptions, Session};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use tokio::runtime::{Builder, Runtime};

/// Stack of every thread that plans or runs a query; DataFusion recurses deeply in debug builds.
pub const STACK: usize = 16 * 1024 * 1024;

/// Memory of the engine `tiny`.
const TINY_MEMORY: usize = 64 * 1024 * 1024;

/// One configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Default settings on two threads.
    Local,
    /// Batches of three rows, four partitions, little memory: everything that can be split is split.
    Tiny,
    /// One partition on one thread.
    Serial,
    /// As `Local`, but tables are made with deletion vectors, as they are by default.
    Dv,
}

impl Engine {
    /// Every engine.
    pub fn all() -> &'static [Engine] {
        &[Engine::Local, Engine::Tiny, Engine::Serial, Engine::Dv]
    }

    /// The label for `onlyif` and `skipif`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Local => "local",
            Engine::Tiny => "tiny",
            Engine::Serial => "serial",
            Engine::Dv => "dv",
        }
    }

    /// The threads.
    pub fn runtime(self) -> io::Result<Runtime> {
        let threads = if self == Engine::Serial { 1 } else { 2 };
        Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_stack_size(STACK)
            .enable_all()
            .build()
    }

    /// A session on the warehouse.
    pub async fn session(self, warehouse: &str) -> alluvium::Result<Session> {
        Session::builder()
            .with_config(self.config())
            .with_runtime(self.memory()?)
            .with_warehouse(warehouse)
            .build()
            .await
    }

    fn config(self) -> SessionConfig {
        let mut config = SessionConfig::new();
        LoadOptions::register(config.options_mut());
        let config = config.set_bool("alluvium.deletion_vectors", self == Engine::Dv);
        match self {
            Engine::Local | Engine::Dv => config.with_target_partitions(2),
            Engine::Serial => config.with_target_partitions(1),
            Engine::Tiny => config
                .with_target_partitions(4)
                .with_batch_size(3)
                .with_repartition_file_min_size(0)
                .with_sort_spill_reservation_bytes(64 * 1024),
        }
    }

    fn memory(self) -> Result<Arc<RuntimeEnv>, DataFusionError> {
        let builder = RuntimeEnvBuilder::new();
        let builder = match self {
            Engine::Tiny => builder.with_memory_pool(Arc::new(FairSpillPool::new(TINY_MEMORY))),
            Engine::Local | Engine::Serial | Engine::Dv => builder,
        };
        builder.build_arc()
    }
}
