//! The source is executed once, EXPLAIN executes nothing, and a statement that fails leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alluvium::Session;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::StreamExt;

use crate::laws::{ResultRow, run};
use crate::support::{Scratch, failure, rows};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("g", DataType::Int64, true),
        Field::new("v", DataType::Utf8, true),
    ]))
}

/// Rows `(id, g, v)` for these ids.
fn batch(ids: &[i64]) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let g: ArrayRef = Arc::new(ids.iter().map(|id| Some(id % 2)).collect::<Int64Array>());
    let v: ArrayRef = Arc::new(ids.iter().map(|id| Some(format!("s{id}"))).collect::<StringArray>());
    RecordBatch::try_new(schema(), vec![id, g, v]).unwrap()
}

/// One partition of a source that counts how often it is read.
#[derive(Debug)]
struct Counted {
    schema: SchemaRef,
    ids: Vec<i64>,
    /// Whether the stream never ends.
    hangs: bool,
    runs: Arc<AtomicUsize>,
}

impl PartitionStream for Counted {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let batches = futures::stream::iter([Ok(batch(&self.ids))]);
        let batches = match self.hangs {
            true => batches.chain(futures::stream::pending()).boxed(),
            false => batches.boxed(),
        };
        Box::pin(RecordBatchStreamAdapter::new(schema(), batches))
    }
}

/// A source of two partitions.
struct Source(Vec<Arc<Counted>>);

impl Source {
    fn new(hangs: bool) -> Self {
        let part = |ids: &[i64]| {
            Arc::new(Counted {
                schema: schema(),
                ids: ids.to_vec(),
                hangs,
                runs: Arc::default(),
            })
        };
        Self(vec![part(&[1, 2, 3]), part(&[4, 5])])
    }

    fn register(&self, session: &Session) {
        let part = |part: &Arc<Counted>| -> Arc<dyn PartitionStream> { Arc::<Counted>::clone(part) };
        let parts = self.0.iter().map(part).collect();
        let table = StreamingTable::try_new(schema(), parts).unwrap();
        session.context().register_table("s", Arc::new(table)).unwrap();
    }

    /// How often each partition was read since the last call.
    fn runs(&self) -> Vec<usize> {
        self.0.iter().map(|part| part.runs.swap(0, Ordering::SeqCst)).collect()
    }
}

/// A source of one row whose reading makes another session run a statement.
#[derive(Debug)]
pub struct Meddling {
    schema: SchemaRef,
    statement: String,
    session: Meddler,
    runs: AtomicUsize,
}

struct Meddler(Session);

impl std::fmt::Debug for Meddler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddler")
    }
}

impl Meddling {
    pub fn new(session: Session, statement: &str) -> Arc<Self> {
        let fields = vec![
            Field::new("id", DataType::Int64, true),
            Field::new("v", DataType::Utf8, true),
        ];
        Arc::new(Self {
            schema: Arc::new(Schema::new(fields)),
            statement: statement.to_owned(),
            session: Meddler(session),
            runs: AtomicUsize::new(0),
        })
    }

    pub fn table(self: &Arc<Self>) -> Arc<dyn TableProvider> {
        let part: Arc<dyn PartitionStream> = Arc::<Self>::clone(self);
        Arc::new(StreamingTable::try_new(Arc::clone(&self.schema), vec![part]).unwrap())
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl PartitionStream for Meddling {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let (session, statement) = (self.session.0.clone(), self.statement.clone());
        let schema = Arc::clone(&self.schema);
        let row = async move {
            session.execute(&statement).await.unwrap();
            let id: ArrayRef = Arc::new(Int64Array::from(vec![1]));
            let v: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
            Ok(RecordBatch::try_new(schema, vec![id, v])?)
        };
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::once(row),
        ))
    }
}

/// Every statement whose plan might want its source twice.
const LOADS: &[&str] = &[
    "UPSERT INTO t USING s KEYS (id)",
    "UPSERT INTO t USING s KEYS (id) NULLS NOT DISTINCT DEDUPLICATE BY v DESC",
    "UPSERT INTO t USING s KEYS (id) SEQUENCE BY g",
    "UPSERT INTO t USING s KEYS (id) ON EMPTY SOURCE APPLY APPLY AS DELETE WHEN id = 2",
    "UPSERT INTO t USING s KEYS (id) WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "UPSERT INTO t USING s KEYS (id) WHEN NOT MATCHED BY SOURCE WITHIN (g) THEN DELETE",
    "UPSERT INTO t USING s KEYS (id) WITHIN (g < 9)",
    "UPSERT INTO t USING s KEYS (id) RETURNING merge_action(), target.id",
    "UPSERT INTO fresh USING s KEYS (id) CREATE IF NOT EXISTS",
    "INSERT ONLY INTO t USING s KEYS (id)",
    "INSERT ONLY INTO t USING s KEYS (id) WITHIN (g < 9) DEDUPLICATE BY v",
    "MERGE OVERWRITE INTO t USING s KEYS (id)",
    "MERGE OVERWRITE INTO t USING s KEYS (id) OR KEYS (g) DEDUPLICATE ON (id)",
    "MERGE OVERWRITE INTO t USING s WINDOW id FROM 0 TO 10",
    "MERGE OVERWRITE INTO t USING s WINDOW id FROM SOURCE",
    "MERGE OVERWRITE INTO t USING s WINDOW id FROM 0 TO SOURCE ON OUTSIDE WINDOW IGNORE",
    "MERGE OVERWRITE INTO t USING s WINDOW (id < 100 AND g < 9) APPLY AS DELETE WHEN id = 1",
];

async fn filled(scratch: &Scratch) -> Session {
    let session = scratch.session().await;
    rows(&session, "CREATE TABLE t (id BIGINT, g BIGINT, v STRING) USING DELTA").await;
    rows(
        &session,
        "INSERT INTO t VALUES (1, 1, 'old'), (2, 0, 'old'), (8, 0, 'old'), (9, 7, 'old')",
    )
    .await;
    session
}

/// Reading a source twice may give two answers, so it is read once.
#[test]
fn a_source_is_executed_once() {
    run(async {
        for load in LOADS {
            let scratch = Scratch::new();
            let session = filled(&scratch).await;
            let source = Source::new(false);
            source.register(&session);
            session
                .execute(load)
                .await
                .unwrap_or_else(|e| panic!("{load}: {}", crate::laws::shown(&e)));
            assert_eq!(source.runs(), [1, 1], "{load}");
        }
    });
}

/// EXPLAIN writes nothing and reads no source; EXPLAIN ANALYZE does both, once; DRY RUN reads and writes nothing.
#[test]
fn explain_and_dry_run_leave_nothing() {
    run(async {
        for load in LOADS {
            let scratch = Scratch::new();
            let session = filled(&scratch).await;
            let source = Source::new(false);
            source.register(&session);
            let before = scratch.contents("w");
            for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN FORMAT tree"] {
                assert!(!rows(&session, &format!("{explain} {load}")).await.is_empty());
                assert_eq!(source.runs(), [0, 0], "{explain} {load}");
            }
            for dry in [format!("{load} DRY RUN"), format!("EXPLAIN ANALYZE {load} DRY RUN")] {
                rows(&session, &dry).await;
                assert_eq!(source.runs(), [1, 1], "{dry}");
                assert_eq!(scratch.contents("w"), before, "{dry}");
            }
            rows(&session, &format!("EXPLAIN ANALYZE {load}")).await;
            assert_eq!(source.runs(), [1, 1], "{load}");
            let table = if load.contains("fresh") { "fresh" } else { "t" };
            let versions = rows(&session, &format!("SELECT count(*) FROM table_history('{table}')")).await;
            assert_eq!(versions, [if table == "t" { "3" } else { "1" }], "{load}");
        }
    });
}

/// Whatever a statement fails for, the table's directory is as it was.
#[test]
fn failures_leave_nothing() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let create = "CREATE TABLE t (id BIGINT, n INT CHECK (n >= 0), v STRING NOT NULL, d DATE) USING DELTA";
        rows(&session, create).await;
        rows(
            &session,
            "INSERT INTO t VALUES (1, 1, 'a', DATE '2026-01-01'), (2, 2, 'b', NULL)",
        )
        .await;
        let before = scratch.contents("w");
        // Every source also holds rows that are fine: they may be written before the fault is found.
        let many = "SELECT value + 100 AS id, CAST(1 AS INT) AS n, 'ok' AS v, CAST(NULL AS DATE) AS d \
                    FROM generate_series(1, 20000)";
        let one = |id: &str, n: &str, v: &str| {
            format!("{many} UNION ALL SELECT {id} AS id, {n} AS n, {v} AS v, CAST(NULL AS DATE) AS d")
        };
        let upsert = "UPSERT INTO t KEYS (id)";
        let cases = [
            (format!("{upsert} {}", one("101", "1", "'x'")), "21000"),
            (format!("{upsert} {}", one("NULL", "1", "'x'")), "23502"),
            (format!("{upsert} {}", one("1", "-1", "'x'")), "23514"),
            (format!("{upsert} {}", one("1", "1", "NULL")), "23502"),
            (format!("{upsert} {}", one("1", "3000000000", "'x'")), "22003"),
            (
                format!("{upsert} SELECT id, n, v, CAST('x' AS STRING) AS d FROM ({many}) AS m"),
                "22007",
            ),
            (format!("{upsert} WITHIN (id > 50) {}", one("7", "1", "'x'")), "44000"),
            (format!("{upsert} SEQUENCE BY d {}", one("1", "1", "'x'")), "23502"),
            (
                format!("{upsert} UPDATE SET n = 1 / (target.n - 1) {}", one("1", "1", "'x'")),
                "22012",
            ),
            (
                format!("{upsert} APPLY AS DELETE WHEN 1 / (n - 1) = 1 {}", one("1", "1", "'x'")),
                "22012",
            ),
            (
                format!("INSERT ONLY INTO t KEYS (id) {}", one("3", "-1", "'x'")),
                "23514",
            ),
            (
                format!("INSERT ONLY INTO t KEYS (id) {}", one("101", "1", "'x'")),
                "21000",
            ),
            (
                format!("MERGE OVERWRITE INTO t KEYS (id) {}", one("NULL", "1", "'x'")),
                "23502",
            ),
            (
                format!("MERGE OVERWRITE INTO t KEYS (id) {}", one("1", "-1", "'x'")),
                "23514",
            ),
            (
                format!(
                    "MERGE OVERWRITE INTO t WINDOW id FROM 100 TO 90000 {}",
                    one("1", "1", "'x'")
                ),
                "44000",
            ),
            (
                format!("MERGE OVERWRITE INTO t WINDOW id FROM 9 TO 1 {}", one("1", "1", "'x'")),
                "22023",
            ),
            (
                format!("{upsert} ON EMPTY SOURCE ERROR SELECT * FROM ({many}) AS m WHERE id < 0"),
                "22023",
            ),
            (
                format!("{upsert} SELECT id, n, v, d, 1 AS extra FROM ({many}) AS m"),
                "42703",
            ),
        ];
        for (load, expected) in cases {
            for load in [
                load.clone(),
                format!("{load} DRY RUN"),
                load.replace("INTO t", "INTO t2 CREATE IF NOT EXISTS"),
            ] {
                let created = load.contains("INTO t2");
                // What only the stored table knows cannot fail on a new one.
                let only_stored = ["23514", "22003", "22007", "42703"].contains(&expected)
                    || load.contains("UPDATE SET")
                    || expected == "23502" && load.contains("NULL AS v");
                if created && only_stored {
                    continue;
                }
                let (code, report) = failure(&session, &load).await;
                assert_eq!(code, expected, "{load}: {report}");
                assert_eq!(scratch.contents("w"), before, "{load}");
            }
        }
    });
}

/// A statement whose future is dropped takes its files with it.
#[test]
fn a_cancelled_load_leaves_nothing() {
    run(async {
        for load in [
            "UPSERT INTO t USING s KEYS (id) OPTIONS ('write.target_file_size' '1')",
            "INSERT ONLY INTO t USING s KEYS (id) OPTIONS ('write.target_file_size' '1')",
            "MERGE OVERWRITE INTO t USING s WINDOW id FROM 0 TO 10 OPTIONS ('write.target_file_size' '1')",
        ] {
            let scratch = Scratch::new();
            let session = filled(&scratch).await;
            let source = Source::new(true);
            source.register(&session);
            let before = scratch.contents("w");
            let cancelled = tokio::time::timeout(Duration::from_millis(700), session.execute(load)).await;
            assert!(cancelled.is_err(), "{load} ended");
            assert_eq!(source.runs(), [1, 1], "{load}");
            for _ in 0..100 {
                if scratch.contents("w") == before {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(scratch.contents("w"), before, "{load}");
            // The session goes on.
            session.context().deregister_table("s").unwrap();
            Source::new(false).register(&session);
            let row = ResultRow::of(&session.execute(load).await.unwrap());
            assert_eq!(row.version, Some(2), "{load}");
        }
    });
}
