//! Reading the target of a load: as few files, row groups, pages and columns as possible, each row with its position.
//!
//! ```text
//! LoadDeltaScanExec      file tasks in, table rows out, with __file and __row; holds the filters that were pushed down
//!   DataSourceExec       one row per file task: path, partition values, bounds, deletion vector
//! ```
//!
//! Files are left out twice: in planning by the filters of the statement, and when the first row is asked for by the
//! filters that joins have computed by then. What remains goes through DataFusion's Parquet source, which leaves out
//! row groups and pages. When few rows pass the filters, the columns that these do not need are found by the rows' positions
//! (`late`).

mod covered;
mod deleted;
mod desc;
mod exec;
mod late;
mod provider;
mod prune;
mod reader;
mod rewrite;
mod run;
mod tasks;
mod vectors;
mod window;

pub use desc::ScanDesc;
pub use exec::{LoadDeltaScanExec, ScanPlan};
pub use provider::{TargetScan, register_store};
pub use prune::may_match;
pub(crate) use reader::Reader;
pub use rewrite::rewrite_scan;
pub(crate) use rewrite::row_group_scan;
pub(crate) use tasks::ScanTask;
pub(crate) use vectors::read as read_vector;
pub use window::wholly_inside;

/// Counter of [`LoadDeltaScanExec`]: files that were not opened, for their statistics rule out every row asked for.
pub const FILES_SKIPPED: &str = "files_skipped";
/// Counter of [`LoadDeltaScanExec`]: files of the table at the version that is read.
pub const FILES_TOTAL: &str = "files_total";
/// Counter of [`LoadDeltaScanExec`]: the part of [`FILES_SKIPPED`] that was left out in planning.
pub const FILES_PRUNED_STATIC: &str = "files_pruned_static";
/// Counter of [`LoadDeltaScanExec`]: the part of [`FILES_SKIPPED`] that was left out at run time.
pub const FILES_PRUNED_DYNAMIC: &str = "files_pruned_dynamic";
/// Counter of [`LoadDeltaScanExec`]: rows whose columns, beyond those that its filters need, were found by the rows' positions.
pub const ROWS_FETCHED_LATE: &str = "rows_fetched_late";
/// Counter of [`LoadDeltaScanExec`]: pages that were unpacked for [`ROWS_FETCHED_LATE`].
pub const PAGES_UNPACKED: &str = "pages_unpacked";
