//! Loads whose store fails, that are cancelled, or that have little memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use alluvium_core::LoadError;
use alluvium_delta::TableHandle;
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use deltalake::DeltaResult;
use deltalake::logstore::{
    LogStore, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig, default_logstore, logstore_factories,
    object_store_factories,
};
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use url::Url;

use crate::write_support::*;

/// What happens to the next log entry of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// It is not written.
    Before,
    /// It is written, and reported as failed.
    After,
    /// It is written, and reported as there already: a repeated request that met its own first try.
    Repeated,
}

static FAULTS: LazyLock<Mutex<HashMap<String, Fault>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct FaultyStore(LocalFileSystem);

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

fn broken() -> Error {
    Error::Generic {
        store: "FaultyStore",
        source: "the connection was reset".into(),
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, opts: PutOptions) -> object_store::Result<PutResult> {
        let table = path
            .as_ref()
            .split("/_delta_log/")
            .next()
            .unwrap_or_default()
            .to_owned();
        let fault = if path.as_ref().contains("/_delta_log/") {
            FAULTS.lock().unwrap().remove(&table)
        } else {
            None
        };
        match fault {
            None => self.0.put_opts(path, payload, opts).await,
            Some(Fault::Before) => Err(broken()),
            Some(Fault::After) => {
                self.0.put_opts(path, payload, opts).await?;
                Err(broken())
            }
            Some(Fault::Repeated) => {
                self.0.put_opts(path, payload, opts).await?;
                Err(Error::AlreadyExists {
                    path: path.to_string(),
                    source: "it exists".into(),
                })
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, opts).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.0.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

struct Factory;

impl ObjectStoreFactory for Factory {
    fn parse_url_opts(&self, url: &Url, _: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        Ok((
            Arc::new(FaultyStore(LocalFileSystem::new())),
            Path::from_url_path(url.path())?,
        ))
    }
}

impl LogStoreFactory for Factory {
    fn with_options(
        &self,
        prefixed: ObjectStoreRef,
        root: ObjectStoreRef,
        location: &Url,
        options: &StorageConfig,
    ) -> DeltaResult<Arc<dyn LogStore>> {
        Ok(default_logstore(prefixed, root, location, options))
    }
}

/// Another way to `table`, through a store that can fail.
async fn faulty(table: &Table, fault: Fault) -> alluvium_delta::write::LoadSpec {
    let scheme = Url::parse("faulty://").unwrap();
    object_store_factories().insert(scheme.clone(), Arc::new(Factory));
    logstore_factories().insert(scheme, Arc::new(Factory));
    let url = Url::parse(&format!("faulty://{}", table.handle.location().path())).unwrap();
    let handle = TableHandle::new(url, HashMap::new());
    let mut spec = table.spec().await;
    spec.target.base = handle.snapshot().await.unwrap();
    spec.target.handle = handle;
    let key = table.handle.location().path().trim_matches('/').to_owned();
    FAULTS.lock().unwrap().insert(key, fault);
    spec
}

async fn one_row(table: &Table, fault: Fault) -> Result<Vec<RecordBatch>, LoadError> {
    let spec = faulty(table, fault).await;
    load(&session(4), spec, change_stream(&[insert(1, "a", 1)], 1, false)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_in_the_log_has_succeeded_whatever_the_store_says() {
    for fault in [Fault::After, Fault::Repeated] {
        let table = Table::create(id_name_qty(), &[], &[]).await;
        let result = one_row(&table, fault).await.unwrap();
        assert_eq!(
            outcome(&result),
            "affected_rows=1 inserted_rows=1 files_added=1 version=1 COMMITTED",
            "{fault:?}"
        );
        assert_eq!(lines(&table.rows().await), ["1,a,1"]);
        assert_eq!(table.snapshot().await.version(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_failed_leaves_the_table_readable() {
    let table = Table::create(id_name_qty(), &[], &[]).await;
    let error = one_row(&table, Fault::Before).await.unwrap_err();
    assert_eq!(error.code(), "58030");
    assert!(lines(&table.rows().await).is_empty());
    // Run again, it succeeds.
    load(
        &session(4),
        table.spec().await,
        change_stream(&[insert(1, "a", 1)], 1, false),
    )
    .await
    .unwrap();
    assert_eq!(lines(&table.rows().await), ["1,a,1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_load_takes_its_files_with_it() {
    let table = Table::create(id_name_qty(), &[], &[]).await;
    let rows: Vec<Row> = (0..100_000).map(|id| insert(id, "x", id)).collect();
    let mut spec = table.spec().await;
    spec.target_file_size = Some(1);
    let context = session(4);
    let plan = plan(&context, spec, change_stream(&rows, 4, false)).await;
    let running = tokio::spawn(async move { run_plan(&context, plan).await.map(|_| ()) });
    while table.data_files().is_empty() {
        tokio::task::yield_now().await;
    }
    running.abort();
    let _ = running.await;
    for _ in 0..500 {
        if table.data_files().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(table.snapshot().await.version(), 0);
    assert!(
        table.data_files().is_empty(),
        "{} files are left",
        table.data_files().len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_memory_pool_is_enough() {
    let table = Table::create(id_name_qty(), &["name"], &[]).await;
    let normal = session(4);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(1 << 20)))
        .build_arc()
        .unwrap();
    let state = SessionStateBuilder::new_from_existing(normal.state())
        .with_runtime_env(runtime)
        .build();
    let context = SessionContext::new_with_state(state);
    let names = ["p", "q", "r", "s"];
    let rows: Vec<Row> = (0..10_000)
        .map(|id| insert(id, names[usize::try_from(id % 4).unwrap()], id))
        .collect();
    load(&context, table.spec().await, change_stream(&rows, 4, false))
        .await
        .unwrap();
    assert_eq!(
        lines(&table.query("SELECT count(*), count(DISTINCT id) FROM t").await),
        ["10000,10000"]
    );
    let unpartitioned = Table::create(id_name_qty(), &[], &[]).await;
    load(&context, unpartitioned.spec().await, change_stream(&rows, 4, false))
        .await
        .unwrap();
    assert_eq!(lines(&unpartitioned.query("SELECT count(*) FROM t").await), ["10000"]);
}
