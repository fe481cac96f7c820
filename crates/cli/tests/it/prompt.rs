//! The prompt on a terminal, where `script` is there to make one.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::{Command, Stdio};

use super::{Lake, Ran};

/// Types `keys` into the prompt; `None` where no terminal can be made.
fn typed(lake: &Lake, arguments: &str, keys: &str) -> Option<Ran> {
    let alluvium = env!("CARGO_BIN_EXE_alluvium");
    let child = Command::new("script")
        .args([
            "-qec",
            &format!("{alluvium} -w lake --threads 2 {arguments}"),
            "/dev/null",
        ])
        .current_dir(lake.root.path())
        .env("XDG_STATE_HOME", lake.path("state"))
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.ok()?;
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    Some(Ran::of(child.wait_with_output().unwrap()))
}

#[test]
fn an_error_leaves_the_prompt_running() {
    let lake = Lake::new();
    let keys = "SELECT * FROM nowhere;\nSELECT 40\n+ 2 AS answer;\n\\x\nSELECT 'x' AS v;\n\\q\n";
    let Some(ran) = typed(&lake, "-q", keys) else { return };
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let error = ran.out.find("ERROR 42P01").unwrap_or_else(|| panic!("{ran:?}"));
    let answer = ran.out.find("     42").unwrap_or_else(|| panic!("{ran:?}"));
    let vertical = ran.out.find("-[ ROW 1 ]").unwrap_or_else(|| panic!("{ran:?}"));
    assert!(error < answer && answer < vertical, "{ran:?}");
}

#[test]
fn a_table_is_described_in_the_words_that_create_it() {
    let lake = Lake::new();
    let keys = "CREATE TABLE t (id BIGINT NOT NULL, at TIMESTAMP, price DECIMAL(9,2), tags ARRAY<STRING>) USING DELTA;\n\
                \\d t\n\\d nowhere\n\\q\n";
    let Some(ran) = typed(&lake, "-q", keys) else { return };
    for (column, type_name, nullable) in [
        ("id", "BIGINT", "NO"),
        ("at", "TIMESTAMP", "YES"),
        ("price", "DECIMAL(9,2)", "YES"),
        ("tags", "ARRAY<STRING>", "YES"),
    ] {
        let words = |line: &str| {
            line.replace('|', " ")
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let found = ran.out.lines().any(|line| words(line) == [column, type_name, nullable]);
        assert!(found, "{column}: {ran:?}");
    }
    assert!(ran.out.contains("ERROR 42P01"), "{ran:?}");
}

#[test]
fn what_was_typed_is_kept_but_no_credentials() {
    let lake = Lake::new();
    let keys = "SELECT 1 AS kept;\nSELECT 'https://a.blob/x?sig=SECRETSIG' AS hidden;\n\\q\n";
    if typed(&lake, "-q", keys).is_none() {
        return;
    }
    let history = std::fs::read_to_string(lake.path("state/alluvium/history")).unwrap();
    assert!(
        history.contains("AS kept;") && !history.contains("SECRETSIG"),
        "{history}"
    );
}
