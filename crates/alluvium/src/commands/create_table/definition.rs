//! From the column list of `CREATE TABLE` to a Delta schema: names, types, and expressions that can be planned.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::write::{NewTable, storable_schema};
use alluvium_delta::{KEYS, LoadOptions, key_columns};
use alluvium_exec::columns as internal;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Ident, visit_expressions_mut};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::syntax::{ColumnDef, CreateTable};
use crate::commands::target;

/// What a new table looks like.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub schema: SchemaRef,
    pub partition_columns: Vec<String>,
    pub properties: HashMap<String, String>,
    /// `CHECK` constraints: name and text.
    pub constraints: Vec<(String, String)>,
    pub comment: Option<String>,
}

/// Metadata keys of Delta columns.
const COMMENT: &str = "comment";
const GENERATION: &str = "delta.generationExpression";

impl Definition {
    /// The table of a column list.
    ///
    /// # Errors
    ///
    /// 42701 for two columns of one name, 42703 for an unknown column in an expression or `PARTITIONED BY`, 42804 for an
    /// expression of the wrong type, 0A000 for types Delta Lake does not have.
    pub(super) fn of_columns(state: &SessionState, statement: &CreateTable) -> Result<Self> {
        let fields = statement
            .columns
            .iter()
            .map(|column| field(state, column))
            .collect::<Result<Vec<_>>>()?;
        let plain = Schema::new(fields.clone());
        let idents: Vec<&Ident> = statement.columns.iter().map(|column| &column.name).collect();
        check_names(&plain, &idents)?;
        let scope = DFSchema::try_from(plain)?;
        let mut constraints: Vec<(String, String)> = Vec::new();
        for check in &statement.checks {
            let text = expression(state, &check.expr, &scope, Some(&DataType::Boolean));
            let name = target::column(state, &check.name);
            if constraints.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
                let error = LoadError::new(SqlState::Syntax, format!("constraint \"{name}\" is defined twice"));
                return Err(error.at(check.span));
            }
            constraints.push((name, text.map_err(|e| e.at_if_unset(check.span))?));
        }
        let fields = fields.into_iter().zip(&statement.columns);
        let fields = fields.map(|(field, column)| generated(state, field, column, statement));
        Self::finish(state, statement, fields.collect::<Result<Vec<_>>>()?, constraints)
    }

    /// The table of a query's columns, all of them nullable.
    ///
    /// # Errors
    ///
    /// As [`Self::of_columns`].
    pub(super) fn of_query(state: &SessionState, statement: &CreateTable, query: &DFSchema) -> Result<Self> {
        let columns = storable_schema(query.as_arrow()).map_err(|e| e.at_if_unset(statement.span))?;
        let fields = columns
            .fields()
            .iter()
            .map(|f| Field::new(f.name(), f.data_type().clone(), true));
        let fields: Vec<Field> = fields.collect();
        check_names(&Schema::new(fields.clone()), &[]).map_err(|e| e.at_if_unset(statement.span))?;
        Self::finish(state, statement, fields, Vec::new())
    }

    fn finish(
        state: &SessionState,
        statement: &CreateTable,
        fields: Vec<Field>,
        constraints: Vec<(String, String)>,
    ) -> Result<Self> {
        let schema = Arc::new(Schema::new(fields));
        let partition_columns = partition_columns(state, statement, &schema)?;
        let given = statement
            .properties
            .iter()
            .map(|pair| (pair.key.clone(), pair.value.clone()));
        let given: HashMap<String, String> = given.collect();
        if let Some(keys) = statement.properties.iter().find(|pair| pair.key == KEYS) {
            key_columns(&given, &schema).map_err(|e| e.at_if_unset(keys.span))?;
        }
        Ok(Self {
            schema,
            partition_columns,
            properties: LoadOptions::table_properties(state.config_options(), given),
            constraints,
            comment: statement.comment.clone(),
        })
    }

    /// What creates it.
    pub(super) fn new_table(&self, name: &str) -> NewTable {
        NewTable {
            name: name.to_owned(),
            schema: Arc::clone(&self.schema),
            partition_columns: self.partition_columns.clone(),
            properties: self.properties.clone(),
            constraints: self.constraints.clone(),
            comment: self.comment.clone(),
        }
    }
}

fn field(state: &SessionState, column: &ColumnDef) -> Result<Field> {
    let name = |ident: &Ident| target::column(state, ident);
    let field = Field::new(name(&column.name), column.data_type.to_arrow(&name)?, !column.not_null);
    Ok(match &column.comment {
        Some(comment) => field.with_metadata(HashMap::from([(COMMENT.to_owned(), comment.clone())])),
        None => field,
    })
}

/// Delta compares column names without case.
fn check_names(schema: &Schema, idents: &[&Ident]) -> Result<()> {
    let mut seen = HashSet::new();
    for (i, field) in schema.fields().iter().enumerate() {
        let span = idents.get(i).map_or_else(Span::empty, |ident| ident.span);
        let name = field.name();
        if name.is_empty() || name.chars().any(char::is_control) || internal::is_internal(name) {
            let error = LoadError::new(
                SqlState::InvalidName,
                format!("column name \"{}\" cannot be used", name.escape_default()),
            );
            return Err(error.at(span).hint("Give the column another name."));
        }
        if !seen.insert(name.to_lowercase()) {
            let error = LoadError::new(SqlState::DuplicateColumn, format!("column \"{name}\" occurs twice")).at(span);
            return Err(error.hint("Names that differ only in case count as one."));
        }
    }
    Ok(())
}

/// The field with its generation expression, which may read every column that is not itself generated.
fn generated(state: &SessionState, field: Field, column: &ColumnDef, statement: &CreateTable) -> Result<Field> {
    let Some(expr) = &column.generated else {
        return Ok(field);
    };
    let span = column.name.span;
    let base = statement.columns.iter().filter(|c| c.generated.is_none());
    let base = base.map(|c| self::field(state, c)).collect::<Result<Vec<_>>>()?;
    let scope = DFSchema::try_from(Schema::new(base))?;
    let text = expression(state, expr, &scope, None).map_err(|e| e.at_if_unset(span))?;
    let mut metadata = field.metadata().clone();
    metadata.insert(GENERATION.to_owned(), text);
    Ok(field.with_metadata(metadata))
}

/// The text of an expression as it is stored, names spelled as the columns are; it must be plannable and, if given, of
/// type `wanted`.
fn expression(state: &SessionState, expr: &Expr, scope: &DFSchema, wanted: Option<&DataType>) -> Result<String> {
    let named = ExprWithAlias {
        expr: expr.clone(),
        alias: None,
    };
    let planned = state.create_logical_expr_from_sql_expr(named, scope)?;
    if planned.is_volatile() {
        return Err(LoadError::unsupported(format!(
            "expression {expr} does not always give the same value"
        )));
    }
    let found = planned.get_type(scope)?;
    if let Some(wanted) = wanted.filter(|wanted| **wanted != found) {
        return Err(LoadError::new(
            SqlState::DatatypeMismatch,
            format!("expression {expr} is {found}, not {wanted}"),
        ));
    }
    let mut stored = expr.clone();
    let _ = visit_expressions_mut(&mut stored, |part| {
        if let Expr::Identifier(ident) = part {
            ident.value = target::column(state, ident);
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(stored.to_string())
}

fn partition_columns(state: &SessionState, statement: &CreateTable, schema: &Schema) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for ident in &statement.partitioned_by {
        let name = target::column(state, ident);
        let Some((_, field)) = schema.column_with_name(&name) else {
            let known: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            return Err(
                LoadError::new(SqlState::UndefinedColumn, format!("column \"{name}\" does not exist"))
                    .at(ident.span)
                    .hint(format!("Columns here: {}.", known.join(", "))),
            );
        };
        if field.data_type().is_nested() || field.data_type() == &DataType::Binary {
            return Err(
                LoadError::unsupported(format!("column \"{name}\" cannot partition a table"))
                    .at(ident.span)
                    .detail("Its type is binary or nested."),
            );
        }
        if names.contains(&name) {
            return Err(
                LoadError::new(SqlState::DuplicateColumn, format!("column \"{name}\" occurs twice")).at(ident.span),
            );
        }
        names.push(name);
    }
    if names.len() == schema.fields().len() && !names.is_empty() {
        return Err(LoadError::unsupported("a table cannot be partitioned by all of its columns").at(statement.span));
    }
    Ok(names)
}
