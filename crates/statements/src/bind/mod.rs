//! What the statements share on the way from names to a plan.
//!
//! ```text
//! source (cast to the target's types, control columns) → gate → winner or key check → join with the target's keys
//!     → projection that decides what happens to each row (`__action`) → load node
//! ```
//!
//! Each file is one step; a statement's own `bind.rs` puts the steps together.

pub(crate) mod columns;
pub(crate) mod control;
pub(crate) mod expr;
pub(crate) mod finish;
pub(crate) mod groups;
pub(crate) mod keys;
pub(crate) mod outside;
pub(crate) mod reads;
pub(crate) mod replace;
pub(crate) mod returning;
pub(crate) mod source;
pub(crate) mod target;
