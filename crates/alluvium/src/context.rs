//! Our statements on a plain `SessionContext`.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::script::{ScriptItem, Stmt, parse_script};
use alluvium_core::{Effect, LoadError, Registry, Result, SqlState, StatementKind};
use alluvium_delta::LoadOptions;
use async_trait::async_trait;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, Statement as StatementPlan};
use datafusion::prelude::{DataFrame, SessionConfig};
use datafusion::sql::parser::Statement as DFStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use crate::planner::LoadQueryPlanner;
use crate::retry::Mode;
use crate::{catalog, commands, limits, plan, prepared};

/// Our statements on a `SessionContext` that was made without us.
///
/// The first call adds our planner to the context, in front of the one it has, our table functions, and a catalog for
/// the tables that `CREATE EXTERNAL TABLE .. STORED AS DELTATABLE` attaches; what the context has registered stays.
#[async_trait]
pub trait LoadContext {
    /// Plans one statement, ours or DataFusion's. Loads commit when the frame is executed.
    async fn load_sql(&self, sql: &str) -> Result<DataFrame>;

    /// The same under DataFusion's `SQLOptions`.
    async fn load_sql_with_options(&self, sql: &str, options: SQLOptions) -> Result<DataFrame>;
}

#[async_trait]
impl LoadContext for SessionContext {
    async fn load_sql(&self, sql: &str) -> Result<DataFrame> {
        self.load_sql_with_options(sql, SQLOptions::new()).await
    }

    async fn load_sql_with_options(&self, sql: &str, options: SQLOptions) -> Result<DataFrame> {
        install(self).await?;
        let stmt = parse_one(&self.state(), sql)?;
        frame(self, &stmt, options).await
    }
}

/// Adds our statements to a context once.
async fn install(context: &SessionContext) -> Result<()> {
    let state = context.state();
    if state.config().get_extension::<Registry>().is_some() {
        return Ok(());
    }
    let state = catalog::install(install_in(state, Vec::new()), None, HashMap::new()).await?;
    *context.state_ref().write() = state;
    Ok(())
}

/// Adds registry, planner, table functions and the parser settings we rely on to a session state.
pub(crate) fn install_in(mut state: SessionState, own: Vec<Arc<dyn StatementKind>>) -> SessionState {
    let mut registry = Registry::new(builtin());
    own.into_iter().for_each(|kind| registry.register(kind));
    state.config_mut().set_extension(Arc::new(registry));
    let options = state.config_mut().options_mut();
    options.sql_parser.collect_spans = true;
    LoadOptions::register(options);
    let planner = Arc::new(LoadQueryPlanner::new(Arc::clone(state.query_planner())));
    let builder = SessionStateBuilder::new_from_existing(state).with_query_planner(planner);
    let state = catalog::with_type_planner(builder).build();
    commands::with_functions(state)
}

fn builtin() -> Vec<Arc<dyn StatementKind>> {
    let mut kinds = alluvium_statements::builtin();
    kinds.extend(commands::builtin());
    kinds
}

pub(crate) fn registry(state: &SessionState) -> Arc<Registry> {
    state.config().get_extension::<Registry>().unwrap_or_default()
}

pub(crate) fn parse(state: &SessionState, sql: &str) -> Vec<Result<ScriptItem>> {
    let dialect = state.config_options().sql_parser.dialect;
    parse_script(sql, &registry(state), dialect)
}

pub(crate) fn parse_one(state: &SessionState, sql: &str) -> Result<Stmt> {
    let mut items = parse(state, sql).into_iter();
    let first = items.next().ok_or_else(|| {
        LoadError::new(SqlState::Syntax, "there is no statement").hint("Write one before the semicolon.")
    })?;
    let first = first?;
    match items.next() {
        None => Ok(first.stmt),
        Some(_) => Err(LoadError::new(SqlState::Syntax, "there is more than one statement")
            .hint("Run several statements with run_script().")),
    }
}

/// Plans `stmt` into a frame. DDL and `SET` of DataFusion's run at once, as in DataFusion.
pub(crate) async fn frame(context: &SessionContext, stmt: &Stmt, options: SQLOptions) -> Result<DataFrame> {
    frame_in_mode(context, stmt, options, Mode::InMemory).await
}

/// The same, with operators chosen by `mode`.
pub(crate) async fn frame_in_mode(
    context: &SessionContext,
    stmt: &Stmt,
    options: SQLOptions,
    mode: Mode,
) -> Result<DataFrame> {
    limits::verify(&options, plan::effect(stmt), name_of(stmt))?;
    let state = in_mode(context.state(), mode);
    let logical = plan::plan(&state, stmt).await?;
    options.verify_plan(&logical).map_err(LoadError::from)?;
    if ours(stmt) || matches!(logical, LogicalPlan::Dml(_)) {
        return Ok(DataFrame::new(state, logical));
    }
    let is_execute = matches!(logical, LogicalPlan::Statement(StatementPlan::Execute(_)));
    let frame = context.execute_logical_plan(logical).await?;
    if !is_execute {
        return Ok(frame);
    }
    let (_, logical) = frame.into_parts();
    Ok(DataFrame::new(state, prepared::refreshed(logical).await?))
}

/// Whether the frame of `stmt` is planned with the session state of its mode, as that of an `INSERT` is; the others go
/// through DataFusion's own handling of statements.
fn ours(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Ours(_) => true,
        Stmt::Explain { .. } => true,
        Stmt::Prepare { .. } | Stmt::DataFusion(_) => false,
    }
}

fn in_mode(mut state: SessionState, mode: Mode) -> SessionState {
    if mode == Mode::Spilling {
        state.config_mut().options_mut().optimizer.prefer_hash_join = false;
        if let MemoryLimit::Finite(limit) = state.runtime_env().memory_pool.memory_limit() {
            let config = state.config().clone();
            *state.config_mut() = with_fitting_sorts(config, limit);
        }
    }
    state
}

/// Makes room for sorts under a small limit. DataFusion's defaults take ten megabytes per sort and partition for merging
/// alone, and a merge holds a batch of every run: within a few tens of megabytes no sort could even begin to spill.
fn with_fitting_sorts(config: SessionConfig, limit: usize) -> SessionConfig {
    let piece = limit / config.target_partitions().max(1) / 32;
    let execution = &config.options().execution;
    let reserved = execution.sort_spill_reservation_bytes.min(piece);
    let in_place = execution.sort_in_place_threshold_bytes.min(piece);
    // Rows of a kilobyte, say.
    let rows = config.batch_size().min((piece / 1024).max(64));
    config
        .with_sort_spill_reservation_bytes(reserved)
        .with_sort_in_place_threshold_bytes(in_place)
        .with_batch_size(rows)
}

/// Whether the session plans joins that spill from the start.
pub(crate) fn is_spilling(state: &SessionState) -> bool {
    !state.config_options().optimizer.prefer_hash_join
}

fn name_of(stmt: &Stmt) -> &'static str {
    match stmt {
        Stmt::Ours(statement) => statement.name(),
        Stmt::Prepare { inner, .. } => inner.name(),
        Stmt::Explain { inner, .. } => name_of(inner),
        Stmt::DataFusion(_) => "the statement",
    }
}

/// `merge.max_attempts` of the statement's OPTIONS, or the default.
pub(crate) fn max_attempts(stmt: &Stmt) -> usize {
    match stmt {
        Stmt::Ours(statement) => statement.max_attempts(),
        Stmt::Explain { inner, .. } => return max_attempts(inner),
        _ => None,
    }
    .unwrap_or(crate::session::DEFAULT_MAX_ATTEMPTS)
}

/// Whether rows are what the statement is for.
pub(crate) fn returns_rows(stmt: &Stmt, logical: &LogicalPlan) -> bool {
    match stmt {
        Stmt::Ours(statement) => statement.effect() != Effect::Ddl,
        Stmt::Explain { .. } => true,
        Stmt::Prepare { .. } => false,
        Stmt::DataFusion(statement) => !is_silent(statement, logical),
    }
}

fn is_silent(statement: &DFStatement, logical: &LogicalPlan) -> bool {
    let silent = matches!(statement, DFStatement::CreateExternalTable(_) | DFStatement::Reset(_))
        || matches!(logical, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_));
    let DFStatement::Statement(inner) = statement else {
        return silent;
    };
    silent
        || matches!(
            inner.as_ref(),
            SqlStatement::CreateTable(_)
                | SqlStatement::CreateView(_)
                | SqlStatement::CreateSchema { .. }
                | SqlStatement::CreateDatabase { .. }
                | SqlStatement::CreateFunction(_)
                | SqlStatement::Drop { .. }
                | SqlStatement::DropFunction(_)
                | SqlStatement::Set(_)
                | SqlStatement::Prepare { .. }
                | SqlStatement::Deallocate { .. }
        )
}
