//! A warehouse in memory whose store a test may stand in front of: `staged://<host>/`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once};

use alluvium::{LoadError, Session};
use deltalake::logstore::{
    LogStore, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig, default_logstore, logstore_factories,
    object_store_factories,
};
use deltalake::{DeltaResult, DeltaTableError};
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;

/// The stores by host.
static STORES: LazyLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> = LazyLock::new(Mutex::default);

struct Factory;

impl ObjectStoreFactory for Factory {
    fn parse_url_opts(&self, url: &Url, _: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        let store = STORES.lock().unwrap().get(url.host_str().unwrap_or_default()).cloned();
        let store = store.ok_or_else(|| DeltaTableError::InvalidTableLocation(url.to_string()))?;
        Ok((store, Path::from_url_path(url.path())?))
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

/// The URL of a warehouse in `store`. A URL of its own for every call: sessions keep what they opened.
pub fn stage(store: Arc<dyn ObjectStore>) -> String {
    static ONCE: Once = Once::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    ONCE.call_once(|| {
        let scheme = Url::parse("staged://").unwrap();
        object_store_factories().insert(scheme.clone(), Arc::new(Factory));
        logstore_factories().insert(scheme, Arc::new(Factory));
    });
    let host = format!("store{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let url = format!("staged://{host}/");
    STORES.lock().unwrap().insert(host, store);
    url
}

/// A fresh session on `store`.
pub async fn session_on(store: Arc<dyn ObjectStore>) -> Session {
    try_session_on(store).await.unwrap()
}

/// The same for a store that may fail when its warehouse is listed.
pub async fn try_session_on(store: Arc<dyn ObjectStore>) -> Result<Session, LoadError> {
    let builder = Session::builder().with_warehouse(stage(store)).with_threads(2);
    builder.build().await
}

/// Every object of a store.
pub async fn objects(store: &InMemory) -> BTreeSet<String> {
    store
        .list(None)
        .map_ok(|meta| meta.location.to_string())
        .try_collect()
        .await
        .unwrap()
}
