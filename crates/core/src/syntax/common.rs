//! The clauses that all load statements have.

use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::ast::{
    ColumnSet, Common, CreateIfNotExists, Dedup, DeleteWhen, KeyNulls, Keys, OnEmpty, Sequence, TransactionId,
};
use super::cursor::Cursor;
use super::options;
use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// The phrases that begin the clauses of all load statements.
pub const PHRASES: &[&str] = &[
    "KEYS",
    "SEQUENCE BY",
    "DEDUPLICATE",
    "ASSUME UNIQUE",
    "COLUMNS",
    "ON EMPTY SOURCE",
    "CREATE IF NOT EXISTS",
    "TRANSACTION",
    "COMMENT",
    "OPTIONS",
];

impl Common {
    /// Reads the next clause if it is one of these.
    pub(super) fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool> {
        let start = cursor.here();
        if cursor.eat("KEYS") || cursor.eat("KEY") {
            cursor.once(self.keys.is_some(), "KEYS", start)?;
            self.keys = Some(cursor.keys(start)?);
        } else if cursor.eat("SEQUENCE") {
            cursor.expect("BY")?;
            cursor.once(self.sequence.is_some(), "SEQUENCE BY", start)?;
            self.sequence = Some(cursor.sequence(start)?);
        } else if cursor.eat("DEDUPLICATE") {
            self.new_dedup(cursor, "DEDUPLICATE", start)?;
            self.dedup = Some(cursor.deduplicate(start)?);
        } else if cursor.eat("ASSUME") {
            cursor.expect("UNIQUE")?;
            self.new_dedup(cursor, "ASSUME UNIQUE", start)?;
            self.dedup = Some(Dedup::AssumeUnique {
                span: cursor.since(start),
            });
        } else if cursor.eat("COLUMNS") {
            cursor.once(self.columns.is_some(), "COLUMNS", start)?;
            self.columns = Some(cursor.column_set()?);
        } else if cursor.eat("ON EMPTY") {
            cursor.expect("SOURCE")?;
            cursor.once(self.on_empty.is_some(), "ON EMPTY SOURCE", start)?;
            self.on_empty = Some(cursor.on_empty()?);
        } else {
            return self.parse_table_clause(cursor, start);
        }
        Ok(true)
    }

    /// The clauses about the table and the commit rather than the rows.
    fn parse_table_clause(&mut self, cursor: &mut Cursor<'_, '_>, start: Span) -> Result<bool> {
        if cursor.eat("CREATE") {
            cursor.expect("IF NOT EXISTS")?;
            cursor.once(self.create.is_some(), "CREATE IF NOT EXISTS", start)?;
            self.create = Some(cursor.create_if_not_exists()?);
        } else if cursor.eat("TRANSACTION") {
            cursor.once(self.transaction.is_some(), "TRANSACTION", start)?;
            self.transaction = Some(cursor.transaction()?);
        } else if cursor.eat("COMMENT") {
            cursor.once(self.comment.is_some(), "COMMENT", start)?;
            self.comment = Some(cursor.string("a comment")?);
        } else if cursor.eat("OPTIONS") {
            cursor.once(!self.options.is_empty(), "OPTIONS", start)?;
            self.options = cursor.key_values()?;
            options::check(&self.options)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `DEDUPLICATE` and `ASSUME UNIQUE` are one clause written in two ways.
    fn new_dedup(&self, cursor: &Cursor<'_, '_>, name: &str, start: Span) -> Result<()> {
        match (&self.dedup, name) {
            (Some(Dedup::AssumeUnique { .. }), "DEDUPLICATE") | (Some(Dedup::Deduplicate { .. }), "ASSUME UNIQUE") => {
                Err(
                    LoadError::new(SqlState::Syntax, "DEDUPLICATE cannot be combined with ASSUME UNIQUE")
                        .hint("Keep one of them: rows that are unique need no DEDUPLICATE.")
                        .at(start),
                )
            }
            (dedup, _) => cursor.once(dedup.is_some(), name, start),
        }
    }

    /// The rules between clauses that hold in every load statement.
    pub(super) fn validate(&self) -> Result<()> {
        let Some(Dedup::Deduplicate { on: None, span, .. }) = &self.dedup else {
            return Ok(());
        };
        if self.keys.is_none() {
            return Err(
                LoadError::new(SqlState::Syntax, "DEDUPLICATE needs ON (..) where there are no KEYS")
                    .hint("Write DEDUPLICATE ON (column, ..) with the columns that make rows duplicates.")
                    .at(*span),
            );
        }
        if self.sequence.is_some() {
            return Err(LoadError::new(
                SqlState::Syntax,
                "DEDUPLICATE without ON cannot be combined with SEQUENCE BY",
            )
            .hint("SEQUENCE BY picks the row of each key by itself; DEDUPLICATE ON (..) drops repeats before it.")
            .at(*span));
        }
        Ok(())
    }
}

impl Cursor<'_, '_> {
    /// Fails when a clause occurs twice; `start` is where it occurs now.
    pub fn once(&self, present: bool, clause: &str, start: Span) -> Result<()> {
        match present {
            false => Ok(()),
            true => Err(LoadError::new(SqlState::Syntax, format!("{clause} is written twice"))
                .hint("Every clause may occur once.")
                .at(self.since(start))),
        }
    }

    /// Reads what follows `KEYS`, which began at `start`.
    pub fn keys(&mut self, start: Span) -> Result<Keys> {
        let columns = self.idents()?;
        let nulls = match self.eat("NULLS") {
            true => self.expect_one_of(&[
                ("ERROR", KeyNulls::Error),
                ("DISTINCT", KeyNulls::Distinct),
                ("NOT DISTINCT", KeyNulls::NotDistinct),
            ])?,
            false => KeyNulls::Error,
        };
        let within = match self.eat("WITHIN") {
            true => Some(self.parenthesized_expr()?),
            false => None,
        };
        let span = self.since(start);
        Ok(Keys {
            columns,
            nulls,
            within,
            span,
        })
    }

    /// Reads `AS DELETE WHEN expr` after `APPLY`, which began at `start`.
    pub fn delete_when(&mut self, start: Span) -> Result<DeleteWhen> {
        self.expect("AS DELETE WHEN")?;
        let expr = self.expr()?;
        let span = self.since(start);
        Ok(DeleteWhen { expr, span })
    }

    fn sequence(&mut self, start: Span) -> Result<Sequence> {
        let exprs = self.exprs()?;
        if self.peek("DESC") || self.peek("ASC") {
            return Err(self
                .expected("a clause")
                .hint("The highest always wins: SEQUENCE BY takes no ASC or DESC."));
        }
        let span = self.since(start);
        Ok(Sequence { exprs, span })
    }

    fn deduplicate(&mut self, start: Span) -> Result<Dedup> {
        let on = match self.peek("ON") && self.token(1).token == Token::LParen && self.eat("ON") {
            true => Some(self.idents()?),
            false => None,
        };
        let by = match self.eat("BY") {
            true => self.orders()?,
            false => Vec::new(),
        };
        let ties = self.peek("WITH TIES") && !self.peek_at(2, "AS") && self.token(2).token != Token::LParen;
        if ties && by.is_empty() {
            return Err(self
                .expected("BY")
                .hint("WITH TIES keeps all rows that are first in the order of DEDUPLICATE BY."));
        }
        let with_ties = ties && self.eat("WITH TIES");
        let span = self.since(start);
        Ok(Dedup::Deduplicate {
            on,
            by,
            with_ties,
            span,
        })
    }

    fn on_empty(&mut self) -> Result<OnEmpty> {
        self.expect_one_of(&[
            ("SKIP", OnEmpty::Skip),
            ("APPLY", OnEmpty::Apply),
            ("ERROR", OnEmpty::Error),
        ])
    }

    fn create_if_not_exists(&mut self) -> Result<CreateIfNotExists> {
        let mut create = CreateIfNotExists::default();
        loop {
            let start = self.here();
            if self.eat("PARTITIONED") {
                self.expect("BY")?;
                self.once(!create.partitioned_by.is_empty(), "PARTITIONED BY", start)?;
                create.partitioned_by = self.idents()?;
            } else if self.eat("LOCATION") {
                self.once(create.location.is_some(), "LOCATION", start)?;
                create.location = Some(self.string("a location")?);
            } else if self.eat("TBLPROPERTIES") {
                self.once(!create.properties.is_empty(), "TBLPROPERTIES", start)?;
                create.properties = self.key_values()?;
            } else {
                return Ok(create);
            }
        }
    }

    fn transaction(&mut self) -> Result<TransactionId> {
        self.expect_symbol(&Token::LParen)?;
        let app = self.string("an application id")?;
        self.expect_symbol(&Token::Comma)?;
        let version = self.integer()?;
        self.expect_symbol(&Token::RParen)?;
        Ok(TransactionId { app, version })
    }

    /// Reads `* [EXCEPT ..]` or `(..)` after `ON`, where another clause may begin with `ON` as well.
    pub fn on_columns(&mut self) -> Result<Option<ColumnSet>> {
        match self.peek("ON") && self.column_set_at(1) && self.eat("ON") {
            true => Ok(Some(self.column_set()?)),
            false => Ok(None),
        }
    }
}
