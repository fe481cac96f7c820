//! Tests of the crate from outside, in one binary.

mod read_scan;
mod read_support;
mod read_table;
mod write_faults;
mod write_loads;
mod write_support;
mod write_values;
