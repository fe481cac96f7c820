//! `KEYS`: the columns that identify a row, `WITHIN`, and the join of the source with the target's stored keys.

use alluvium_core::syntax::{KeyNulls, Keys};
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::checked_cast::sql_type_name;
use alluvium_exec::key_bits::key_bits;
use alluvium_exec::matching::{Keep, MatchNode};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, JoinType, NullEquality, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::Spanned;
use datafusion::sql::sqlparser::tokenizer::Span;

use super::columns::{Columns, find};
use super::expr::{bind_condition, col, join_key};
use super::source::{SourceRows, ident_name};
use super::target::TargetTable;

/// A resolved `KEYS` clause.
#[derive(Debug, Clone)]
pub struct KeySet {
    /// The key columns; they are in source and target.
    pub columns: Vec<String>,
    /// What a NULL in a key means.
    pub nulls: KeyNulls,
    /// `WITHIN`, if written.
    pub within: Option<Within>,
    /// Whether rows are matched in the order of the key, where the source is not to be held in memory.
    pub sorted: bool,
}

/// `WITHIN (predicate)` on both sides of the load.
#[derive(Debug, Clone)]
pub struct Within {
    /// Over stored rows.
    pub of_target: Expr,
    /// The same over source rows.
    pub of_source: Expr,
    /// Whether it uses key columns only, so that a row outside cannot have a key inside.
    pub keys_only: bool,
    /// The predicate as written.
    pub text: String,
}

impl KeySet {
    /// Checks that every key column is in source and target, lands, and can be compared.
    pub fn resolve(
        state: &SessionState,
        keys: &Keys,
        source: &SourceRows,
        table: &TargetTable,
        columns: &Columns,
    ) -> Result<Self> {
        let target_names: Vec<String> = columns.schema.fields().iter().map(|f| f.name().clone()).collect();
        let mut names = Vec::with_capacity(keys.columns.len());
        for ident in &keys.columns {
            let name = find(state, ident, &source.names(), "the source")?;
            find(state, ident, &target_names, &format!("table \"{}\"", table.name))?;
            if names.contains(&name) {
                return Err(LoadError::new(
                    SqlState::DuplicateColumn,
                    format!("key column \"{name}\" is listed twice"),
                )
                .hint("List each key column once.")
                .at(ident.span));
            }
            if !columns.lands(&name) {
                return Err(
                    LoadError::new(SqlState::Syntax, format!("COLUMNS leaves out key column \"{name}\""))
                        .hint("Add it to COLUMNS: an inserted row needs its key.")
                        .at(ident.span),
                );
            }
            check_comparable(&name, columns, ident.span)?;
            names.push(name);
        }
        let within = keys
            .within
            .as_ref()
            .map(|predicate| Within::resolve(state, predicate, &names, source, table, columns));
        Ok(Self {
            columns: names,
            nulls: keys.nulls,
            within: within.transpose()?,
            sorted: in_key_order(state),
        })
    }

    /// Whether NULL keys are one key.
    pub fn nulls_equal(&self) -> bool {
        self.nulls == KeyNulls::NotDistinct
    }
}

fn check_comparable(name: &str, columns: &Columns, span: Span) -> Result<()> {
    match columns.target_type(name) {
        Some(nested) if nested.is_nested() => Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!(
                "key column \"{name}\" has type {}, which cannot be a key",
                sql_type_name(nested)
            ),
        )
        .hint("Use columns of plain types as the key.")
        .at(span)),
        _ => Ok(()),
    }
}

impl Within {
    fn resolve(
        state: &SessionState,
        predicate: &datafusion::sql::sqlparser::ast::Expr,
        keys: &[String],
        source: &SourceRows,
        table: &TargetTable,
        columns: &Columns,
    ) -> Result<Self> {
        let schema = table.scan(&columns.schema)?;
        let of_target = bind_condition(state, "WITHIN", predicate, schema.schema())?;
        let used = columns_of(&of_target)?;
        if of_target.is_volatile() {
            return Err(LoadError::new(SqlState::Syntax, "WITHIN cannot be volatile")
                .hint("It says which rows a load is about: use columns, literals and now().")
                .at(predicate.span()));
        }
        let given = source.names();
        if let Some(missing) = used.iter().find(|name| !given.contains(name)) {
            return Err(LoadError::new(
                SqlState::UndefinedColumn,
                format!("column \"{missing}\" of WITHIN does not exist in the source"),
            )
            .hint("WITHIN is checked on every source row, so the source needs its columns.")
            .at(predicate.span()));
        }
        Ok(Self {
            of_source: requalified(of_target.clone(), &source.alias)?,
            keys_only: used.iter().all(|name| keys.contains(name)),
            of_target,
            text: predicate.to_string(),
        })
    }
}

/// Whether joins sort.
pub(crate) fn in_key_order(state: &SessionState) -> bool {
    !state.config_options().optimizer.prefer_hash_join
}

/// What rows are matched by instead of `key`, where its values cannot be compared as they are.
pub(crate) fn matched_as(key: &Expr, data_type: &DataType, sorted: bool) -> Option<Expr> {
    match sorted {
        true => key_bits(key, data_type),
        false => data_type.is_floating().then(|| join_key(key.clone(), data_type)),
    }
}

/// The names of the columns in `expr`.
pub(crate) fn columns_of(expr: &Expr) -> Result<Vec<String>> {
    let mut names = Vec::new();
    expr.apply(|e| {
        if let Expr::Column(column) = e {
            names.push(column.name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}

/// `expr` with every column taken from `relation`.
pub(crate) fn requalified(expr: Expr, relation: &TableReference) -> Result<Expr> {
    let moved = expr.transform(|e| match e {
        Expr::Column(column) => Ok(Transformed::yes(col(relation, &column.name))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(moved.data)
}

/// Joins source rows (left, the build side) with stored rows (right) on the key columns.
pub struct KeyJoin<'a> {
    /// The key.
    pub keys: &'a KeySet,
    /// The key columns' types.
    pub columns: &'a Columns,
    /// The source's alias.
    pub source: &'a TableReference,
    /// The target's alias.
    pub target: &'a TableReference,
    /// Left or full.
    pub join_type: JoinType,
    /// A further condition for a match.
    pub filter: Option<Expr>,
}

impl KeyJoin<'_> {
    /// Builds the join.
    pub fn build(self, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlanBuilder> {
        let (left, left_keys) = self.side(left, self.source, "s")?;
        let (right, right_keys) = self.side(right, self.target, "t")?;
        let null_equality = match self.keys.nulls_equal() {
            true => NullEquality::NullEqualsNull,
            false => NullEquality::NullEqualsNothing,
        };
        let keys = (left_keys, right_keys);
        Ok(LogicalPlanBuilder::from(left).join_detailed(right, self.join_type, keys, self.filter, null_equality)?)
    }

    /// The same left join as a match, which is faster, where the source may be held in memory and the keys are of the same
    /// types.
    pub fn matched(self, state: &SessionState, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
        let keep = match self.join_type {
            JoinType::Left => Keep::Pairs,
            JoinType::LeftMark => Keep::Mark,
            _ => return Ok(self.build(left, right)?.build()?),
        };
        let (source, ours) = self.side(left.clone(), self.source, "s")?;
        let (stored, theirs) = self.side(right.clone(), self.target, "t")?;
        let on: Vec<(Column, Column)> = ours.into_iter().zip(theirs).collect();
        let mut alike = self.filter.is_none() && state.config_options().optimizer.prefer_hash_join;
        for (ours, theirs) in &on {
            let types = [
                source.schema().field_from_column(ours)?.data_type(),
                stored.schema().field_from_column(theirs)?.data_type(),
            ];
            alike &= types[0] == types[1];
        }
        match alike {
            true => Ok(MatchNode::try_new(source, stored, on, keep, self.keys.nulls_equal())?.into_plan()),
            false => Ok(self.build(left, right)?.build()?),
        }
    }

    /// Float keys are joined on a column of their own, in which equal numbers are equal bits; for a merge join there are
    /// more such types.
    fn side(&self, plan: LogicalPlan, relation: &TableReference, tag: &str) -> Result<(LogicalPlan, Vec<Column>)> {
        let mut exprs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let plain = exprs.len();
        let mut keys = Vec::new();
        for (i, name) in self.keys.columns.iter().enumerate() {
            let key = col(relation, name);
            let data_type = self.columns.target_type(name);
            let own = data_type.and_then(|data_type| matched_as(&key, data_type, self.keys.sorted));
            let joined = match own {
                Some(own) => {
                    let joined = format!("__load_key_{tag}{i}");
                    // Under the relation's own name: a mark join takes the name of its mark from there. An earlier join
                    // may have left it there.
                    if !plan.schema().has_column(&Column::new(Some(relation.clone()), &joined)) {
                        exprs.push(own.alias_qualified(Some(relation.clone()), &joined));
                    }
                    joined
                }
                None => name.clone(),
            };
            keys.push(Column::new(Some(relation.clone()), joined));
        }
        let plan = match exprs.len() > plain {
            true => LogicalPlanBuilder::from(plan).project(exprs)?.build()?,
            false => plan,
        };
        Ok((plan, keys))
    }
}

/// The names of an identifier list among the source's columns.
pub(crate) fn source_columns(
    state: &SessionState,
    idents: &[datafusion::sql::sqlparser::ast::Ident],
    source: &SourceRows,
) -> Result<Vec<String>> {
    let names = source.names();
    idents
        .iter()
        .map(|ident| find(state, ident, &names, "the source"))
        .collect()
}

/// The name of a clause's expression when it is nothing but a column.
pub(crate) fn plain_column(state: &SessionState, expr: &datafusion::sql::sqlparser::ast::Expr) -> Option<String> {
    use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
    match expr {
        SqlExpr::Identifier(ident) => Some(ident_name(state, ident)),
        SqlExpr::CompoundIdentifier(parts) => parts.last().map(|ident| ident_name(state, ident)),
        SqlExpr::Nested(inner) => plain_column(state, inner),
        _ => None,
    }
}
