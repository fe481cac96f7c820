//! Exit codes and standard error.

use std::io::Read;
use std::process::Stdio;

use super::Lake;

#[test]
fn the_first_error_ends_the_run() {
    let lake = Lake::new();
    let ran = lake.run(&[
        "--format",
        "json",
        "-c",
        "SELECT 1 AS n",
        "-c",
        "SELECT * FROM nowhere",
        "-c",
        "SELECT 3 AS n",
    ]);
    assert_eq!(ran.out, "[{\"n\":1}]\n");
    assert!(ran.error().starts_with("ERROR 42P01: "), "{ran:?}");

    let script = "SELECT 1 AS n;\nSELECT * FROM nowhere;\nSELECT 3 AS n;\n";
    let file = lake.script("broken.sql", script);
    for ran in [
        lake.run(&["--format", "json", "-f", &file]),
        lake.run_with_input(&["--format", "json"], script),
    ] {
        assert_eq!(ran.out, "[{\"n\":1}]\n");
        assert!(ran.error().starts_with("ERROR 42P01: "), "{ran:?}");
    }
}

#[test]
fn a_syntax_error_does_not_hold_up_the_statements_before_it() {
    let script = "SELECT 1 AS n;\n\nSELECT 2 AS n;\nSELECT 3 +* 1;\nSELECT 4 AS n;";
    let ran = Lake::new().run_with_input(&["--format", "json"], script);
    assert_eq!(ran.out, "[{\"n\":1}]\n[{\"n\":2}]\n");
    assert!(ran.error().starts_with("ERROR 42601: "), "{ran:?}");
}

#[test]
fn positions_count_from_the_begin_of_the_file() {
    let lake = Lake::new();
    let file = lake.script("late.sql", "SELECT 1 AS n;\n-- note\nSELECT\n  2 +* 3 AS n;\n");
    let ran = lake.run(&["-q", "-f", &file]);
    assert!(ran.error().starts_with("ERROR 42601: "), "{ran:?}");
    assert!(ran.err.contains("\nLINE 4:   2 +* 3 AS n;\n"), "{ran:?}");
    assert!(ran.err.contains("\nCONTEXT: statement at line 4 of "), "{ran:?}");
}

#[test]
fn a_statement_without_position_is_found_by_its_line() {
    let lake = Lake::new();
    let file = lake.script(
        "divide.sql",
        "SELECT 1 AS n;\n\nSELECT\n  1 / (column1 - 1) FROM (VALUES (1));\n",
    );
    let ran = lake.run(&["-q", "-f", &file]);
    assert!(ran.error().starts_with("ERROR 22012: "), "{ran:?}");
    assert!(ran.err.contains("CONTEXT: statement at line 3 of "), "{ran:?}");
}

#[test]
fn an_open_quote_is_an_error_after_what_stands_before_it() {
    let ran = Lake::new().run_with_input(&["--format", "json"], "SELECT 1 AS n; SELECT 'open;\n");
    assert_eq!(ran.out, "[{\"n\":1}]\n");
    assert!(ran.error().starts_with("ERROR 42601: "), "{ran:?}");
}

#[test]
fn wrong_usage_has_its_own_code() {
    let lake = Lake::new();
    for arguments in [
        &["--format", "xml"][..],
        &["--nonsense"],
        &["stray"],
        &["--threads", "0"],
    ] {
        let ran = lake.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(!ran.err.is_empty());
    }
    let ran = lake.run(&["--set", "no.such.setting=1", "-c", "SELECT 1"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.starts_with("ERROR 22023: "), "{ran:?}");
}

#[test]
fn version_and_help_are_answers() {
    let lake = Lake::new();
    assert_eq!(
        lake.run(&["--version"]).ok(),
        format!("alluvium {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(lake.run(&["--help"]).ok().contains("Examples:"));
}

#[test]
fn a_missing_or_unreadable_file_is_an_error_when_its_turn_comes() {
    let lake = Lake::new();
    let ran = lake.run(&[
        "--format",
        "json",
        "-c",
        "SELECT 1 AS n",
        "-f",
        "missing.sql",
        "-c",
        "SELECT 3 AS n",
    ]);
    assert_eq!(ran.out, "[{\"n\":1}]\n");
    assert_eq!(ran.error(), "ERROR 58030: file \"missing.sql\" cannot be read");
    std::fs::write(lake.path("latin1.sql"), b"SELECT '\xe9'").unwrap();
    assert!(lake.run(&["-f", "latin1.sql"]).error().starts_with("ERROR 22P02: "));
}

#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    let lake = Lake::new();
    let sql = format!("SELECT {}1{};\nSELECT 2", "(".repeat(5_000), ")".repeat(5_000));
    let ran = lake.run_with_input(&[], &sql);
    assert!(ran.error().starts_with("ERROR "), "{:?}", ran.error());
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let sql = "SELECT value, 'some text to fill the pipe' AS t FROM generate_series(1, 200000)";
    let lake = Lake::new();
    let ended = |arguments: &[&str]| {
        let mut child = lake
            .command()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0_u8; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for format in ["table", "csv", "json", "ndjson", "vertical"] {
        assert_eq!(
            ended(&["--format", format, "-c", sql]),
            (Some(0), String::new()),
            "{format}"
        );
    }
    // Statements that did not run are not passed over in silence.
    let (code, err) = ended(&["-c", sql, "-c", "SELECT 1"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("ERROR 58030: standard output was closed\n"), "{err}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Lake::new()
        .command()
        .args(["-c", "SELECT 1"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        output
            .stderr
            .starts_with(b"ERROR 58030: standard output cannot be written\n")
    );
}
