//! The binary as scripts and people meet it.

#![expect(clippy::unwrap_used, reason = "a test that cannot start its program has failed")]

mod errors;
mod formats;
mod inputs;
mod interrupts;
mod prompt;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// An empty warehouse, and a directory for scripts beside it.
struct Lake {
    root: TempDir,
}

/// What a run left behind.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Lake {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("lake")).unwrap();
        Self { root }
    }

    /// A path beside the warehouse.
    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A script beside the warehouse.
    fn script(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The binary on this warehouse, away from the user's own files.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alluvium"));
        command
            .current_dir(self.root.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .args(["-w", "lake", "--threads", "2"])
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command().args(arguments).output().unwrap())
    }

    fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command();
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that ends before it reads everything is not what these tests are about.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output of a run that must have ended well.
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        self.out
    }

    /// The first line of standard error of a run that must have failed.
    fn error(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.err.lines().next().unwrap_or_default()
    }
}

/// `text` with times replaced: they differ from run to run.
fn masked(text: &str) -> String {
    let masked = |line: &str| match (line.ends_with(" s)"), line.rfind([',', '('])) {
        (true, Some(at)) if line[at..].starts_with(',') => format!("{}, TIME)\n", &line[..at]),
        (true, Some(at)) => format!("{}(TIME)\n", &line[..at]),
        _ => format!("{line}\n"),
    };
    text.lines().map(masked).collect()
}
