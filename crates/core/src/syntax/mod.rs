//! The clause parser: the syntax tree all load statements share, and how it is read.

mod ast;
mod cursor;

pub use ast::*;
pub use cursor::Cursor;
