//! The load statements: one folder each, from the grammar of its clauses to a plan. They know tables, but not sessions.

pub mod bind;
pub mod insert_only;
pub mod kind;
pub mod merge_overwrite;
mod preparing;
pub mod scd2;
pub mod upsert;

use std::sync::Arc;

use alluvium_core::StatementKind;

pub use preparing::preparing;

/// The statements, in the order in which help lists them.
pub fn builtin() -> Vec<Arc<dyn StatementKind>> {
    vec![
        Arc::new(upsert::Upsert::new()),
        Arc::new(insert_only::InsertOnly::new()),
        Arc::new(merge_overwrite::MergeOverwrite::new()),
        Arc::new(scd2::Scd2Merge::new()),
    ]
}
