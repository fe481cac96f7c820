//! What a text means, where the printed form would not show a mistake.

use alluvium_core::syntax::{ColumnSet, Dedup, KeyNulls, OnEmpty, SourceRelation};
use alluvium_statements::merge_overwrite::syntax::{OverwriteClauses, WindowBound, WindowKind};
use alluvium_statements::scd2::syntax::{RetireAction, Scd2Clauses};
use alluvium_statements::upsert::syntax::{UpdateColumns, UpsertClauses};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::support::load;

#[test]
fn deduplicate_on_is_told_from_on_empty_source() {
    let found = load::<UpsertClauses>("UPSERT INTO t KEYS (id) DEDUPLICATE ON EMPTY SOURCE APPLY USING s");
    assert_eq!(found.common.on_empty, Some(OnEmpty::Apply));
    assert!(matches!(found.common.dedup, Some(Dedup::Deduplicate { on: None, .. })));
    let found = load::<UpsertClauses>("UPSERT INTO t KEYS (id) DEDUPLICATE ON (empty) USING s");
    assert!(matches!(
        found.common.dedup,
        Some(Dedup::Deduplicate { on: Some(_), .. })
    ));
}

#[test]
fn ignore_null_updates_on_is_told_from_on_empty_source() {
    let found = load::<UpsertClauses>("UPSERT INTO t KEYS (id) IGNORE NULL UPDATES ON EMPTY SOURCE ERROR USING s");
    assert_eq!(found.clauses.ignore_nulls.unwrap().on, None);
    let found = load::<UpsertClauses>("UPSERT INTO t KEYS (id) IGNORE NULL UPDATES ON * USING s");
    assert_eq!(
        found.clauses.ignore_nulls.unwrap().on,
        Some(ColumnSet::AllExcept(vec![]))
    );
}

#[test]
fn a_bound_ends_before_the_next_clause() {
    let found =
        load::<OverwriteClauses>("MERGE OVERWRITE INTO t WINDOW d BETWEEN a AND b ON OUTSIDE WINDOW INSERT USING s");
    let WindowKind::Range {
        column,
        from,
        to,
        closed,
    } = found.clauses.window.unwrap().kind
    else {
        panic!("not a range")
    };
    assert_eq!(column.value, "d");
    assert!(closed);
    assert!(
        matches!((from, to), (WindowBound::Expr(a), WindowBound::Expr(b)) if a.to_string() == "a" && b.to_string() == "b")
    );
}

#[test]
fn a_column_of_the_source_is_not_the_word_source() {
    let found = load::<OverwriteClauses>("MERGE OVERWRITE INTO t WINDOW d FROM source.a TO source.b USING s");
    let WindowKind::Range { from, to, closed, .. } = found.clauses.window.unwrap().kind else {
        panic!("not a range")
    };
    assert!(!closed && from != WindowBound::Source && to != WindowBound::Source);
}

#[test]
fn a_delete_may_keep_a_record() {
    let found = load::<Scd2Clauses>("SCD2 MERGE INTO t KEYS (k) APPLY AS DELETE WHEN a = 1 THEN NEW RECORD USING s");
    assert_eq!(found.clauses.delete_then, RetireAction::NewRecord);
    assert_eq!(found.clauses.delete_when.unwrap().expr.to_string(), "a = 1");
}

#[test]
fn a_quoted_path_is_a_source() {
    let found = load::<UpsertClauses>("UPSERT INTO t USING 'a b.csv' s KEYS (id)");
    let SourceRelation::Using(factor) = found.source.relation else {
        panic!("not a table")
    };
    let TableFactor::Table { name, .. } = *factor else {
        panic!("not a table")
    };
    assert_eq!(name.to_string(), "'a b.csv'");
    assert_eq!(found.source.alias.unwrap().value, "s");
}

#[test]
fn positions_are_those_of_the_text() {
    let sql = "UPSERT INTO t\n  USING s\n  KEYS (a,\n  b) WITHIN (a > 1) UPDATE SET v = 1";
    let found = load::<UpsertClauses>(sql);
    let keys = found.common.keys.unwrap();
    assert_eq!(keys.nulls, KeyNulls::Error);
    assert_eq!((keys.span.start.line, keys.span.start.column), (3, 3));
    assert_eq!((keys.span.end.line, keys.span.end.column), (4, 20));
    assert_eq!((found.span.end.line, found.span.end.column), (4, 37));
    let Some(UpdateColumns::Set(assignments)) = found.clauses.update else {
        panic!("no assignments")
    };
    assert_eq!(assignments[0].column.span.start.column, 32);
    assert_eq!(found.source.span.start.line, 2);
}
