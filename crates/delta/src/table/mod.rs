//! What is known about a table: where it is, its newest state, its files and what it demands of whoever writes it.

pub mod features;
pub(crate) mod files;
mod footer;
mod handle;
mod locator;
mod partition;
mod properties;
mod snapshot;
pub(crate) mod stats;

pub use files::FileTask;
pub(crate) use footer::{footer, footer_rows};
pub use handle::TableHandle;
pub use locator::TableLocator;
pub use snapshot::TableSnapshot;
pub(crate) use stats::ColumnBounds;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, SqlState};
use deltalake::DeltaTableError;

/// An error of the log or the store as ours, without credentials.
pub(crate) fn storage_error(doing: &str, cause: DeltaTableError) -> LoadError {
    let text = redact(&cause.to_string());
    match text.split_once("Unsupported: ") {
        Some((_, what)) => LoadError::unsupported(format!("{doing} is not supported: {what}")),
        None => LoadError::new(SqlState::Storage, format!("{doing} failed")).detail(text),
    }
}
