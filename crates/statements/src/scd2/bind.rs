//! From `SCD2 MERGE`'s clauses to a plan.
//!
//! ```text
//! Scd2Merge
//!   Projection: final columns, __action, __file, __row
//!     Intervals: histories of whole keys
//!       Match: without rows that change nothing          Union without the memory for it
//!         <source rows: cast, control columns, gate; spool reader 0>
//!           SkipUnchanged: without rows whose tracked columns are stored     with merge.compare = tracked
//!         Bounded: open, or ended since the source's first row        by sequence
//!           <first time of the source: spool reader 1>
//!           TargetScan: the versions that can matter
//! ```

use alluvium_core::Result;
use alluvium_core::syntax::{Dedup, Load};
use alluvium_delta::write::OperationKind;
use alluvium_exec::columns as internal;
use alluvium_exec::intervals::{AbsentRows, IntervalsSpec, LatePolicy, NEW_DELETED, NEW_FROM, NEW_TO, TIME};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::history::{History, old_helper, source_helper};
use super::syntax::{LateArrival, RetireAction, Scd2Clauses, Track};
use super::times::{boundary, end_of, from_micros, open_until, row_time};
use super::tracked::{by_content, identity_check, is_listed, tracked_columns};
use super::unchanged::trusts_tracked;
use super::validity::Validity;
use crate::bind::columns::{Columns, ColumnsRequest};
use crate::bind::control::{ControlRequest, Controlled, controlled, guard_columns};
use crate::bind::expr::{bare, col, null_of};
use crate::bind::finish::{Changes, Finish};
use crate::bind::keys::{KeySet, plain_column};
use crate::bind::source::SourceRows;
use crate::bind::target::TargetTable;
use crate::preparing::is_preparing;

/// Binds `SCD2 MERGE`.
pub(super) async fn plan(state: &SessionState, load: &Load<Scd2Clauses>) -> Result<LogicalPlan> {
    let scd2 = Scd2::resolve(state, load).await?;
    if !is_preparing(state) {
        super::marker::check(&scd2.table, &scd2.validity, scd2.open_until).await?;
    }
    scd2.plan()
}

/// Everything a plan of `SCD2 MERGE` is made from.
pub(super) struct Scd2<'a> {
    pub state: &'a SessionState,
    pub load: &'a Load<Scd2Clauses>,
    pub table: TargetTable,
    pub source: SourceRows,
    pub columns: Columns,
    pub validity: Validity,
    /// The key columns, or the tracked columns.
    pub identity: KeySet,
    pub tracked: Vec<String>,
    /// Whether rows are equal when their tracked columns are.
    pub trusts_tracked: bool,
    /// In microseconds.
    pub boundary: Expr,
    pub open_until: Option<i64>,
    /// The stored columns that hold the sequence.
    pub guard: Option<Vec<String>>,
    /// Generated columns that the source does not fill: left NULL, and computed before a row is written.
    computed: Vec<String>,
}

impl<'a> Scd2<'a> {
    async fn resolve(state: &'a SessionState, load: &'a Load<Scd2Clauses>) -> Result<Self> {
        let validity = Validity::named(state, load);
        let trusts_tracked = trusts_tracked(load)?;
        let mut table = TargetTable::resolve(state, &load.target, load.common.create.as_ref()).await?;
        table.refuse_append_only("SCD2 MERGE")?;
        table.own = validity.names();
        if table.base.is_some() {
            validity.check_target(state, &table)?;
        }
        let source = SourceRows::resolve(state, &load.source, &load.target, &table).await?;
        validity.check_source(&source)?;
        let marker = load
            .clauses
            .delete_when
            .as_ref()
            .and_then(|d| plain_column(state, &d.expr));
        let request = ColumnsRequest {
            set: load.common.columns.as_ref(),
            evolve: load.common.evolve,
            marker: marker.as_deref(),
            own: validity.fields(),
        };
        let columns = Columns::resolve(state, &table, &source, &request)?;
        let keys = load.common.keys.as_ref();
        let keys = keys
            .map(|keys| KeySet::resolve(state, keys, &source, &table, &columns))
            .transpose()?;
        let tracked = tracked_columns(state, load, keys.as_ref(), &source, &columns)?;
        let identity = match keys {
            Some(keys) => keys,
            None => by_content(state, load, &tracked, &columns)?,
        };
        let from_type = validity.time_type(&columns, &validity.from)?;
        let to_type = validity.time_type(&columns, &validity.to)?;
        let computed = table
            .generated_columns()?
            .into_iter()
            .filter(|name| !columns.lands(name))
            .collect();
        Ok(Self {
            computed,
            boundary: boundary(state, load, &from_type)?,
            open_until: open_until(state, load, &to_type)?,
            guard: guard_columns(state, &load.common, &table, &columns).ok(),
            state,
            load,
            table,
            source,
            columns,
            validity,
            identity,
            tracked,
            trusts_tracked,
        })
    }

    fn plan(self) -> Result<LogicalPlan> {
        let rows = self.controlled()?;
        let history = History { scd2: &self };
        let histories = history.plan(rows)?;
        let changes = self.changes()?;
        let finish = Finish {
            statement: "Scd2Merge",
            kind: OperationKind::Merge,
            common: &self.load.common,
            dry_run: self.load.dry_run,
            returning: &self.load.returning,
            source: &self.source,
            table: &self.table,
            columns: &self.columns,
            read_predicate: self.identity.read_predicate(),
            parameters: self.parameters(),
            notice: None,
            changes_rows: true,
            keys: self.identity.columns.clone(),
            removed_files: Vec::new(),
        };
        finish.build(self.state, histories, changes)
    }

    fn controlled(&self) -> Result<Controlled> {
        let mut extra = Vec::new();
        if let Some(sequence) = &self.load.common.sequence
            && let Some(first) = sequence.exprs.first()
        {
            let cast = self.source.cast(&self.columns)?;
            let from_type = self.validity.time_type(&self.columns, &self.validity.from)?;
            extra.push((
                TIME.to_owned(),
                row_time(self.state, first, cast.schema(), &from_type)?,
                None,
            ));
        }
        if self.explicit_identity() {
            for (i, name) in self.identity.columns.iter().enumerate() {
                let helper = format!("__load_identity_{i}");
                extra.push((
                    helper.clone(),
                    col(&self.source.alias, name),
                    Some(identity_check(helper, name)),
                ));
            }
        }
        let request = ControlRequest {
            common: &self.load.common,
            delete_when: self.load.clauses.delete_when.as_ref(),
            keys: std::slice::from_ref(&self.identity),
            extra,
        };
        let source = self.telling_source()?;
        controlled(self.state, &source, &self.table, &self.columns, request)
    }

    /// Without `KEYS`, a list of tracked columns names what identifies a row: there must be something in it.
    fn explicit_identity(&self) -> bool {
        self.load.common.keys.is_none() && is_listed(self.load)
    }

    /// What the operator does.
    pub fn spec(&self) -> IntervalsSpec {
        let clauses = &self.load.clauses;
        let keeps = |name: &String| self.load.common.keys.is_some() && self.identity.columns.contains(name);
        let landing = self.columns.landing.iter().filter(|name| !keeps(name));
        let landing: Vec<String> = landing.cloned().collect();
        IntervalsSpec {
            table: self.table.name.clone(),
            keys: self.identity.columns.clone(),
            nulls_equal: self.identity.nulls_equal(),
            tracked: self.tracked.clone(),
            compared: match self.trusts_tracked {
                true => self.tracked.clone(),
                false => landing.clone(),
            },
            landing,
            source: (0..self.carried_source().len()).map(source_helper).collect(),
            old: match self.table.change_data_feed() {
                true => (0..self.columns.schema.fields().len()).map(old_helper).collect(),
                false => Vec::new(),
            },
            sequence: self
                .load
                .common
                .sequence
                .as_ref()
                .map_or(0, |sequence| sequence.exprs.len()),
            guards: self.guard.is_some(),
            always: matches!(clauses.track, Some(Track::Always { .. })),
            late: match clauses.late.map(|late| late.action).unwrap_or_default() {
                LateArrival::Reorder => LatePolicy::Reorder,
                LateArrival::Ignore => LatePolicy::Ignore,
                LateArrival::Error => LatePolicy::Error,
                LateArrival::Append => LatePolicy::Append,
            },
            delete_records: clauses.delete_then == RetireAction::NewRecord,
            absent: clauses.absent.as_ref().map(|absent| match absent.action {
                RetireAction::Invalidate => AbsentRows::Invalidate,
                RetireAction::NewRecord => AbsentRows::NewRecord,
            }),
            assume_unique: matches!(self.load.common.dedup, Some(Dedup::AssumeUnique { .. })),
            open_until: self.open_until,
            has_current: self.validity.is_current.is_some(),
        }
    }

    /// The source's columns, if its rows are wanted as they came, beside what becomes of them: to tell rows of one time that
    /// are equal in all columns, and for `RETURNING`.
    pub fn carried_source(&self) -> Vec<String> {
        match self.load.common.sequence.is_none() || !self.load.returning.is_empty() {
            true => self.source.names(),
            false => Vec::new(),
        }
    }

    /// The final value of a table column.
    pub fn value(&self, name: &str, data_type: &DataType) -> Result<Expr> {
        let validity = &self.validity;
        if name == validity.from {
            Ok(from_micros(bare(NEW_FROM), data_type))
        } else if name == validity.to {
            end_of(bare(NEW_TO), self.open_until, data_type)
        } else if validity.is_current.as_deref() == Some(name) {
            Ok(bare(NEW_TO).is_null())
        } else if validity.is_deleted.as_deref() == Some(name) {
            Ok(bare(NEW_DELETED))
        } else if self.computed.iter().any(|computed| computed == name) {
            null_of(data_type)
        } else {
            Ok(bare(name))
        }
    }

    fn changes(&self) -> Result<Changes> {
        let fields = self.columns.schema.fields();
        let value = |name: &String| col(&self.table.alias, name);
        Ok(Changes {
            values: fields.iter().map(|f| value(f.name())).collect(),
            shown: None,
            action: bare(internal::ACTION),
            position: (bare(internal::FILE), bare(internal::ROW)),
            old: match self.table.change_data_feed() {
                true => (0..fields.len()).map(|i| bare(&old_helper(i))).collect(),
                false => Vec::new(),
            },
        })
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let clauses = &self.load.clauses;
        let written = [
            (
                "applyAsDeleteWhen",
                clauses.delete_when.as_ref().map(|d| d.expr.to_string()),
            ),
            ("trackHistory", clauses.track.as_ref().map(ToString::to_string)),
            (
                "effectiveAt",
                clauses.effective_at.as_ref().map(|at| at.expr.to_string()),
            ),
            ("activeUntil", clauses.active_until.as_ref().map(ToString::to_string)),
            (
                "whenNotMatchedBySource",
                clauses.absent.as_ref().map(ToString::to_string),
            ),
            ("onLateArrival", clauses.late.as_ref().map(ToString::to_string)),
            ("validityColumns", Some(self.validity.names().join(", "))),
            ("compare", self.trusts_tracked.then(|| "tracked".to_owned())),
        ];
        written
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key, value)))
            .collect()
    }
}
