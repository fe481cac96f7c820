//! A statement whose store fails at any point: the table is as before or as after, and a second run gives the result.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alluvium::{LoadError, Outcome};
use alluvium_testkit::stores::{FaultyStore, GateStore, Moment, SECRET};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::laws::{ResultRow, run, shown};
use crate::staged::{objects, session_on, try_session_on};
use crate::support::{lines, rows};

/// One statement of each kind that rewrites, adds and removes files where its kind does, and ends the same when it runs
/// twice.
const LOADS: &[&str] = &[
    "UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN v = 'gone' SELECT * FROM batch",
    "INSERT ONLY INTO t KEYS (id) SELECT * FROM batch",
    "MERGE OVERWRITE INTO t KEYS (g) SELECT * FROM batch",
    "MERGE OVERWRITE INTO t WINDOW id FROM 1 TO 7 ON OUTSIDE WINDOW IGNORE SELECT * FROM batch",
    "UPSERT INTO fresh KEYS (id) CREATE IF NOT EXISTS PARTITIONED BY (g) SELECT * FROM batch",
    "SCD2 MERGE INTO h KEYS (id) EFFECTIVE AT TIMESTAMP '2026-02-01 00:00:00' SELECT * FROM batch",
    OPTIMIZE,
];

/// Changes no row, but files.
const OPTIMIZE: &str = "OPTIMIZE t";

const BATCH: &str = "VALUES (1, 1, 'new'), (2, 0, 'gone'), (6, 0, 'added'), (7, 1, 'added')";

/// A warehouse with what the loads change, each table of two files.
async fn warehouse(vectors: bool) -> InMemory {
    let store = InMemory::new();
    let session = session_on(Arc::new(store.clone())).await;
    let vectors = format!("'delta.enableDeletionVectors' = '{vectors}'");
    for table in ["t", "h"] {
        // The load's own commit is one that a checkpoint follows.
        let create = format!(
            "CREATE TABLE {table} (id BIGINT, g BIGINT, v STRING, __valid_from TIMESTAMP, __valid_to TIMESTAMP, \
             __is_current BOOLEAN) USING DELTA TBLPROPERTIES ({vectors}, 'delta.checkpointInterval' = '4')"
        );
        let create = match table {
            "h" => create,
            _ => create.replace(
                ", __valid_from TIMESTAMP, __valid_to TIMESTAMP, __is_current BOOLEAN",
                "",
            ),
        };
        rows(&session, &create).await;
        let validity = match table {
            "h" => ", TIMESTAMP '2026-01-01 00:00:00', NULL, true",
            _ => "",
        };
        for part in [[1, 2], [3, 4]] {
            let values = part.map(|id| format!("({id}, {}, 'old'{validity})", id % 2)).join(", ");
            rows(&session, &format!("INSERT INTO {table} VALUES {values}")).await;
        }
    }
    store
}

/// Whose table it is.
fn table(load: &str) -> &str {
    match load.split(" INTO ").nth(1) {
        Some(after) => after.split(' ').next().unwrap(),
        None => "t",
    }
}

/// What a new session reads, `None` where no table is.
async fn state(store: &InMemory, load: &str) -> Option<Vec<String>> {
    let session = session_on(Arc::new(store.clone())).await;
    let sql = match load {
        OPTIMIZE => "SELECT (SELECT count(*) FROM table_files('t')) AS files, * FROM t".to_owned(),
        _ => format!("SELECT * FROM {}", table(load)),
    };
    match session.execute(&sql).await {
        Ok(outcome) => {
            let mut found = lines(&outcome);
            found.sort();
            Some(found)
        }
        Err(e) if e.code() == "42P01" => None,
        Err(e) => panic!("after {load}: {}", shown(&e)),
    }
}

async fn load(store: Arc<dyn ObjectStore>, load: &str) -> Result<Outcome, LoadError> {
    let session = try_session_on(store).await?;
    session
        .execute(&format!("CREATE VIEW batch (id, g, v) AS {BATCH}"))
        .await?;
    session.execute(load).await
}

/// Everything a sweep compares with.
struct Sweep {
    load: &'static str,
    warehouse: InMemory,
    objects: BTreeSet<String>,
    before: Option<Vec<String>>,
    after: Option<Vec<String>>,
}

impl Sweep {
    async fn new(sql: &'static str, vectors: bool) -> Self {
        let warehouse = warehouse(vectors).await;
        let clean = warehouse.fork();
        if let Err(e) = load(Arc::new(clean.clone()), sql).await {
            panic!("{sql}: {}", shown(&e));
        }
        let sweep = Self {
            load: sql,
            objects: objects(&warehouse).await,
            before: state(&warehouse, sql).await,
            after: state(&clean, sql).await,
            warehouse,
        };
        assert_ne!(sweep.before, sweep.after, "{sql}");
        sweep
    }

    /// Runs the load against a faulty store; `false` if it never came to the fault.
    async fn fails(&self, shape: Shape, at: usize) -> bool {
        let (name, load_text) = (format!("{shape:?} {at}: {}", self.load), self.load);
        let inner = self.warehouse.fork();
        let faulty = shape.store(Arc::new(inner.clone()), at);
        let result = load(Arc::new(faulty.clone()), load_text).await;
        if !faulty.crashed() {
            assert!(result.is_ok(), "{name}");
            return false;
        }
        // FI-124: what stores say of a request holds its signature.
        assert!(!format!("{result:?}").contains(SECRET), "{name}: {result:?}");
        let found = state(&inner, load_text).await;
        match &result {
            Ok(_) => assert_eq!(found, self.after, "{name}"),
            Err(e) => {
                assert_eq!(e.code(), "58030", "{name}: {}", shown(e));
                assert!(found == self.before || found == self.after, "{name}: {found:?}");
            }
        }
        let kept = objects(&inner).await;
        assert!(kept.is_superset(&self.objects), "{name}: a file of the table is gone");
        if let (Err(e), true) = (&result, shape.goes_on())
            && found == self.before
            && !e.message().starts_with("committing to table")
        {
            assert_eq!(kept, self.objects, "{name}: {}", shown(e));
        }
        self.runs_again(&inner, &name, found == self.after).await;
        true
    }

    /// Drops the load while request number `at` is under way; `false` if it never came to it. With `written` only writes of data
    /// files count, which come to their end although nobody waits, a moment later.
    async fn is_cancelled(&self, at: usize, written: bool) -> bool {
        let (name, load_text) = (format!("cancelled at {at} ({written}): {}", self.load), self.load);
        let inner = self.warehouse.fork();
        let (store, gate) = match written {
            true => GateStore::at_write(Arc::new(inner.clone()), at),
            false => GateStore::at_request(Arc::new(inner.clone()), at),
        };
        let mut running = tokio::spawn(load(Arc::new(store.clone()), load_text));
        let opener = tokio::select! {
            (request, opener) = gate.arrived() => request.map(|_| opener).unwrap(),
            done = &mut running => {
                assert!(done.unwrap().is_ok(), "{name}");
                return false;
            }
        };
        // A checkpoint blocks its thread, so the request has to come to its end before the task can.
        running.abort();
        if written {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        opener.open();
        let ended = running.await;
        assert!(
            ended.as_ref().map_or_else(|e| e.is_cancelled(), Result::is_ok),
            "{name}"
        );
        if written {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // What was on its way comes to its end, and files are deleted, a moment later.
        let mut kept = objects(&inner).await;
        for waited in 0..1500 {
            if kept == self.objects || (store.saw_log_write() && waited > 150) {
                break;
            }
            if kept
                .iter()
                .any(|path| !self.objects.contains(path) && path.contains("_delta_log"))
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            kept = objects(&inner).await;
        }
        let found = state(&inner, load_text).await;
        if kept != self.objects {
            assert!(kept.is_superset(&self.objects), "{name}");
            // Nobody can tell what becomes of a log entry that is under way, so its files stay.
            let committing = store.saw_log_write();
            assert!(committing || found == self.after, "{name}: files are left: {kept:?}");
        } else {
            assert_eq!(found, self.before, "{name}");
        }
        self.runs_again(&inner, &name, found == self.after).await;
        true
    }

    async fn runs_again(&self, inner: &InMemory, name: &str, committed: bool) {
        let again = load(Arc::new(inner.clone()), self.load).await;
        let again = again.unwrap_or_else(|e| panic!("{name}: {}", shown(&e)));
        if committed && !self.load.starts_with("MERGE OVERWRITE") {
            assert_eq!(ResultRow::of(&again).status, "NO CHANGES", "{name}");
        }
        assert_eq!(state(inner, self.load).await, self.after, "{name}");
    }
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Crash(Moment),
    OneWrite(Moment),
    OneRequest,
}

impl Shape {
    fn store(self, inner: Arc<dyn ObjectStore>, at: usize) -> FaultyStore {
        match self {
            Self::Crash(moment) => FaultyStore::new(inner, at, moment),
            Self::OneWrite(moment) => FaultyStore::one_write(inner, at, moment),
            Self::OneRequest => FaultyStore::one_request(inner, at),
        }
    }

    /// Whether the statement can tidy up.
    fn goes_on(self) -> bool {
        !matches!(self, Self::Crash(_))
    }
}

async fn sweep(shape: Shape, vectors: bool, fewest: usize) {
    for sql in LOADS {
        let sweep = Sweep::new(sql, vectors).await;
        let mut at = 0;
        while sweep.fails(shape, at).await {
            at += 1;
        }
        assert!(at >= fewest, "{sql}: only {at} places for {shape:?}");
    }
}

/// A process that dies at any write.
#[test]
fn a_crash_at_any_write_leaves_old_or_new() {
    run(async {
        for (moment, vectors) in [(Moment::Before, true), (Moment::After, true), (Moment::Before, false)] {
            // A data file and a log entry at least.
            sweep(Shape::Crash(moment), vectors, 2).await;
        }
    });
}

/// FI-096: a write that fails, or that happened and was answered by an error, the log entry included.
#[test]
fn an_unclear_write_loses_no_file_that_the_log_names() {
    run(async {
        for (moment, vectors) in [(Moment::Before, false), (Moment::After, true)] {
            sweep(Shape::OneWrite(moment), vectors, 2).await;
        }
    });
}

/// Any request fails, reads and listings too.
#[test]
fn a_failed_request_changes_nothing_or_is_survived() {
    run(async { sweep(Shape::OneRequest, true, 6).await });
}

/// A future that is dropped while any request is under way takes its files with it, unless it has committed.
#[test]
fn a_statement_cancelled_anywhere_leaves_old_or_new() {
    run(async {
        for (index, sql) in LOADS.iter().enumerate() {
            // One kind of table and the other, in turn.
            let sweep = Sweep::new(sql, index % 2 == 0).await;
            let mut at = 0;
            while sweep.is_cancelled(at, false).await {
                at += 1;
            }
            assert!(at >= 6, "{sql}: only {at} requests");
        }
    });
}

/// What a store does in a thread of its own, as with local files, cannot be stopped: its file is deleted when it is there.
#[test]
fn writes_that_outlive_a_cancelled_statement_are_cleaned_up() {
    run(async {
        for (index, sql) in LOADS.iter().enumerate() {
            for vectors in [index % 2 == 0, index % 2 != 0] {
                let sweep = Sweep::new(sql, vectors).await;
                let mut at = 0;
                while sweep.is_cancelled(at, true).await {
                    at += 1;
                }
                assert!(at >= 1, "{sql}: no file was written");
            }
        }
    });
}
