//! Runs every file below `slt/` on every engine, as one trial each: `slt::<engine>::<path>`.
//!
//! How to run and how to write the files: `README.md` of this package.

mod database;
mod engine;
mod render;
mod results;
mod scratch;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use sqllogictest::{MakeConnection, Record, Runner, default_normalizer, default_validator};

use crate::database::Database;
use crate::engine::Engine;
use crate::results::column_validator;
use crate::scratch::Scratch;

/// Set to rewrite the expected results with what the engine `local` answers.
const COMPLETE: &str = "ALLUVIUM_SLT_COMPLETE";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(e) => {
            eprintln!("cannot list the test files: {e}");
            ExitCode::FAILURE
        }
    }
}

fn trials() -> Result<Vec<Trial>, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt");
    let complete = std::env::var_os(COMPLETE).is_some();
    let mut trials = vec![];
    for file in slt_files(&root)? {
        let path = file.strip_prefix(&root)?.display().to_string();
        for engine in Engine::all() {
            if complete && *engine != Engine::Local {
                continue;
            }
            let file = file.clone();
            trials.push(Trial::test(format!("slt::{}::{path}", engine.name()), move || {
                run_file(*engine, &file, complete).map_err(|e| Failed::from(e.to_string()))
            }));
        }
    }
    Ok(trials)
}

fn slt_files(root: &Path) -> Result<Vec<PathBuf>, walkdir::Error> {
    let mut files = vec![];
    for entry in walkdir::WalkDir::new(root).sort_by_file_name() {
        let path = entry?.into_path();
        if path.extension().is_some_and(|e| e == "slt") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Runs one file on a thread of its own: binding deep expressions in a debug build needs more stack than a thread
/// of the test harness has.
fn run_file(engine: Engine, file: &Path, complete: bool) -> Result<(), Box<dyn Error>> {
    let file = file.to_path_buf();
    let run = move || -> Result<(), String> {
        let runtime = engine.runtime().map_err(|e| e.to_string())?;
        let outcome = runtime.block_on(run_records(engine, &file, complete));
        outcome.map_err(|e| e.to_string())
    };
    let thread = std::thread::Builder::new().stack_size(engine::STACK).spawn(run)?;
    match thread.join() {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err("the test's thread panicked".into()),
    }
}

async fn run_records(engine: Engine, file: &Path, complete: bool) -> Result<(), Box<dyn Error>> {
    let scratch = Arc::new(Scratch::new()?);
    let connect = Arc::clone(&scratch);
    let mut runner = Runner::new(move || {
        let scratch = Arc::clone(&connect);
        async move { Database::open(engine, scratch).await }
    });
    for (name, value) in scratch.variables() {
        runner.set_var(name.to_owned(), value.to_owned());
    }
    runner.with_column_validator(column_validator);
    if complete {
        return runner
            .update_test_file(file, " ", default_validator, default_normalizer, column_validator)
            .await;
    }
    let outcome = run_all(&mut runner, file).await;
    runner.shutdown_async().await;
    outcome
}

/// Runs every record, also after one that failed: a file tells all its differences at once.
async fn run_all<M>(runner: &mut Runner<Database, M>, file: &Path) -> Result<(), Box<dyn Error>>
where
    M: MakeConnection<Conn = Database>,
{
    let mut failures = vec![];
    for record in sqllogictest::parse_file(file)? {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        if let Err(e) = runner.run_async(record).await {
            failures.push(e.display(false).to_string());
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("\n").into())
}
