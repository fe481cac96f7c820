//! What the statements share on the way from names to a plan.
//!
//! ```text
//! source (cast to the target's types, control columns) → gate → winner or key check → join with the target's keys
//!     → projection that decides what happens to each row (`__action`) → load node
//! ```
//!
//! Each file is one step; a statement's own `bind.rs` puts the steps together. What is exported here is what a statement
//! outside of this crate can be made from.

pub(crate) mod columns;
pub(crate) mod control;
pub(crate) mod expr;
pub(crate) mod finish;
pub(crate) mod groups;
pub(crate) mod keys;
pub(crate) mod outside;
pub(crate) mod reads;
pub(crate) mod replace;
pub(crate) mod require;
pub(crate) mod returning;
pub(crate) mod source;
pub(crate) mod target;

pub use columns::{Columns, ColumnsRequest};
pub use control::{ControlRequest, Controlled, controlled, one_per_key, source_column};
pub use expr::{bind, bind_condition, case, col, null_of};
pub use finish::{Changes, Finish, bool_option};
pub use keys::{KeyJoin, KeySet, Within};
pub use outside::refuse_outside_matches;
pub use require::{Requirement, require};
pub use source::SourceRows;
pub use target::TargetTable;
