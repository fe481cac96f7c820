//! The only crate that knows Delta Lake: opening tables, reading them for a load, writing and committing.

pub mod compare;
pub mod history;
mod keys;
mod local_reads;
mod options;
mod pages;
pub mod provider;
pub mod repin;
pub mod scan;
mod storable;
pub mod table;
pub mod write;

pub use keys::{KEYS, key_columns};
pub use local_reads::LocalReads;
pub use options::LoadOptions;
pub use provider::DeltaTable;
pub use scan::TargetScan;
pub use storable::storable_type;
pub use table::{FileTask, TableHandle, TableLocator, TableSnapshot};
