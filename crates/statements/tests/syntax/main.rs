//! The text of the four load statements: what is read, how it is printed, and what is said about mistakes.

mod errors;
mod fuzz;
mod limits;
mod names;
mod round_trip;
mod scripts;
mod support;
mod trees;
