//! Tests of the crate from outside, in one binary.

mod write_loads;
mod write_support;
mod write_values;
