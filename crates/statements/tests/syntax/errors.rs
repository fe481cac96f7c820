//! Mistakes, and what is said about them. The texts stand in `errors.txt`: a statement after `> `, then its report.

use crate::support::error;

const CASES: &str = include_str!("errors.txt");

#[test]
fn mistakes_are_reported_with_place_and_way_out() {
    let cases: Vec<&str> = CASES.trim().split("\n\n").collect();
    assert!(cases.len() > 80);
    for case in cases {
        let (sql, expected) = case.strip_prefix("> ").unwrap().split_once('\n').unwrap();
        assert_eq!(error(sql), expected, "{sql}");
    }
}

#[test]
fn positions_count_lines_and_characters_of_the_whole_text() {
    assert_eq!(
        error("-- ünïcode\nUPSERT INTO t /* ä\n */ USING \"ä€\" KEYS (id)\n\tUPDATE SET"),
        "ERROR 42601: expected a name, found end of statement\nLINE 4: \tUPDATE SET\n        \t       ^^^"
    );
    assert_eq!(
        error("UPSERT INTO t USING \"ä€😀\" KEYS id"),
        "ERROR 42601: expected \"(\", found \"id\"\n\
         LINE 1: UPSERT INTO t USING \"ä€😀\" KEYS id\n                                       ^^"
    );
}

#[test]
fn a_secret_in_a_string_is_not_repeated() {
    let shown = error("UPSERT INTO t USING s KEYS 'password'");
    assert_eq!(shown, "ERROR 42601: expected \"(\", found a string");
}
