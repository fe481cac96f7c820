//! Clauses that several statements share, and the tables that go with them.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::rows::{RowsOptions, rows};
use super::schema::Schema;
use crate::oracle::{
    ColumnSet, Common, Cond, Create, Dedup, DeleteMarker, Expr, Keys, NullKeys, OnEmpty, Order, Unique,
};
use crate::values::{Column, ColumnType, Table, Value};

/// Which of the optional columns exist where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub sequence: bool,
    pub marker: bool,
    /// The target exists before the first batch.
    pub target: bool,
}

pub(super) fn stored() -> impl Strategy<Value = Stored> {
    (
        proptest::bool::weighted(0.8),
        any::<bool>(),
        proptest::bool::weighted(0.85),
    )
        .prop_map(|(sequence, marker, target)| Stored {
            sequence,
            marker,
            target,
        })
}

pub(super) fn null_keys() -> impl Strategy<Value = NullKeys> {
    prop_oneof![4 => Just(NullKeys::Error), 1 => Just(NullKeys::Distinct), 1 => Just(NullKeys::NotDistinct)]
}

/// `KEYS` over all key columns, sometimes with a `WITHIN` that uses only the first of them.
pub(super) fn keys(schema: &Schema) -> BoxedStrategy<Keys> {
    let columns = schema.key_names();
    let integer = schema
        .keys
        .first()
        .filter(|c| c.ty == ColumnType::Int)
        .map(|c| c.name.clone());
    let within = match integer {
        Some(column) => weighted(0.15, Just(Cond::gt_eq(&column, 1))).boxed(),
        None => Just(None).boxed(),
    };
    (null_keys(), within)
        .prop_map(move |(nulls, within)| Keys {
            columns: columns.clone(),
            nulls,
            within,
        })
        .boxed()
}

pub(super) fn order(schema: &Schema) -> BoxedStrategy<Vec<Order>> {
    let columns = [schema.value_names(), vec!["seq".to_owned()]].concat();
    let item = (select(columns), any::<bool>(), proptest::bool::weighted(0.2));
    let item = item.prop_map(|(column, descending, nulls_first)| Order {
        column,
        descending,
        nulls_first,
    });
    vec(item, 0..=2).boxed()
}

/// `DEDUPLICATE` by key, or no clause.
pub(super) fn unique(schema: &Schema) -> BoxedStrategy<Unique> {
    let dedup = order(schema).prop_map(|by| Unique::Dedup(Dedup { by, ..Dedup::default() }));
    prop_oneof![2 => Just(Unique::Check), 1 => dedup].boxed()
}

pub(super) fn on_empty() -> impl Strategy<Value = OnEmpty> {
    prop_oneof![4 => Just(OnEmpty::Skip), 2 => Just(OnEmpty::Apply), 1 => Just(OnEmpty::Error)]
}

/// The marker column, or a condition on a value.
pub(super) fn marker() -> impl Strategy<Value = Option<DeleteMarker>> {
    let column = Just(DeleteMarker::Column("gone".to_owned()));
    let when = Just(DeleteMarker::When(Cond::eq("v", "b")));
    weighted(0.5, prop_oneof![2 => column, 1 => when])
}

/// The clauses every statement has, with one set of keys.
pub(super) fn common(schema: &Schema, by_sequence: bool) -> BoxedStrategy<Common> {
    let values = schema.value_names();
    let except = weighted(0.15, select(values).prop_map(|name| ColumnSet::all_except(&[&name])));
    let sequence = weighted(0.4, Just("seq".to_owned())).prop_map(move |name| name.filter(|_| by_sequence));
    (
        keys(schema),
        sequence,
        unique(schema),
        on_empty(),
        except,
        proptest::bool::weighted(0.1),
    )
        .prop_map(|(keys, sequence, unique, on_empty, columns, no_compare)| Common {
            keys: vec![keys],
            unique: if sequence.is_some() { Unique::Check } else { unique },
            sequence: sequence.into_iter().collect(),
            columns,
            on_empty,
            no_compare,
            ..Common::default()
        })
        .boxed()
}

/// A condition over two rows: the source's `n` against the target's.
pub(super) fn newer() -> Cond {
    Cond::GtEq(Expr::Source("n".to_owned()), Expr::Target("n".to_owned()))
}

/// The target and one to three batches for these clauses. Duplicates in the source are rare where they are an error.
pub(super) fn tables(
    schema: &Schema,
    common: &Common,
    stored: Stored,
    target_columns: Vec<Column>,
) -> BoxedStrategy<(Option<Table>, Vec<Table>)> {
    let rivals = !common.sequence.is_empty() || common.unique != Unique::Check;
    let null_keys = common.keys.iter().any(|keys| keys.nulls != NullKeys::Error);
    let many = RowsOptions {
        most: 8,
        duplicates: true,
        null_keys,
    };
    let single = RowsOptions {
        duplicates: false,
        ..many
    };
    let batch = |options| rows(schema, schema.columns(true, true), options);
    let source = prop_oneof![
        if rivals { 6 } else { 1 } => batch(many),
        8 => batch(single),
        1 => batch(RowsOptions { null_keys: true, ..single }),
    ];
    let within = common.keys.iter().find_map(|keys| keys.within.clone());
    let source = source.prop_map(move |table| inside(table, within.as_ref()));
    let target = rows(
        schema,
        target_columns,
        RowsOptions {
            most: 10,
            duplicates: false,
            null_keys,
        },
    );
    let target = target.prop_map(move |table| stored.target.then_some(table));
    (target, vec(source, 1..=3)).boxed()
}

/// Most statements admit only rows inside `WITHIN`: the others go, but for a batch of one row.
fn inside(mut table: Table, within: Option<&Cond>) -> Table {
    if let (Some(within), true) = (within, table.rows.len() > 1) {
        let all = table.clone();
        table
            .rows
            .retain(|row| within.holds(crate::oracle::expr::Scope::source(&all, row)));
    }
    table
}

/// `CREATE IF NOT EXISTS` where there is no target.
pub(super) fn creating(common: Common, stored: Stored) -> Common {
    Common {
        create: (!stored.target).then(Create::default),
        ..common
    }
}

/// The columns of an existing target.
pub(super) fn target_columns(schema: &Schema, stored: Stored) -> Vec<Column> {
    schema.columns(stored.sequence, stored.marker)
}

/// Without a stored sequence the source's must not land.
pub(super) fn landing(common: &mut Common, stored: Stored, marker: Option<&DeleteMarker>) {
    let mut except: Vec<String> = match &common.columns {
        Some(ColumnSet::AllExcept(columns)) => columns.clone(),
        _ => Vec::new(),
    };
    if !stored.sequence {
        except.push("seq".to_owned());
    }
    let only_marks = matches!(marker, Some(DeleteMarker::Column(_)));
    if !stored.marker && !only_marks {
        except.push("gone".to_owned());
    }
    common.columns = (!except.is_empty()).then_some(ColumnSet::AllExcept(except));
}

/// A literal of a type that fits a column, for assignments.
pub(super) fn text(value: &str) -> Expr {
    Expr::lit(Value::from(value))
}
