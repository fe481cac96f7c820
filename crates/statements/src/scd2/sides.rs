//! The two sides of the union, column by column: source rows have no stored values, stored versions no source values.

use std::sync::Arc;

use alluvium_core::Result;
use alluvium_core::syntax::Dedup;
use alluvium_exec::columns as internal;
use alluvium_exec::intervals::{BOUNDARY, CURRENT, DELETED, FROM, INSIDE, MARKED, RETIRES, STORED, TIME, TO, WINNER};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};

use super::bind::Scd2;
use super::history::{old_helper, source_helper};
use super::times::to_micros;
use crate::bind::control::{marked, source_column};
use crate::bind::expr::{bare, bind_condition, col, is_true, join_key, null_of};
use crate::bind::groups::IN_GROUP;

/// One column of the union, on both of its sides.
pub(super) struct Side {
    pub name: String,
    pub event: Expr,
    pub stored: Expr,
}

impl Scd2<'_> {
    /// All columns that histories are computed from.
    pub(super) fn sides(&self, events: &LogicalPlan, stored: &LogicalPlan, has_marker: bool) -> Result<Vec<Side>> {
        let mut sides = self.contents()?;
        sides.extend(self.times(has_marker)?);
        sides.extend(self.flags(stored)?);
        for i in 0..self
            .load
            .common
            .sequence
            .as_ref()
            .map_or(0, |sequence| sequence.exprs.len())
        {
            let name = internal::sequence(i);
            let data_type = bare(&name).get_type(events.schema())?;
            let stored = match self.guard.as_ref().and_then(|guard| guard.get(i)) {
                Some(column) => join_key(col(&self.table.alias, column), &data_type),
                None => null_of(&data_type)?,
            };
            sides.push(side(&name, bare(&name), stored));
        }
        Ok(sides)
    }

    /// The table's columns by their names, the source's by helpers, and stored values for the change feed.
    fn contents(&self) -> Result<Vec<Side>> {
        let mut sides = Vec::new();
        for (i, field) in self.columns.schema.fields().iter().enumerate() {
            let (name, data_type) = (field.name(), field.data_type());
            let stored = col(&self.table.alias, name);
            if self.table.change_data_feed() {
                sides.push(side(&old_helper(i), null_of(data_type)?, stored.clone()));
            }
            if !self.validity.has(name) {
                let event = match self.columns.lands(name) {
                    true => source_column(&self.source, name),
                    false => null_of(data_type)?,
                };
                sides.push(side(name, event, stored));
            }
        }
        let carried = self.carried_source().len();
        for (i, field) in self.source.plan.schema().fields().iter().enumerate().take(carried) {
            let cast = self.columns.target_type(field.name());
            let null = null_of(cast.unwrap_or_else(|| field.data_type()))?;
            sides.push(side(&source_helper(i), source_column(&self.source, field.name()), null));
        }
        Ok(sides)
    }

    fn times(&self, has_marker: bool) -> Result<Vec<Side>> {
        let (validity, columns) = (&self.validity, &self.columns);
        let none = || lit(ScalarValue::Int64(None));
        let time = |name: &String| -> Result<Expr> {
            Ok(to_micros(
                col(&self.table.alias, name),
                &validity.time_type(columns, name)?,
            ))
        };
        let event_time = match self.load.common.sequence {
            Some(_) => bare(TIME),
            None => none(),
        };
        Ok(vec![
            side(FROM, none(), time(&validity.from)?),
            side(TO, none(), time(&validity.to)?),
            side(TIME, event_time, none()),
            side(BOUNDARY, self.boundary.clone(), self.boundary.clone()),
            side(MARKED, marked(has_marker), lit(false)),
        ])
    }

    fn flags(&self, stored: &LogicalPlan) -> Result<Vec<Side>> {
        let unknown = || lit(ScalarValue::Boolean(None));
        let flag = |name: &Option<String>| name.as_ref().map_or_else(unknown, |name| col(&self.table.alias, name));
        let inside = match self.identity.within.as_ref().filter(|within| !within.keys_only) {
            Some(within) => is_true(within.of_target.clone()),
            None => lit(true),
        };
        let winner = match &self.load.common.dedup {
            Some(Dedup::Deduplicate { .. }) => bare(WINNER),
            _ => lit(true),
        };
        Ok(vec![
            side(STORED, lit(false), lit(true)),
            side(CURRENT, unknown(), flag(&self.validity.is_current)),
            side(
                DELETED,
                unknown(),
                match self.validity.is_deleted {
                    Some(_) => flag(&self.validity.is_deleted),
                    None => lit(false),
                },
            ),
            side(RETIRES, lit(false), self.retires(stored)?),
            side(INSIDE, lit(true), inside),
            side(WINNER, winner, lit(false)),
            side(
                internal::FILE,
                null_of(&DataType::UInt32)?,
                col(&self.table.alias, internal::FILE),
            ),
            side(
                internal::ROW,
                null_of(&DataType::Int64)?,
                col(&self.table.alias, internal::ROW),
            ),
        ])
    }

    /// Whether a stored version is retired when its key is absent.
    fn retires(&self, stored: &LogicalPlan) -> Result<Expr> {
        let Some(absent) = &self.load.clauses.absent else {
            return Ok(lit(false));
        };
        let mut condition = match absent.within.is_empty() {
            true => lit(true),
            false => is_true(bare(IN_GROUP)),
        };
        if let Some(extra) = &absent.condition {
            let own = self.target_schema(stored.schema())?;
            let extra = bind_condition(self.state, "WHEN NOT MATCHED BY SOURCE", extra, &own)?;
            condition = condition.and(extra);
        }
        Ok(condition)
    }

    /// The target's columns: all that a clause about absent rows may see.
    fn target_schema(&self, stored: &DFSchema) -> Result<DFSchema> {
        let alias = &self.table.alias;
        let own = stored
            .iter()
            .filter(|(qualifier, field)| *qualifier == Some(alias) && !internal::is_internal(field.name()));
        let fields = own
            .map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)))
            .collect();
        Ok(DFSchema::new_with_metadata(fields, Default::default())?)
    }
}

fn side(name: &str, event: Expr, stored: Expr) -> Side {
    Side {
        name: name.to_owned(),
        event,
        stored,
    }
}
