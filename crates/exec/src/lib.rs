//! Streaming operators on rows: what a load does with its source before the target's files come into play. It knows
//! Arrow and DataFusion, not Delta Lake.

pub mod action;
pub mod columns;
pub mod metrics;
