//! The text of the four load statements: what is read, how it is printed, and what is said about mistakes.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod errors;
mod fuzz;
mod limits;
mod names;
mod round_trip;
mod scripts;
mod support;
mod trees;
