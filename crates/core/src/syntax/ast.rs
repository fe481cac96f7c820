//! The syntax tree that all load statements share. Every node keeps its span and prints itself as SQL that parses back
//! to the same tree.

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query, SelectItem, TableFactor, With};
use datafusion::sql::sqlparser::tokenizer::Span;

/// One load statement: what all of them have, and the clauses `C` that only this kind has.
#[derive(Debug, Clone, PartialEq)]
pub struct Load<C> {
    /// The table that is loaded.
    pub target: Target,
    /// Clauses of every load statement.
    pub common: Common,
    /// Clauses of this kind of statement.
    pub clauses: C,
    /// The rows to load.
    pub source: Source,
    /// `RETURNING` items; empty when the clause is absent.
    pub returning: Vec<SelectItem>,
    /// `DRY RUN`.
    pub dry_run: bool,
    /// From the first to the last word of the statement.
    pub span: Span,
}

/// `INTO name [AS alias] [(columns)]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The table's name as written.
    pub name: ObjectName,
    /// The alias, if any.
    pub alias: Option<Ident>,
    /// The column list; empty when absent.
    pub columns: Vec<Ident>,
    /// Where the name stands.
    pub span: Span,
}

/// Where the rows come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The statement's leading `WITH`.
    pub with: Option<With>,
    /// The relation itself.
    pub relation: SourceRelation,
    /// The alias after `USING ..`, if any.
    pub alias: Option<Ident>,
    /// Where the relation stands.
    pub span: Span,
}

/// The two ways to name a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceRelation {
    /// `USING` a table, table function or parenthesized query; the factor carries no alias.
    Using(Box<TableFactor>),
    /// A query at the end of the statement.
    Trailing(Box<Query>),
}

/// Clauses that every load statement accepts, each at most once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Common {
    /// `WITH SCHEMA EVOLUTION`.
    pub evolve: bool,
    /// `KEYS (..)`.
    pub keys: Option<Keys>,
    /// `SEQUENCE BY ..`.
    pub sequence: Option<Sequence>,
    /// `DEDUPLICATE ..` or `ASSUME UNIQUE`.
    pub dedup: Option<Dedup>,
    /// `COLUMNS ..`.
    pub columns: Option<ColumnSet>,
    /// `ON EMPTY SOURCE ..`.
    pub on_empty: Option<OnEmpty>,
    /// `CREATE IF NOT EXISTS ..`.
    pub create: Option<CreateIfNotExists>,
    /// `TRANSACTION (..)`.
    pub transaction: Option<TransactionId>,
    /// `COMMENT '..'`.
    pub comment: Option<String>,
    /// `OPTIONS (..)`; empty when absent.
    pub options: Vec<KeyValue>,
}

/// `KEYS (..) [NULLS ..] [WITHIN (..)]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    /// The key columns.
    pub columns: Vec<Ident>,
    /// What a NULL in a key means.
    pub nulls: KeyNulls,
    /// The predicate that narrows the target.
    pub within: Option<Expr>,
    /// The whole clause.
    pub span: Span,
}

/// What a NULL in a key means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyNulls {
    /// An error (the default).
    #[default]
    Error,
    /// NULL never matches.
    Distinct,
    /// NULL equals NULL.
    NotDistinct,
}

/// `SEQUENCE BY ..`: the highest tuple wins.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// The expressions of the tuple, most significant first.
    pub exprs: Vec<Expr>,
    /// The whole clause.
    pub span: Span,
}

/// How several source rows of one key are handled.
#[derive(Debug, Clone, PartialEq)]
pub enum Dedup {
    /// `ASSUME UNIQUE`: no check.
    AssumeUnique {
        /// The whole clause.
        span: Span,
    },
    /// `DEDUPLICATE [ON (..)] [BY .. [WITH TIES]]`.
    Deduplicate {
        /// The columns of `ON`, or `None` for the key columns.
        on: Option<Vec<Ident>>,
        /// The order whose first row is kept; empty: source order.
        by: Vec<Order>,
        /// Keep all rows tied for first.
        with_ties: bool,
        /// The whole clause.
        span: Span,
    },
}

/// One item of `DEDUPLICATE BY`.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// What is ordered.
    pub expr: Expr,
    /// Descending.
    pub descending: bool,
    /// `NULLS FIRST` was written.
    pub nulls_first: bool,
}

/// `(a, b)` or `* [EXCEPT (a, b)]`.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnSet {
    /// Exactly these.
    Only(Vec<Ident>),
    /// All but these.
    AllExcept(Vec<Ident>),
}

/// What an empty source does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnEmpty {
    /// Nothing is changed (the default).
    #[default]
    Skip,
    /// The statement carries on.
    Apply,
    /// The statement fails.
    Error,
}

/// `CREATE IF NOT EXISTS ..`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreateIfNotExists {
    /// `PARTITIONED BY (..)`.
    pub partitioned_by: Vec<Ident>,
    /// `LOCATION '..'`.
    pub location: Option<String>,
    /// `TBLPROPERTIES (..)`.
    pub properties: Vec<KeyValue>,
}

/// `TRANSACTION ('app', n)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionId {
    /// Delta's appId.
    pub app: String,
    /// Delta's version for it.
    pub version: i64,
}

/// One `'key' [=] 'value'` of `OPTIONS` or `TBLPROPERTIES`.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Where the key stands.
    pub span: Span,
}

/// One `column = expr` of a `SET` list.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The target column.
    pub column: Ident,
    /// Its new value.
    pub value: Expr,
}

/// `APPLY AS DELETE WHEN expr`, or `IGNORE DELETES WHEN expr`: which source rows are delete markers.
#[derive(Debug, Clone, PartialEq)]
pub struct DeleteWhen {
    /// A boolean that is TRUE for a marked row, or anything else that is not NULL for one.
    pub expr: Expr,
    /// The whole clause.
    pub span: Span,
}

/// `WHEN NOT MATCHED BY SOURCE [WITHIN (..)] [AND ..] THEN ..`; the statement gives the action `A`.
#[derive(Debug, Clone, PartialEq)]
pub struct Absent<A> {
    /// The columns of `WITHIN`: only groups that occur in the source are looked at. Empty: all rows.
    pub within: Vec<Ident>,
    /// The condition after `AND`, over the target's row.
    pub condition: Option<Expr>,
    /// What happens to such a row.
    pub action: A,
    /// The whole clause.
    pub span: Span,
}
