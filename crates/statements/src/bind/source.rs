//! The rows to load: planned once, named, and cast to the target's types before anything looks at them.

use std::collections::HashMap;

use alluvium_core::syntax::{Source, SourceRelation, Target};
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_exec::columns as internal;
use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::sql::sqlparser::ast::{
    GroupByExpr, Ident, Query, Select, SelectFlavor, SelectItem, SetExpr, TableFactor, TableWithJoins,
    WildcardAdditionalOptions, helpers::attached_token::AttachedToken,
};

use super::columns::Columns;
use super::expr::col;
use super::target::{TargetTable, pin_source};
use crate::preparing::plan_query;

/// The planned source.
#[derive(Debug, Clone)]
pub struct SourceRows {
    /// How clauses call its columns: the alias, or `source`.
    pub alias: TableReference,
    /// The rows, under the alias.
    pub plan: LogicalPlan,
    /// The alias's or relation's place in the text.
    pub span: datafusion::sql::sqlparser::tokenizer::Span,
}

/// An identifier as DataFusion reads it: unquoted names in lower case, unless the session says otherwise.
pub(crate) fn ident_name(state: &SessionState, ident: &Ident) -> String {
    match ident.quote_style.is_none() && state.config_options().sql_parser.enable_ident_normalization {
        true => ident.value.to_ascii_lowercase(),
        false => ident.value.clone(),
    }
}

impl SourceRows {
    /// Plans the source's query and gives its columns their names.
    pub async fn resolve(state: &SessionState, source: &Source, target: &Target, table: &TargetTable) -> Result<Self> {
        let by_position = !target.columns.is_empty() || is_values(source);
        let plan = plan_query(state, query_of(source))
            .await
            .map_err(|e| LoadError::from(e).at_if_unset(source.span))?;
        let plan = match &table.base {
            Some(base) => pin_source(plan, base)?,
            None => plan,
        };
        let plan = coerced(state, plan).map_err(|e| e.at_if_unset(source.span))?;
        let names = match by_position {
            true => positional_names(state, &plan, target, table, source)?,
            false => plan.schema().fields().iter().map(|f| f.name().clone()).collect(),
        };
        check_names(&names, source)?;
        let alias = match &source.alias {
            Some(alias) => TableReference::bare(ident_name(state, alias)),
            None => TableReference::bare("source"),
        };
        if alias == table.alias {
            return Err(LoadError::new(
                SqlState::Syntax,
                format!("source and target are both called \"{alias}\""),
            )
            .hint("Give one of them another alias.")
            .at(source.span));
        }
        let exprs = plan
            .schema()
            .columns()
            .into_iter()
            .zip(&names)
            .map(|(column, name)| Expr::Column(column).alias(name));
        let exprs: Vec<_> = exprs.collect();
        let plan = LogicalPlanBuilder::from(plan)
            .project(exprs)?
            .alias(alias.clone())?
            .build()?;
        Ok(Self {
            alias,
            plan,
            span: source.span,
        })
    }

    /// The same rows, with every column that lands in the target cast to the target's type.
    pub fn cast(&self, columns: &Columns) -> Result<LogicalPlan> {
        let schema = self.plan.schema();
        let mut exprs = Vec::with_capacity(schema.fields().len());
        for (_, field) in schema.iter() {
            let name = field.name();
            let value = col(&self.alias, name);
            let value = match columns.target_type(name) {
                Some(to) => {
                    let from = value.get_type(schema)?;
                    alluvium_exec::checked_cast::check_castable(name, &from, to)
                        .map_err(|e| e.at_if_unset(self.span))?;
                    alluvium_exec::checked_cast::checked_cast(value, name, &from, to)
                }
                None => value,
            };
            exprs.push(value.alias_qualified(Some(self.alias.clone()), name));
        }
        Ok(LogicalPlanBuilder::from(self.plan.clone()).project(exprs)?.build()?)
    }

    /// The source's column names in order.
    pub fn names(&self) -> Vec<String> {
        self.plan.schema().fields().iter().map(|f| f.name().clone()).collect()
    }
}

/// `plan` with the types it will have when it runs. A `UNION` has those of its first branch before its branches are made
/// to agree, and casts to the target's types would be left out where the first branch happens to have them.
fn coerced(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(TypeCoercion::new().analyze(plan, state.config_options())?)
}

fn is_values(source: &Source) -> bool {
    match &source.relation {
        SourceRelation::Trailing(query) => matches!(query.body.as_ref(), SetExpr::Values(_)),
        SourceRelation::Using(_) => false,
    }
}

/// The source as a query: `SELECT *` from what `USING` names, under the statement's own `WITH`.
fn query_of(source: &Source) -> Query {
    let mut query = match &source.relation {
        SourceRelation::Trailing(query) => query.as_ref().clone(),
        SourceRelation::Using(factor) => match factor.as_ref() {
            TableFactor::Derived { subquery, .. } => subquery.as_ref().clone(),
            factor => select_all(factor.clone()),
        },
    };
    match (&source.with, &mut query.with) {
        (Some(with), None) => query.with = Some(with.clone()),
        (Some(outer), Some(inner)) => {
            let mut tables = outer.cte_tables.clone();
            tables.append(&mut inner.cte_tables);
            inner.cte_tables = tables;
            inner.recursive |= outer.recursive;
        }
        (None, _) => (),
    }
    query
}

fn select_all(factor: TableFactor) -> Query {
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins {
            relation: factor,
            joins: Vec::new(),
        }],
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// The names of a source that is matched by position: the target's column list, or the table's columns.
fn positional_names(
    state: &SessionState,
    plan: &LogicalPlan,
    target: &Target,
    table: &TargetTable,
    source: &Source,
) -> Result<Vec<String>> {
    let names: Vec<String> = match target.columns.is_empty() {
        false => target.columns.iter().map(|c| ident_name(state, c)).collect(),
        true => {
            let stored = table.stored_schema();
            let names = stored
                .fields()
                .iter()
                .map(|f| f.name())
                .filter(|name| !table.own.contains(name));
            names.cloned().collect()
        }
    };
    if names.is_empty() {
        return Err(
            LoadError::new(SqlState::Syntax, "VALUES for a new table need a column list")
                .hint(format!("Write INTO {} (column, ..).", target.name))
                .at(source.span),
        );
    }
    let given = plan.schema().fields().len();
    if names.len() != given {
        return Err(LoadError::new(
            SqlState::Syntax,
            format!(
                "the source has {given} column{}, table \"{}\" takes {} here",
                if given == 1 { "" } else { "s" },
                target.name,
                names.len()
            ),
        )
        .detail(format!("The columns are {}.", names.join(", ")))
        .hint("List the columns that the source fills after the table's name.")
        .at(source.span));
    }
    Ok(names)
}

/// No two columns are equal but for case, and none has a name that operators use.
fn check_names(names: &[String], source: &Source) -> Result<()> {
    let mut seen: HashMap<String, &String> = HashMap::new();
    for name in names {
        if let Some(other) = seen.insert(name.to_lowercase(), name) {
            let message = match other == name {
                true => format!("the source has column \"{name}\" twice"),
                false => format!("the source has columns \"{other}\" and \"{name}\", which differ only in case"),
            };
            return Err(LoadError::new(SqlState::DuplicateColumn, message)
                .hint("Rename one of them with AS in the source query.")
                .at(source.span));
        }
        if internal::is_internal(name) {
            return Err(LoadError::new(
                SqlState::DuplicateColumn,
                format!("the source column \"{name}\" has a name that loads use themselves"),
            )
            .hint("Rename it with AS in the source query.")
            .at(source.span));
        }
    }
    Ok(())
}
