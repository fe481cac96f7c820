//! Running statements and writing what they return. The prompt and the script mode both stand on it.

use std::io::{self, BufWriter, Read, Write};
use std::thread;
use std::time::Duration;

use alluvium::script::{ScriptItem, Stmt};
use alluvium::{LoadError, Outcome, Result as LoadResult, Session, SqlState, render_error};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

use crate::args::Input;
use crate::format::{Style, write_outcome};
use crate::interrupt::Interrupts;
use crate::progress::ProgressLine;
use crate::storage_error;

/// How long a cancelled statement may take to tidy up before we stop waiting for it.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Why no further statement runs. Whatever it is, it was reported already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A statement, or reading or writing around it, failed.
    Failed,
    /// Ctrl-C.
    Interrupted,
}

/// How a statement ended.
enum End {
    Done(LoadResult<Outcome>),
    /// Ctrl-C; with the outcome if the statement was faster.
    Cancelled(Option<Outcome>),
    /// A bug, reported by the panic hook.
    Panicked,
}

/// A session, and how its results are shown.
pub(crate) struct Shell {
    pub(crate) session: Session,
    pub(crate) style: Style,
    workers: Handle,
    interrupts: Interrupts,
    /// Nobody reads standard output any more.
    closed: bool,
}

impl Shell {
    /// A shell on `session`, whose statements run on `workers`.
    pub(crate) fn new(session: Session, workers: Handle, style: Style) -> Self {
        Self {
            session,
            style,
            workers,
            interrupts: Interrupts::listen(),
            closed: false,
        }
    }

    /// Runs all inputs in order.
    pub(crate) async fn run_inputs(&mut self, inputs: &[Input]) -> Result<(), Stop> {
        for input in inputs {
            match input {
                Input::Sql(sql) => self.run_text(sql, None).await?,
                Input::File(path) => {
                    let name = path.display().to_string();
                    let bytes = std::fs::read(path)
                        .map_err(|e| failed(&storage_error(format!("file \"{name}\" cannot be read"), &e)))?;
                    self.run_text(&text_of(&name, bytes)?, Some(&name)).await?;
                }
                Input::Stdin => {
                    let bytes = self.read_stdin().await?;
                    self.run_text(&text_of("standard input", bytes)?, Some("standard input"))
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Runs the statements of `text` up to the first error. `origin` names the file in reports.
    pub(crate) async fn run_text(&mut self, text: &str, origin: Option<&str>) -> Result<(), Stop> {
        for item in self.parse(text).await? {
            if self.closed {
                let error = LoadError::new(SqlState::Storage, "standard output was closed");
                return Err(failed(&error.hint("The statements after the last result did not run.")));
            }
            let item = item.map_err(|e| failed_in(text, origin, &e, None))?;
            let line = item.span.start.line;
            match self.execute(item.stmt).await {
                End::Done(outcome) => {
                    let outcome = outcome.map_err(|e| failed_in(text, origin, &e, Some(line)))?;
                    self.write(&outcome)?;
                }
                End::Cancelled(outcome) => {
                    outcome.map_or(Ok(()), |outcome| self.write(&outcome))?;
                    return Err(interrupted());
                }
                End::Panicked => return Err(Stop::Failed),
            }
        }
        Ok(())
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub(crate) fn forget_interrupts(&mut self) {
        self.interrupts.forget();
    }

    /// Writes a result, or `text` of our own, to standard output.
    pub(crate) fn write_with(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Stop> {
        let guarded = Interruptible {
            inner: io::stdout().lock(),
            interrupts: &self.interrupts,
        };
        let mut out = BufWriter::with_capacity(1 << 16, guarded);
        match write(&mut out).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(_) if self.interrupts.is_pressed() => {
                drop(out.into_parts());
                self.interrupts.forget();
                Err(interrupted())
            }
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(e) => Err(failed(&storage_error("standard output cannot be written", &e))),
        }
    }

    fn write(&mut self, outcome: &Outcome) -> Result<(), Stop> {
        let style = self.style;
        self.write_with(|out| write_outcome(out, style, outcome))
    }

    /// Parses on a thread of the runtime, whose stack is deep enough for deep nesting.
    async fn parse(&self, text: &str) -> Result<Vec<LoadResult<ScriptItem>>, Stop> {
        let (session, text) = (self.session.clone(), text.to_owned());
        self.workers
            .spawn(async move { session.parse_script(&text) })
            .await
            .map_err(|_| Stop::Failed)
    }

    async fn execute(&mut self, stmt: Stmt) -> End {
        let _line = ProgressLine::start(&self.session, !self.style.quiet);
        let session = self.session.clone();
        let mut task = self
            .workers
            .spawn(async move { session.execute_statement(&stmt).await });
        tokio::select! {
            joined = &mut task => ended(joined),
            () = self.interrupts.pressed() => self.cancel(task).await,
        }
    }

    /// Cancels by dropping the statement's future, and lets what it owns be tidied up. A second Ctrl-C ends the wait.
    async fn cancel(&mut self, mut task: JoinHandle<LoadResult<Outcome>>) -> End {
        task.abort();
        tokio::select! {
            joined = &mut task => match ended(joined) {
                End::Done(outcome) => End::Cancelled(outcome.ok()),
                end => end,
            },
            () = self.interrupts.pressed() => End::Cancelled(None),
            () = tokio::time::sleep(CANCEL_GRACE) => End::Cancelled(None),
        }
    }

    async fn read_stdin(&mut self) -> Result<Vec<u8>, Stop> {
        let (sender, reading) = oneshot::channel();
        // A thread of its own: nothing waits for it when Ctrl-C ends the program while it still reads.
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = sender.send(io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes));
        });
        tokio::select! {
            read = reading => read
                .map_err(|_| Stop::Failed)?
                .map_err(|e| failed(&storage_error("standard input cannot be read", &e))),
            () = self.interrupts.pressed() => Err(interrupted()),
        }
    }
}

fn ended(joined: Result<LoadResult<Outcome>, JoinError>) -> End {
    match joined {
        Ok(outcome) => End::Done(outcome),
        Err(error) if error.is_panic() => End::Panicked,
        Err(_) => End::Cancelled(None),
    }
}

/// The text of a script, without the mark that some editors put before it.
fn text_of(name: &str, bytes: Vec<u8>) -> Result<String, Stop> {
    let text = String::from_utf8(bytes).map_err(|e| {
        let error = LoadError::new(SqlState::InvalidText, format!("{name} is not UTF-8 text"));
        failed(&error.detail(format!("{}.", e.utf8_error())))
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Reports an error of a script. `statement` is the line where its statement begins, if it could be read that far.
fn failed_in(text: &str, origin: Option<&str>, error: &LoadError, statement: Option<u64>) -> Stop {
    report(error, text);
    let line = statement.or_else(|| error.span().map(|span| span.start.line));
    if let (Some(origin), Some(line)) = (origin, line) {
        let _ = writeln!(io::stderr(), "CONTEXT: statement at line {line} of {origin}");
    }
    Stop::Failed
}

/// Writes an error about `sql` to standard error.
pub(crate) fn report(error: &LoadError, sql: &str) {
    let _ = writeln!(io::stderr(), "{}", render_error(error, sql));
}

fn failed(error: &LoadError) -> Stop {
    report(error, "");
    Stop::Failed
}

fn interrupted() -> Stop {
    report(&LoadError::new(SqlState::Cancelled, "the statement was cancelled"), "");
    Stop::Interrupted
}

/// Stops a long output at Ctrl-C.
struct Interruptible<'a, W> {
    inner: W,
    interrupts: &'a Interrupts,
}

impl<W: Write> Write for Interruptible<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.interrupts.is_pressed() {
            // Not `ErrorKind::Interrupted`: callers would try again.
            true => Err(io::Error::other("cancelled")),
            false => self.inner.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
