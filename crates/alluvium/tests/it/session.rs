//! Sessions: in a program's own context, with a program's own planner and functions, scripts, options, PREPARE.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium::{LoadContext, Session};
use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session as PlannerSession;
use datafusion::common::Result;
use datafusion::execution::context::{QueryPlanner, SQLOptions, SessionContext};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, Volatility, create_udf};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::laws::{ResultRow, run};
use crate::support::{Scratch, failure, rows};

/// A context that was made without us loads what it attaches, and sees its own commits.
#[test]
fn a_plain_context_loads() {
    run(async {
        let scratch = Scratch::new();
        rows(
            &scratch.session().await,
            "CREATE TABLE t (id BIGINT, v STRING) USING DELTA",
        )
        .await;
        let context = SessionContext::new();
        let attach = format!(
            "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{}'",
            scratch.text("w/t")
        );
        context.load_sql(&attach).await.unwrap().collect().await.unwrap();
        for (values, expected) in [("(1, 'a'), (2, 'b')", 2), ("(2, 'c'), (3, 'd')", 3)] {
            let upsert = format!("UPSERT INTO t KEYS (id) VALUES {values}");
            context.load_sql(&upsert).await.unwrap().collect().await.unwrap();
            let stored = context
                .load_sql("SELECT * FROM t")
                .await
                .unwrap()
                .count()
                .await
                .unwrap();
            assert_eq!(stored, expected);
        }
        let own = context
            .sql("SELECT v FROM t WHERE id = 2")
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        assert_eq!(own.iter().map(|b| b.num_rows()).sum::<usize>(), 1);
        let error = context
            .load_sql("UPSERT INTO missing KEYS (id) VALUES (1)")
            .await
            .unwrap_err();
        assert_eq!(error.code(), "42P01");
        let none = SQLOptions::new().with_allow_dml(false);
        let refused = context
            .load_sql_with_options("UPSERT INTO t KEYS (id) VALUES (1, 'x')", none)
            .await;
        assert_eq!(refused.unwrap_err().code(), "42501");
    });
}

/// Counts the plans it makes.
#[derive(Debug, Default)]
struct CountingPlanner(AtomicUsize);

#[async_trait]
impl QueryPlanner for CountingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn PlannerSession,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        DefaultPhysicalPlanner::default()
            .create_physical_plan(plan, session)
            .await
    }
}

/// What an embedding program has put into its state stays.
#[test]
fn planner_and_functions_of_a_program_are_kept() {
    run(async {
        let scratch = Scratch::new();
        let planner = Arc::new(CountingPlanner::default());
        let shout = create_udf(
            "shout",
            vec![DataType::Utf8],
            DataType::Utf8,
            Volatility::Immutable,
            Arc::new(|args: &[ColumnarValue]| Ok(args[0].clone())),
        );
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_query_planner(Arc::<CountingPlanner>::clone(&planner));
        let session = Session::builder()
            .from_state(state)
            .with_warehouse(scratch.text("w"))
            .build()
            .await
            .unwrap();
        session.context().register_udf(shout);
        assert_eq!(rows(&session, "SELECT shout('a')").await, ["a"]);
        assert_eq!(planner.0.load(Ordering::SeqCst), 1);
        rows(&session, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        rows(&session, "UPSERT INTO t KEYS (id) SELECT 1 AS id, shout('x') AS v").await;
        let deletes = "UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN shout(v) = 'x' VALUES (1, 'x'), (2, 'y')";
        let deleted = ResultRow::of(&session.execute(deletes).await.unwrap());
        assert_eq!((deleted.counts.deleted, deleted.counts.inserted), (1, 1));
        assert_eq!(rows(&session, "SELECT * FROM t").await, ["2|y"]);
    });
}

/// `SQLOptions` hold for our statements as for DataFusion's.
#[test]
fn sql_options_refuse_loads() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
        let before = scratch.files("w");
        let reader = session
            .clone()
            .with_sql_options(SQLOptions::new().with_allow_dml(false));
        for load in [
            "UPSERT INTO t KEYS (id) VALUES (1)",
            "EXPLAIN ANALYZE UPSERT INTO t KEYS (id) VALUES (1)",
            "UPSERT INTO t KEYS (id) VALUES (1) DRY RUN",
            "INSERT ONLY INTO t KEYS (id) VALUES (1)",
            "MERGE OVERWRITE INTO t KEYS (id) VALUES (1)",
        ] {
            let (code, report) = failure(&reader, load).await;
            assert!(code == "42501" && !report.contains("no hint"), "{load}: {report}");
        }
        assert!(reader.execute("INSERT INTO t VALUES (1)").await.is_err());
        rows(&reader, "EXPLAIN UPSERT INTO t KEYS (id) VALUES (1)").await;
        assert!(rows(&reader, "SELECT * FROM t").await.is_empty());
        let fixed = session
            .clone()
            .with_sql_options(SQLOptions::new().with_allow_ddl(false));
        assert_eq!(
            failure(&fixed, "CREATE TABLE u (id BIGINT) USING DELTA").await.0,
            "42501"
        );
        assert_eq!(failure(&fixed, "DROP TABLE t").await.0, "42501");
        assert_eq!(scratch.files("w"), before);
        rows(&fixed, "UPSERT INTO t KEYS (id) VALUES (1)").await;
        // The session they were made from may do everything.
        rows(&session, "CREATE TABLE u (id BIGINT) USING DELTA").await;
    });
}

/// `sql` takes one statement.
#[test]
fn one_statement_is_one_statement() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        for (text, code) in [
            ("SELECT 1; SELECT 2", "42601"),
            ("", "42601"),
            (" ; -- nothing", "42601"),
        ] {
            let error = session.sql(text).await.unwrap_err();
            assert_eq!(error.code(), code, "{text}: {error}");
            assert!(error.hint_text().is_some(), "{text}");
            assert_eq!(session.execute(text).await.unwrap_err().code(), code, "{text}");
        }
        assert_eq!(session.sql("SELECT 1;").await.unwrap().count().await.unwrap(), 1);
    });
}

/// A script runs up to its first error, and what has run stays.
#[test]
fn a_script_stops_at_its_first_error() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        let script = "CREATE TABLE t (id BIGINT) USING DELTA; UPSERT INTO t KEYS (id) VALUES (1);\n\
                      UPSERT INTO t KEYS (nope) VALUES (2); UPSERT INTO t KEYS (id) VALUES (3)";
        let mut done = Vec::new();
        let error = session
            .run_script(script, |text, _| done.push(text.to_owned()))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "42703");
        assert_eq!(done.len(), 2, "{done:?}");
        assert!(done[1].contains("VALUES (1)"), "{done:?}");
        assert_eq!(rows(&session, "SELECT * FROM t").await, ["1"]);
        // A syntax error further down does not keep the statements before it from running.
        let broken = "UPSERT INTO t KEYS (id) VALUES (4); UPSERT INTO INTO t; UPSERT INTO t KEYS (id) VALUES (5)";
        assert_eq!(session.run_script(broken, |_, _| ()).await.unwrap_err().code(), "42601");
        assert_eq!(rows(&session, "SELECT * FROM t ORDER BY id").await, ["1", "4"]);
    });
}

/// A prepared load binds its parameters in clauses and source, and reads the newest snapshots each time.
#[test]
fn prepared_loads_see_new_snapshots() {
    run(async {
        let scratch = Scratch::new();
        let (session, other) = (scratch.session().await, scratch.session().await);
        for name in ["t", "feed"] {
            rows(
                &session,
                &format!("CREATE TABLE {name} (id BIGINT, v STRING) USING DELTA"),
            )
            .await;
        }
        rows(&session, "INSERT INTO t VALUES (1, 'a')").await;
        rows(&session, "INSERT INTO feed VALUES (1, 'b'), (2, 'c'), (9, 'never')").await;
        let prepare = "PREPARE load (BIGINT, STRING) AS UPSERT INTO t KEYS (id) APPLY AS DELETE WHEN v = $2 \
                       SELECT id, v FROM feed WHERE id < $1";
        rows(&session, prepare).await;
        let first = ResultRow::of(&session.execute("EXECUTE load(9, 'gone')").await.unwrap());
        assert_eq!(
            (first.counts.updated, first.counts.inserted, first.counts.source),
            (1, 1, 2)
        );
        rows(&other, "UPSERT INTO feed KEYS (id) VALUES (1, 'gone'), (3, 'd')").await;
        rows(&other, "UPSERT INTO t KEYS (id) VALUES (3, 'there already')").await;
        let second = ResultRow::of(&session.execute("EXECUTE load(9, 'gone')").await.unwrap());
        assert_eq!(
            (second.counts.deleted, second.counts.updated, second.counts.unchanged),
            (1, 1, 1)
        );
        assert_eq!(rows(&session, "SELECT * FROM t ORDER BY id").await, ["2|c", "3|d"]);
        let third = ResultRow::of(&session.execute("EXECUTE load(100, 'c')").await.unwrap());
        assert_eq!((third.counts.deleted, third.counts.inserted), (1, 2));
        assert_eq!(
            rows(&session, "SELECT * FROM t ORDER BY id").await,
            ["1|gone", "3|d", "9|never"]
        );
    });
}

/// A prepared load that fails has no place in the text that executes it.
#[test]
fn errors_of_prepared_loads_point_nowhere() {
    run(async {
        let scratch = Scratch::new();
        let session = scratch.session().await;
        rows(&session, "CREATE TABLE t (id BIGINT) USING DELTA").await;
        let load = "UPSERT INTO t KEYS (id) SELECT $1 AS id UNION ALL SELECT 7";
        rows(&session, &format!("PREPARE load (BIGINT) AS {load}")).await;
        let error = session.execute("EXECUTE load(7)").await.unwrap_err();
        assert_eq!((error.code(), error.span()), ("21000", None), "{error:?}");
        let error = session.execute(&load.replace("$1", "7")).await.unwrap_err();
        assert_eq!(error.span().map(|span| span.start.column), Some(21), "{error:?}");
    });
}

/// A table whose columns changed since is not loaded by the old plan.
#[test]
fn prepared_loads_notice_new_columns() {
    run(async {
        let scratch = Scratch::new();
        let (session, other) = (scratch.session().await, scratch.session().await);
        rows(&session, "CREATE TABLE t (id BIGINT, v STRING) USING DELTA").await;
        rows(
            &session,
            "PREPARE load (BIGINT) AS UPSERT INTO t KEYS (id) SELECT $1 AS id, 'x' AS v",
        )
        .await;
        rows(&session, "EXECUTE load(1)").await;
        rows(
            &other,
            "UPSERT WITH SCHEMA EVOLUTION INTO t KEYS (id) SELECT 1 AS id, 'x' AS v, 2.5 AS more",
        )
        .await;
        let before = scratch.files("w");
        let (code, report) = failure(&session, "EXECUTE load(2)").await;
        assert!(
            code == "0A000" && report.contains("PREPARE") && report.contains("\"t\""),
            "{report}"
        );
        // No conflict that another try could win, so there was none.
        assert!(!report.contains("tried"), "{report}");
        assert_eq!(scratch.files("w"), before);
        rows(&other, "DROP TABLE t").await;
        let (code, report) = failure(&session, "EXECUTE load(2)").await;
        assert!(code == "42P01" && report.contains("PREPARE"), "{report}");
    });
}
