//! Streaming operators on rows: what a load does with its source before the target's files come into play. It knows
//! Arrow and DataFusion, not Delta Lake.
//!
//! Every operator is a folder with its specification (plain column names and literals), which is also its logical node
//! ([`node::RowNode`]), and its work on one partition ([`row_exec::RowStep`]). [`planner::ExecPlanner`] connects the
//! two.

pub mod action;
pub mod bounded;
pub mod changed;
pub mod checked_cast;
pub mod columns;
pub mod floats;
pub mod intervals;
pub mod key_bits;
mod keys;
pub mod matching;
pub mod metrics;
pub mod node;
pub mod planner;
pub mod row_exec;
mod seen;
pub mod short;
pub mod skip_unchanged;
pub mod source_gate;
pub mod spool;
#[cfg(test)]
mod testing;
pub mod unique_keys;
pub mod winner;
