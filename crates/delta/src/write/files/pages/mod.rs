//! Columns of plain types, page after page: encoded, and with new values put into what is stored.
//!
//! [`ColumnEncoder`] makes a column chunk of Arrow's arrays. [`Original::patched`] makes one of a stored chunk, some of
//! whose rows get new values and stay where they are:
//!
//! ```text
//! column chunk:  dictionary  page  page  page  ..          what happens to it
//!                    │        │     │     │
//!   no new values    ·        ·     ·     ·                the bytes of the chunk are copied
//!   new in one page  ·        ·     ▼     ·                that page is unpacked, changed and packed, the others copied
//!   new to all       +        ·     ▼     ·                a small dictionary grows; pages go without a large one
//! ```
//!
//! Nothing is decoded into rows and encoded again, no value is hashed but the new ones, and columns in which a load changes
//! nothing, such as the keys, cost a copy. Chunks that are stored in ways not known here (nested columns, delta
//! encodings, pages of version 2, files without page indexes) are left to the caller.

mod bounds;
mod chunk;
mod close;
mod dictionary;
mod encode;
mod fresh;
mod input;
mod kind;
mod packed;
mod page;
mod recent;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use alluvium_core::{LoadError, Result};
use datafusion::parquet::column::writer::ColumnCloseResult;
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::schema::types::ColumnDescriptor;
use object_store::ObjectStore;

pub(super) use encode::{ColumnEncoder, Scratch};
pub(super) use fresh::FreshRows;

use super::original::{Original, Part};
use crate::pages::{codec, hybrid};
use chunk::{Outcome, patch};
use kind::Kind;

/// The chunks of a row group, with what describes them.
pub(super) type Chunks = Vec<(Arc<Part>, ColumnCloseResult)>;

impl Original {
    /// Whether rows of this row group can get new values where they are, as far as its description tells.
    pub(in crate::write) fn patchable(&self, number: usize) -> bool {
        let group = self.metadata.row_groups().get(number);
        let indexed = self.metadata.offset_index().is_some();
        indexed && group.is_some_and(|group| group.columns().iter().all(chunk::patchable))
    }

    /// Row group `number` with the values of `fresh` in `rows`, which ascend. Those of `keys` are stored there already.
    /// `None`: they cannot be put in.
    pub(super) async fn patched(
        &self,
        store: &Arc<dyn ObjectStore>,
        number: usize,
        rows: &[usize],
        fresh: &FreshRows,
        keys: &[String],
    ) -> Result<Option<Chunks>> {
        let group = self.metadata.row_groups().get(number);
        let group: &RowGroupMetaData = group.ok_or_else(|| LoadError::internal("a row group is gone"))?;
        let mut chunks = Vec::with_capacity(group.num_columns());
        for (column, metadata) in group.columns().iter().enumerate() {
            let Some(kind) = Kind::of(metadata.column_descr()) else {
                return Ok(None);
            };
            let part = Arc::new(self.part(store, metadata.byte_range()).await?);
            let closed = self.closed(store, number, column, metadata).await?;
            if is_kept(metadata.column_descr(), kind, keys) {
                chunks.push((part, closed));
                continue;
            }
            let Some(fresh) = fresh.column(column, kind)? else {
                return Ok(None);
            };
            chunks.push(match patch(&part, &closed, rows, &fresh)? {
                Outcome::Same => (part, closed),
                Outcome::New(part, closed) => (Arc::new(part), *closed),
                Outcome::Unable => return Ok(None),
            });
        }
        Ok(Some(chunks))
    }
}

/// Whether new versions of rows have the bytes that are stored, as the column is one of `keys` and equal values of its
/// kind have equal bytes.
fn is_kept(column: &ColumnDescriptor, kind: Kind, keys: &[String]) -> bool {
    let exact = matches!(kind, Kind::Int32 | Kind::Int64 | Kind::Text);
    exact && matches!(column.path().parts(), [name] if keys.contains(name))
}
