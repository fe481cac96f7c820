//! Writing: from a change stream to one commit.
//!
//! A statement puts a [`LoadNode`] on top of an ordinary plan whose rows say what happens to them
//! ([`alluvium_exec::columns::ACTION`]); [`LoadPlanner`] turns it into
//!
//! ```text
//! LoadCommitExec                 1 partition: drains every action row, commits once or not at all
//!   CoalescePartitionsExec
//!     ApplyPositionsExec         N partitions: masks marked rows, or writes their files again, new versions in place
//!       RepartitionExec Hash(__file)
//!         LoadWriteExec          N partitions: writes new row versions, collects marked positions
//!           ProjectionExec       generated columns and constraints
//!             <change stream>
//! ```
//!
//! On tables without deletion vectors, new versions of stored rows do not travel through files of their own: the writers
//! keep them (`positions::versions`) for the files that are written again.
//!
//! Nothing here knows SQL statements or sessions.

mod actions;
mod apply;
mod changes;
mod checks;
mod commit;
mod create;
mod delta_sql;
mod exec;
mod files;
mod guard;
pub mod insert;
mod job;
mod node;
pub mod optimize;
mod planner;
mod pool;
mod positions;
mod result;
mod schema;
mod spec;

pub use create::{NewTable, check_new_table, create_table, storable_schema};
pub use node::LoadNode;
pub use planner::LoadPlanner;
pub use result::{LoadCounts, LoadStatus, result_schema};
pub use spec::{CommitOperation, LoadSpec, LoadTarget, OperationKind};
