//! What a data file tells about itself at its end.

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use datafusion::common::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use object_store::{ObjectStore, ObjectStoreExt};

use crate::table::FileTask;

/// The bytes of a file's end that are fetched first: enough for most footers.
const FOOTER_GUESS: u64 = 64 * 1024;

/// The rows of a file whose number the log does not tell.
pub(crate) async fn footer_rows(store: &dyn ObjectStore, table: &str, file: &FileTask) -> Result<u64> {
    let metadata = footer(store, table, file, PageIndexPolicy::Skip).await?;
    Ok(u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0))
}

/// What a file says about its row groups, and about their pages if `pages` wants it.
pub(crate) async fn footer(
    store: &dyn ObjectStore,
    table: &str,
    file: &FileTask,
    pages: PageIndexPolicy,
) -> Result<ParquetMetaData> {
    let unreadable = |e: String| {
        LoadError::new(SqlState::Storage, format!("a file of table {table:?} cannot be read")).detail(redact(&e))
    };
    let path = file.store_path();
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(pages);
    let mut wanted = FOOTER_GUESS;
    loop {
        let range = file.size.saturating_sub(wanted)..file.size;
        let tail = store
            .get_range(&path, range)
            .await
            .map_err(|e| unreadable(e.to_string()))?;
        match reader.try_parse_sized(&tail, file.size) {
            Ok(()) => break,
            Err(ParquetError::NeedMoreData(needed)) if wanted < file.size => {
                wanted = u64::try_from(needed).unwrap_or(u64::MAX).max(wanted + 1);
            }
            Err(e) => return Err(LoadError::from(DataFusionError::from(e))),
        }
    }
    reader.finish().map_err(|e| LoadError::from(DataFusionError::from(e)))
}
