//! The seed cases, as data.

mod cases;
mod insert_only;
mod overwrite;
mod scd2_boundary;
mod scd2_sequence;
mod upsert;
