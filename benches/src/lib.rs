//! What the benches share: the workloads, the data they run on, and the engines that run them.
//!
//! Every figure is one load into a fresh copy of the same Delta table, from the same Parquet file, so that engines
//! differ in nothing but what they do. Data is made here, deterministically, from a hash of the key.
//!
//! - [`workload`]: which keys a load brings, and what the table must hold afterwards
//! - [`rows`]: the rows of given keys
//! - [`lab`]: a directory with the base table, the sources, and copies to load into
//! - [`engine`]: our statements and the table format library's own merge
//! - [`check`]: what a load left behind, read from the log and through another reader than the writer
//! - [`memory`]: the peak memory of this process

pub mod check;
pub mod engine;
pub mod lab;
pub mod memory;
pub mod rows;
pub mod workload;

/// Benches report errors to people only.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
