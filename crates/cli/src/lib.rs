#![doc = include_str!("../README.md")]

mod args;
mod format;
mod interrupt;
mod panics;
mod progress;
mod repl;
mod shell;
mod size;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use alluvium::{ErrorKind, LoadError, Session, SqlState};
use tokio::runtime::{Builder, Runtime};

use args::{Args, Input};
use shell::{Shell, Stop};

/// Deeply nested expressions are refused by the parser and planner; up to their limits they need a deep stack,
/// most of all in debug builds. Only what is touched takes memory.
const STACK_BYTES: usize = 16 << 20;

/// How long statements that were cancelled may still tidy up when the program ends.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Exit code for wrong usage.
const USAGE: u8 = 2;

/// Runs the command line and returns its exit code: 0; 1 after an error; 2 for wrong usage; 130 after Ctrl-C.
pub fn main() -> ExitCode {
    let (args, inputs) = match Args::read(std::env::args_os()) {
        Ok(read) => read,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    panics::report_as_errors();
    let runtime = match runtime(&args) {
        Ok(runtime) => runtime,
        Err(error) => {
            shell::report(&LoadError::internal(format!("threads cannot be started: {error}")), "");
            return ExitCode::FAILURE;
        }
    };
    let code = run(&runtime, &args, inputs);
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    code
}

fn runtime(args: &Args) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        builder.worker_threads(threads.get());
    }
    builder.thread_stack_size(STACK_BYTES).enable_all().build()
}

fn run(runtime: &Runtime, args: &Args, inputs: Vec<Input>) -> ExitCode {
    let session = match runtime.block_on(session(args)) {
        Ok(session) => session,
        Err(error) => {
            shell::report(&error, "");
            return match error.kind() {
                ErrorKind::User => ExitCode::from(USAGE),
                _ => ExitCode::FAILURE,
            };
        }
    };
    let mut shell = runtime.block_on(async { Shell::new(session, args.style(), !args.quiet) });
    if inputs.is_empty() && io::stdin().is_terminal() {
        return repl::run(runtime, shell);
    }
    let inputs = if inputs.is_empty() { vec![Input::Stdin] } else { inputs };
    match runtime.block_on(shell.run_inputs(&inputs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => exit_code(&stop),
    }
}

fn exit_code(stop: &Stop) -> ExitCode {
    match stop {
        Stop::Failed => ExitCode::FAILURE,
        Stop::Interrupted => ExitCode::from(130),
    }
}

async fn session(args: &Args) -> Result<Session, LoadError> {
    let mut builder = Session::builder().with_warehouse(args.warehouse.clone());
    if let Some(bytes) = args.memory_limit {
        builder = builder.with_memory_limit(bytes);
    }
    if let Some(threads) = args.threads {
        builder = builder.with_threads(threads.get());
    }
    if let Some(rows) = args.batch_size {
        builder = builder.with_batch_size(rows.get());
    }
    for (key, value) in &args.settings {
        builder = builder.set(key, value);
    }
    builder.build().await
}

/// A failure of the program's own input or output.
fn storage_error(what: impl Into<String>, error: &io::Error) -> LoadError {
    LoadError::new(SqlState::Storage, what).detail(format!("{error}."))
}
