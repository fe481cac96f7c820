//! The file that keeps what was typed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use alluvium_core::secrets::{is_secret_key, redact};

/// The history file, if its directory is there or can be made.
pub(super) fn file() -> Option<PathBuf> {
    let directory = state_directory(env::var_os("XDG_STATE_HOME").map(PathBuf::from), env::home_dir())?;
    fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}

/// `$XDG_STATE_HOME/alluvium`; a relative path there is ignored, as the XDG specification wants it.
fn state_directory(state_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let base = state_home.filter(|path| path.is_absolute()).or_else(|| {
        let home = home.filter(|path| path.is_absolute())?;
        Some(home.join(Path::new(".local/state")))
    })?;
    Some(base.join("alluvium"))
}

/// Whether `text` may be kept: credentials, in options or URLs, must not end up in a file.
pub(super) fn may_keep(text: &str) -> bool {
    let options = text
        .split('\'')
        .any(|part| is_secret_key(part) && !part.contains(char::is_whitespace));
    let urls = text.split('\'').any(|part| redact(part) != part);
    !options && !urls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_follows_xdg() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(state_directory(path("/s"), path("/h")), path("/s/alluvium"));
        assert_eq!(state_directory(path("s"), path("/h")), path("/h/.local/state/alluvium"));
        assert_eq!(state_directory(None, path("/h")), path("/h/.local/state/alluvium"));
        assert_eq!(state_directory(None, None), None);
    }

    #[test]
    fn statements_with_credentials_are_not_kept() {
        assert!(may_keep("UPSERT INTO t USING s KEYS (token) SEQUENCE BY signature;"));
        assert!(may_keep("SELECT 'a', 'b c' FROM 's3://bucket/file.csv';"));
        assert!(!may_keep(
            "CREATE EXTERNAL TABLE t .. OPTIONS ('aws_secret_access_key' 'SECRETKEY');"
        ));
        assert!(!may_keep("SELECT * FROM 'https://a.blob/x.csv?sig=SECRETSIG';"));
    }
}
