//! What happens to a row of the change stream: the values of [`crate::columns::ACTION`].

/// Nothing, and the row is not counted.
pub const NONE: u8 = 0;
/// The row is written.
pub const INSERT: u8 = 1;
/// The row is written and its old version marked.
pub const UPDATE: u8 = 2;
/// The old version is marked.
pub const DELETE: u8 = 3;
/// The stored row is equal already.
pub const UNCHANGED: u8 = 4;
/// The source row is held back.
pub const SKIPPED: u8 = 5;
