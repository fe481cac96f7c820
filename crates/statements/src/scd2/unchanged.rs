//! `OPTIONS ('merge.compare' 'tracked')`: tracked columns speak for the whole row, as a hash of it does. Most rows of an
//! extract are then known to change nothing by their key, their tracked columns and their time.

use alluvium_core::Result;
use alluvium_core::syntax::{Dedup, Load};
use alluvium_core::{LoadError, SqlState};
use alluvium_exec::checked_cast::checked_cast;
use alluvium_exec::skip_unchanged::{Agreement, SkipUnchangedNode, can_compare};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ExprSchema};
use datafusion::functions::core::expr_fn::greatest;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};

use super::bind::Scd2;
use super::syntax::{Scd2Clauses, Track};
use super::times::{row_time, to_micros};
use crate::bind::control::source_column;
use crate::bind::expr::{col, is_true};
use crate::bind::finish::{bad_option, option};
use crate::bind::source::SourceRows;

/// The option.
const COMPARE: &str = "merge.compare";

/// Whether rows are equal when their tracked columns are.
///
/// # Errors
///
/// 22023 for other values than `true`, `false` and `tracked`, and for `tracked` where no columns are.
pub(super) fn trusts_tracked(load: &Load<Scd2Clauses>) -> Result<bool> {
    let Some(kv) = option(&load.common.options, COMPARE) else {
        return Ok(false);
    };
    match kv.value.to_ascii_lowercase().as_str() {
        "true" | "on" | "false" | "off" => Ok(false),
        "tracked" if matches!(load.clauses.track, Some(Track::Always { .. })) => Err(LoadError::new(
            SqlState::InvalidParameter,
            format!("option '{COMPARE}' cannot be 'tracked' with TRACK HISTORY ALWAYS"),
        )
        .hint("Name the columns that tell a change: TRACK HISTORY ON (row_hash).")
        .at(kv.span)),
        "tracked" => Ok(true),
        _ => Err(bad_option(kv, "true, false or tracked")),
    }
}

impl Scd2<'_> {
    /// The source, without rows that say what is stored where those can be told one by one.
    pub(super) fn telling_source(&self) -> Result<SourceRows> {
        let agreement = match self.skips_unchanged() {
            true => self.agreement()?,
            false => None,
        };
        let Some(agreement) = agreement else {
            return Ok(self.source.clone());
        };
        let rows = self.table.base.as_ref().and_then(|base| base.stored_rows());
        let rows = rows.and_then(|rows| usize::try_from(rows).ok());
        let plan = self.source.plan.clone();
        Ok(SourceRows {
            plan: SkipUnchangedNode::new(plan, self.versions()?, agreement, rows).into_plan(),
            ..self.source.clone()
        })
    }

    /// Not where a row must be seen whatever it says: because it may be a delete, lie outside `WITHIN` or lose against another
    /// row, because absent rows are told from it, or because open versions are no history.
    fn skips_unchanged(&self) -> bool {
        let clauses = &self.load.clauses;
        let chosen = matches!(self.load.common.dedup, Some(Dedup::Deduplicate { .. }));
        let seen = clauses.delete_when.is_some() || clauses.absent.is_some() || self.identity.within.is_some();
        self.trusts_tracked && self.settles() && !chosen && !seen
    }

    /// What is compared; `None`: some of it cannot be.
    fn agreement(&self) -> Result<Option<Agreement>> {
        let keys = self.identity.columns.iter().map(|name| self.as_stored(name));
        let compared = self.compared().into_iter().map(|name| self.as_stored(name));
        let keys: Option<Vec<Expr>> = keys.collect::<Result<_>>()?;
        let compared: Option<Vec<Expr>> = compared.collect::<Result<_>>()?;
        let (Some(keys), Some(compared)) = (keys, compared) else {
            return Ok(None);
        };
        let time = match &self.load.common.sequence {
            None => None,
            Some(_) => match (self.time_as_given()?, self.begun()?) {
                (Some(time), Some(_)) => Some(time),
                _ => return Ok(None),
            },
        };
        Ok(Some(Agreement {
            keys,
            compared,
            time,
            nulls_equal: self.identity.nulls_equal(),
        }))
    }

    /// The tracked columns that are no keys.
    fn compared(&self) -> Vec<&String> {
        let keys = &self.identity.columns;
        self.tracked.iter().filter(|name| !keys.contains(name)).collect()
    }

    /// A source column as it is stored, where that cannot fail.
    fn as_stored(&self, name: &str) -> Result<Option<Expr>> {
        let value = source_column(&self.source, name);
        let given = value.get_type(self.source.plan.schema())?;
        let Some(stored) = self.columns.target_type(name).filter(|stored| can_compare(stored)) else {
            return Ok(None);
        };
        let fits = given == *stored || (is_text(&given) && is_text(stored));
        Ok(fits.then(|| checked_cast(value, name, &given, stored)))
    }

    /// The time of a source row, where it is made from columns that land as they come.
    fn time_as_given(&self) -> Result<Option<Expr>> {
        let sequence = self.load.common.sequence.iter().flat_map(|sequence| &sequence.exprs);
        let Some(first) = sequence.into_iter().next() else {
            return Ok(None);
        };
        let schema = self.source.plan.schema();
        let from_type = self.validity.time_type(&self.columns, &self.validity.from)?;
        let time = row_time(self.state, first, schema, &from_type)?;
        let as_given = |column: &Column| -> Result<bool> {
            let given = schema.field_from_column(column)?.data_type();
            Ok(self
                .columns
                .target_type(&column.name)
                .is_none_or(|stored| stored == given))
        };
        for column in time.column_refs() {
            if !as_given(column)? {
                return Ok(None);
            }
        }
        Ok(Some(time))
    }

    /// From when on a row can say the same as a version: its start, or the time of the row that is stored, if that is
    /// later, for older rows are skipped. `None`: that time is not known.
    fn begun(&self) -> Result<Option<Expr>> {
        let from = &self.validity.from;
        let from_type = self.validity.time_type(&self.columns, from)?;
        let from = to_micros(col(&self.table.alias, from), &from_type);
        let Some([first, further @ ..]) = self.guard.as_deref() else {
            return Ok(Some(from));
        };
        let stored = match self.columns.target_type(first) {
            Some(time @ (DataType::Timestamp(_, _) | DataType::Date32)) => {
                to_micros(col(&self.table.alias, first), time)
            }
            _ => return Ok(None),
        };
        let begun = greatest(vec![from, stored]);
        // At one time the further parts decide, which nobody has looked at yet.
        Ok(Some(match further.is_empty() {
            true => begun,
            false => begun + lit(1_i64),
        }))
    }

    /// The stored versions: keys, compared columns, starts where rows have times, and whether each is open.
    fn versions(&self) -> Result<LogicalPlan> {
        let stored = |name: &String| col(&self.table.alias, name);
        let validity = &self.validity;
        let from = stored(&validity.from);
        // NULL is no end of a table whose open versions have another: such versions are refused, if they are read.
        let closed_by_null = match self.open_until {
            Some(_) => self.end().is_not_null(),
            None => lit(true),
        };
        let mut open = self.is_open()?.and(closed_by_null).and(from.is_not_null());
        if let Some(current) = &validity.is_current {
            open = open.and(is_true(stored(current)));
        }
        if let Some(deleted) = &validity.is_deleted {
            open = open.and(Expr::IsNotTrue(Box::new(stored(deleted))));
        }
        let keys = self.identity.columns.iter().chain(self.compared()).map(stored);
        let begun = match self.load.common.sequence {
            Some(_) => self.begun()?.map(|begun| begun.alias("__load_begun")),
            None => None,
        };
        let columns = keys.chain(begun).chain([open.alias("__load_open")]);
        // A filter would have the scan look for open versions first, and most are.
        Ok(self
            .table
            .scan(&self.columns.schema)?
            .project(columns.collect::<Vec<_>>())?
            .build()?)
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
