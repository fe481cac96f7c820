//! The clause parser: the syntax tree all load statements share, how it is read and how it is printed.

mod absent;
mod ast;
mod common;
mod cursor;
mod display;
mod expr;
mod lists;
mod load;
mod options;
mod slice;
mod source;
mod unknown;

pub use ast::*;
pub use common::PHRASES as COMMON_PHRASES;
pub use cursor::Cursor;
pub(crate) use cursor::words_at;
pub use display::{comma_separated, joined, literal};
pub use lists::distinct;
pub use load::{ClauseSet, claims, parse_load, require_keys};
pub use options::OPTION_KEYS;
pub(crate) use slice::RECURSION_LIMIT;
