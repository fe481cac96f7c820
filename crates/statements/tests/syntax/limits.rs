//! Nesting without end is an error, never an overflow of the stack.

use std::time::{Duration, Instant};

use crate::support::parse;

fn code(sql: &str) -> &'static str {
    parse(sql).err().map_or("", |e| e.code())
}

/// Expressions that are nested `n` deep, each in its own way.
fn nested(n: usize) -> Vec<String> {
    let around = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
    vec![
        around("(", "1", ")"),
        around("CASE WHEN ", "1", " THEN 1 END"),
        around("CASE WHEN a THEN b ELSE ", "1", " END"),
        around("NOT ", "a", ""),
        around("- ", "1", ""),
        around("INTERVAL ", "'1'", ""),
        around("CAST(", "1", " AS INT)"),
        around("TRIM(SUBSTRING(", "1", " FROM 1))"),
        around("f(", "1", ")"),
        around("f(a, NOT - ", "1", ")"),
        around("[", "1", "]"),
        around("a[", "1", "]"),
        around("{'a': ", "1", "}"),
        around("STRUCT(", "1", ")"),
        around("NOT (", "1", ")"),
        around("f(-", "1", ")"),
        around("EXISTS (SELECT ", "1", ")"),
        around("(SELECT * FROM (", "SELECT 1", "))"),
        around("a IN (SELECT * FROM (", "t", "))"),
        format!("CAST(a AS {})", around("ARRAY<", "INT", ">")),
        format!("CAST(a AS {})", around("STRUCT<a ", "INT", ">")),
    ]
}

fn statements(expr: &str) -> Vec<String> {
    vec![
        format!("UPSERT INTO t KEYS (id) UPDATE WHEN {expr} USING s"),
        format!("UPSERT INTO t KEYS (id) WITHIN ({expr}) USING s"),
        format!("UPSERT INTO t KEYS (id) SELECT {expr}"),
        format!("UPSERT INTO t KEYS (id) USING s RETURNING {expr}"),
        format!("MERGE OVERWRITE INTO t WINDOW d FROM {expr} TO {expr} USING s"),
        format!("SELECT {expr}"),
        format!("EXPLAIN SELECT {expr}"),
    ]
}

#[test]
fn deep_nesting_is_an_error() {
    for expr in nested(5000) {
        for sql in statements(&expr) {
            assert_eq!(code(&sql), "54001", "{}", &sql[..60]);
        }
    }
    for sql in [
        format!("UPSERT INTO t KEYS (id) USING ({}", "SELECT * FROM (".repeat(3000)),
        format!("WITH a AS ({}", "WITH a AS (".repeat(3000)),
        format!("UPSERT INTO t USING {}s", "(".repeat(5000)),
        format!("UPSERT INTO t {}", "(".repeat(5000)),
        format!("SELECT * FROM {}t{}", "(".repeat(5000), ")".repeat(5000)),
        "EXPLAIN ".repeat(5000) + "UPSERT INTO t KEYS (id) USING s",
        "EXPLAIN ".repeat(5000) + "SELECT 1",
    ] {
        assert_eq!(code(&sql), "54001", "{}", &sql[..60]);
    }
}

#[test]
fn nesting_within_the_limits_takes_neither_stack_nor_time() {
    for n in [8, 16, 30, 49, 60, 199] {
        for expr in nested(n) {
            // Complete, cut short, and with an error innermost: sqlparser goes back and tries again then.
            for expr in [
                expr.clone(),
                expr[..expr.len() / 2].to_owned(),
                expr.replace('1', "1 +"),
            ] {
                for sql in statements(&expr) {
                    let started = Instant::now();
                    let _ = parse(&sql);
                    assert!(started.elapsed() < Duration::from_secs(10), "{n}: {}", &sql[..60]);
                }
            }
        }
        for sql in [
            format!("SELECT * FROM {}t{}", "(".repeat(n), ")".repeat(n)),
            format!(
                "UPSERT INTO t KEYS (id) SELECT * FROM {}t{}",
                "(".repeat(n),
                ")".repeat(n)
            ),
            format!(
                "UPSERT INTO t KEYS (id) {}SELECT 1{}",
                "WITH a AS (".repeat(n),
                ") SELECT 1".repeat(n)
            ),
            "EXPLAIN ".repeat(n) + "SELECT 1",
            "PREPARE p AS ".repeat(n) + "SELECT 1",
        ] {
            let _ = parse(&sql);
        }
    }
}

#[test]
fn ordinary_depth_is_read() {
    let replaced = format!("{}a{}", "REPLACE(".repeat(30), ", 'x', 'y')".repeat(30));
    let parens = format!("{}a{}", "(".repeat(30), ")".repeat(30));
    let cases = format!("{}a{}", "CASE WHEN a THEN b ELSE ".repeat(20), " END".repeat(20));
    for expr in [&replaced, &parens, &cases] {
        for sql in statements(expr) {
            assert_eq!(code(&sql), "", "{sql}");
        }
    }
}

#[test]
fn long_chains_are_read_up_to_a_limit() {
    let update = |expr: &str| format!("UPSERT INTO t KEYS (id) UPDATE WHEN {expr} USING s");
    let sum = vec!["a"; 1000].join(" + ");
    assert!(parse(&update(&sum)).unwrap().to_string().ends_with("a USING s"));
    let ors = vec!["name = value"; 5000].join(" OR ");
    assert!(parse(&update(&ors)).unwrap().to_string().ends_with("value USING s"));
    let unions = vec!["SELECT 1"; 3000].join(" UNION ALL ");
    assert!(parse(&format!("UPSERT INTO t KEYS (id) {unions}")).is_ok());
    let rows = vec!["(1, -1, 'a' || 'b')"; 20_000].join(", ");
    assert!(parse(&format!("UPSERT INTO t KEYS (id) VALUES {rows} RETURNING id")).is_ok());
    for chain in [vec!["a"; 40_000].join(" OR "), vec!["a"; 40_000].join("::INT + ")] {
        assert_eq!(code(&update(&chain)), "54001");
    }
}
