//! Which tables are there: for a local warehouse the directories as they are now, for a remote one the names that were
//! seen last, because the catalog asks without waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures::TryStreamExt;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};

use super::names;

pub(super) const LOG: &str = "_delta_log";

/// Table names by schema name.
pub(super) type Names = BTreeMap<String, BTreeSet<String>>;

/// The tables below local directory `root`. Names that no statement could use, and links out of it, are left out.
pub(super) fn local(root: &Path, default_schema: &str) -> Names {
    let mut found = Names::new();
    for name in directories(root) {
        let path = root.join(&name);
        if is_table(root, &path) {
            found.entry(default_schema.to_owned()).or_default().insert(name);
        } else if name != default_schema {
            let tables: BTreeSet<_> = directories(&path)
                .into_iter()
                .filter(|t| is_table(root, &path.join(t)))
                .collect();
            if !tables.is_empty() {
                found.insert(name, tables);
            }
        }
    }
    found
}

/// Whether `path` holds a Delta log and, links resolved, lies inside `root`.
pub(super) fn is_table(root: &Path, path: &Path) -> bool {
    let log = path.join(LOG);
    log.is_dir() && log.canonicalize().is_ok_and(|p| p.starts_with(root))
}

fn directories(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| names::check("table", name).is_ok())
        .collect()
}

/// The same over a store whose root is the warehouse.
pub(super) async fn remote(store: &dyn ObjectStore, default_schema: &str) -> object_store::Result<Names> {
    let mut found = Names::new();
    for prefix in children(store, None).await? {
        let Some(name) = usable(&prefix) else { continue };
        let below = children(store, Some(&prefix)).await?;
        if below.iter().any(|p| p.filename() == Some(LOG)) {
            found.entry(default_schema.to_owned()).or_default().insert(name);
            continue;
        }
        for table in below.iter().filter(|_| name != default_schema) {
            let Some(table_name) = usable(table) else { continue };
            if children(store, Some(table))
                .await?
                .iter()
                .any(|p| p.filename() == Some(LOG))
            {
                found.entry(name.clone()).or_default().insert(table_name);
            }
        }
    }
    Ok(found)
}

async fn children(store: &dyn ObjectStore, prefix: Option<&StorePath>) -> object_store::Result<Vec<StorePath>> {
    Ok(store.list_with_delimiter(prefix).await?.common_prefixes)
}

fn usable(prefix: &StorePath) -> Option<String> {
    let name = prefix.filename()?;
    names::check("table", name).is_ok().then(|| name.to_owned())
}

/// Deletes every object of a table's store, the log first: from then on no table is there.
pub(super) async fn delete_all(store: &dyn ObjectStore) -> object_store::Result<()> {
    for prefix in [Some(StorePath::from(LOG)), None] {
        let objects: Vec<_> = store.list(prefix.as_ref()).try_collect().await?;
        for object in objects {
            store.delete(&object.location).await?;
        }
    }
    Ok(())
}

/// Takes a local table out of sight in one step, then deletes it.
pub(super) fn delete_local(path: &Path, hidden: &Path) -> std::io::Result<()> {
    std::fs::rename(path, hidden)?;
    std::fs::remove_dir_all(hidden)
}

#[cfg(test)]
mod tests {
    use object_store::local::LocalFileSystem;

    use super::*;

    fn make(root: &Path, table: &str) {
        std::fs::create_dir_all(root.join(table).join(LOG)).unwrap();
        std::fs::write(root.join(table).join(LOG).join("0.json"), "{}").unwrap();
    }

    #[tokio::test]
    async fn local_and_remote_listings_agree() {
        let dir = std::env::temp_dir().join(format!("alluvium-listing-{}", uuid::Uuid::new_v4()));
        for table in ["a", "s/b", "s/c", "a/nested", "public/ignored"] {
            make(&dir, table);
        }
        std::fs::create_dir_all(dir.join("empty")).unwrap();
        let root = dir.canonicalize().unwrap();
        let expected = Names::from([
            ("public".to_owned(), BTreeSet::from(["a".to_owned()])),
            ("s".to_owned(), BTreeSet::from(["b".to_owned(), "c".to_owned()])),
        ]);
        assert_eq!(local(&root, "public"), expected);
        let store = LocalFileSystem::new_with_prefix(&root).unwrap();
        assert_eq!(remote(&store, "public").await.unwrap(), expected);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
