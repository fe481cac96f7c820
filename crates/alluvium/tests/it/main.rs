//! Integration tests of the facade: one binary, because linking is slow.

mod catalog;
mod conflicts;
mod crashes;
mod ddl;
mod foreign_times;
mod in_place;
mod kernel;
mod keys;
mod laws;
mod laws_insert_only;
mod laws_overwrite;
mod laws_scd2;
mod laws_upsert;
mod memory;
mod once;
mod optimize;
mod python;
mod reading;
mod secrets;
mod session;
mod sizes;
mod staged;
mod support;
