//! The prompt.

mod buffer;
mod catalog;
mod complete;
mod history;
mod meta;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use alluvium::{LoadError, Outcome, Result as LoadResult, SqlState};
use datafusion::arrow::array::RecordBatch;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use crate::args::Input;
use crate::format::{Format, write_outcome};
use crate::shell::{Shell, Stop, report};
use buffer::{Entry, LineBuffer};
use complete::SqlHelper;
use meta::Command;

const PROMPT: &str = "alluvium> ";
const CONTINUED: &str = "     ... ";

type LineEditor = Editor<SqlHelper, FileHistory>;

/// Runs the prompt until the user leaves it.
pub(crate) fn run(control: &Runtime, shell: Shell) -> ExitCode {
    let mut editor = match editor(&shell) {
        Ok(editor) => editor,
        Err(error) => {
            report(&terminal_error(&error), "");
            return ExitCode::FAILURE;
        }
    };
    let history = history::file().filter(|file| !file.exists() || editor.load_history(file).is_ok());
    let mut repl = Repl {
        control,
        shell,
        history,
        wide: None,
    };
    repl.greet();
    repl.read_lines(&mut editor)
}

fn editor(shell: &Shell) -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(10_000)?
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(SqlHelper::new(shell.session.clone())));
    Ok(editor)
}

fn terminal_error(error: &ReadlineError) -> LoadError {
    LoadError::new(SqlState::Storage, "the terminal cannot be read").detail(format!("{error}."))
}

struct Repl<'a> {
    control: &'a Runtime,
    shell: Shell,
    history: Option<PathBuf>,
    /// The format to come back to when `\x` is switched off.
    wide: Option<Format>,
}

impl Repl<'_> {
    fn greet(&mut self) {
        if !self.shell.style.quiet {
            let _ = self.say(concat!(
                "Alluvium ",
                env!("CARGO_PKG_VERSION"),
                ". \\? lists the commands, \\h the statements."
            ));
        }
    }

    fn read_lines(&mut self, editor: &mut LineEditor) -> ExitCode {
        let mut buffer = LineBuffer::default();
        loop {
            let line = match editor.readline(if buffer.is_open() { CONTINUED } else { PROMPT }) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    buffer.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => return ExitCode::SUCCESS,
                Err(error) => {
                    report(&terminal_error(&error), "");
                    return ExitCode::FAILURE;
                }
            };
            match buffer.push(&line) {
                Entry::Blank | Entry::More => {}
                Entry::Statements(text) => {
                    self.remember(editor, &text);
                    self.run_statements(&text);
                }
                Entry::Command(Command::Quit) => return ExitCode::SUCCESS,
                Entry::Command(command) => {
                    self.remember(editor, &line);
                    // What went wrong was said; the prompt goes on.
                    let _ = self.run_command(command);
                }
            }
        }
    }

    /// Keeps `text` at once, so that it survives a terminal that is closed.
    fn remember(&self, editor: &mut LineEditor, text: &str) {
        if !history::may_keep(text) || !matches!(editor.add_history_entry(text), Ok(true)) {
            return;
        }
        if let Some(file) = &self.history {
            let _ = editor.append_history(file);
        }
    }

    fn run_statements(&mut self, text: &str) {
        self.shell.forget_interrupts();
        let _ = self.control.block_on(self.shell.run_text(text, None));
    }

    fn run_command(&mut self, command: Command) -> Result<(), Stop> {
        match command {
            Command::Quit => Ok(()),
            Command::Commands => self.say(meta::COMMANDS),
            Command::Help(None) => self.list_statements(),
            Command::Help(Some(name)) => self.help(&name),
            Command::Tables => self.list_tables(),
            Command::Columns(name) => self.list_columns(&name),
            Command::Timing => self.toggle_timing(),
            Command::Vertical => self.toggle_vertical(),
            Command::Include(path) => {
                self.shell.forget_interrupts();
                self.control.block_on(self.shell.run_inputs(&[Input::File(path)]))
            }
            Command::Wrong(message) => {
                let error = LoadError::new(SqlState::Syntax, message).hint("\\? lists the commands.");
                report(&error, "");
                Err(Stop::Failed)
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.shell.write_with(|out| writeln!(out, "{}", text.trim_end()))
    }

    fn list_statements(&mut self) -> Result<(), Stop> {
        let registry = self.shell.session.registry();
        let names: Vec<String> = registry
            .kinds()
            .iter()
            .map(|kind| format!("\\h {}", kind.name()))
            .collect();
        self.say(&format!("{}\n\nEverything else is DataFusion's SQL.", names.join("\n")))
    }

    /// A name may be shortened: `\h merge` is enough while only one statement begins so.
    fn help(&mut self, name: &str) -> Result<(), Stop> {
        let registry = self.shell.session.registry();
        let wanted = name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let begins: Vec<_> = registry
            .kinds()
            .iter()
            .filter(|k| k.name().to_lowercase().starts_with(&wanted))
            .collect();
        match (registry.find(&wanted), begins.as_slice()) {
            (Some(kind), _) => self.say(kind.help()),
            (None, [kind]) => self.say(kind.help()),
            (None, _) => {
                let error = LoadError::new(SqlState::Syntax, format!("there is no help on \"{name}\""));
                report(&error.hint("\\h lists the statements."), "");
                Err(Stop::Failed)
            }
        }
    }

    fn list_tables(&mut self) -> Result<(), Stop> {
        let started = Instant::now();
        let listed = catalog::tables_batch(&catalog::tables(self.shell.session.context()));
        self.show(listed, started)
    }

    fn list_columns(&mut self, name: &str) -> Result<(), Stop> {
        let started = Instant::now();
        let session = &self.shell.session;
        let listed = self.control.block_on(catalog::columns_batch(session, name));
        self.show(listed, started)
    }

    fn show(&mut self, listed: LoadResult<RecordBatch>, started: Instant) -> Result<(), Stop> {
        match listed {
            Ok(batch) => {
                let outcome = Outcome {
                    schema: batch.schema(),
                    batches: vec![batch],
                    returns_rows: true,
                    elapsed: started.elapsed(),
                };
                let style = self.shell.style;
                self.shell.write_with(|out| write_outcome(out, style, &outcome))
            }
            Err(error) => {
                report(&error, "");
                Err(Stop::Failed)
            }
        }
    }

    fn toggle_timing(&mut self) -> Result<(), Stop> {
        let timing = !self.shell.style.timing;
        self.shell.style.timing = timing;
        self.say(if timing {
            "Times are shown."
        } else {
            "Times are not shown."
        })
    }

    fn toggle_vertical(&mut self) -> Result<(), Stop> {
        let style = &mut self.shell.style;
        match style.format {
            Format::Vertical => {
                style.format = self.wide.take().unwrap_or(Format::Table);
                self.say("Rows are shown as lines.")
            }
            format => {
                self.wide = Some(format);
                style.format = Format::Vertical;
                self.say("Columns are shown as lines.")
            }
        }
    }
}
