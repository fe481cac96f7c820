//! From `UPSERT`'s clauses to a plan.
//!
//! ```text
//! Upsert
//!   Projection: final columns, __action, __file, __row
//!     CompareStored                   reads what is compared, where nothing else needs it
//!       Match on the key              Left Join without the memory for it, Full Join with WHEN NOT MATCHED BY SOURCE
//!         <source: cast, control columns, gate, winner or key check>
//!         TargetScan
//! ```

use alluvium_core::syntax::{Absent, ColumnSet, Load};
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::write::OperationKind;
use alluvium_exec::{action, columns as internal};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, JoinType};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};

use super::syntax::{AbsentAction, UpdateColumns, UpsertClauses};
use crate::bind::columns::{Columns, ColumnsRequest, find, select};
use crate::bind::control::{
    ControlRequest, Controlled, PRESENT, controlled, guard_columns, marked, one_per_key, source_column,
};
use crate::bind::expr::{bare, bind, bind_condition, case, col, is_true, null_of, tuple_greater};
use crate::bind::finish::{Changes, Finish};
use crate::bind::groups::with_present_groups;
use crate::bind::keys::{KeyJoin, KeySet, plain_column};
use crate::bind::outside::refuse_outside_matches;
use crate::bind::source::SourceRows;
use crate::bind::target::TargetTable;

/// Binds `UPSERT`.
pub(super) async fn plan(state: &SessionState, load: &Load<UpsertClauses>) -> Result<LogicalPlan> {
    let table = TargetTable::resolve(state, &load.target, load.common.create.as_ref()).await?;
    table.refuse_append_only("UPSERT")?;
    let source = SourceRows::resolve(state, &load.source, &load.target, &table).await?;
    let marker = load
        .clauses
        .delete_when
        .as_ref()
        .and_then(|d| plain_column(state, &d.expr));
    let request = ColumnsRequest {
        set: load.common.columns.as_ref(),
        evolve: load.common.evolve,
        marker: marker.as_deref(),
        own: Vec::new(),
    };
    let columns = Columns::resolve(state, &table, &source, &request)?;
    let keys = load
        .common
        .keys
        .as_ref()
        .ok_or_else(|| LoadError::internal("UPSERT without KEYS passed the parser"))?;
    let keys = KeySet::resolve(state, keys, &source, &table, &columns)?;
    Upsert {
        state,
        load,
        table,
        source,
        columns,
        keys,
    }
    .plan()
}

/// Everything a plan of `UPSERT` is made from.
pub(super) struct Upsert<'a> {
    pub(super) state: &'a SessionState,
    pub(super) load: &'a Load<UpsertClauses>,
    pub(super) table: TargetTable,
    source: SourceRows,
    pub(super) columns: Columns,
    pub(super) keys: KeySet,
}

/// The conditions a joined row is judged by.
pub(super) struct Conditions {
    /// The row has a source row; TRUE throughout a left join.
    present: Expr,
    /// The row has a stored row.
    pub(super) matched: Expr,
    /// The stored row is newer than the source row.
    pub(super) guarded: Expr,
    /// The source row is proven newer, so that nothing has to be compared.
    pub(super) newer: Expr,
}

impl Upsert<'_> {
    fn plan(self) -> Result<LogicalPlan> {
        let rows = self.controlled()?;
        let has_marker = rows.marked;
        let (guard, notice) = match guard_columns(self.state, &self.load.common, &self.table, &self.columns) {
            Ok(columns) => (Some(columns), None),
            Err(notice) => (None, notice),
        };
        let joined = self.join(rows)?;
        let conditions = self.conditions(guard.as_deref());
        let updated = self.updated_values(joined.schema())?;
        let guard = guard.unwrap_or_default();
        let (joined, differs) = self.compared(joined, &conditions, &updated, &guard)?;
        let changes = self.changes(joined.schema(), &conditions, has_marker, updated, differs)?;
        let finish = Finish {
            statement: "Upsert",
            kind: OperationKind::Merge,
            common: &self.load.common,
            dry_run: self.load.dry_run,
            returning: &self.load.returning,
            source: &self.source,
            table: &self.table,
            columns: &self.columns,
            read_predicate: self.keys.read_predicate(),
            parameters: self.parameters(),
            notice,
            changes_rows: true,
            keys: self.keys.columns.clone(),
            removed_files: Vec::new(),
        };
        finish.build(self.state, joined, changes)
    }

    fn controlled(&self) -> Result<Controlled> {
        let request = ControlRequest {
            common: &self.load.common,
            delete_when: self.load.clauses.delete_when.as_ref(),
            keys: std::slice::from_ref(&self.keys),
            extra: Vec::new(),
        };
        controlled(self.state, &self.source, &self.table, &self.columns, request)
    }

    fn absent(&self) -> Option<&Absent<AbsentAction>> {
        self.load.clauses.absent.as_ref()
    }

    /// Source rows, one per key, beside the stored rows of the same key.
    fn join(&self, mut rows: Controlled) -> Result<LogicalPlan> {
        let mut target = self.table.scan(&self.columns.schema)?;
        if let Some(within) = &self.keys.within {
            target = target.filter(within.of_target.clone())?;
        }
        let mut target = target.build()?;
        if let Some(absent) = self.absent().filter(|absent| !absent.within.is_empty()) {
            (rows.plan, target) =
                with_present_groups(self.state, &absent.within, rows.plan, target, &self.source, &self.table)?;
        }
        let common = &self.load.common;
        let unique = one_per_key(
            self.state,
            rows,
            common,
            &self.source,
            &self.table,
            &self.keys,
            &self.columns,
        )?;
        let join = KeyJoin {
            keys: &self.keys,
            columns: &self.columns,
            source: &self.source.alias,
            target: &self.table.alias,
            join_type: match self.absent() {
                Some(_) => JoinType::Full,
                None => JoinType::Left,
            },
            filter: None,
        };
        let joined = join.matched(self.state, unique, target)?;
        let unmatched = col(&self.table.alias, internal::ROW).is_null();
        refuse_outside_matches(joined, &self.keys, &self.source, &self.table, &self.columns, unmatched)
    }

    fn conditions(&self, guard: Option<&[String]>) -> Conditions {
        let matched = col(&self.table.alias, internal::ROW).is_not_null();
        let sequence = guard.map(|columns| {
            let source: Vec<Expr> = (0..columns.len()).map(|i| bare(&internal::sequence(i))).collect();
            let target: Vec<Expr> = columns.iter().map(|c| self.guard_value(c)).collect();
            (source, target)
        });
        let (guarded, newer) = match sequence {
            Some((source, target)) => (tuple_greater(&target, &source), tuple_greater(&source, &target)),
            None => (lit(false), lit(false)),
        };
        // A newer row differs at least in its sequence, unless the update leaves that out.
        let proves = guard.is_some_and(|columns| columns.iter().all(|name| self.updates(name)));
        let newer = match proves && self.load.clauses.ignore_nulls.is_none() {
            true => newer,
            false => lit(false),
        };
        Conditions {
            present: match self.absent() {
                Some(_) => bare(PRESENT).is_not_null(),
                None => lit(true),
            },
            matched,
            guarded,
            newer,
        }
    }

    /// Whether a match takes the source's value of this column as it is.
    fn updates(&self, name: &str) -> bool {
        let chosen = match &self.load.clauses.update {
            None => true,
            Some(UpdateColumns::Columns(set)) => self.limit(set).is_ok_and(|columns| columns.iter().any(|c| c == name)),
            Some(UpdateColumns::Set(_)) => false,
        };
        chosen && self.columns.lands(name)
    }

    /// A stored sequence column; floats with one zero, as in the source.
    fn guard_value(&self, name: &str) -> Expr {
        let value = col(&self.table.alias, name);
        match self.columns.target_type(name) {
            Some(data_type) => crate::bind::expr::join_key(value, data_type),
            None => value,
        }
    }

    fn changes(
        &self,
        joined: &DFSchema,
        conditions: &Conditions,
        has_marker: bool,
        updated: Vec<Expr>,
        differs: Expr,
    ) -> Result<Changes> {
        let inserted = self.inserted_values()?;
        let absent = self.absent_values(joined)?;
        let action = self.action(joined, conditions, has_marker, differs, absent.as_deref())?;
        let names: Vec<&String> = self.columns.schema.fields().iter().map(|f| f.name()).collect();
        let stored: Vec<Expr> = names.iter().map(|name| col(&self.table.alias, name)).collect();
        let mut values = Vec::with_capacity(names.len());
        for (i, inserted) in inserted.into_iter().enumerate() {
            let mut branches = Vec::new();
            if let Some(absent) = &absent {
                branches.push((is_true(conditions.present.clone()).eq(lit(false)), absent[i].clone()));
            }
            // Inserted and updated value are the same expression for most columns: then there is nothing to choose.
            if updated[i] != inserted {
                branches.push((conditions.matched.clone(), updated[i].clone()));
            }
            values.push(case(branches, inserted)?);
        }
        let shown = self.shown(&values, &stored, &action)?;
        let position = (
            col(&self.table.alias, internal::FILE),
            col(&self.table.alias, internal::ROW),
        );
        Ok(Changes {
            values,
            shown,
            action,
            position,
            old: stored,
        })
    }

    /// RETURNING shows what was stored for deleted rows.
    fn shown(&self, values: &[Expr], stored: &[Expr], action: &Expr) -> Result<Option<Vec<Expr>>> {
        if self.load.returning.is_empty() {
            return Ok(None);
        }
        let deleted = action.clone().eq(lit(action::DELETE));
        let shown = values.iter().zip(stored);
        let shown = shown.map(|(value, stored)| case(vec![(deleted.clone(), stored.clone())], value.clone()));
        shown.collect::<Result<Vec<_>>>().map(Some)
    }

    /// What a match writes into each table column.
    fn updated_values(&self, joined: &DFSchema) -> Result<Vec<Expr>> {
        let keep_nulls = self.ignored_nulls()?;
        let computed = self.computed()?;
        let set = match &self.load.clauses.update {
            Some(UpdateColumns::Set(assignments)) => Some(self.assignments(assignments, joined)?),
            _ => None,
        };
        let limited = match &self.load.clauses.update {
            Some(UpdateColumns::Columns(set)) => Some(self.limit(set)?),
            _ => None,
        };
        let value = |f: &FieldRef| {
            let name = f.name();
            let stored = col(&self.table.alias, name);
            if computed.contains(name) {
                return null_of(f.data_type());
            }
            if let Some(set) = &set {
                let assigned = set.iter().find(|(column, _)| column == name);
                return Ok(assigned.map_or(stored, |(_, value)| value.clone()));
            }
            let updates = self.columns.lands(name)
                && !self.keys.columns.contains(name)
                && limited.as_ref().is_none_or(|limited| limited.contains(name));
            if self.keys.columns.contains(name) || !updates {
                return Ok(if self.keys.columns.contains(name) {
                    self.key_value(name)
                } else {
                    stored
                });
            }
            let new = source_column(&self.source, name);
            match keep_nulls.contains(name) {
                true => case(vec![(new.clone().is_null(), stored)], new),
                false => Ok(new),
            }
        };
        self.columns.schema.fields().iter().map(value).collect()
    }

    /// Generated columns that the source does not fill: left NULL here, computed before the row is written.
    pub(super) fn computed(&self) -> Result<Vec<String>> {
        let generated = self.table.generated_columns()?.into_iter();
        Ok(generated.filter(|name| !self.columns.lands(name)).collect())
    }

    /// A key column keeps its value on a match. Both sides are equal, and only floats can be equal with other bits;
    /// the source's value saves reading the stored one.
    fn key_value(&self, name: &str) -> Expr {
        match self.columns.target_type(name) {
            Some(data_type) if data_type.is_floating() => col(&self.table.alias, name),
            _ => source_column(&self.source, name),
        }
    }

    /// The landing columns that `set` picks. Leaving out what does not land anyway is no mistake.
    fn limit(&self, set: &ColumnSet) -> Result<Vec<String>> {
        let landing = &self.columns.landing;
        match set {
            ColumnSet::Only(_) => select(self.state, set, landing, "the columns that the source fills"),
            ColumnSet::AllExcept(_) => {
                let picked = select(self.state, set, &self.source.names(), "the source")?;
                Ok(landing.iter().filter(|name| picked.contains(name)).cloned().collect())
            }
        }
    }

    fn ignored_nulls(&self) -> Result<Vec<String>> {
        match &self.load.clauses.ignore_nulls {
            None => Ok(Vec::new()),
            Some(ignore) => match &ignore.on {
                None => Ok(self.columns.landing.clone()),
                Some(set) => self.limit(set),
            },
        }
    }

    /// `SET` values, each cast to its column's type.
    fn assignments(
        &self,
        assignments: &[alluvium_core::syntax::Assignment],
        schema: &DFSchema,
    ) -> Result<Vec<(String, Expr)>> {
        let names: Vec<String> = self.columns.schema.fields().iter().map(|f| f.name().clone()).collect();
        let mut set: Vec<(String, Expr)> = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            let name = find(
                self.state,
                &assignment.column,
                &names,
                &format!("table \"{}\"", self.table.name),
            )?;
            let span = assignment.column.span;
            if self.keys.columns.contains(&name) {
                return Err(
                    LoadError::new(SqlState::Syntax, format!("key column \"{name}\" cannot be updated"))
                        .hint("Leave it out of SET: a match has equal keys on both sides.")
                        .at(span),
                );
            }
            if set.iter().any(|(column, _)| *column == name) {
                return Err(
                    LoadError::new(SqlState::DuplicateColumn, format!("column \"{name}\" is set twice"))
                        .hint("Set each column once.")
                        .at(span),
                );
            }
            let value = bind(self.state, &assignment.value, schema)?;
            let from = value.get_type(schema)?;
            let to = self.columns.target_type(&name).cloned().unwrap_or_else(|| from.clone());
            alluvium_exec::checked_cast::check_castable(&name, &from, &to).map_err(|e| e.at_if_unset(span))?;
            set.push((
                name.clone(),
                alluvium_exec::checked_cast::checked_cast(value, &name, &from, &to),
            ));
        }
        Ok(set)
    }

    /// What a new row holds in each table column.
    fn inserted_values(&self) -> Result<Vec<Expr>> {
        let value = |f: &FieldRef| match self.columns.lands(f.name()) {
            true => Ok(source_column(&self.source, f.name())),
            false => null_of(f.data_type()),
        };
        self.columns.schema.fields().iter().map(value).collect()
    }

    /// What a target row without a source row becomes, when it is updated.
    fn absent_values(&self, joined: &DFSchema) -> Result<Option<Vec<Expr>>> {
        let Some(absent) = self.absent() else {
            return Ok(None);
        };
        let set = match &absent.action {
            AbsentAction::Delete => Vec::new(),
            AbsentAction::Update(assignments) => {
                let target_only = self.target_schema(joined)?;
                self.assignments(assignments, &target_only)?
            }
        };
        let computed = self.computed()?;
        let value = |f: &FieldRef| {
            let assigned = set.iter().find(|(column, _)| column == f.name());
            match assigned {
                Some((_, value)) => Ok(value.clone()),
                None if computed.contains(f.name()) => null_of(f.data_type()),
                None => Ok(col(&self.table.alias, f.name())),
            }
        };
        self.columns
            .schema
            .fields()
            .iter()
            .map(value)
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }

    /// The target's columns of a joined row: all that a clause about absent rows may see.
    fn target_schema(&self, joined: &DFSchema) -> Result<DFSchema> {
        let own = joined
            .iter()
            .filter(|(qualifier, field)| *qualifier == Some(&self.table.alias) && !internal::is_internal(field.name()));
        let fields = own
            .map(|(qualifier, field)| (qualifier.cloned(), std::sync::Arc::clone(field)))
            .collect();
        Ok(DFSchema::new_with_metadata(fields, Default::default())?)
    }

    fn action(
        &self,
        joined: &DFSchema,
        c: &Conditions,
        has_marker: bool,
        differs: Expr,
        absent: Option<&[Expr]>,
    ) -> Result<Expr> {
        let code = |value: u8| lit(value);
        let mut branches = Vec::new();
        if let (Some(clause), Some(values)) = (self.absent(), absent) {
            let (condition, code) = self.absent_action(clause, values, joined)?;
            branches.push((c.present.clone().eq(lit(false)).and(condition), code));
            branches.push((c.present.clone().eq(lit(false)), lit(action::NONE)));
        }
        let marked = marked(has_marker);
        branches.push((c.matched.clone().and(c.guarded.clone()), code(action::SKIPPED)));
        branches.push((marked.clone().and(c.matched.clone()), code(action::DELETE)));
        branches.push((marked, code(action::UNCHANGED)));
        branches.push((c.matched.clone().eq(lit(false)), code(action::INSERT)));
        if let Some(when) = &self.load.clauses.update_when {
            let passes = bind_condition(self.state, "UPDATE WHEN", when, joined)?;
            branches.push((passes.eq(lit(false)), code(action::SKIPPED)));
        }
        branches.push((c.newer.clone().or(differs), code(action::UPDATE)));
        case(branches, code(action::UNCHANGED))
    }

    /// When an absent row is touched, and how.
    fn absent_action(&self, clause: &Absent<AbsentAction>, values: &[Expr], joined: &DFSchema) -> Result<(Expr, Expr)> {
        let mut condition = match clause.within.is_empty() {
            true => lit(true),
            false => is_true(bare(crate::bind::groups::IN_GROUP)),
        };
        if let Some(extra) = &clause.condition {
            let target_only = self.target_schema(joined)?;
            condition = condition.and(bind_condition(
                self.state,
                "WHEN NOT MATCHED BY SOURCE",
                extra,
                &target_only,
            )?);
        }
        match clause.action {
            AbsentAction::Delete => Ok((condition, lit(action::DELETE))),
            AbsentAction::Update(_) => {
                let differs = self.differs(values)?;
                Ok((condition.and(differs), lit(action::UPDATE)))
            }
        }
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let clauses = &self.load.clauses;
        let mut list = Vec::new();
        if let Some(delete) = &clauses.delete_when {
            list.push(("applyAsDeleteWhen", delete.expr.to_string()));
        }
        if let Some(when) = &clauses.update_when {
            list.push(("updateWhen", when.to_string()));
        }
        if let Some(absent) = &clauses.absent {
            list.push(("whenNotMatchedBySource", absent.to_string()));
        }
        list
    }
}
