//! Ctrl-C in a script.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use super::Lake;

/// Sends Ctrl-C once the first statement has answered, while the second one still runs.
#[test]
fn a_running_statement_is_cancelled_and_the_code_is_130() {
    let endless =
        "SELECT sum(a.value * b.value % 7) FROM generate_series(1, 10000000) AS a, generate_series(1, 10000000) AS b";
    let lake = Lake::new();
    let mut child = lake
        .command()
        .args([
            "--format",
            "json",
            "-c",
            "SELECT 1 AS n",
            "-c",
            endless,
            "-c",
            "SELECT 3 AS n",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "[{\"n\":1}]\n");
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), rest.as_str()), (Some(130), ""));
    assert!(
        output.stderr.starts_with(b"ERROR 57014: "),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
