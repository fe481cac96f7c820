//! A session over a scratch warehouse.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium::{Outcome, Result, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;

/// A directory that goes away with its owner.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh directory.
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "alluvium-it-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text for SQL.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A session whose warehouse is the directory `w`.
    pub async fn session(&self) -> Session {
        Session::builder().with_warehouse(self.text("w")).build().await.unwrap()
    }

    /// Every file below `name` with its size.
    pub fn files(&self, name: &str) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        walk(&self.path(name), &mut found);
        found
    }

    /// Every file below `name` with its bytes.
    pub fn contents(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let read = |path: String| {
            let bytes = std::fs::read(&path).unwrap();
            (path, bytes)
        };
        self.files(name).into_keys().map(read).collect()
    }
}

fn walk(path: &Path, found: &mut BTreeMap<String, u64>) {
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path(), found),
            false => {
                found.insert(entry.path().display().to_string(), entry.metadata().unwrap().len());
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `sql` and gives its rows as lines of values between bars, without borders and header.
pub async fn rows(session: &Session, sql: &str) -> Vec<String> {
    lines(
        &session
            .execute(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {}", report(&e))),
    )
}

/// The rows of an outcome as [`rows`] gives them.
pub fn lines(outcome: &Outcome) -> Vec<String> {
    text_lines(&outcome.batches)
}

/// The rows of batches as [`rows`] gives them.
pub fn text_lines(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let values = text.lines().filter(|line| line.starts_with('|')).skip(1);
    let clean = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
            .join("|")
    };
    values.map(clean).collect()
}

/// Runs `sql`, which must fail, and gives the SQLSTATE and everything the error says.
pub async fn failure(session: &Session, sql: &str) -> (String, String) {
    let result: Result<Outcome> = session.execute(sql).await;
    match result {
        Ok(outcome) => panic!("{sql} succeeded: {:?}", lines(&outcome)),
        Err(e) => (e.code().to_owned(), report(&e)),
    }
}

fn report(e: &alluvium::LoadError) -> String {
    let hint = e.hint_text().unwrap_or("no hint");
    let detail = e.detail_text().unwrap_or("no detail");
    format!("{} {e} | {detail} | {hint} | {e:?}", e.code())
}
