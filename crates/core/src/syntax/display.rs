//! The syntax tree as SQL that parses back to it.

use std::fmt::{self, Display, Formatter};

use datafusion::sql::sqlparser::ast::Ident;

use super::ast::{
    Absent, Assignment, ColumnSet, Common, CreateIfNotExists, Dedup, DeleteWhen, KeyNulls, KeyValue, Keys, Load,
    OnEmpty, Order, Sequence, Source, SourceRelation, Target, TransactionId,
};
use super::load::ClauseSet;

/// Prints items with commas between.
pub fn comma_separated<T: Display>(items: &[T]) -> impl Display + '_ {
    CommaSeparated(items)
}

/// Prints a string literal.
pub fn literal(text: &str) -> impl Display + '_ {
    Literal(text)
}

struct CommaSeparated<'a, T>(&'a [T]);

impl<T: Display> Display for CommaSeparated<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

struct Literal<'a>(&'a str);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

impl<C: ClauseSet> Display for Load<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(with) = &self.source.with {
            write!(f, "{with} ")?;
        }
        f.write_str(C::VERB)?;
        if self.common.evolve {
            f.write_str(" WITH SCHEMA EVOLUTION")?;
        }
        write!(f, " INTO {}", self.target)?;
        if let Some(keys) = &self.common.keys {
            write!(f, " {keys}")?;
            self.clauses.fmt_after_keys(f)?;
        }
        spaced(f, &self.common.to_string())?;
        spaced(f, &self.clauses.to_string())?;
        write!(f, " {}", self.source)?;
        if !self.returning.is_empty() {
            write!(f, " RETURNING {}", comma_separated(&self.returning))?;
        }
        match self.dry_run {
            true => f.write_str(" DRY RUN"),
            false => Ok(()),
        }
    }
}

fn spaced(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    match text.is_empty() {
        true => Ok(()),
        false => write!(f, " {text}"),
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(alias) = &self.alias {
            write!(f, " AS {alias}")?;
        }
        match self.columns.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", comma_separated(&self.columns)),
        }
    }
}

/// The source in its place, without the leading `WITH`, which stands before the verb.
impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.relation {
            SourceRelation::Using(factor) => write!(f, "USING {factor}")?,
            SourceRelation::Trailing(query) => write!(f, "{query}")?,
        }
        match &self.alias {
            Some(alias) => write!(f, " AS {alias}"),
            None => Ok(()),
        }
    }
}

/// All common clauses but `WITH SCHEMA EVOLUTION` and `KEYS`, which have places of their own.
impl Display for Common {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let clauses = [
            self.sequence.as_ref().map(ToString::to_string),
            self.dedup.as_ref().map(ToString::to_string),
            self.columns.as_ref().map(|columns| format!("COLUMNS {columns}")),
            self.on_empty.map(|on_empty| format!("ON EMPTY SOURCE {on_empty}")),
            self.create.as_ref().map(ToString::to_string),
            self.transaction.as_ref().map(ToString::to_string),
            self.comment
                .as_ref()
                .map(|comment| format!("COMMENT {}", literal(comment))),
            (!self.options.is_empty()).then(|| format!("OPTIONS ({})", pairs(&self.options, " "))),
        ];
        f.write_str(&joined(clauses))
    }
}

/// Joins the clauses that are there.
pub fn joined(clauses: impl IntoIterator<Item = Option<String>>) -> String {
    clauses.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

impl Display for Keys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "KEYS ({})", comma_separated(&self.columns))?;
        match self.nulls {
            KeyNulls::Error => {}
            KeyNulls::Distinct => f.write_str(" NULLS DISTINCT")?,
            KeyNulls::NotDistinct => f.write_str(" NULLS NOT DISTINCT")?,
        }
        match &self.within {
            Some(predicate) => write!(f, " WITHIN ({predicate})"),
            None => Ok(()),
        }
    }
}

impl Display for Sequence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "SEQUENCE BY {}", comma_separated(&self.exprs))
    }
}

impl Display for Dedup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self::Deduplicate { on, by, with_ties, .. } = self else {
            return f.write_str("ASSUME UNIQUE");
        };
        f.write_str("DEDUPLICATE")?;
        if let Some(columns) = on {
            write!(f, " ON ({})", comma_separated(columns))?;
        }
        if !by.is_empty() {
            write!(f, " BY {}", comma_separated(by))?;
        }
        match with_ties {
            true => f.write_str(" WITH TIES"),
            false => Ok(()),
        }
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let direction = if self.descending { " DESC" } else { "" };
        let nulls = if self.nulls_first { " NULLS FIRST" } else { "" };
        write!(f, "{}{direction}{nulls}", self.expr)
    }
}

impl Display for ColumnSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(columns) => write!(f, "({})", comma_separated(columns)),
            Self::AllExcept(columns) if columns.is_empty() => f.write_str("*"),
            Self::AllExcept(columns) => write!(f, "* EXCEPT ({})", comma_separated(columns)),
        }
    }
}

impl Display for OnEmpty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "SKIP",
            Self::Apply => "APPLY",
            Self::Error => "ERROR",
        })
    }
}

impl Display for CreateIfNotExists {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE IF NOT EXISTS")?;
        if !self.partitioned_by.is_empty() {
            write!(f, " PARTITIONED BY ({})", comma_separated(&self.partitioned_by))?;
        }
        if let Some(location) = &self.location {
            write!(f, " LOCATION {}", literal(location))?;
        }
        match self.properties.is_empty() {
            true => Ok(()),
            false => write!(f, " TBLPROPERTIES ({})", pairs(&self.properties, " = ")),
        }
    }
}

impl Display for TransactionId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TRANSACTION ({}, {})", literal(&self.app), self.version)
    }
}

impl Display for KeyValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", literal(&self.key), literal(&self.value))
    }
}

fn pairs(pairs: &[KeyValue], between: &str) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|pair| format!("{}{between}{}", literal(&pair.key), literal(&pair.value)))
        .collect();
    pairs.join(", ")
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.column, self.value)
    }
}

impl Display for DeleteWhen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "APPLY AS DELETE WHEN {}", self.expr)
    }
}

impl<A: Display> Display for Absent<A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("WHEN NOT MATCHED BY SOURCE")?;
        if !self.within.is_empty() {
            write!(f, " WITHIN ({})", comma_separated::<Ident>(&self.within))?;
        }
        if let Some(condition) = &self.condition {
            write!(f, " AND {condition}")?;
        }
        write!(f, " THEN {}", self.action)
    }
}
