//! The directory of one trial, removed when the trial ends.

use std::io;
use std::path::Path;

use tempfile::TempDir;

/// Name of the variable for the warehouse directory.
const WORK_DIR: &str = "WORK_DIR";
/// Name of the variable for the small input files.
const DATA_DIR: &str = "DATA_DIR";

/// A scratch directory and what its parts are called in the test files.
#[derive(Debug)]
pub struct Scratch {
    variables: [(&'static str, String); 2],
    _directory: TempDir,
}

impl Scratch {
    /// Makes the directory. The warehouse is one level below it, so that a file test can see whether anything was
    /// written beside the warehouse.
    pub fn new() -> io::Result<Self> {
        let directory = TempDir::new()?;
        let warehouse = directory.path().canonicalize()?.join("warehouse");
        std::fs::create_dir(&warehouse)?;
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        Ok(Self {
            variables: [
                (WORK_DIR, warehouse.display().to_string()),
                (DATA_DIR, data.display().to_string()),
            ],
            _directory: directory,
        })
    }

    /// The warehouse's path.
    pub fn warehouse(&self) -> &str {
        &self.variables[0].1
    }

    /// Names and values that test files can use.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Puts the values in place of `${NAME}`.
    pub fn expand(&self, text: &str) -> String {
        self.variables().fold(text.to_owned(), |t, (name, value)| {
            t.replace(&format!("${{{name}}}"), value)
        })
    }

    /// Puts `${NAME}` in place of the values, so that outputs do not depend on the machine.
    pub fn mask(&self, text: &str) -> String {
        self.variables().fold(text.to_owned(), |t, (name, value)| {
            t.replace(value, &format!("${{{name}}}"))
        })
    }
}
