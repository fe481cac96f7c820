//! Expressions that a table's log carries as text: constraints, invariants, generated columns. They are written in
//! Spark's SQL; what would mean something else here is rewritten or refused, never guessed.

use std::ops::ControlFlow;

use alluvium_core::{LoadError, Result};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value, visit_expressions_mut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use deltalake::delta_datafusion::expr::parse_predicate_expression;

/// Parses `text` over the columns of `schema`. `what` names its owner in messages.
pub(super) fn parse(what: &str, text: &str, schema: &DFSchema, session: &dyn Session) -> Result<Expr> {
    let refused = |reason: String| {
        LoadError::unsupported(format!("expression of {what} is not understood"))
            .detail(format!("{text}: {reason}"))
            .hint("The table cannot be written here while it has this expression.")
    };
    let mut sql = parse_sql(text).map_err(|e| refused(e.to_string()))?;
    if let ControlFlow::Break(reason) = visit_expressions_mut(&mut sql, from_spark) {
        return Err(refused(reason));
    }
    parse_predicate_expression(schema, sql.to_string(), session).map_err(|e| refused(e.to_string()))
}

fn parse_sql(text: &str) -> std::result::Result<SqlExpr, ParserError> {
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(text)?;
    let expr = parser.parse_expr()?;
    match parser.peek_token().token {
        Token::EOF => Ok(expr),
        other => Err(ParserError::ParserError(format!("{other} is not expected"))),
    }
}

/// Rewrites one node of an expression; breaks with the reason if it cannot be used.
fn from_spark(expr: &mut SqlExpr) -> ControlFlow<String> {
    match expr {
        SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } => {
            ControlFlow::Break("a subquery is not allowed".to_owned())
        }
        SqlExpr::Identifier(name) if name.value.starts_with('@') => {
            ControlFlow::Break(format!("variable {name} is not allowed"))
        }
        SqlExpr::Function(function) => match spark_function(function) {
            Ok(Some(text)) => match parse_sql(&text) {
                Ok(rewritten) => {
                    *expr = rewritten;
                    ControlFlow::Continue(())
                }
                Err(e) => ControlFlow::Break(e.to_string()),
            },
            Ok(None) => ControlFlow::Continue(()),
            Err(reason) => ControlFlow::Break(reason),
        },
        _ => ControlFlow::Continue(()),
    }
}

/// What a function of Spark is called here, as text; `None` keeps it.
fn spark_function(function: &Function) -> std::result::Result<Option<String>, String> {
    let name = function.name.to_string().to_ascii_lowercase();
    let args = arguments(function);
    match (name.as_str(), args.as_slice()) {
        ("year" | "month" | "quarter" | "day" | "hour" | "minute" | "second", [arg]) => {
            Ok(Some(format!("CAST(date_part('{name}', {arg}) AS INT)")))
        }
        ("dayofmonth", [arg]) => Ok(Some(format!("CAST(date_part('day', {arg}) AS INT)"))),
        ("trunc", [date, SqlExpr::Value(unit)]) => match &unit.value {
            Value::SingleQuotedString(unit) => truncated(date, unit).map(Some),
            _ => Err("the unit of trunc must be a literal".to_owned()),
        },
        // A function of this name exists here too, with other patterns.
        ("date_format", _) => Err("the function date_format is not supported".to_owned()),
        _ => Ok(None),
    }
}

fn truncated(date: &SqlExpr, unit: &str) -> std::result::Result<String, String> {
    let unit = match unit.to_ascii_uppercase().as_str() {
        "YEAR" | "YYYY" | "YY" => "year",
        "QUARTER" => "quarter",
        "MONTH" | "MON" | "MM" => "month",
        "WEEK" => "week",
        other => return Err(format!("the unit {other} of trunc is not supported")),
    };
    Ok(format!("CAST(date_trunc('{unit}', CAST({date} AS DATE)) AS DATE)"))
}

fn arguments(function: &Function) -> Vec<SqlExpr> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    args.collect::<Option<Vec<_>>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn parsed(text: &str) -> Result<Expr> {
        let schema = Schema::new(vec![
            Field::new("Id", DataType::Int64, true),
            Field::new(
                "ts",
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                true,
            ),
        ]);
        let schema = DFSchema::try_from(schema).unwrap();
        parse("check constraint \"c\"", text, &schema, &SessionContext::new().state())
    }

    #[test]
    fn expressions_of_spark_are_understood() {
        for text in [
            "Id > 0",
            "`Id` IS NOT NULL",
            "CAST(ts AS DATE) = DATE '2024-01-01'",
            "YEAR(ts) > 2000",
        ] {
            parsed(text).unwrap();
        }
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        for text in [
            "date_format(ts, 'yyyy') = '2024'",
            "Id IN (SELECT 1)",
            "Id > 0 garbage",
            "nosuch > 1",
            "@x > 1",
        ] {
            assert_eq!(parsed(text).unwrap_err().code(), "0A000", "{text}");
        }
    }
}
