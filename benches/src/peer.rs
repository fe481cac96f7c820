//! What a user of the table format library writes for the same loads: merges, overwrites and appends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::JoinType;
use datafusion::prelude::{DataFrame, Expr, ParquetReadOptions, SessionContext, col, lit};
use deltalake::DeltaTable;
use deltalake::delta_datafusion::DeltaSessionContext;
use deltalake::operations::merge::{InsertBuilder, MergeBuilder, UpdateBuilder};
use deltalake::operations::write::WriteBuilder;
use deltalake::protocol::SaveMode;

use crate::Result;
use crate::engine::Engine;
use crate::reads::share_store;
use crate::source::{WINDOW_FIRST_DAY, WINDOW_LAST_DAY};
use crate::tables::table_url;
use crate::workload::{Load, Workload};

/// One operation after the other, on the table that the one before gave back.
pub(crate) async fn load(
    way: Engine,
    workload: &Workload,
    table: &Path,
    sources: &[PathBuf],
    memory_limit: Option<usize>,
) -> Result<Duration> {
    let peer = Peer {
        way,
        context: context(memory_limit)?,
    };
    let started = Instant::now();
    let mut table = deltalake::open_table(table_url(table)?).await?;
    for source in sources {
        let path = source.display().to_string();
        let source = peer.context.read_parquet(path, ParquetReadOptions::default()).await?;
        table = match workload.load {
            Load::Upsert => peer.merge_rows(table, source.clone(), &source, true).await?,
            Load::InsertOnly => peer.merge_rows(table, source.clone(), &source, false).await?,
            Load::Window => peer.replace_window(table, source).await?,
            Load::Newest => peer.merge_rows(table, newest(&source)?, &source, true).await?,
            Load::HistoryOfExtract => peer.merge_extract(table, source).await?,
            Load::HistoryOfChanges => peer.merge_changes(table, source).await?,
        };
    }
    Ok(started.elapsed())
}

fn context(memory_limit: Option<usize>) -> Result<SessionContext> {
    let context = match memory_limit {
        None => DeltaSessionContext::new().into_inner(),
        Some(bytes) => {
            let pool = Arc::new(FairSpillPool::new(bytes));
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
            DeltaSessionContext::with_runtime_env(runtime).into_inner()
        }
    };
    share_store(&context)?;
    Ok(context)
}

struct Peer {
    way: Engine,
    context: SessionContext,
}

impl Peer {
    fn merge(&self, table: DeltaTable, source: DataFrame, condition: Expr) -> MergeBuilder {
        table
            .merge(source, condition)
            .with_session_state(Arc::new(self.context.state()))
            .with_source_alias("s")
            .with_target_alias("t")
            .with_streaming(self.way != Engine::MergeFilter)
    }

    /// The condition, with the range of the keys if this way of use has it.
    async fn within_range(&self, condition: Expr, keys: &DataFrame) -> Result<Expr> {
        match self.way {
            Engine::MergeRange => Ok(condition.and(key_range(keys).await?)),
            _ => Ok(condition),
        }
    }

    /// `source`, whose keys are those of `keys`: new rows are inserted, known ones updated if they are to be.
    async fn merge_rows(
        &self,
        table: DeltaTable,
        source: DataFrame,
        keys: &DataFrame,
        update: bool,
    ) -> Result<DeltaTable> {
        let names = names(&source);
        let condition = self.within_range(col("t.id").eq(col("s.id")), keys).await?;
        let mut merge = self
            .merge(table, source, condition)
            .when_not_matched_insert(|insert| insert_all(insert, &names))?;
        if update {
            merge = merge.when_matched_update(|update| {
                let set = |update: UpdateBuilder, name: &String| update.update(format!("t.{name}"), of_source(name));
                names.iter().fold(update, set)
            })?;
        }
        Ok(merge.await?.0)
    }

    async fn replace_window(&self, table: DeltaTable, source: DataFrame) -> Result<DeltaTable> {
        let day = |day: i32| lit(ScalarValue::Date32(Some(day)));
        let from = col("day").gt_eq(day(WINDOW_FIRST_DAY));
        let inside = from.and(col("day").lt_eq(day(WINDOW_LAST_DAY)));
        let write = self.write(&table, source)?;
        Ok(write
            .with_save_mode(SaveMode::Overwrite)
            .with_replace_where(inside)
            .await?)
    }

    fn write(&self, table: &DeltaTable, rows: DataFrame) -> Result<WriteBuilder> {
        let snapshot = table.snapshot()?.snapshot().clone();
        Ok(WriteBuilder::new(table.log_store(), Some(snapshot))
            .with_session_state(Arc::new(self.context.state()))
            .with_input_plan(rows.into_unoptimized_plan()))
    }

    /// The changes are found by an anti join and kept. Each of them is merged twice: with its key, to close the stored
    /// version, and without one, to be inserted.
    async fn merge_extract(&self, table: DeltaTable, source: DataFrame) -> Result<DeltaTable> {
        let current = self.context.read_table(table.table_provider().await?)?;
        let current = current
            .filter(col("is_current"))?
            .select(vec![col("id").alias("stored_id"), col("row_hash").alias("stored_hash")])?;
        let (of_source, of_table) = (["id", "row_hash"], ["stored_id", "stored_hash"]);
        let changes = source.join(current, JoinType::LeftAnti, &of_source, &of_table, None)?;
        let changes = changes.cache().await?;
        let names = names(&changes);
        let staged = |key: Expr, what: &str| changes.clone().with_column("key", key)?.with_column("what", lit(what));
        let both = staged(col("id"), "close")?.union(staged(lit(ScalarValue::Int64(None)), "open")?)?;
        let condition = col("t.id").eq(col("s.key")).and(col("t.is_current"));
        let condition = self.within_range(condition, &changes).await?;
        let merge = self
            .merge(table, both, condition)
            .when_matched_update(close)?
            .when_not_matched_insert(|insert| {
                insert_all(insert, &names)
                    .set("t.valid_from", col("s.updated_at"))
                    .set("t.is_current", lit(true))
                    .predicate(col("s.what").eq(lit("open")))
            })?;
        Ok(merge.await?.0)
    }

    /// Stored versions are closed by a merge, new ones appended.
    async fn merge_changes(&self, table: DeltaTable, source: DataFrame) -> Result<DeltaTable> {
        let condition = col("t.id").eq(col("s.id")).and(col("t.is_current"));
        let condition = self.within_range(condition, &source).await?;
        let newer = col("s.updated_at").gt(col("t.valid_from"));
        let (table, _) = self
            .merge(table, source.clone(), condition)
            .when_matched_update(|update| close(update).predicate(newer))?
            .await?;
        let no_end = ScalarValue::TimestampMicrosecond(None, Some("UTC".into()));
        let opened = source
            .with_column("valid_from", col("updated_at"))?
            .with_column("valid_to", lit(no_end))?
            .with_column("is_current", lit(true))?;
        Ok(self.write(&table, opened)?.with_save_mode(SaveMode::Append).await?)
    }
}

fn of_source(name: &str) -> Expr {
    col(format!("s.{name}"))
}

fn names(source: &DataFrame) -> Vec<String> {
    source.schema().fields().iter().map(|f| f.name().clone()).collect()
}

fn insert_all(insert: InsertBuilder, names: &[String]) -> InsertBuilder {
    let set = |insert: InsertBuilder, name: &String| insert.set(format!("t.{name}"), of_source(name));
    names.iter().fold(insert, set)
}

fn close(update: UpdateBuilder) -> UpdateBuilder {
    update
        .update("t.valid_to", col("s.updated_at"))
        .update("t.is_current", lit(false))
}

/// The newest row of each key.
fn newest(source: &DataFrame) -> Result<DataFrame> {
    let columns: Vec<Expr> = names(source).into_iter().map(col).collect();
    let order = vec![col("id").sort(true, true), col("updated_at").sort(false, false)];
    Ok(source.clone().distinct_on(vec![col("id")], columns, Some(order))?)
}

/// `t.id` between the lowest and the highest key.
async fn key_range(keys: &DataFrame) -> Result<Expr> {
    let ends = vec![min(col("id")).alias("low"), max(col("id")).alias("high")];
    let found = keys.clone().aggregate(Vec::new(), ends)?.collect().await?;
    let end = |name: &str| -> Result<Expr> {
        let first: &RecordBatch = found.first().ok_or("no range of keys")?;
        let column = first.column_by_name(name).ok_or("no range of keys")?;
        Ok(lit(column.as_primitive::<Int64Type>().value(0)))
    };
    Ok(col("t.id").gt_eq(end("low")?).and(col("t.id").lt_eq(end("high")?)))
}
