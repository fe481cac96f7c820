//! What the tests of all crates share, and no build of ours ships: a slow and obvious model of the four statements,
//! generators for random cases, and object stores that fail, record or wait.
//!
//! The model ([`oracle`]) shares nothing with parser, planner or operators. Each of its statement specs prints itself
//! as SQL, so that a test can run the engine and the model on the same statement and compare tables and counts.

pub mod generate;
pub mod oracle;
pub mod rows;
pub mod stores;
pub mod values;

pub use values::{Column, ColumnType, Row, Table, Value};

/// The examples of the crate's README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
