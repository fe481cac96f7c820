//! Where tables are: the names of a session, the locations behind them, and one shared [`TableHandle`] per location.
//!
//! A [`TableLocator`] is put into the session's configuration as an extension, so that whoever has a session finds it:
//! [`TableLocator::of`]. Names are resolved in this order: tables that were attached to the session by location, then
//! the directories of the warehouse. Attachments live as long as the session; nothing is stored about them.
//!
//! **Containment.** A name is one plain directory name (see `names`): table `t` of the default schema is `root/t`,
//! table `s.t` is `root/s/t`. A symbolic link below a local root is followed only when it leads to a place inside the
//! root; a link that leads out, or nowhere, makes the name unusable (42602). Tables do not nest.

mod listing;
mod location;
mod names;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use dashmap::DashMap;
use datafusion::catalog::Session;
use datafusion::common::TableReference;
use datafusion::common::runtime::SpawnedTask;
use url::Url;
use uuid::Uuid;

use crate::table::TableHandle;

/// The tables of one session by name and by location.
pub struct TableLocator {
    root: Option<Root>,
    catalog: String,
    default_schema: String,
    attached: DashMap<(String, String), Arc<TableHandle>>,
    handles: DashMap<String, Arc<TableHandle>>,
    /// Names in a remote warehouse, as last seen.
    seen: RwLock<listing::Names>,
}

struct Root {
    url: Url,
    /// The directory of a local warehouse, links resolved.
    path: Option<PathBuf>,
    options: HashMap<String, String>,
}

impl TableLocator {
    /// The locator of a warehouse at `root` (a directory, created if absent, or a URL), whose tables belong to
    /// `default_schema` of `catalog`. Without a root every table has to be attached.
    ///
    /// # Errors
    ///
    /// 22023 for a root that is no location, 0A000 for a scheme this build cannot reach, 58030 when the directory
    /// cannot be made.
    pub fn try_new(
        root: Option<&str>,
        mut options: HashMap<String, String>,
        catalog: impl Into<String>,
        default_schema: impl Into<String>,
    ) -> Result<Arc<Self>> {
        let root = match root {
            None => None,
            Some(text) => {
                let (url, extra) = location::parse(text)?;
                options.extend(extra);
                Some(Root::open(url, options)?)
            }
        };
        Ok(Arc::new(Self {
            root,
            catalog: catalog.into(),
            default_schema: default_schema.into(),
            attached: DashMap::new(),
            handles: DashMap::new(),
            seen: RwLock::default(),
        }))
    }

    /// The locator of `session`.
    ///
    /// # Errors
    ///
    /// 0A000 when the session was built without our catalog.
    pub fn of(session: &dyn Session) -> Result<Arc<Self>> {
        session.config().get_extension::<Self>().ok_or_else(|| {
            LoadError::unsupported("the session has no catalog for Delta tables")
                .hint("Build the session with alluvium::Session::builder().")
        })
    }

    /// The warehouse, if there is one.
    pub fn root(&self) -> Option<&Url> {
        self.root.as_ref().map(|root| &root.url)
    }

    /// The schema whose tables lie directly below the root.
    pub fn default_schema(&self) -> &str {
        &self.default_schema
    }

    /// Where table `name` is, or would be created without a `LOCATION`.
    ///
    /// # Errors
    ///
    /// 42602 for a name that is not one directory of the warehouse or leads out of it, 42P01 for another catalog, 22023
    /// without a warehouse.
    pub fn locate(&self, name: &TableReference) -> Result<Url> {
        match self.attachment(name) {
            Some(handle) => Ok(handle.location().clone()),
            None => self.place(name),
        }
    }

    /// The same, leaving attachments aside: the directory of the warehouse that belongs to `name`.
    ///
    /// # Errors
    ///
    /// As [`Self::locate`].
    pub fn place(&self, name: &TableReference) -> Result<Url> {
        self.check_catalog(name)?;
        let (schema, table) = self.key(name);
        let root = self.root.as_ref().ok_or_else(|| {
            LoadError::new(
                SqlState::InvalidParameter,
                format!("there is no warehouse to look for table \"{table}\""),
            )
            .hint("Open the session with a warehouse directory, or name a LOCATION.")
        })?;
        names::check("table", &table)?;
        let mut parts = vec![table.as_str()];
        if schema != self.default_schema {
            names::check("schema", &schema)?;
            parts.insert(0, &schema);
        }
        root.confine(&parts)?;
        Ok(root.child(&parts))
    }

    /// The handle of table `name`, attached or in the warehouse, whether a table exists there or not.
    ///
    /// # Errors
    ///
    /// As [`Self::locate`].
    pub fn handle(&self, name: &TableReference) -> Result<Arc<TableHandle>> {
        match self.attachment(name) {
            Some(handle) => Ok(handle),
            None => Ok(self.handle_at(&self.place(name)?)),
        }
    }

    /// The session's one handle for `location`, with the options of the warehouse where it lies in the same store.
    pub fn handle_at(&self, location: &Url) -> Arc<TableHandle> {
        let make = || {
            let same = |root: &&Root| root.url.scheme() == location.scheme() && root.url.host() == location.host();
            let options = self
                .root
                .as_ref()
                .filter(same)
                .map(|root| root.options.clone())
                .unwrap_or_default();
            TableHandle::new(location.clone(), options)
        };
        Arc::clone(&self.handles.entry(location_key(location)).or_insert_with(make))
    }

    /// Reads the text of a `LOCATION`: a path or a URL.
    ///
    /// # Errors
    ///
    /// 22023 for text that is no location, 0A000 for a scheme this build cannot reach.
    pub fn parse_location(&self, text: &str) -> Result<Arc<TableHandle>> {
        self.parse_location_with(text, HashMap::new())
    }

    /// The same with options of its own for the store. They may hold credentials and are never shown.
    ///
    /// # Errors
    ///
    /// As [`Self::parse_location`].
    pub fn parse_location_with(&self, text: &str, options: HashMap<String, String>) -> Result<Arc<TableHandle>> {
        let (url, extra) = location::parse(text)?;
        if options.is_empty() && extra.is_empty() {
            return Ok(self.handle_at(&url));
        }
        let mut all = self.handle_at(&url).options().clone();
        all.extend(extra);
        all.extend(options);
        let handle = TableHandle::new(url.clone(), all);
        self.handles.insert(location_key(&url), Arc::clone(&handle));
        Ok(handle)
    }

    /// Makes `name` mean the table of `handle` for the rest of the session.
    ///
    /// # Errors
    ///
    /// 42602 for a name that no table can have, 42P01 for another catalog.
    pub fn attach(&self, name: &TableReference, handle: Arc<TableHandle>) -> Result<()> {
        self.check_catalog(name)?;
        let (schema, table) = self.key(name);
        names::check("schema", &schema)?;
        names::check("table", &table)?;
        self.attached.insert((schema, table), handle);
        Ok(())
    }

    /// Attaches the table at `location` (a path or a URL), or the one that is going to be created there: until then the
    /// name means a table that does not exist.
    ///
    /// # Errors
    ///
    /// As [`Self::parse_location`] and [`Self::attach`].
    pub fn attach_location(&self, name: &TableReference, location: &str) -> Result<Arc<TableHandle>> {
        let handle = self.parse_location(location)?;
        self.attach(name, Arc::clone(&handle))?;
        Ok(handle)
    }

    /// Takes an attachment back; returns its handle.
    pub fn detach(&self, name: &TableReference) -> Option<Arc<TableHandle>> {
        self.attached.remove(&self.key(name)).map(|(_, handle)| handle)
    }

    /// The table attached under `name`.
    pub fn attachment(&self, name: &TableReference) -> Option<Arc<TableHandle>> {
        self.check_catalog(name).ok()?;
        self.attached.get(&self.key(name)).map(|entry| Arc::clone(&entry))
    }

    /// Deletes the warehouse directory of table `name` with all its data, and forgets what was known about it.
    ///
    /// # Errors
    ///
    /// As [`Self::place`], or 58030 when the store refuses. A remote table whose deletion fails half-way is gone as a
    /// table already: its log is deleted first.
    pub async fn delete(&self, name: &TableReference) -> Result<()> {
        let location = self.place(name)?;
        let handle = self.handle_at(&location);
        let failed = |e: &dyn fmt::Display| {
            LoadError::new(
                SqlState::Storage,
                format!("deleting the data of table \"{name}\" failed"),
            )
            .detail(redact(&e.to_string()))
        };
        match location::local_path(&location) {
            Some(path) => {
                let hidden = path.with_file_name(format!(".dropped-{}", Uuid::new_v4()));
                let work = SpawnedTask::spawn_blocking(move || listing::delete_local(&path, &hidden));
                work.join().await.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
            }
            None => {
                let store = handle.log_store().await?.object_store(None);
                listing::delete_all(store.as_ref()).await.map_err(|e| failed(&e))?;
            }
        }
        handle.forget().await;
        self.handles.remove(&location_key(&location));
        self.noted(name, false);
        Ok(())
    }

    /// Tables by schema: those of a local warehouse as they are now, those of a remote one as last seen (by
    /// [`Self::refresh`], or by a statement of this session), and the attached ones.
    pub fn tables(&self) -> std::collections::BTreeMap<String, std::collections::BTreeSet<String>> {
        let mut found = match self.root.as_ref().and_then(|root| root.path.as_deref()) {
            Some(path) => listing::local(path, &self.default_schema),
            None => self.seen.read().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        for entry in &self.attached {
            let (schema, table) = entry.key();
            found.entry(schema.clone()).or_default().insert(table.clone());
        }
        found
    }

    /// Whether a table of this name is known, without waiting for a store.
    pub fn knows(&self, name: &TableReference) -> bool {
        if self.attachment(name).is_some() {
            return true;
        }
        let (schema, table) = self.key(name);
        match self.root.as_ref().and_then(|root| root.path.as_deref()) {
            Some(root) => {
                let place = self.place(name).ok().and_then(|url| location::local_path(&url));
                place.is_some_and(|path| listing::is_table(root, &path))
            }
            None => {
                let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
                seen.get(&schema).is_some_and(|tables| tables.contains(&table))
            }
        }
    }

    /// Lists a remote warehouse again. For a local one there is nothing to do.
    ///
    /// # Errors
    ///
    /// 58030 when the store cannot be listed.
    pub async fn refresh(&self) -> Result<()> {
        let Some(root) = self.root.as_ref().filter(|root| root.path.is_none()) else {
            return Ok(());
        };
        let store = TableHandle::new(root.url.clone(), root.options.clone())
            .log_store()
            .await?
            .object_store(None);
        let listed = listing::remote(store.as_ref(), &self.default_schema)
            .await
            .map_err(|e| {
                LoadError::new(SqlState::Storage, "listing the warehouse failed").detail(redact(&e.to_string()))
            })?;
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = listed;
        Ok(())
    }

    /// Remembers that a statement found (or did not find) a table, for listings of a remote warehouse.
    pub fn noted(&self, name: &TableReference, found: bool) {
        let (schema, table) = self.key(name);
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if found {
            seen.entry(schema).or_default().insert(table);
        } else if let Some(tables) = seen.get_mut(&schema) {
            tables.remove(&table);
            if tables.is_empty() {
                seen.remove(&schema);
            }
        }
    }

    fn key(&self, name: &TableReference) -> (String, String) {
        (
            name.schema().unwrap_or(&self.default_schema).to_owned(),
            name.table().to_owned(),
        )
    }

    fn check_catalog(&self, name: &TableReference) -> Result<()> {
        match name.catalog() {
            Some(catalog) if catalog != self.catalog => Err(LoadError::new(
                SqlState::UndefinedTable,
                format!("catalog \"{}\" holds no Delta tables", catalog.escape_default()),
            )
            .hint(format!("Delta tables belong to catalog \"{}\".", self.catalog))),
            _ => Ok(()),
        }
    }
}

impl Root {
    fn open(url: Url, options: HashMap<String, String>) -> Result<Self> {
        let path = match location::local_path(&url) {
            None => None,
            Some(path) => {
                let made = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
                Some(made.map_err(|e| {
                    LoadError::new(
                        SqlState::Storage,
                        format!("warehouse directory '{}' cannot be used", path.display()),
                    )
                    .detail(e.to_string())
                })?)
            }
        };
        Ok(Self { url, path, options })
    }

    fn child(&self, parts: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(parts).push("");
        }
        url
    }

    /// Checks every directory on the way to a table, and its log, against links that lead out of the warehouse; and
    /// that the table lies neither inside another nor where a schema is.
    fn confine(&self, parts: &[&str]) -> Result<()> {
        let Some(root) = &self.path else { return Ok(()) };
        let mut path = root.clone();
        for (i, part) in parts.iter().enumerate() {
            path.push(part);
            inside(root, &path)?;
            if i + 1 < parts.len() && path.join(listing::LOG).exists() {
                return Err(LoadError::new(
                    SqlState::InvalidName,
                    format!("\"{part}\" is a table, not a schema"),
                ));
            }
        }
        inside(root, &path.join(listing::LOG))
    }
}

fn inside(root: &Path, path: &Path) -> Result<()> {
    if path.symlink_metadata().is_err() || path.canonicalize().is_ok_and(|p| p.starts_with(root)) {
        return Ok(());
    }
    let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
    Err(LoadError::new(SqlState::InvalidName, format!("\"{}\" leads out of the warehouse", name.escape_default()))
        .hint("A symbolic link in the warehouse is followed only to a place inside it. Attach a table that lives elsewhere with CREATE EXTERNAL TABLE .. STORED AS DELTATABLE LOCATION '..'."))
}

fn location_key(location: &Url) -> String {
    location.as_str().trim_end_matches('/').to_owned()
}

impl fmt::Debug for TableLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.root.as_ref().map(|root| redact(root.url.as_str()));
        f.debug_struct("TableLocator")
            .field("root", &root)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
