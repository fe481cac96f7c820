//! Nesting without end is an error, never an overflow of the stack.

use crate::support::parse;

fn code(sql: &str) -> &'static str {
    parse(sql).err().map_or("", |e| e.code())
}

#[test]
fn deep_nesting_is_an_error() {
    let parens = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    let cases = format!("{}1{}", "CASE WHEN ".repeat(2000), " THEN 1 END".repeat(2000));
    let nots = format!("{}a", "NOT ".repeat(5000));
    let casts = format!("{}1{}", "CAST(".repeat(3000), " AS INT)".repeat(3000));
    let calls = format!("{}1{}", "f(".repeat(3000), ")".repeat(3000));
    let queries = format!("{}SELECT 1{}", "SELECT * FROM (".repeat(3000), ")".repeat(3000));
    let arrays = format!("{}1{}", "[".repeat(3000), "]".repeat(3000));
    let structs = format!("{}1{}", "{'a': ".repeat(3000), "}".repeat(3000));
    let types = format!("CAST(a AS {}INT{})", "ARRAY<".repeat(3000), ">".repeat(3000));
    let intervals = format!("{}'1'", "INTERVAL ".repeat(3000));
    let signs = format!("{}1", "- ".repeat(3000));
    let ors = vec!["a"; 40_000].join(" OR ");
    let chains = vec!["a"; 40_000].join("::INT + ");
    for expr in [
        &parens, &cases, &nots, &casts, &calls, &arrays, &structs, &types, &intervals, &signs, &ors, &chains,
    ] {
        assert_eq!(
            code(&format!("UPSERT INTO t KEYS (id) UPDATE WHEN {expr} USING s")),
            "54001"
        );
        assert_eq!(
            code(&format!("UPSERT INTO t KEYS (id) WITHIN ({expr}) USING s")),
            "54001"
        );
        assert_eq!(code(&format!("UPSERT INTO t KEYS (id) SELECT {expr}")), "54001");
        assert_eq!(
            code(&format!(
                "MERGE OVERWRITE INTO t WINDOW d FROM {expr} TO {expr} USING s"
            )),
            "54001"
        );
        assert_eq!(code(&format!("SELECT {expr}")), "54001");
    }
    assert_eq!(code(&format!("UPSERT INTO t KEYS (id) {queries}")), "54001");
    assert_eq!(code(&format!("UPSERT INTO t KEYS (id) USING ({queries})")), "54001");
    assert_eq!(
        code(&format!("WITH a AS ({queries}) UPSERT INTO t KEYS (id) USING a")),
        "54001"
    );
    assert_eq!(code(&format!("UPSERT INTO t USING {}s", "(".repeat(5000))), "54001");
    assert_eq!(code(&format!("UPSERT INTO t {}", "(".repeat(5000))), "54001");
    assert_eq!(
        code(&format!("SELECT * FROM {}t{}", "(".repeat(150), ")".repeat(150))),
        "54001"
    );
}

#[test]
fn long_chains_are_fine() {
    let sum = vec!["a"; 1000].join(" + ");
    let sql = format!("UPSERT INTO t KEYS (id) UPDATE WHEN {sum} > 0 USING s");
    assert!(parse(&sql).unwrap().to_string().ends_with("> 0 USING s"));
    let rows = vec!["(1, 'a')"; 20_000].join(", ");
    assert!(parse(&format!("UPSERT INTO t KEYS (id) VALUES {rows} RETURNING id")).is_ok());
}

#[test]
fn repeated_explain_is_an_error() {
    let explains = "EXPLAIN ".repeat(5000);
    assert_eq!(code(&format!("{explains} UPSERT INTO t KEYS (id) USING s")), "54001");
    assert_eq!(code(&format!("{explains} SELECT 1")), "54001");
}
