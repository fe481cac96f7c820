//! Names of the columns that operators add to rows on their way. All begin with `__`; a user column of such a name is
//! refused by the binder.

/// What happens to the row: one of [`crate::action`], `UInt8`.
pub const ACTION: &str = "__action";
/// The ordinal of the file that holds the matched target row, `UInt32`, NULL without a match.
pub const FILE: &str = "__file";
/// The position of the matched target row in its file, `Int64`, NULL without a match.
pub const ROW: &str = "__row";
/// Source order, `UInt64`: partition in the upper 24 bits, row in the lower 40.
pub const ORDINAL: &str = "__ordinal";

/// The column holding part `i` of `SEQUENCE BY`.
pub fn sequence(i: usize) -> String {
    format!("__seq_{i}")
}

/// The column holding part `i` of `DEDUPLICATE BY`.
pub fn order(i: usize) -> String {
    format!("__ord_{i}")
}

/// The column telling whether constraint `i` holds.
pub fn check(i: usize) -> String {
    format!("__check_{i}")
}

/// The column holding the stored value of table column `i`, for the change data feed.
pub fn old(i: usize) -> String {
    format!("__old_{i}")
}

/// The column holding item `i` of `RETURNING`.
pub fn returning(i: usize) -> String {
    format!("__ret_{i}")
}

/// Whether operators use this name, so that a user's column cannot have it.
pub fn is_internal(name: &str) -> bool {
    const EXACT: &[&str] = &[ACTION, FILE, ROW, ORDINAL];
    const NUMBERED: &[&str] = &["__seq_", "__ord_", "__check_", "__old_", "__ret_", "__load_"];
    EXACT.contains(&name) || NUMBERED.iter().any(|prefix| name.starts_with(prefix))
}
