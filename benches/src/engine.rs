//! Who loads: our statements, and the merge that comes with the table format library.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alluvium::Session;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::prelude::{DataFrame, Expr, ParquetReadOptions, SessionContext, col, lit};
use deltalake::delta_datafusion::DeltaSessionContext;
use deltalake::operations::merge::{InsertBuilder, UpdateBuilder};

use crate::Result;
use crate::lab::table_url;
use crate::workload::{Load, Workload};

/// An engine, with the way it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `UPSERT INTO` and `INSERT ONLY INTO` on a table with deletion vectors.
    Alluvium,
    /// The same on a table without: files with changed rows are written again.
    AlluviumRewrite,
    /// deltalake's merge as a careful user writes it: the source is asked for its range of keys, the range is part of
    /// the condition, and the source streams.
    MergeRange,
    /// deltalake's merge with its own early filter, which reads the source once more.
    MergeFilter,
    /// deltalake's merge with a streaming source and nothing else.
    MergeStreaming,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Self; 5] = [
        Self::Alluvium,
        Self::AlluviumRewrite,
        Self::MergeRange,
        Self::MergeFilter,
        Self::MergeStreaming,
    ];

    /// Its name in options and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alluvium => "alluvium",
            Self::AlluviumRewrite => "alluvium-rewrite",
            Self::MergeRange => "merge-range",
            Self::MergeFilter => "merge-filter",
            Self::MergeStreaming => "merge-streaming",
        }
    }

    /// The engine of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Whether its tables have deletion vectors.
    pub fn deletion_vectors(self) -> bool {
        self == Self::Alluvium
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Alluvium | Self::AlluviumRewrite)
    }

    /// Loads `source` into `table` and tells how long that took, from opening the table to the commit. The session is
    /// there before the clock starts.
    ///
    /// # Errors
    ///
    /// Whatever the engine reports, memory that ran out included.
    pub async fn load(
        self,
        workload: &Workload,
        table: &Path,
        source: &Path,
        memory_limit: Option<usize>,
    ) -> Result<Duration> {
        match self {
            Self::Alluvium | Self::AlluviumRewrite => ours(workload, table, source, memory_limit).await,
            _ => self.merge(workload, table, source, memory_limit).await,
        }
    }

    async fn merge(
        self,
        workload: &Workload,
        table: &Path,
        source: &Path,
        memory_limit: Option<usize>,
    ) -> Result<Duration> {
        let context = merge_context(memory_limit)?;
        let started = Instant::now();
        let table = deltalake::open_table(table_url(table)?).await?;
        let source = context
            .read_parquet(source.display().to_string(), ParquetReadOptions::default())
            .await?;
        let schema: SchemaRef = Arc::new(source.schema().as_arrow().clone());
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let mut condition = col("t.id").eq(col("s.id"));
        if self == Self::MergeRange {
            condition = condition.and(key_range(&source).await?);
        }
        let mut merge = table
            .merge(source, condition)
            .with_session_state(Arc::new(context.state()))
            .with_source_alias("s")
            .with_target_alias("t")
            .with_streaming(self != Self::MergeFilter)
            .when_not_matched_insert(|insert| {
                let set = |insert: InsertBuilder, name: &&str| insert.set(format!("t.{name}"), of_source(name));
                names.iter().fold(insert, set)
            })?;
        if workload.load == Load::Upsert {
            merge = merge.when_matched_update(|update| {
                let set = |update: UpdateBuilder, name: &&str| update.update(format!("t.{name}"), of_source(name));
                names.iter().fold(update, set)
            })?;
        }
        merge.await?;
        Ok(started.elapsed())
    }
}

fn of_source(name: &str) -> Expr {
    col(format!("s.{name}"))
}

async fn ours(workload: &Workload, table: &Path, source: &Path, memory_limit: Option<usize>) -> Result<Duration> {
    let builder = match memory_limit {
        Some(bytes) => Session::builder().with_memory_limit(bytes),
        None => Session::builder(),
    };
    let session = builder.build().await?;
    let statement = match workload.load {
        Load::Upsert => "UPSERT INTO",
        Load::InsertOnly => "INSERT ONLY INTO",
    };
    let (table, source) = (table.display(), source.display());
    let started = Instant::now();
    session
        .execute(&format!(
            "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{table}'"
        ))
        .await?;
    session
        .execute(&format!("{statement} t USING '{source}' KEYS (id)"))
        .await?;
    Ok(started.elapsed())
}

fn merge_context(memory_limit: Option<usize>) -> Result<SessionContext> {
    let Some(bytes) = memory_limit else {
        return Ok(DeltaSessionContext::new().into_inner());
    };
    let pool = Arc::new(FairSpillPool::new(bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    Ok(DeltaSessionContext::with_runtime_env(runtime).into_inner())
}

/// `t.id` between the lowest and the highest key of the source.
async fn key_range(source: &DataFrame) -> Result<Expr> {
    let ends = vec![min(col("id")).alias("low"), max(col("id")).alias("high")];
    let found = source.clone().aggregate(Vec::new(), ends)?.collect().await?;
    let end = |name: &str| -> Result<Expr> {
        let first: &RecordBatch = found.first().ok_or("no range of keys")?;
        let column = first.column_by_name(name).ok_or("no range of keys")?;
        Ok(lit(column.as_primitive::<Int64Type>().value(0)))
    };
    Ok(col("t.id").gt_eq(end("low")?).and(col("t.id").lt_eq(end("high")?)))
}
