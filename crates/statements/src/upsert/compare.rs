//! Whether a match would change anything: in the join's own columns where they are read anyway, and by reading stored
//! columns late where nothing else needs them.

use std::sync::Arc;

use alluvium_core::Result;
use alluvium_delta::compare::{CompareNode, CompareSpec, DIFFERS, WANTED, new_value, rank};
use alluvium_exec::changed::changed;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::bind::{Conditions, Upsert};
use crate::bind::expr::{bare, col, is_true};
use crate::bind::finish::bool_option;

impl Upsert<'_> {
    /// Whether an update would change any column. The plan that comes back can answer that.
    pub(super) fn compared(
        &self,
        joined: LogicalPlan,
        conditions: &Conditions,
        updated: &[Expr],
        guard: &[String],
    ) -> Result<(LogicalPlan, Expr)> {
        let pairs = self.pairs(updated)?;
        let Some(pairs) = pairs else {
            return Ok((joined, lit(true)));
        };
        let (late, direct): (Vec<_>, Vec<_>) = pairs
            .into_iter()
            .partition(|(name, new)| self.reads_late(name, new, guard));
        let direct = self.any_changed(&direct);
        if late.is_empty() {
            return Ok((joined, direct));
        }
        let decided = conditions
            .guarded
            .clone()
            .or(conditions.newer.clone())
            .or(direct.clone());
        let wanted = is_true(conditions.matched.clone()).and(Expr::IsNotTrue(Box::new(decided)));
        let plan = self.late(joined, wanted, late)?;
        Ok((plan, direct.or(bare(DIFFERS))))
    }

    /// The same in the columns of the join alone.
    pub(super) fn differs(&self, updated: &[Expr]) -> Result<Expr> {
        let pairs = self.pairs(updated)?;
        Ok(pairs.map_or(lit(true), |pairs| self.any_changed(&pairs)))
    }

    /// The columns that an update can change, with their new values; `None` where every update counts as a change.
    fn pairs<'e>(&self, updated: &'e [Expr]) -> Result<Option<Vec<(&String, &'e Expr)>>> {
        if !bool_option(&self.load.common.options, "merge.compare", true)? {
            return Ok(None);
        }
        let computed = self.computed()?;
        let fields = self.columns.schema.fields().iter().map(|field| field.name());
        let changes = |(name, new): &(&String, &Expr)| {
            let stored = col(&self.table.alias, name);
            **new != stored && !self.keys.columns.contains(name) && !computed.contains(name)
        };
        Ok(Some(fields.zip(updated).filter(changes).collect()))
    }

    fn any_changed(&self, pairs: &[(&String, &Expr)]) -> Expr {
        let changed = |(name, new): &(&String, &Expr)| changed(col(&self.table.alias, name), (*new).clone());
        pairs.iter().map(changed).reduce(Expr::or).unwrap_or(lit(false))
    }

    /// Whether the stored column is read for nothing but this comparison, and can be read on its own.
    fn reads_late(&self, name: &String, new: &Expr, guard: &[String]) -> bool {
        let Some(base) = &self.table.base else { return false };
        let position = self.columns.schema.index_of(name).ok();
        let as_stored = position.is_some_and(|i| {
            let field = self.columns.schema.field(i);
            base.schema()
                .field_with_name(name)
                .is_ok_and(|f| f.data_type() == field.data_type())
        });
        // Without room for a hash join rows come in the order of their keys, all over the files.
        let in_file_order = self.state.config_options().optimizer.prefer_hash_join;
        let read_anyway = guard.contains(name)
            || self.table.change_data_feed()
            || !self.load.returning.is_empty()
            || self.load.clauses.absent.is_some();
        let in_files = !self.table.partition_columns.contains(name);
        matches!(new, Expr::Column(_)) && as_stored && in_files && in_file_order && !read_anyway
    }

    fn late(&self, joined: LogicalPlan, wanted: Expr, mut pairs: Vec<(&String, &Expr)>) -> Result<LogicalPlan> {
        let Some(base) = &self.table.base else {
            return Ok(joined);
        };
        let rank_of = |name: &String| base.schema().field_with_name(name).map_or(0, |f| rank(f.data_type()));
        pairs.sort_by_key(|(name, _)| rank_of(name));
        let mut exprs: Vec<Expr> = joined.schema().columns().into_iter().map(Expr::Column).collect();
        exprs.push(wanted.alias(WANTED));
        let new = pairs.iter().enumerate();
        exprs.extend(new.map(|(i, (_, new))| (*new).clone().alias(new_value(i))));
        let input = LogicalPlanBuilder::from(joined).project(exprs)?.build()?;
        let columns = pairs.into_iter().map(|(name, _)| name.clone()).collect();
        let spec = CompareSpec::new(Arc::clone(base), columns);
        Ok(CompareNode::try_new(input, spec)?.into_plan())
    }
}
