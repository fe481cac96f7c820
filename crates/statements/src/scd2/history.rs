//! Stored versions and source rows of the same keys as one stream, and what becomes of them.

use alluvium_core::Result;
use alluvium_core::syntax::Dedup;
use alluvium_exec::bounded::BoundedNode;
use alluvium_exec::columns as internal;
use alluvium_exec::intervals::{IntervalsNode, TIME, WINNER};
use alluvium_exec::matching::{AbsentVersions, MatchNode, SettleSpec};
use alluvium_exec::spool::Spool;
use alluvium_exec::winner::{WinnerMode, WinnerNode, WinnerSpec};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinType, ScalarValue};
use datafusion::functions_aggregate::min_max::min;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit};

use super::bind::Scd2;
use super::sides::Side;
use super::syntax::LateArrival;
use super::times::from_micros;
use crate::bind::control::{Controlled, dedup_order, extension};
use crate::bind::expr::{bare, col};
use crate::bind::groups::with_present_groups;
use crate::bind::keys::{KeyJoin, source_columns};

/// The time of the source's first row.
const FIRST: &str = "__load_first";

/// The helper that carries source column `i`.
pub(super) fn source_helper(i: usize) -> String {
    format!("__load_s_{i}")
}

/// The helper that carries the stored value of table column `i`.
pub(super) fn old_helper(i: usize) -> String {
    format!("__load_o_{i}")
}

/// The plan between the checked source and the change stream.
pub(super) struct History<'a> {
    pub scd2: &'a Scd2<'a>,
}

impl History<'_> {
    /// The rows that change, with the table's columns under the target's alias and the source's under its own.
    pub fn plan(&self, mut rows: Controlled) -> Result<LogicalPlan> {
        let scd2 = self.scd2;
        let has_marker = rows.marked;
        let mut stored = self.scan()?;
        if let Some(absent) = scd2
            .load
            .clauses
            .absent
            .as_ref()
            .filter(|absent| !absent.within.is_empty())
        {
            (rows.plan, stored) =
                with_present_groups(scd2.state, &absent.within, rows.plan, stored, &scd2.source, &scd2.table)?;
        }
        let settles = scd2.settles();
        let (events, stored) = match settles {
            true => self.since_events(rows.plan, stored)?,
            false => self.of_source_keys(rows.plan, stored)?,
        };
        let events = self.deduplicated(events)?;
        let sides = scd2.sides(&events, &stored, has_marker)?;
        let in_stored_type = |side: &Side| -> Result<Expr> {
            let data_type = side.stored.get_type(stored.schema())?;
            Ok(match side.event.get_type(events.schema())? == data_type {
                true => side.event.clone(),
                false => cast(side.event.clone(), data_type),
            })
        };
        let ours = sides.iter().map(|s| Ok(in_stored_type(s)?.alias(&s.name)));
        let ours = ours.collect::<Result<Vec<_>>>()?;
        let theirs: Vec<Expr> = sides.iter().map(|s| s.stored.clone().alias(&s.name)).collect();
        let events = LogicalPlanBuilder::from(events).project(ours)?.build()?;
        let stored = LogicalPlanBuilder::from(stored).project(theirs)?.build()?;
        let lines = match settles {
            true => MatchNode::unsettled(events, stored, self.settle_spec(), scd2.identity.nulls_equal())?.into_plan(),
            false => LogicalPlanBuilder::from(events).union(stored)?.build()?,
        };
        let node = extension(IntervalsNode::try_new(lines, scd2.spec())?);
        Ok(LogicalPlanBuilder::from(node).project(self.outgoing()?)?.build()?)
    }

    fn settle_spec(&self) -> SettleSpec {
        let spec = self.scd2.spec();
        let mut compared = spec.tracked;
        let others = spec.compared.into_iter().filter(|name| !compared.contains(name));
        let others: Vec<String> = others.collect();
        compared.extend(others);
        if spec.guards {
            compared.extend((0..spec.sequence).map(internal::sequence));
        }
        SettleSpec {
            table: spec.table,
            keys: spec.keys,
            compared,
            by_sequence: spec.sequence > 0,
            open_until: spec.open_until,
            has_current: spec.has_current,
            absent: match (spec.absent, spec.sequence) {
                (None, _) => AbsentVersions::Dropped,
                (Some(_), 0) => AbsentVersions::Kept,
                (Some(_), _) => AbsentVersions::Open,
            },
        }
    }

    /// The source, and the stored versions that did not end before its first row.
    fn since_events(&self, source: LogicalPlan, stored: LogicalPlan) -> Result<(LogicalPlan, LogicalPlan)> {
        if !self.only_recent() {
            return Ok((source, stored));
        }
        let spool = Spool::new(2);
        let events = spool.reader(source.clone(), 0)?;
        Ok((events, self.since_source(spool.reader(source, 1)?, stored)?))
    }

    /// The stored versions that can matter: by boundary those that are closed by then cannot.
    fn scan(&self) -> Result<LogicalPlan> {
        let scd2 = self.scd2;
        let mut scan = scd2.table.scan(&scd2.columns.schema)?;
        if let Some(within) = scd2.identity.within.as_ref().filter(|within| within.keys_only) {
            scan = scan.filter(within.of_target.clone())?;
        }
        if scd2.load.common.sequence.is_none() {
            let to_type = scd2.validity.time_type(&scd2.columns, &scd2.validity.to)?;
            let after = scd2.end().gt(from_micros(scd2.boundary.clone(), &to_type));
            scan = scan.filter(scd2.is_open()?.or(after))?;
        }
        Ok(scan.build()?)
    }

    /// The source, and the stored versions of its keys; where absent keys are looked at, also all open ones.
    fn of_source_keys(&self, source: LogicalPlan, stored: LogicalPlan) -> Result<(LogicalPlan, LogicalPlan)> {
        let scd2 = self.scd2;
        let absent = scd2.load.clauses.absent.is_some();
        let nested = scd2
            .identity
            .columns
            .iter()
            .any(|c| scd2.columns.target_type(c).is_some_and(DataType::is_nested));
        let by_boundary = scd2.load.common.sequence.is_none();
        if scd2.table.base.is_none() || nested || (absent && by_boundary) {
            return Ok((source, stored));
        }
        let recent = self.only_recent();
        let spool = Spool::new(if recent { 3 } else { 2 });
        let events = spool.reader(source.clone(), 0)?;
        let only = scd2.identity.columns.iter().map(|name| col(&scd2.source.alias, name));
        let keys = LogicalPlanBuilder::from(spool.reader(source.clone(), 1)?)
            .project(only)?
            .build()?;
        let stored = match recent {
            true => self.since_source(spool.reader(source, 2)?, stored)?,
            false => stored,
        };
        let columns: Vec<Expr> = stored.schema().columns().into_iter().map(Expr::Column).collect();
        let join = KeyJoin {
            keys: &scd2.identity,
            columns: &scd2.columns,
            source: &scd2.source.alias,
            target: &scd2.table.alias,
            join_type: if absent {
                JoinType::RightMark
            } else {
                JoinType::RightSemi
            },
            filter: None,
        };
        let joined = join.build(keys, stored)?.build()?;
        let joined = match (absent, joined.schema().columns().pop()) {
            (true, Some(mark)) => LogicalPlanBuilder::from(joined)
                .filter(Expr::Column(mark).or(scd2.is_open()?))?
                .build()?,
            _ => joined,
        };
        Ok((events, LogicalPlanBuilder::from(joined).project(columns)?.build()?))
    }

    /// By sequence a version that ended before the first row of the source cannot matter, unless the source's rows have
    /// to know of all versions outside `WITHIN`.
    fn only_recent(&self) -> bool {
        let within = self.scd2.identity.within.as_ref();
        self.scd2.load.common.sequence.is_some() && within.is_none_or(|within| within.keys_only)
    }

    /// The stored versions that are open, or end at the source's first time or later. A version that ends at the very
    /// time of a row has that row follow it without a gap.
    fn since_source(&self, source: LogicalPlan, stored: LogicalPlan) -> Result<LogicalPlan> {
        let scd2 = self.scd2;
        let none: Vec<Expr> = Vec::new();
        let to_type = scd2.validity.time_type(&scd2.columns, &scd2.validity.to)?;
        let first = LogicalPlanBuilder::from(source)
            .aggregate(none, vec![min(bare(TIME)).alias(FIRST)])?
            .project(vec![from_micros(bare(FIRST), &to_type).alias(FIRST)])?
            .build()?;
        let start = col(&scd2.table.alias, &scd2.validity.from);
        // By its start only a version matters whose end lies before it, so that it is refused.
        let matters = scd2
            .is_open()?
            .or(scd2.end().gt_eq(bare(FIRST)))
            .or(start.gt_eq(bare(FIRST)));
        Ok(BoundedNode::new(first, stored, matters).into_plan())
    }

    /// `DEDUPLICATE` marks winners; its losers still tell that their key is present.
    fn deduplicated(&self, events: LogicalPlan) -> Result<LogicalPlan> {
        let scd2 = self.scd2;
        let Some(Dedup::Deduplicate { on, by, with_ties, .. }) = &scd2.load.common.dedup else {
            return Ok(events);
        };
        let spec = WinnerSpec {
            table: scd2.table.name.clone(),
            keys: match on {
                Some(on) => source_columns(scd2.state, on, &scd2.source)?,
                None => scd2.identity.columns.clone(),
            },
            nulls_equal: scd2.identity.nulls_equal() || on.is_some(),
            order: dedup_order(by),
            mode: match with_ties {
                true => WinnerMode::WithTies,
                false => WinnerMode::First,
            },
            flag: Some(WINNER.to_owned()),
        };
        Ok(extension(WinnerNode::try_new(events, spec)?))
    }

    /// The final columns under the aliases that RETURNING knows.
    fn outgoing(&self) -> Result<Vec<Expr>> {
        let scd2 = self.scd2;
        let mut exprs = Vec::new();
        for (i, field) in scd2.columns.schema.fields().iter().enumerate() {
            let value = scd2.value(field.name(), field.data_type())?;
            exprs.push(value.alias_qualified(Some(scd2.table.alias.clone()), field.name()));
            if scd2.table.change_data_feed() {
                exprs.push(bare(&old_helper(i)));
            }
        }
        for (i, name) in scd2.carried_source().into_iter().enumerate() {
            exprs.push(bare(&source_helper(i)).alias_qualified(Some(scd2.source.alias.clone()), name));
        }
        exprs.extend([internal::ACTION, internal::FILE, internal::ROW].map(bare));
        Ok(exprs)
    }
}

impl Scd2<'_> {
    /// Whether rows that change nothing are found by their keys, before histories are put in order: where the source may
    /// be held in memory, and no two open versions of a key are allowed.
    pub(super) fn settles(&self) -> bool {
        let plain = |name: &String| {
            let data_type = self.columns.target_type(name);
            data_type.is_some_and(|t| !t.is_nested() && !t.is_floating())
        };
        let late = self.load.clauses.late;
        let appends = late.is_some_and(|late| late.action == LateArrival::Append);
        let in_memory = self.state.config_options().optimizer.prefer_hash_join;
        self.table.base.is_some() && in_memory && !appends && self.identity.columns.iter().all(plain)
    }

    pub(super) fn end(&self) -> Expr {
        col(&self.table.alias, &self.validity.to)
    }

    /// Whether a stored version is open, by whatever marker.
    pub(super) fn is_open(&self) -> Result<Expr> {
        let null = self.end().is_null();
        match self.open_until {
            None => Ok(null),
            Some(until) => {
                let to_type = self.validity.time_type(&self.columns, &self.validity.to)?;
                let until = literal(until, &to_type)?;
                Ok(null.or(self.end().eq(until)))
            }
        }
    }
}

/// A time as a literal of the column's type, so that files can be pruned by it.
fn literal(micros: i64, data_type: &DataType) -> Result<Expr> {
    let time = ScalarValue::TimestampMicrosecond(Some(micros), None);
    Ok(lit(match data_type {
        DataType::Timestamp(_, zone) => ScalarValue::TimestampMicrosecond(Some(micros), zone.clone()),
        other => time.cast_to(other)?,
    }))
}
