//! Several statements in one text.

use alluvium_core::report;
use alluvium_core::script::is_complete;

use crate::support::{error, script};

#[test]
fn an_error_stands_where_its_statement_would() {
    let sql = "SELECT 1;\nUPSERT INTO t KEYS (id) USING s;\n\nUPSERT INTO t KEYS (id) FROM s;\nSELECT 3";
    let items = script(sql);
    assert_eq!(items.len(), 3);
    assert!(items[0].is_ok() && items[1].is_ok());
    let rendered = report::render(items[2].as_ref().unwrap_err(), sql);
    assert!(
        rendered.contains("LINE 4: UPSERT INTO t KEYS (id) FROM s;"),
        "{rendered}"
    );
    assert!(rendered.contains("HINT: Write USING before the source."), "{rendered}");
}

#[test]
fn a_string_without_end_leaves_the_statements_before_it() {
    let items = script("SELECT 1; UPSERT INTO t KEYS (id) COMMENT 'a USING s");
    assert_eq!(items.len(), 2);
    assert_eq!(items[1].as_ref().unwrap_err().code(), "42601");
}

#[test]
fn the_text_of_a_statement_is_where_its_range_says() {
    let sql = "SELECT 'ä€😀';\r\n\tUPSERT INTO t\r\n KEYS (id) USING s ; SELECT 2";
    for item in script(sql) {
        let item = item.unwrap();
        assert_eq!(&sql[item.range.clone()], item.text);
    }
    assert_eq!(
        script(sql)[1].as_ref().unwrap().text,
        "UPSERT INTO t\r\n KEYS (id) USING s"
    );
}

#[test]
fn two_statements_need_a_semicolon_between() {
    assert_eq!(
        error("SELECT 1 UPSERT INTO t KEYS (id) USING s"),
        "ERROR 42601: expected end of statement, found \"KEYS\"\n\
         LINE 1: SELECT 1 UPSERT INTO t KEYS (id) USING s\n                               ^^^^"
    );
}

#[test]
fn a_prompt_waits_for_the_semicolon() {
    for sql in [
        "",
        "  \n",
        "-- only a comment",
        "SELECT 1;",
        "SELECT 1; -- done",
        "SELECT ';';",
    ] {
        assert!(is_complete(sql), "{sql}");
    }
    for sql in [
        "SELECT 1",
        "SELECT ';",
        "SELECT \";",
        "SELECT 1 /* ;",
        "SELECT 1; SELECT",
        "-- c\nSELECT",
        "SELECT $$;",
    ] {
        assert!(!is_complete(sql), "{sql}");
    }
}

#[test]
fn the_examples_of_the_help_texts_are_statements() {
    for help in [
        include_str!("../../src/upsert/README.md"),
        include_str!("../../src/insert_only/README.md"),
        include_str!("../../src/merge_overwrite/README.md"),
        include_str!("../../src/scd2/README.md"),
    ] {
        let example = help.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
        // The DDL of the examples is a command of its own, which this registry does not know.
        let loads: Vec<&str> = example
            .split("\n\n")
            .filter(|part| !part.starts_with("CREATE TABLE"))
            .collect();
        assert!(script(&loads.join("\n")).iter().all(Result::is_ok), "{example}");
    }
}
