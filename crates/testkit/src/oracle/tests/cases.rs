//! The notation of the seed cases: `(1,Lund) (2,∅)`.

use crate::oracle::{Answer, Create, Scd2};
use crate::rows::diff;
use crate::values::{Column, ColumnType, Row, Table, Value};

/// Midnight of 2025-01-01.
pub const D0: i64 = 1_735_689_600_000_000 - DAY;
const DAY: i64 = 86_400_000_000;
/// 9999-12-31.
pub const HIGH: i64 = 253_402_214_400_000_000;

/// A day of March 2025, as in the cases.
pub fn day(n: i64) -> i64 {
    D0 + (59 + n) * DAY
}

/// A table of these column names (separated by commas) and rows.
pub fn table(columns: &str, rows: &str) -> Table {
    let rows = self::rows(rows);
    let column = |(i, name): (usize, &str)| {
        let ty = rows.iter().find_map(|row| type_of(&row[i])).unwrap_or(ColumnType::Text);
        Column::new(name, ty)
    };
    Table {
        columns: columns.split(',').enumerate().map(column).collect(),
        rows,
    }
}

fn rows(text: &str) -> Vec<Row> {
    let row = |row: &str| row.split(',').map(value).collect();
    text.split('(')
        .skip(1)
        .filter_map(|part| part.split(')').next())
        .map(row)
        .collect()
}

fn value(text: &str) -> Value {
    match text {
        "∅" => Value::Null,
        "T" => Value::Bool(true),
        "F" => Value::Bool(false),
        "9999-12-31" => Value::Ts(HIGH),
        _ if text.starts_with('\'') => Value::from(text.trim_matches('\'')),
        _ => number(text).unwrap_or_else(|| Value::from(text)),
    }
}

fn number(text: &str) -> Option<Value> {
    let time = || {
        let (day_number, clock) = text
            .strip_prefix('d')?
            .split_once(' ')
            .unwrap_or((text.strip_prefix('d')?, "00:00"));
        let clock: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
        let seconds = clock.iter().zip([3600.0, 60.0, 1.0]).map(|(a, b)| a * b).sum::<f64>();
        let micros: i64 = format!("{:.0}", seconds * 1e6).parse().ok()?;
        Some(Value::Ts(day(day_number.parse().ok()?) + micros))
    };
    let int = || text.parse().ok().map(Value::Int);
    let float = || text.parse().ok().map(Value::Float);
    int().or_else(float).or_else(time)
}

fn type_of(value: &Value) -> Option<ColumnType> {
    match value {
        Value::Null => None,
        Value::Int(_) => Some(ColumnType::Int),
        Value::Float(_) => Some(ColumnType::Float),
        Value::Text(_) => Some(ColumnType::Text),
        Value::Bool(_) => Some(ColumnType::Bool),
        Value::Ts(_) => Some(ColumnType::Ts),
        Value::Date(_) => Some(ColumnType::Date),
    }
}

/// The rows after a statement, or its SQLSTATE.
pub fn check(id: &str, answer: &Answer, expected: Result<&Table, &str>) {
    match (answer, expected) {
        (Ok(outcome), Ok(expected)) => {
            let actual = outcome.table.as_ref().unwrap_or_else(|| panic!("{id}: no table"));
            if let Some(diff) = diff(expected, actual) {
                panic!("{id}: {diff}");
            }
        }
        (Err(actual), Err(expected)) => assert_eq!(actual.0, expected, "{id}"),
        (actual, expected) => panic!("{id}: expected {expected:?}, got {actual:?}"),
    }
}

/// Runs a statement on the target, checks rows, then runs it again: same rows, and no second change if `stable`.
pub fn check_twice(
    id: &str,
    stable: bool,
    apply: impl Fn(Option<&Table>) -> Answer,
    before: Option<&Table>,
    expected: Result<&Table, &str>,
) {
    let first = apply(before);
    check(id, &first, expected);
    let Ok(first) = first else { return };
    let second = apply(first.table.as_ref()).unwrap();
    assert_eq!(
        second.table.map(|t| t.sorted_rows()),
        first.table.map(|t| t.sorted_rows()),
        "{id}: second run changes rows"
    );
    assert!(
        !stable || second.counts.affected() == 0,
        "{id}: second run counts changes"
    );
}

/// One load of an SCD2 case: its boundary's day, and its source, with its own column names before the rows if they are
/// not those of the case.
pub type Load = (i64, &'static str);

/// Runs loads of a statement that creates its table, each twice (the second time nothing may change), and compares the
/// columns of `after`. A failing last load gives its SQLSTATE.
pub fn check_loads(id: &str, spec: &Scd2, columns: &str, loads: &[Load], after: &str) {
    let mut spec = spec.clone();
    spec.common.create = Some(Create::default());
    let mut target: Option<Table> = None;
    for (n, (at, source)) in loads.iter().enumerate() {
        let source = with_columns(columns, source);
        let run = |target: Option<&Table>| spec.apply(target, &source, day(*at));
        let fails = after.starts_with(|c: char| c.is_ascii_digit()) && n + 1 == loads.len();
        match run(target.as_ref()) {
            Err(code) => return assert!(fails && code.0 == after, "{id}: load {} failed with {code:?}", n + 1),
            Ok(_) if fails => panic!("{id}: the last load should fail with {after}"),
            Ok(outcome) => target = outcome.table,
        }
        let again = run(target.as_ref()).unwrap();
        assert_eq!(
            again.table.map(|t| t.sorted_rows()),
            target.as_ref().map(Table::sorted_rows),
            "{id}: load again"
        );
        assert_eq!(again.counts.affected(), 0, "{id}: load again counts changes");
    }
    let expected = with_columns(columns, after);
    let actual = projected(&target.unwrap_or_else(|| panic!("{id}: no table")), &expected.names());
    if let Some(diff) = diff(&expected, &actual) {
        panic!("{id}: {diff}");
    }
}

/// `a,b (1,2)`, or `(1,2)` with the given columns.
pub fn with_columns(columns: &str, text: &str) -> Table {
    match text.split_once(' ') {
        Some((own, rows)) if !own.is_empty() && !own.starts_with('(') => table(own, rows),
        _ => table(columns, text),
    }
}

fn projected(table: &Table, names: &[String]) -> Table {
    let indices: Vec<usize> = names.iter().map(|name| table.index(name).unwrap()).collect();
    let columns = indices.iter().map(|&i| table.columns[i].clone()).collect();
    let rows = table
        .rows
        .iter()
        .map(|row| indices.iter().map(|&i| row[i].clone()).collect())
        .collect();
    Table { columns, rows }
}
