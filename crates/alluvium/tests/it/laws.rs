//! What the laws of the statements share: one statement run by a session and by the model, and the two compared.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::future::Future;
use std::sync::{Arc, OnceLock};

use alluvium::{LoadError, Outcome, Session};
use alluvium_testkit::generate::Case;
use alluvium_testkit::oracle::{Answer, Counts, Status};
use alluvium_testkit::rows::{create_table, diff, from_batches, to_batch, values_query};
use alluvium_testkit::values::{Row, Table};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use deltalake::DeltaTableBuilder;
use deltalake::delta_datafusion::TableProviderBuilder;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use tokio::runtime::Runtime;
use url::Url;

use crate::support::Scratch;

/// A modest number of cases, unless `PROPTEST_CASES` says otherwise.
pub fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() {
            default.cases
        } else {
            48
        },
        failure_persistence: None,
        max_shrink_iters: 150,
        ..default
    }
}

/// Runs `future` on a worker with a stack that a debug build's plans fit in.
pub fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(2)
            .thread_stack_size(16 << 20)
            .enable_all()
            .build()
            .unwrap()
    });
    runtime.block_on(async { tokio::spawn(future).await.unwrap() })
}

/// How a session runs: rows per batch, partitions of plans, partitions of the source.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub batch_size: usize,
    pub threads: usize,
    pub parts: usize,
}

pub fn machine() -> impl Strategy<Value = Machine> {
    let batch_size = proptest::sample::select(vec![1usize, 2, 3, 7, 8192]);
    (batch_size, 1..=4usize, 1..=3usize).prop_map(|(batch_size, threads, parts)| Machine {
        batch_size,
        threads,
        parts,
    })
}

/// A statement of the model.
pub trait Model {
    /// What the model answers.
    fn answer(&self, target: Option<&Table>, source: &Table) -> Answer;
    /// The same statement as text.
    fn text(&self, target: &str, source: &str) -> String;
    /// The counts that engine and model must agree in.
    fn compared(&self, counts: Counts) -> Counts {
        counts
    }
}

/// The target `t` in a warehouse of its own, and the source `s`.
pub struct Bench {
    pub scratch: Scratch,
    pub session: Session,
    machine: Machine,
}

impl Bench {
    pub async fn new(machine: Machine) -> Self {
        let scratch = Scratch::new();
        let session = Session::builder()
            .with_warehouse(scratch.text("w"))
            .with_threads(machine.threads)
            .with_batch_size(machine.batch_size)
            .build()
            .await
            .unwrap();
        Self {
            scratch,
            session,
            machine,
        }
    }

    async fn done(&self, sql: &str) {
        if let Err(e) = self.session.execute(sql).await {
            panic!("{sql}: {}", shown(&e));
        }
    }

    /// Creates the target and fills it, one insert per file.
    pub async fn create<S>(&self, case: &Case<S>) {
        let Some(target) = &case.target else { return };
        self.done(&create_table("t", &target.columns, &case.layout.partitioned_by))
            .await;
        for part in case.layout.parts(target) {
            self.done(&format!("INSERT INTO t {}", values_query(&part))).await;
        }
    }

    /// Registers the source, its rows in order over partitions and batches.
    pub fn register(&self, source: &Table) {
        let whole = to_batch(source).unwrap();
        let rows = whole.num_rows();
        let share = rows.div_ceil(self.machine.parts).max(1);
        let mut parts = Vec::new();
        for start in (0..rows).step_by(share) {
            let part = whole.slice(start, share.min(rows - start));
            let step = self.machine.batch_size.min(2);
            let batches = (0..part.num_rows()).step_by(step);
            parts.push(
                batches
                    .map(|at| part.slice(at, step.min(part.num_rows() - at)))
                    .collect(),
            );
        }
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let table = MemTable::try_new(whole.schema(), parts).unwrap();
        self.session.context().deregister_table("s").unwrap();
        self.session.context().register_table("s", Arc::new(table)).unwrap();
    }

    /// The target's rows, or `None` when there is no table.
    pub async fn read(&self) -> Option<Table> {
        if !self.scratch.path("w/t/_delta_log").exists() {
            return None;
        }
        let outcome = self
            .session
            .execute("SELECT * FROM t")
            .await
            .unwrap_or_else(|e| panic!("{}", shown(&e)));
        Some(from_batches(&outcome.schema, &outcome.batches).unwrap())
    }

    /// The same through deltalake's own scan, in a session that does not know us.
    pub async fn read_elsewhere(&self) -> Table {
        let url = Url::from_directory_path(self.scratch.path("w/t")).unwrap();
        let table = DeltaTableBuilder::from_url(url).unwrap().load().await.unwrap();
        let provider = TableProviderBuilder::default()
            .with_log_store(table.log_store())
            .with_eager_snapshot(table.snapshot().unwrap().snapshot().clone())
            .await
            .unwrap();
        let context = SessionContext::new();
        context.register_table("t", provider).unwrap();
        let frame = context.sql("SELECT * FROM t").await.unwrap();
        let schema = frame.schema().as_arrow().clone();
        from_batches(&schema, &frame.collect().await.unwrap()).unwrap()
    }
}

/// An error as text.
pub fn shown(e: &LoadError) -> String {
    let detail = e.detail_text().unwrap_or("no detail");
    format!("{} {e} | {detail}", e.code())
}

/// The result row of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    pub counts: Counts,
    pub affected: u64,
    pub version: Option<i64>,
    pub status: String,
}

impl ResultRow {
    pub fn of(outcome: &Outcome) -> Self {
        let batch = outcome.batches.iter().find(|b| b.num_rows() == 1).unwrap();
        let count = |name: &str| {
            batch
                .column_by_name(name)
                .unwrap()
                .as_primitive::<UInt64Type>()
                .value(0)
        };
        let version = batch
            .column_by_name("table_version")
            .unwrap()
            .as_primitive::<Int64Type>();
        Self {
            counts: Counts {
                inserted: count("num_inserted_rows"),
                updated: count("num_updated_rows"),
                deleted: count("num_deleted_rows"),
                unchanged: count("num_unchanged_rows"),
                skipped: count("num_skipped_rows"),
                source: count("num_source_rows"),
            },
            affected: count("num_affected_rows"),
            version: version.iter().next().unwrap(),
            status: batch
                .column_by_name("status")
                .unwrap()
                .as_string::<i32>()
                .value(0)
                .to_owned(),
        }
    }
}

/// Loads every batch of `case` twice, and compares answer, counts, status and rows with the model's after each load.
pub async fn agree<S: Model>(case: Case<S>, machine: Machine) -> TestCaseResult {
    let bench = Bench::new(machine).await;
    bench.create(&case).await;
    let sql = case.spec.text("t", "s");
    let mut expected = case.target.clone();
    for source in &case.sources {
        bench.register(source);
        for load in 1..=2 {
            let before = expected.clone();
            let context = |what: &str| {
                let target = before.as_ref().map_or("no table".to_owned(), show);
                format!(
                    "{what}\nload {load} of\n{sql}\ntarget {target}\nsource {}",
                    show(source)
                )
            };
            expected = step(&bench, &case.spec, &sql, expected.as_ref(), source)
                .await
                .map_err(|e| TestCaseError::fail(context(&e)))?;
        }
    }
    if let Some(expected) = &expected {
        let elsewhere = bench.read_elsewhere().await;
        same(expected, &elsewhere).map_err(|e| TestCaseError::fail(format!("read by deltalake: {e}\n{sql}")))?;
    }
    Ok(())
}

async fn step<S: Model>(
    bench: &Bench,
    spec: &S,
    sql: &str,
    before: Option<&Table>,
    source: &Table,
) -> Result<Option<Table>, String> {
    let files = bench.scratch.files("w");
    let result = bench.session.execute(sql).await;
    let expected = match (spec.answer(before, source), result) {
        (Ok(expected), Ok(outcome)) => {
            let row = ResultRow::of(&outcome);
            let (model, engine) = (spec.compared(expected.counts), spec.compared(row.counts));
            if model != engine {
                return Err(format!("counts: the model says {model:?}, the engine {engine:?}"));
            }
            // Where no rows make no table, both words are right.
            let none_made = expected.table.is_none() && row.status == "NO CHANGES";
            if !none_made && expected.status.as_str() != row.status || row.affected != row.counts.affected() {
                return Err(format!(
                    "status: the model says {:?}, the engine {row:?}",
                    expected.status
                ));
            }
            let committed = expected.status == Status::Committed;
            if committed != row.version.is_some() || committed != (files != bench.scratch.files("w")) {
                return Err(format!("files and status do not go together: {row:?}"));
            }
            expected.table
        }
        (Err(expected), Err(e)) if expected.0 == e.code() => {
            if files != bench.scratch.files("w") {
                return Err("a statement that failed left files".to_owned());
            }
            before.cloned()
        }
        (Err(expected), Err(e)) => {
            return Err(format!(
                "the model fails with {}, the engine with {}",
                expected.0,
                shown(&e)
            ));
        }
        (Err(expected), Ok(_)) => return Err(format!("the model fails with {}, the engine does not", expected.0)),
        (Ok(_), Err(e)) => return Err(format!("only the engine fails: {}", shown(&e))),
    };
    match (&expected, bench.read().await) {
        (Some(expected), Some(table)) => same(expected, &table)?,
        (None, None) => {}
        (expected, found) => return Err(format!("there should be {expected:?}, there is {found:?}")),
    }
    Ok(expected)
}

/// Columns by name and type, and rows in any order.
fn same(expected: &Table, found: &Table) -> Result<(), String> {
    let columns = |table: &Table| table.columns.iter().map(|c| (c.name.clone(), c.ty)).collect::<Vec<_>>();
    if columns(expected) != columns(found) {
        return Err(format!(
            "columns: expected {:?}, found {:?}",
            columns(expected),
            columns(found)
        ));
    }
    diff(expected, found).map_or(Ok(()), Err)
}

fn show(table: &Table) -> String {
    let row = |row: &Row| format!("\n  {}", alluvium_testkit::rows::show_row(row));
    format!("{:?}{}", table.names(), table.rows.iter().map(row).collect::<String>())
}
