//! The only crate that knows Delta Lake: opening tables, reading them for a load, writing and committing.

pub mod provider;
pub mod scan;
pub mod table;
pub mod write;

pub use provider::DeltaTable;
pub use scan::TargetScan;
pub use table::{FileTask, TableHandle, TableSnapshot};
