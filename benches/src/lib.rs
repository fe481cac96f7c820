//! What the benches share: the workloads, the data they run on, and the engines that run them.
//!
//! Every figure is one load into a fresh copy of the same Delta table, from the same Parquet file, so that engines
//! differ in nothing but what they do. Data is made here, deterministically, from a hash of the key.
//!
//! - [`workload`] and [`source`]: which rows a load brings, and what the table must hold afterwards
//! - [`rows`] and [`columns`]: the columns of these rows
//! - [`tables`] and [`lab`]: a directory with the tables, the sources, and copies to load into
//! - [`engine`]: our statements, the table format library's own operations, and the least that a load has to do
//! - [`check`]: what a load left behind, read from the log and through another reader than the writer
//! - [`memory`] and [`reads`]: the peak memory of this process, and what it read of a table

pub mod check;
pub mod columns;
pub mod engine;
mod floor;
pub mod lab;
pub mod memory;
mod ours;
mod peer;
pub mod reads;
pub mod rows;
pub mod source;
pub mod tables;
pub mod workload;

/// Benches report errors to people only.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
