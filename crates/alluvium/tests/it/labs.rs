//! Tables in memory behind stores of the test kit: locations `lab://<name>/`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use alluvium::Session;
use deltalake::logstore::{
    LogStore, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig, default_logstore, logstore_factories,
    object_store_factories,
};
use deltalake::{DeltaResult, DeltaTableError, Path};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;

static STORES: LazyLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> = LazyLock::new(Mutex::default);

struct Labs;

impl ObjectStoreFactory for Labs {
    fn parse_url_opts(&self, url: &Url, _config: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        let name = url.host_str().unwrap_or_default();
        let store = STORES.lock().unwrap().get(name).cloned();
        let store = store.ok_or_else(|| DeltaTableError::InvalidTableLocation(url.to_string()))?;
        Ok((store, Path::from_url_path(url.path()).unwrap()))
    }
}

impl LogStoreFactory for Labs {
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

/// A store that sessions reach under `lab://<name>/`.
pub struct Lab {
    name: String,
    /// What is stored, past whatever stands before it.
    pub inner: Arc<InMemory>,
}

impl Lab {
    /// An empty store.
    pub fn new(name: &str) -> Self {
        let scheme = Url::parse("lab://").unwrap();
        object_store_factories().insert(scheme.clone(), Arc::new(Labs));
        logstore_factories().insert(scheme, Arc::new(Labs));
        let lab = Self {
            name: name.to_owned(),
            inner: Arc::new(InMemory::new()),
        };
        lab.show(Arc::<InMemory>::clone(&lab.inner));
        lab
    }

    /// A store of the same objects.
    pub async fn copy(&self, name: &str) -> Self {
        let copy = Self::new(name);
        let objects: Vec<_> = self.inner.list(None).try_collect().await.unwrap();
        for object in objects {
            let bytes = self.inner.get(&object.location).await.unwrap().bytes().await.unwrap();
            copy.inner.put(&object.location, PutPayload::from(bytes)).await.unwrap();
        }
        copy
    }

    /// What sessions that open a table from now on see.
    pub fn show(&self, store: Arc<dyn ObjectStore>) {
        STORES.lock().unwrap().insert(self.name.clone(), store);
    }

    /// Back to what is stored.
    pub fn repair(&self) {
        self.show(Arc::<InMemory>::clone(&self.inner));
    }

    /// Where table `t` is.
    pub fn table(&self) -> String {
        format!("lab://{}/t", self.name)
    }

    /// A new session that knows the table.
    pub async fn session(&self) -> alluvium::Result<Session> {
        let session = Session::builder().with_threads(2).build().await?;
        let attach = format!(
            "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{}'",
            self.table()
        );
        session.execute(&attach).await?;
        Ok(session)
    }

    /// The paths of all objects.
    pub async fn paths(&self) -> Vec<String> {
        let objects: Vec<_> = self.inner.list(None).try_collect().await.unwrap();
        let mut paths: Vec<String> = objects.iter().map(|object| object.location.to_string()).collect();
        paths.sort();
        paths
    }
}
