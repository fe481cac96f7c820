//! Random cases for property tests: a schema, a statement that fits it, tables and batches, a file layout.
//!
//! Domains are tiny on purpose: keys collide, values repeat, times are equal.

mod common;
mod insert_only;
mod layout;
mod overwrite;
mod rows;
mod scd2;
mod schema;
mod upsert;

#[cfg(test)]
mod tests;

pub use insert_only::insert_only_case;
pub use layout::{Layout, layout};
pub use overwrite::{overwrite_keys_case, overwrite_window_case};
pub use rows::{RowsOptions, rows, value};
pub use scd2::{scd2_boundary_case, scd2_sequence_case};
pub use schema::{Schema, schema};
pub use upsert::upsert_case;

use crate::values::Table;

/// A statement, the target before it, and batches to load one after the other.
#[derive(Debug, Clone)]
pub struct Case<S> {
    /// The statement; the same for every batch.
    pub spec: S,
    /// The target; `None` if the statement creates it.
    pub target: Option<Table>,
    /// The batches.
    pub sources: Vec<Table>,
    /// How the target's rows lie in files.
    pub layout: Layout,
}
