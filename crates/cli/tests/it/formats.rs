//! What results look like.

use super::{Lake, masked};

const SQL: &str = "SELECT * FROM (VALUES \
    (1, 'Oslo', CAST(1.5 AS DECIMAL(9,2)), TIMESTAMP '2024-01-02 03:04:05', DATE '2024-01-02', CAST('NaN' AS DOUBLE)), \
    (20, NULL, NULL, NULL, NULL, 0.1)) AS t (id, name, amount, at, day, x) ORDER BY id";

fn shown(format: &str) -> String {
    masked(&Lake::new().run(&["--format", format, "-c", SQL]).ok())
}

#[test]
fn table_is_aligned_and_ends_with_row_count_and_time() {
    let expected = [
        " id | name | amount | at                  | day        |   x",
        "----+------+--------+---------------------+------------+-----",
        "  1 | Oslo |   1.50 | 2024-01-02T03:04:05 | 2024-01-02 | NaN",
        " 20 | NULL |   NULL | NULL                | NULL       | 0.1",
        "(2 rows, TIME)",
        "",
    ];
    assert_eq!(shown("table"), expected.join("\n"));
}

#[test]
fn csv_has_a_header_and_empty_fields_for_null() {
    assert_eq!(
        shown("csv"),
        "id,name,amount,at,day,x\n1,Oslo,1.50,2024-01-02T03:04:05,2024-01-02,NaN\n20,,,,,0.1\n"
    );
}

#[test]
fn json_is_one_line_per_result() {
    assert_eq!(
        shown("json"),
        "[{\"id\":1,\"name\":\"Oslo\",\"amount\":\"1.50\",\"at\":\"2024-01-02T03:04:05\",\"day\":\"2024-01-02\",\
         \"x\":\"NaN\"},{\"id\":20,\"name\":null,\"amount\":null,\"at\":null,\"day\":null,\"x\":0.1}]\n"
    );
    let lake = Lake::new();
    assert_eq!(
        lake.run(&["--format", "json", "-c", "SELECT 1 AS n WHERE false"]).ok(),
        "[]\n"
    );
    assert_eq!(
        lake.run(&["--format", "json", "-c", "CREATE VIEW v AS SELECT 1"]).ok(),
        ""
    );
}

#[test]
fn ndjson_is_one_line_per_row() {
    assert_eq!(shown("ndjson").lines().count(), 2);
}

#[test]
fn vertical_is_one_line_per_column() {
    let out = shown("vertical");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("-[ ROW 1 ]-"), "{out}");
    assert_eq!(lines[1..4], ["id     | 1", "name   | Oslo", "amount | 1.50"]);
    assert_eq!(lines.last(), Some(&"(2 rows, TIME)"));
}

#[test]
fn timestamps_with_a_zone_are_shown_in_utc() {
    let sql = "SELECT to_timestamp('2024-01-02T03:04:05.25Z') AT TIME ZONE 'UTC' AS at";
    let out = Lake::new().run(&["--format", "json", "-c", sql]).ok();
    assert_eq!(out, "[{\"at\":\"2024-01-02T03:04:05.250Z\"}]\n");
}

#[test]
fn nested_values_are_json() {
    let sql = "SELECT named_struct('a', 1, 'b', NULL) AS s, [1, NULL, 3] AS l, X'00ff' AS b";
    let out = Lake::new().run(&["--format", "json", "-c", sql]).ok();
    assert_eq!(out, "[{\"s\":{\"a\":1,\"b\":null},\"l\":[1,null,3],\"b\":\"00ff\"}]\n");
}

#[test]
fn quiet_leaves_only_rows() {
    let lake = Lake::new();
    let out = lake
        .run(&["-q", "-c", "CREATE VIEW v AS SELECT 1 AS n; SELECT * FROM v"])
        .ok();
    assert_eq!(out, " n\n---\n 1\n");
}

#[test]
fn pipes_get_no_control_characters() {
    let out = Lake::new()
        .run(&["-c", "EXPLAIN SELECT 1", "-c", "SELECT chr(27) AS e"])
        .ok();
    assert!(!out.contains(|c: char| c.is_control() && c != '\n'), "{out:?}");
}

#[test]
fn a_plan_keeps_its_lines() {
    let out = Lake::new().run(&["-c", "EXPLAIN SELECT 1 AS n"]).ok();
    assert!(out.lines().any(|line| line.contains("EmptyRelation")), "{out}");
    assert!(!out.contains("\\n"), "{out}");
}
