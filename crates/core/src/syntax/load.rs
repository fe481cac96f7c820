//! Reading a load statement: the shape that all of them share.
//!
//! Clauses come in any order, each at most once, before or after `USING`, or before a query at the end:
//!
//! ```text
//! VERB [WITH SCHEMA EVOLUTION] INTO target {clause} USING source {clause} [RETURNING ..] [DRY RUN]
//! VERB [WITH SCHEMA EVOLUTION] INTO target {clause} query                 [RETURNING ..] [DRY RUN]
//! ```

use std::fmt;

use datafusion::sql::sqlparser::ast::With;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Span;

use super::ast::{Common, Keys, Load, Source, SourceRelation};
use super::cursor::{Cursor, words_at};
use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// The clauses that only one kind of load statement has. `Display` prints them in front of the source.
pub trait ClauseSet: Default + fmt::Display {
    /// The words the statement begins with, such as `MERGE OVERWRITE`; also its name in messages.
    const VERB: &'static str;

    /// The phrases that begin these clauses.
    const PHRASES: &'static [&'static str];

    /// Reads the next clause if it is one of these. A clause that occurs twice is an error, see [`Cursor::once`].
    fn parse_clause(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<bool>;

    /// Reads what may stand directly behind `KEYS (..)`.
    fn parse_after_keys(&mut self, _cursor: &mut Cursor<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Prints what stands directly behind `KEYS (..)`, with a space before it.
    fn fmt_after_keys(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// The rules between clauses. `verb` is where the statement begins, for clauses that are missing.
    fn validate(&self, common: &Common, verb: Span) -> Result<()>;
}

/// Whether a load statement with this verb stands at the parser's position: the verb, perhaps `WITH SCHEMA EVOLUTION`,
/// and `INTO`. The verb alone says nothing: `INSERT ONLY SELECT 1` fills a table called `only`.
pub fn claims(parser: &Parser<'_>, verb: &str) -> bool {
    let length = verb.split_whitespace().count();
    words_at(parser, 0, verb)
        && (words_at(parser, length, "INTO") || words_at(parser, length, "WITH SCHEMA EVOLUTION INTO"))
}

/// Reads a load statement, its verb included. `with` is the `WITH` clause that was read before the verb.
pub fn parse_load<C: ClauseSet>(cursor: &mut Cursor<'_, '_>, with: Option<With>) -> Result<Load<C>> {
    let start = cursor.here();
    cursor.expect(C::VERB)?;
    let verb = cursor.since(start);
    let mut common = Common::default();
    if cursor.eat("WITH") {
        cursor.expect("SCHEMA EVOLUTION")?;
        common.evolve = true;
    }
    cursor.expect("INTO")?;
    let target = cursor.target()?;
    let mut clauses = C::default();
    let source = parse_body(cursor, &mut common, &mut clauses, with)?;
    let (returning, dry_run) = cursor.tail()?;
    validate(&common, &clauses, &source, verb)?;
    Ok(Load {
        target,
        common,
        clauses,
        source,
        returning,
        dry_run,
        span: cursor.since(start),
    })
}

/// Reads clauses and the source, up to `RETURNING`, `DRY RUN` or the end.
fn parse_body<C: ClauseSet>(
    cursor: &mut Cursor<'_, '_>,
    common: &mut Common,
    clauses: &mut C,
    mut with: Option<With>,
) -> Result<Source> {
    let mut source: Option<Source> = None;
    loop {
        let start = cursor.here();
        let had_keys = common.keys.is_some();
        if common.parse_clause(cursor)? {
            if !had_keys && common.keys.is_some() {
                clauses.parse_after_keys(cursor)?;
            }
        } else if clauses.parse_clause(cursor)? {
        } else if cursor.eat("USING") {
            cursor.once(source.is_some(), "USING", start)?;
            source = Some(cursor.using(with.take())?);
        } else if cursor.query_next() && !cursor.peek("WITH SCHEMA EVOLUTION") {
            return match source {
                None => cursor.trailing(with),
                Some(_) => Err(cursor
                    .expected("a clause or end of statement")
                    .hint("The rows come from USING or from a query at the end, not from both.")),
            };
        } else {
            return end_of_clauses::<C>(cursor, source);
        }
    }
}

fn end_of_clauses<C: ClauseSet>(cursor: &Cursor<'_, '_>, source: Option<Source>) -> Result<Source> {
    let ends = cursor.at_end() || cursor.peek("RETURNING") || cursor.peek("DRY RUN");
    match source {
        Some(source) if ends => Ok(source),
        Some(_) => Err(cursor.unknown_clause(C::VERB, "a clause or end of statement")),
        None if ends => Err(cursor
            .expected("USING or a query")
            .hint("Name the rows to load: USING table, USING (query), or a query at the end.")),
        None => Err(cursor.unknown_clause(C::VERB, "a clause, USING or a query")),
    }
}

fn validate<C: ClauseSet>(common: &Common, clauses: &C, source: &Source, verb: Span) -> Result<()> {
    let checked = common.validate().and_then(|()| clauses.validate(common, verb));
    match (checked, &source.relation) {
        // A word behind the query's last table was read as its alias, so the clause seems to be missing.
        (Err(e), SourceRelation::Trailing(_)) if e.span() == Some(verb) => {
            let hint = e.hint_text().unwrap_or_default();
            let hint = format!("{hint} Clauses stand before the query.");
            Err(LoadError::new(e.state(), e.message()).hint(hint.trim()).at(verb))
        }
        (checked, _) => checked,
    }
}

/// The `KEYS` clause, or the error that the statement needs it.
pub fn require_keys<'c>(common: &'c Common, statement: &str, verb: Span) -> Result<&'c Keys> {
    common.keys.as_ref().ok_or_else(|| {
        LoadError::new(SqlState::Syntax, format!("{statement} needs KEYS (..)"))
            .hint("Add KEYS (column, ..) with the columns that identify a row.")
            .at(verb)
    })
}
