//! Tests of the crate from outside, in one binary.

#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

mod read_late;
mod read_scan;
mod read_support;
mod read_table;
mod write_faults;
mod write_loads;
mod write_splice;
mod write_support;
mod write_values;
