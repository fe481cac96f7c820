//! One line on the terminal that shows what a long statement is doing.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use alluvium::{Progress, Session};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

use crate::format::seconds;

/// Statements that end sooner show nothing.
const DELAY: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows progress until it is dropped; the line is gone then.
///
/// It has a thread of its own, because a statement may keep all threads of the runtime busy.
pub(crate) struct ProgressLine {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Starts showing the statement that `session` runs; nothing is shown unless standard error is a terminal.
    pub(crate) fn start(session: &Session, wanted: bool) -> Self {
        if !wanted || !io::stderr().is_terminal() {
            return Self {
                done: None,
                thread: None,
            };
        }
        let (done, stopped) = mpsc::channel();
        let session = session.clone();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            if stopped.recv_timeout(DELAY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = bar();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                bar.set_message(line(session.progress(), started.elapsed()));
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Self {
            done: Some(done),
            thread: Some(thread),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.done.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {wide_msg}").map(|style| style.tick_chars("|/-\\ "));
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// What is not known yet is left out.
fn line(progress: Progress, elapsed: Duration) -> String {
    let mut line = String::new();
    let count = |n: usize| HumanCount(u64::try_from(n).unwrap_or(u64::MAX));
    if progress.rows_read > 0 {
        let _ = write!(line, "{} rows read, ", count(progress.rows_read));
    }
    if progress.files_opened > 0 {
        let _ = write!(line, "{} files, ", count(progress.files_opened));
    }
    if progress.bytes_read > 0 {
        let _ = write!(
            line,
            "{}, ",
            HumanBytes(u64::try_from(progress.bytes_read).unwrap_or(u64::MAX))
        );
    }
    line.push_str(&seconds(elapsed));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_what_is_known() {
        let elapsed = Duration::from_millis(1_500);
        assert_eq!(line(Progress::default(), elapsed), "1.500 s");
        let progress = Progress {
            rows_read: 1_234_567,
            bytes_read: 3 << 20,
            files_opened: 12,
        };
        assert_eq!(
            line(progress, elapsed),
            "1,234,567 rows read, 12 files, 3.00 MiB, 1.500 s"
        );
    }
}
