//! From the text of a `LOCATION` to a URL and the options of its store.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use deltalake::logstore::object_store_factories;
use url::Url;

/// Schemes of Azure storage, where a query string is a shared access signature.
const AZURE: &[&str] = &["az", "azure", "abfs", "abfss", "adl"];

/// The option that takes over the signature.
const SAS_OPTION: &str = "azure_storage_sas_key";

/// Reads a directory path (relative ones from the current directory) or a URL.
///
/// The URL comes back in one spelling: links resolved, a slash at the end, no query. A shared access signature is moved
/// to the options, so that the URL can be shown.
pub(super) fn parse(text: &str) -> Result<(Url, HashMap<String, String>)> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(refused(text, "it is empty or contains control characters"));
    }
    match text.contains("://") {
        true => parse_url(text),
        false => Ok((directory(Path::new(text))?, HashMap::new())),
    }
}

/// The local directory of a `file://` URL.
pub(super) fn local_path(url: &Url) -> Option<PathBuf> {
    (url.scheme() == "file").then(|| url.to_file_path().ok()).flatten()
}

fn parse_url(text: &str) -> Result<(Url, HashMap<String, String>)> {
    let mut url = Url::parse(text).map_err(|_| refused(text, "it is not a valid URL"))?;
    if url.password().is_some() {
        return Err(refused(text, "it carries a password").hint("Pass credentials in OPTIONS or in the environment."));
    }
    let mut options = HashMap::new();
    match url.query() {
        Some(query) if AZURE.contains(&url.scheme()) => {
            options.insert(SAS_OPTION.to_owned(), query.to_owned());
        }
        Some(_) => {
            return Err(refused(text, "it carries a query string")
                .hint("A table is a directory. Pass credentials in OPTIONS or in the environment."));
        }
        None => (),
    }
    url.set_query(None);
    url.set_fragment(None);
    if let Some(path) = local_path(&url) {
        return Ok((directory(&path)?, options));
    }
    let known = Url::parse(&format!("{}://", url.scheme())).is_ok_and(|s| object_store_factories().contains_key(&s));
    if !known {
        return Err(
            LoadError::unsupported(format!("this build cannot reach {}:// locations", url.scheme()))
                .hint("Build with the cargo feature s3, azure or gcs."),
        );
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok((url, options))
}

/// The URL of a directory that need not exist yet.
fn directory(path: &Path) -> Result<Url> {
    let shown = path.display().to_string();
    let absolute = std::path::absolute(path).map_err(|_| refused(&shown, "it is not a path"))?;
    let canonical = canonical(&absolute).ok_or_else(|| refused(&shown, "its parent directories do not exist"))?;
    Url::from_directory_path(canonical).map_err(|()| refused(&shown, "it is not a path"))
}

/// `path` with links and `..` resolved as far as it exists; the rest must be plain.
fn canonical(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(found) = existing.canonicalize() {
            return Some(missing.iter().rev().fold(found, |p, part| p.join(part)));
        }
        match existing.components().next_back()? {
            Component::Normal(part) => missing.push(part),
            _ => return None,
        }
        existing = existing.parent()?;
    }
}

fn refused(text: &str, reason: &str) -> LoadError {
    let shown: String = redact(text).chars().take(200).flat_map(char::escape_default).collect();
    LoadError::new(
        SqlState::InvalidParameter,
        format!("location '{shown}' cannot be used: {reason}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_file_urls_of_one_directory_are_one_location() {
        let here = std::env::current_dir().unwrap();
        let expected = Url::from_directory_path(here.canonicalize().unwrap().join("no/table")).unwrap();
        let around = here.join("..").join(here.file_name().unwrap()).join("no/table");
        for text in ["no/table", "./no/table/", around.to_str().unwrap()] {
            assert_eq!(parse(text).unwrap().0, expected, "{text}");
        }
        assert_eq!(parse(expected.as_str()).unwrap().0, expected);
    }

    #[test]
    fn secrets_in_a_location_are_refused_and_not_shown() {
        for text in [
            "file:///x?sv=1&sig=SECRETSIG",
            "https://u:SECRETSIG@h/x",
            "no\0where",
            "",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), "22023");
            assert!(!format!("{error:?}").contains("SECRETSIG"), "{error:?}");
        }
    }
}
