use std::sync::Arc;

use futures::executor::block_on;
use futures::{StreamExt, TryStreamExt, future};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::{FaultyStore, GateStore, Moment, RecordingStore};

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

async fn write(store: &dyn ObjectStore, path: &str) -> object_store::Result<()> {
    store
        .put_opts(&Path::from(path), PutPayload::from_static(b"x"), PutMode::Create.into())
        .await
        .map(drop)
}

async fn names(store: &dyn ObjectStore) -> Vec<String> {
    let mut names: Vec<String> = store
        .list(None)
        .map_ok(|meta| meta.location.to_string())
        .try_collect()
        .await
        .unwrap();
    names.sort();
    names
}

#[test]
fn requests_are_recorded_in_order() {
    block_on(async {
        let store = RecordingStore::new(memory());
        write(&store, "a").await.unwrap();
        store.get(&Path::from("a")).await.unwrap();
        store.get_range(&Path::from("a"), 0..1).await.unwrap();
        store.head(&Path::from("a")).await.unwrap();
        store.delete(&Path::from("a")).await.unwrap();
        names(&store).await;
        let requests: Vec<String> = store.take().iter().map(ToString::to_string).collect();
        assert_eq!(
            requests,
            ["PutIfAbsent a", "Get a", "Get a 0-1", "Head a", "Delete a", "List "]
        );
        assert_eq!(store.take(), []);
    });
}

#[test]
fn a_crash_leaves_what_was_written_before_it() {
    for (moment, left) in [(Moment::Before, vec!["a"]), (Moment::After, vec!["a", "b"])] {
        let inner = memory();
        let store = FaultyStore::new(Arc::clone(&inner), 1, moment);
        block_on(async {
            write(&store, "a").await.unwrap();
            assert!(!store.crashed());
            write(&store, "b").await.unwrap_err();
            assert!(store.crashed());
            write(&store, "c").await.unwrap_err();
            store.get(&Path::from("a")).await.unwrap_err();
            store.delete(&Path::from("a")).await.unwrap_err();
            assert_eq!(names(inner.as_ref()).await, left, "{moment:?}");
        });
    }
}

#[test]
fn a_single_fault_lets_everything_else_pass() {
    for (moment, left) in [(Moment::Before, vec!["a", "c"]), (Moment::After, vec!["a", "b", "c"])] {
        let inner = memory();
        let store = FaultyStore::one_write(Arc::clone(&inner), 1, moment);
        block_on(async {
            write(&store, "a").await.unwrap();
            store.get(&Path::from("a")).await.unwrap();
            write(&store, "b").await.unwrap_err();
            assert!(store.crashed());
            write(&store, "c").await.unwrap();
            assert_eq!(names(inner.as_ref()).await, left, "{moment:?}");
        });
    }
    let store = FaultyStore::one_request(memory(), 1);
    block_on(async {
        write(&store, "a").await.unwrap();
        store.get(&Path::from("a")).await.unwrap_err();
        store.get(&Path::from("a")).await.unwrap();
    });
}

#[test]
fn the_first_log_write_waits_for_the_gate() {
    let inner = memory();
    let (store, gate) = GateStore::new(Arc::clone(&inner));
    block_on(async {
        let load = async {
            write(&store, "t/data.parquet").await.unwrap();
            write(&store, "t/_delta_log/00.json").await
        };
        let other = async {
            let (arrived, opener) = gate.arrived().await;
            assert_eq!(arrived.unwrap().path.as_ref(), "t/_delta_log/00.json");
            assert_eq!(names(inner.as_ref()).await, ["t/data.parquet"]);
            write(inner.as_ref(), "t/_delta_log/00.json").await.unwrap();
            opener.open();
        };
        let (load, ()) = future::join(load, other).await;
        assert!(matches!(load, Err(object_store::Error::AlreadyExists { .. })));
        write(&store, "t/_delta_log/01.json").await.unwrap();
    });
}

#[test]
fn deletes_are_single_requests() {
    block_on(async {
        let store = RecordingStore::new(memory());
        let paths = ["a", "b"].map(|path| Ok(Path::from(path)));
        let deleted: Vec<_> = store
            .delete_stream(futures::stream::iter(paths).boxed())
            .collect()
            .await;
        assert_eq!((deleted.len(), store.take_writes().len()), (2, 2));
    });
}
