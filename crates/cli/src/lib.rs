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

use alluvium::{ErrorKind, LoadError, Session, SessionBuilder, SqlState};
use tokio::runtime::{Builder, Handle, Runtime};

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
    let (control, workers) = match runtimes(&args) {
        Ok(runtimes) => runtimes,
        Err(error) => {
            shell::report(&LoadError::internal(format!("threads cannot be started: {error}")), "");
            return ExitCode::FAILURE;
        }
    };
    let code = run(&control, workers.handle(), &args, inputs);
    workers.shutdown_timeout(SHUTDOWN_GRACE);
    code
}

/// The runtime of this thread, which waits for statements, Ctrl-C and time, and the one that runs statements. They
/// are two, because a statement that keeps all its threads busy must not keep Ctrl-C from being noticed.
fn runtimes(args: &Args) -> io::Result<(Runtime, Runtime)> {
    let control = Builder::new_current_thread().enable_all().build()?;
    let mut workers = Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        workers.worker_threads(threads.get());
    }
    Ok((control, workers.thread_stack_size(STACK_BYTES).enable_all().build()?))
}

fn run(control: &Runtime, workers: &Handle, args: &Args, inputs: Vec<Input>) -> ExitCode {
    let session = match control.block_on(workers.spawn(builder(args).build())) {
        Ok(Ok(session)) => session,
        Ok(Err(error)) => {
            shell::report(&error, "");
            return match error.kind() {
                ErrorKind::User => ExitCode::from(USAGE),
                _ => ExitCode::FAILURE,
            };
        }
        Err(_) => return ExitCode::FAILURE,
    };
    let mut shell = Shell::new(session, workers.clone(), args.style());
    if inputs.is_empty() && io::stdin().is_terminal() {
        return repl::run(control, shell);
    }
    let inputs = if inputs.is_empty() { vec![Input::Stdin] } else { inputs };
    match control.block_on(shell.run_inputs(&inputs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => exit_code(stop),
    }
}

fn exit_code(stop: Stop) -> ExitCode {
    match stop {
        Stop::Failed => ExitCode::FAILURE,
        Stop::Interrupted => ExitCode::from(130),
    }
}

fn builder(args: &Args) -> SessionBuilder {
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
    builder
}

/// A failure of the program's own input or output.
fn storage_error(what: impl Into<String>, error: &io::Error) -> LoadError {
    LoadError::new(SqlState::Storage, what).detail(format!("{error}."))
}
