//! The keys of `OPTIONS (..)`.

use super::ast::KeyValue;
use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// Every key that `OPTIONS (..)` of a load statement knows.
pub const OPTION_KEYS: &[&str] = &["merge.compare", "merge.max_attempts", "write.target_file_size"];

/// Refuses keys that nothing reads: an option that is ignored is worse than none.
pub(super) fn check(options: &[KeyValue]) -> Result<()> {
    match options
        .iter()
        .find(|option| !OPTION_KEYS.contains(&option.key.as_str()))
    {
        None => Ok(()),
        Some(option) => Err(LoadError::new(
            SqlState::InvalidParameter,
            format!("option '{}' does not exist", option.key),
        )
        .hint(format!("Options are {}.", OPTION_KEYS.join(", ")))
        .at(option.span)),
    }
}
