//! What the operators of one load share while it runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use deltalake::logstore::LogStoreRef;
use uuid::Uuid;

use super::create::check_new_table;
use super::files::{FileLayout, StatementFiles};
use super::positions::versions::NewVersions;
use super::spec::LoadSpec;
use crate::LocalReads;

/// One run of a load. Made when the physical plan is made, because a logical plan may be run many times.
pub(super) struct LoadJob {
    pub(super) spec: Arc<LoadSpec>,
    /// Names the statement in file names, action rows and the log.
    pub(super) statement: Uuid,
    pub(super) log_store: LogStoreRef,
    pub(super) files: Arc<StatementFiles>,
    /// How data files look.
    pub(super) data: Arc<FileLayout>,
    /// How change data files look, when there are any.
    pub(super) change: Option<Arc<FileLayout>>,
    /// Where new versions of stored rows wait for the files they belong to; `None` where they always go to new files.
    pub(super) versions: Option<NewVersions>,
}

impl LoadJob {
    /// A new run of `spec`.
    pub(super) async fn start(spec: Arc<LoadSpec>) -> Result<Arc<Self>> {
        if spec.change_data && !spec.removed_files.is_empty() {
            return Err(LoadError::internal(
                "files cannot be dropped unread while change data is written",
            ));
        }
        let statement = Uuid::new_v4();
        let target = &spec.target;
        if target.base.is_none() {
            check_new_table(target)?;
        }
        let log_store = match &target.base {
            Some(base) => base.log_store(),
            None => target.handle.log_store().await?,
        };
        let data = FileLayout::data(
            &target.schema,
            &target.partition_columns,
            table_properties(&spec),
            spec.target_file_size,
        )?;
        Ok(Arc::new(Self {
            files: StatementFiles::new(
                LocalReads::over(
                    log_store.object_store(Some(statement)),
                    target.handle.location().scheme(),
                ),
                statement,
            ),
            change: spec.change_data.then(|| data.change_data().map(Arc::new)).transpose()?,
            versions: stays_in_place(&spec, &data).then(NewVersions::default),
            data: Arc::new(data),
            statement,
            log_store,
            spec,
        }))
    }

    /// How messages name the table.
    pub(super) fn table(&self) -> &str {
        &self.spec.target.name
    }
}

/// Whether new versions of stored rows can take the places of the old ones: files with such rows are written again anyway,
/// a new version is never in another partition, and no order has to be kept.
fn stays_in_place(spec: &LoadSpec, data: &FileLayout) -> bool {
    let base = spec.target.base.as_ref();
    base.is_some_and(|base| !base.deletion_vectors_enabled()) && !data.partitioned() && data.order().is_empty()
}

/// The properties of the table that is written.
pub(super) fn table_properties(spec: &LoadSpec) -> &HashMap<String, String> {
    match &spec.target.base {
        Some(base) => base.properties(),
        None => &spec.target.properties,
    }
}

impl fmt::Debug for LoadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadJob")
            .field("statement", &self.statement)
            .finish_non_exhaustive()
    }
}
