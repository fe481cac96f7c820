//! Where statements come from, and in which order they run.

use super::{Lake, masked};

#[test]
fn commands_and_files_run_in_the_order_given() {
    let lake = Lake::new();
    let (two, four) = (
        lake.script("two.sql", "SELECT 2 AS n;"),
        lake.script("four.sql", "SELECT 4 AS n"),
    );
    let arguments = [
        "--format",
        "json",
        "-c",
        "SELECT 1 AS n",
        "-f",
        &two,
        "-c",
        "SELECT 3 AS n;",
        "-f",
        &four,
    ];
    let out = lake.run(&arguments).ok();
    assert_eq!(out, "[{\"n\":1}]\n[{\"n\":2}]\n[{\"n\":3}]\n[{\"n\":4}]\n");
}

#[test]
fn a_command_may_hold_several_statements() {
    let sql = "SELECT 'a;b' AS t; SELECT 'it''s' AS t -- no; end\n; /* ; */ SELECT 3 AS t;;";
    let out = Lake::new().run(&["--format", "ndjson", "-c", sql]).ok();
    assert_eq!(out, "{\"t\":\"a;b\"}\n{\"t\":\"it's\"}\n{\"t\":3}\n");
}

#[test]
fn a_script_is_read_from_standard_input() {
    let lake = Lake::new();
    let script = "\u{feff}-- a comment\nSELECT 1 AS n;\n\nSELECT\n  2 AS n\n;\n";
    for arguments in [&["--format", "json"][..], &["--format", "json", "-f", "-"]] {
        assert_eq!(
            lake.run_with_input(arguments, script).ok(),
            "[{\"n\":1}]\n[{\"n\":2}]\n"
        );
    }
    assert_eq!(lake.run_with_input(&[], "").ok(), "");
    assert_eq!(lake.run_with_input(&[], "-- nothing\n ; ;").ok(), "");
}

#[test]
fn standard_input_takes_its_place_in_the_order() {
    let arguments = [
        "--format",
        "json",
        "-c",
        "SELECT 1 AS n",
        "-f",
        "-",
        "-c",
        "SELECT 3 AS n",
    ];
    let out = Lake::new().run_with_input(&arguments, "SELECT 2 AS n").ok();
    assert_eq!(out, "[{\"n\":1}]\n[{\"n\":2}]\n[{\"n\":3}]\n");
}

#[test]
fn statements_of_one_run_share_their_session() {
    let lake = Lake::new();
    let script = lake.script("view.sql", "CREATE VIEW v AS SELECT 7 AS n;");
    let out = lake.run(&["-f", &script, "-c", "SELECT n FROM v"]).ok();
    assert_eq!(masked(&out), "OK (TIME)\n n\n---\n 7\n(1 row, TIME)\n");
}

#[test]
fn settings_and_limits_reach_the_session() {
    let arguments = [
        "--memory-limit",
        "1GiB",
        "--batch-size",
        "77",
        "--set",
        "datafusion.execution.time_zone=+02:00",
        "--format",
        "csv",
        "-c",
        "SELECT value FROM information_schema.df_settings WHERE name IN \
         ('datafusion.execution.batch_size', 'datafusion.execution.target_partitions', 'datafusion.execution.time_zone') \
         ORDER BY name",
    ];
    assert_eq!(Lake::new().run(&arguments).ok(), "value\n77\n2\n+02:00\n");
}

#[test]
fn files_are_tables_by_their_path() {
    let lake = Lake::new();
    lake.script("cities.csv", "id,name\n1,Oslo\n2,Bergen\n");
    lake.script("cities.json", "{\"id\":3,\"name\":\"Tromsø\"}\n");
    let sql = "SELECT name FROM 'cities.csv' UNION ALL SELECT name FROM 'cities.json' ORDER BY name";
    assert_eq!(
        lake.run(&["--format", "csv", "-c", sql]).ok(),
        "name\nBergen\nOslo\nTromsø\n"
    );
}

#[test]
fn a_load_returns_its_counts_and_ddl_nothing() {
    let lake = Lake::new();
    let arguments = [
        "--format",
        "ndjson",
        "-c",
        "CREATE TABLE stock (sku BIGINT, qty BIGINT) USING DELTA",
        "-c",
        "UPSERT INTO stock KEYS (sku) VALUES (1, 10), (2, 20)",
        "-c",
        "INSERT INTO stock VALUES (3, 30)",
        "-c",
        "SELECT * FROM stock ORDER BY sku",
    ];
    let out = lake.run(&arguments).ok();
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["num_inserted_rows"], 2);
    assert_eq!(lines[0]["status"], "COMMITTED");
    assert_eq!(lines[1]["count"], 1);
    assert_eq!(
        lines[2..]
            .iter()
            .map(|l| l["qty"].as_i64().unwrap())
            .collect::<Vec<_>>(),
        [10, 20, 30]
    );
    // The next run finds the table by its name.
    assert_eq!(
        lake.run(&["--format", "csv", "-c", "SELECT count(*) AS n FROM stock"])
            .ok(),
        "n\n3\n"
    );
}
