//! Small expressions: enough for every condition a clause can hold, each able to print itself as SQL.

use std::cmp::Ordering;
use std::fmt;

use crate::rows::{ident, literal};
use crate::values::{ColumnType, Row, Table, Value};

/// The rows an expression sees. A bare column is looked up in `source` first, then in `target`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// The source's row.
    pub source: Option<(&'a Table, &'a Row)>,
    /// The target's row.
    pub target: Option<(&'a Table, &'a Row)>,
}

impl<'a> Scope<'a> {
    /// Only the source's row.
    pub fn source(table: &'a Table, row: &'a Row) -> Self {
        Self {
            source: Some((table, row)),
            target: None,
        }
    }

    /// Only the target's row.
    pub fn target(table: &'a Table, row: &'a Row) -> Self {
        Self {
            source: None,
            target: Some((table, row)),
        }
    }

    fn get(side: Option<(&Table, &Row)>, name: &str) -> Option<Value> {
        side.filter(|(table, _)| table.has(name))
            .map(|(table, row)| table.get(row, name))
    }
}

/// A value expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// `name`.
    Column(String),
    /// `source.name`.
    Source(String),
    /// `target.name`.
    Target(String),
    /// A literal of a type.
    Literal(Value, ColumnType),
    /// `a + b` of numbers.
    Add(Box<Expr>, Box<Expr>),
}

impl Expr {
    /// A bare column.
    pub fn col(name: &str) -> Self {
        Self::Column(name.to_owned())
    }

    /// A literal; a NULL is a NULL of text.
    pub fn lit(value: impl Into<Value>) -> Self {
        let value = value.into();
        let ty = match value {
            Value::Int(_) => ColumnType::Int,
            Value::Float(_) => ColumnType::Float,
            Value::Bool(_) => ColumnType::Bool,
            Value::Ts(_) => ColumnType::Ts,
            Value::Date(_) => ColumnType::Date,
            Value::Text(_) | Value::Null => ColumnType::Text,
        };
        Self::Literal(value, ty)
    }

    /// The value in this scope. An unknown column is NULL.
    pub fn eval(&self, scope: Scope<'_>) -> Value {
        match self {
            Self::Column(name) => Scope::get(scope.source, name)
                .or_else(|| Scope::get(scope.target, name))
                .unwrap_or(Value::Null),
            Self::Source(name) => Scope::get(scope.source, name).unwrap_or(Value::Null),
            Self::Target(name) => Scope::get(scope.target, name).unwrap_or(Value::Null),
            Self::Literal(value, _) => value.clone(),
            Self::Add(a, b) => match (a.eval(scope), b.eval(scope)) {
                (Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_add(b)),
                (Value::Float(a), Value::Float(b)) => Value::Float(a + b),
                _ => Value::Null,
            },
        }
    }

    /// The names of all columns in it.
    pub fn columns(&self) -> Vec<String> {
        match self {
            Self::Column(name) | Self::Source(name) | Self::Target(name) => vec![name.clone()],
            Self::Literal(..) => Vec::new(),
            Self::Add(a, b) => [a.columns(), b.columns()].concat(),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => write!(f, "{}", ident(name)),
            Self::Source(name) => write!(f, "source.{}", ident(name)),
            Self::Target(name) => write!(f, "target.{}", ident(name)),
            Self::Literal(value, ty) => write!(f, "{}", literal(value, *ty)),
            Self::Add(a, b) => write!(f, "({a} + {b})"),
        }
    }
}

/// A condition with SQL's three answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cond {
    /// `a = b`.
    Eq(Expr, Expr),
    /// `a <> b`.
    NotEq(Expr, Expr),
    /// `a < b`.
    Lt(Expr, Expr),
    /// `a <= b`.
    LtEq(Expr, Expr),
    /// `a > b`.
    Gt(Expr, Expr),
    /// `a >= b`.
    GtEq(Expr, Expr),
    /// `a IS NULL`.
    IsNull(Expr),
    /// `a AND b`.
    And(Box<Cond>, Box<Cond>),
    /// `a OR b`.
    Or(Box<Cond>, Box<Cond>),
    /// `NOT a`.
    Not(Box<Cond>),
    /// A boolean expression.
    Is(Expr),
}

impl Cond {
    /// `column = value`.
    pub fn eq(column: &str, value: impl Into<Value>) -> Self {
        Self::Eq(Expr::col(column), Expr::lit(value))
    }

    /// `column > value`.
    pub fn gt(column: &str, value: impl Into<Value>) -> Self {
        Self::Gt(Expr::col(column), Expr::lit(value))
    }

    /// `column >= value`.
    pub fn gt_eq(column: &str, value: impl Into<Value>) -> Self {
        Self::GtEq(Expr::col(column), Expr::lit(value))
    }

    /// `column < value`.
    pub fn lt(column: &str, value: impl Into<Value>) -> Self {
        Self::Lt(Expr::col(column), Expr::lit(value))
    }

    /// `column <= value`.
    pub fn lt_eq(column: &str, value: impl Into<Value>) -> Self {
        Self::LtEq(Expr::col(column), Expr::lit(value))
    }

    /// `self AND other`.
    pub fn and(self, other: Self) -> Self {
        Self::And(Box::new(self), Box::new(other))
    }

    /// `self OR other`.
    pub fn or(self, other: Self) -> Self {
        Self::Or(Box::new(self), Box::new(other))
    }

    /// TRUE, FALSE or unknown.
    pub fn eval(&self, scope: Scope<'_>) -> Option<bool> {
        let compare =
            |a: &Expr, b: &Expr, holds: fn(Ordering) -> bool| a.eval(scope).sql_cmp(&b.eval(scope)).map(holds);
        match self {
            Self::Eq(a, b) => compare(a, b, Ordering::is_eq),
            Self::NotEq(a, b) => compare(a, b, Ordering::is_ne),
            Self::Lt(a, b) => compare(a, b, Ordering::is_lt),
            Self::LtEq(a, b) => compare(a, b, Ordering::is_le),
            Self::Gt(a, b) => compare(a, b, Ordering::is_gt),
            Self::GtEq(a, b) => compare(a, b, Ordering::is_ge),
            Self::IsNull(a) => Some(a.eval(scope).is_null()),
            Self::And(a, b) => match (a.eval(scope), b.eval(scope)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(a, b) => match (a.eval(scope), b.eval(scope)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Not(a) => a.eval(scope).map(|v| !v),
            Self::Is(a) => match a.eval(scope) {
                Value::Bool(v) => Some(v),
                _ => None,
            },
        }
    }

    /// Whether it is TRUE; unknown is not.
    pub fn holds(&self, scope: Scope<'_>) -> bool {
        self.eval(scope) == Some(true)
    }

    /// The names of all columns in it.
    pub fn columns(&self) -> Vec<String> {
        match self {
            Self::Eq(a, b)
            | Self::NotEq(a, b)
            | Self::Lt(a, b)
            | Self::LtEq(a, b)
            | Self::Gt(a, b)
            | Self::GtEq(a, b) => [a.columns(), b.columns()].concat(),
            Self::IsNull(a) | Self::Is(a) => a.columns(),
            Self::And(a, b) | Self::Or(a, b) => [a.columns(), b.columns()].concat(),
            Self::Not(a) => a.columns(),
        }
    }
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eq(a, b) => write!(f, "{a} = {b}"),
            Self::NotEq(a, b) => write!(f, "{a} <> {b}"),
            Self::Lt(a, b) => write!(f, "{a} < {b}"),
            Self::LtEq(a, b) => write!(f, "{a} <= {b}"),
            Self::Gt(a, b) => write!(f, "{a} > {b}"),
            Self::GtEq(a, b) => write!(f, "{a} >= {b}"),
            Self::IsNull(a) => write!(f, "{a} IS NULL"),
            Self::And(a, b) => write!(f, "({a} AND {b})"),
            Self::Or(a, b) => write!(f, "({a} OR {b})"),
            Self::Not(a) => write!(f, "NOT ({a})"),
            Self::Is(a) => write!(f, "{a}"),
        }
    }
}
