//! Which names a table of the warehouse can have. A name is data from a caller and becomes a directory, so the rule is
//! narrow: one plain path component, nothing that a file system reads as a way out.

use alluvium_core::{LoadError, Result, SqlState};

/// Names below a table's or warehouse's root that belong to the format.
const RESERVED: &[&str] = &["_delta_log", "_change_data", "information_schema"];

/// No file system in use takes a longer one, percent-encoding aside.
const MAX_BYTES: usize = 200;

/// Refuses a table or schema name (`what`) that is not one plain directory name.
pub(super) fn check(what: &str, name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if name.contains(['/', '\\']) {
        "it contains a path separator"
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else if name.len() > MAX_BYTES {
        "it is too long"
    } else if name.trim() != name {
        "it begins or ends with a space"
    } else if RESERVED.iter().any(|r| r.eq_ignore_ascii_case(name)) {
        "it is reserved"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(60).flat_map(char::escape_default).collect();
    Err(LoadError::new(
        SqlState::InvalidName,
        format!("{what} name \"{shown}\" cannot be used: {reason}"),
    )
    .hint(
        "A table is one directory of the warehouse. Attach a table that lives elsewhere with \
             CREATE EXTERNAL TABLE .. STORED AS DELTATABLE LOCATION '..'.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_pass() {
        for name in ["t", "Orders 2024", "a-b_c", "50%", "größe", "a.b", "x=y", "_t"] {
            check("table", name).unwrap();
        }
    }

    #[test]
    fn ways_out_are_refused() {
        let long = "x".repeat(300);
        let attacks = [
            "",
            ".",
            "..",
            "../x",
            "a/../../x",
            "/etc",
            "a\\b",
            "a\0b",
            "a\nb",
            ".hidden",
            "_delta_log",
            " t",
            &long,
        ];
        for name in attacks {
            assert_eq!(check("table", name).unwrap_err().code(), "42602", "{name:?}");
        }
    }
}
