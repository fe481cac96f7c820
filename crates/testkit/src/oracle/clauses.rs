//! Clauses that several statements share, and how they print.

use super::expr::{Cond, Expr, Scope};
use crate::rows::{ident, ident_list};
use crate::values::{Row, Table, Value};

/// What a NULL in a key means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NullKeys {
    /// An error (default, not printed).
    #[default]
    Error,
    /// `NULLS DISTINCT`: never matches.
    Distinct,
    /// `NULLS NOT DISTINCT`: NULL equals NULL.
    NotDistinct,
}

/// `KEYS (..) [NULLS ..] [WITHIN (..)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// The key columns.
    pub columns: Vec<String>,
    /// What a NULL means.
    pub nulls: NullKeys,
    /// The predicate that narrows the target.
    pub within: Option<Cond>,
}

impl Keys {
    /// `KEYS (columns)`.
    pub fn new(columns: &[&str]) -> Self {
        Self {
            columns: columns.iter().map(|&c| c.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// The key of a row; `None` if it can never match (a NULL under `NULLS DISTINCT`).
    pub fn of(&self, table: &Table, row: &Row) -> Option<Vec<Value>> {
        let key: Vec<Value> = self.columns.iter().map(|c| table.get(row, c)).collect();
        let never = self.nulls == NullKeys::Distinct && key.iter().any(Value::is_null);
        (!never).then_some(key)
    }

    /// Whether a target row is looked at.
    pub fn looks_at(&self, table: &Table, row: &Row) -> bool {
        self.within
            .as_ref()
            .is_none_or(|within| within.holds(Scope::target(table, row)))
    }

    fn to_sql(&self) -> String {
        let nulls = match self.nulls {
            NullKeys::Error => "",
            NullKeys::Distinct => " NULLS DISTINCT",
            NullKeys::NotDistinct => " NULLS NOT DISTINCT",
        };
        let within = self
            .within
            .as_ref()
            .map(|p| format!(" WITHIN ({p})"))
            .unwrap_or_default();
        format!("KEYS ({}){nulls}{within}", ident_list(&self.columns))
    }
}

/// One item of `DEDUPLICATE BY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The source column.
    pub column: String,
    /// `DESC`.
    pub descending: bool,
    /// `NULLS FIRST`.
    pub nulls_first: bool,
}

/// `DEDUPLICATE [ON (..)] [BY ..] [WITH TIES]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dedup {
    /// `ON` columns; empty: the key columns.
    pub on: Vec<String>,
    /// The order whose first row is kept; empty: source order.
    pub by: Vec<Order>,
    /// Keep all rows tied for first.
    pub with_ties: bool,
}

/// What is known, or done, about several source rows of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Unique {
    /// No clause: they are an error.
    #[default]
    Check,
    /// `ASSUME UNIQUE`. The model does not say what happens if it is not so.
    Assume,
    /// `DEDUPLICATE ..`.
    Dedup(Dedup),
}

impl Unique {
    fn to_sql(&self) -> Option<String> {
        let dedup = match self {
            Self::Check => return None,
            Self::Assume => return Some("ASSUME UNIQUE".to_owned()),
            Self::Dedup(dedup) => dedup,
        };
        let mut sql = "DEDUPLICATE".to_owned();
        if !dedup.on.is_empty() {
            sql += &format!(" ON ({})", ident_list(&dedup.on));
        }
        let order = |o: &Order| {
            let direction = if o.descending { "DESC" } else { "ASC" };
            let nulls = if o.nulls_first { " NULLS FIRST" } else { "" };
            format!("{} {direction}{nulls}", ident(&o.column))
        };
        if !dedup.by.is_empty() {
            sql += &format!(" BY {}", dedup.by.iter().map(order).collect::<Vec<_>>().join(", "));
            sql += if dedup.with_ties { " WITH TIES" } else { "" };
        }
        Some(sql)
    }
}

/// `(a, b)` or `* [EXCEPT (a, b)]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnSet {
    /// Exactly these.
    Only(Vec<String>),
    /// All but these.
    AllExcept(Vec<String>),
}

impl ColumnSet {
    /// `(columns)`.
    pub fn only(columns: &[&str]) -> Self {
        Self::Only(columns.iter().map(|&c| c.to_owned()).collect())
    }

    /// `* EXCEPT (columns)`.
    pub fn all_except(columns: &[&str]) -> Self {
        Self::AllExcept(columns.iter().map(|&c| c.to_owned()).collect())
    }

    /// Whether a column is in the set.
    pub fn has(&self, column: &str) -> bool {
        match self {
            Self::Only(columns) => columns.iter().any(|c| c == column),
            Self::AllExcept(columns) => columns.iter().all(|c| c != column),
        }
    }

    /// The columns it names.
    pub fn named(&self) -> &[String] {
        match self {
            Self::Only(columns) | Self::AllExcept(columns) => columns,
        }
    }

    /// As SQL.
    pub fn to_sql(&self) -> String {
        match self {
            Self::Only(columns) => format!("({})", ident_list(columns)),
            Self::AllExcept(columns) if columns.is_empty() => "*".to_owned(),
            Self::AllExcept(columns) => format!("* EXCEPT ({})", ident_list(columns)),
        }
    }
}

/// What an empty source does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnEmpty {
    /// Nothing (default, not printed).
    #[default]
    Skip,
    /// The statement carries on.
    Apply,
    /// An error.
    Error,
}

/// `CREATE IF NOT EXISTS [PARTITIONED BY (..)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Create {
    /// The partition columns.
    pub partitioned_by: Vec<String>,
}

/// The expression of `APPLY AS DELETE WHEN` and `IGNORE DELETES WHEN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteMarker {
    /// A plain column: TRUE if boolean, else not NULL.
    Column(String),
    /// A condition.
    When(Cond),
}

impl DeleteMarker {
    /// Whether it marks this source row.
    pub fn marks(&self, source: &Table, row: &Row) -> bool {
        match self {
            Self::Column(name) => match source.get(row, name) {
                Value::Null => false,
                Value::Bool(v) => v,
                _ => true,
            },
            Self::When(cond) => cond.holds(Scope::source(source, row)),
        }
    }

    /// The source columns it reads.
    pub fn columns(&self) -> Vec<String> {
        match self {
            Self::Column(name) => vec![name.clone()],
            Self::When(cond) => cond.columns(),
        }
    }

    /// As SQL.
    pub fn to_sql(&self) -> String {
        match self {
            Self::Column(name) => ident(name),
            Self::When(cond) => cond.to_string(),
        }
    }
}

/// `WHEN NOT MATCHED BY SOURCE [WITHIN (..)] [AND ..] THEN action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent<A> {
    /// Only rows whose values of these columns occur in the source. Empty: all rows.
    pub within: Vec<String>,
    /// A condition over the target's row.
    pub condition: Option<Cond>,
    /// What happens.
    pub action: A,
}

impl<A> Absent<A> {
    /// `WHEN NOT MATCHED BY SOURCE THEN action`.
    pub fn then(action: A) -> Self {
        Self {
            within: Vec::new(),
            condition: None,
            action,
        }
    }

    /// Whether it concerns a target row that is known to be absent. Groups compare NULL with NULL as equal.
    pub fn concerns(&self, target: &Table, row: &Row, source: &Table) -> bool {
        let group =
            |table: &Table, row: &Row| -> Vec<Value> { self.within.iter().map(|c| table.get(row, c)).collect() };
        let present = || source.rows.iter().any(|s| group(source, s) == group(target, row));
        let holds = || {
            self.condition
                .as_ref()
                .is_none_or(|c| c.holds(Scope::target(target, row)))
        };
        (self.within.is_empty() || present()) && holds()
    }

    /// As SQL, with the action given as text.
    pub fn to_sql(&self, action: &str) -> String {
        let mut sql = "WHEN NOT MATCHED BY SOURCE".to_owned();
        if !self.within.is_empty() {
            sql += &format!(" WITHIN ({})", ident_list(&self.within));
        }
        if let Some(condition) = &self.condition {
            sql += &format!(" AND {condition}");
        }
        sql + " THEN " + action
    }
}

/// `a = x, b = y`.
pub(crate) fn assignments(set: &[(String, Expr)]) -> String {
    set.iter()
        .map(|(column, value)| format!("{} = {value}", ident(column)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Clauses of all four statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Common {
    /// `WITH SCHEMA EVOLUTION`.
    pub evolve: bool,
    /// `KEYS (..)`, for MERGE OVERWRITE any number joined by `OR`.
    pub keys: Vec<Keys>,
    /// The columns of `SEQUENCE BY`; empty: no such clause.
    pub sequence: Vec<String>,
    /// `DEDUPLICATE` or `ASSUME UNIQUE`.
    pub unique: Unique,
    /// `COLUMNS ..`.
    pub columns: Option<ColumnSet>,
    /// `ON EMPTY SOURCE ..`.
    pub on_empty: OnEmpty,
    /// `CREATE IF NOT EXISTS`.
    pub create: Option<Create>,
    /// `OPTIONS ('merge.compare' 'false')`.
    pub no_compare: bool,
}

impl Common {
    /// Just `KEYS (columns)`.
    pub fn keys(columns: &[&str]) -> Self {
        Self {
            keys: vec![Keys::new(columns)],
            ..Self::default()
        }
    }

    /// The whole statement, one clause a line. `source` is a table's name, or a query in parentheses.
    pub(crate) fn to_sql(&self, verb: &str, target: &str, source: &str, clauses: Vec<String>) -> String {
        let evolve = if self.evolve { " WITH SCHEMA EVOLUTION" } else { "" };
        let mut lines = vec![format!("{verb}{evolve} INTO {target} USING {source}")];
        if !self.keys.is_empty() {
            lines.push(self.keys.iter().map(Keys::to_sql).collect::<Vec<_>>().join(" OR "));
        }
        if !self.sequence.is_empty() {
            lines.push(format!("SEQUENCE BY {}", ident_list(&self.sequence)));
        }
        lines.extend(self.unique.to_sql());
        lines.extend(self.columns.as_ref().map(|set| format!("COLUMNS {}", set.to_sql())));
        lines.extend(clauses);
        match self.on_empty {
            OnEmpty::Skip => {}
            OnEmpty::Apply => lines.push("ON EMPTY SOURCE APPLY".to_owned()),
            OnEmpty::Error => lines.push("ON EMPTY SOURCE ERROR".to_owned()),
        }
        if let Some(create) = &self.create {
            let by = match create.partitioned_by.as_slice() {
                [] => String::new(),
                columns => format!(" PARTITIONED BY ({})", ident_list(columns)),
            };
            lines.push(format!("CREATE IF NOT EXISTS{by}"));
        }
        if self.no_compare {
            lines.push("OPTIONS ('merge.compare' 'false')".to_owned());
        }
        lines.join("\n")
    }
}
