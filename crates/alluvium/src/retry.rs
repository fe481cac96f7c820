//! Running a statement again after a concurrent commit, and with operators that spill after memory ran out.
//!
//! This is the only place where a statement is run again: a second try binds anew, on the newest snapshot. Operators
//! never retry.

use std::future::Future;
use std::time::Duration;

use alluvium_core::{LoadError, Result, SqlState};

/// How a try is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Hash joins, the fastest.
    InMemory,
    /// Sort-merge joins, which spill.
    Spilling,
}

/// Runs `attempt` until it succeeds, fails for good, or has lost against other commits `max_attempts` times.
pub(crate) async fn with_retry<T, F, Fut>(max_attempts: usize, first: Mode, mut attempt: F) -> Result<T>
where
    F: FnMut(Mode) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let mut mode = first;
    let mut conflicts = 0;
    loop {
        let error = match attempt(mode).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if error.state() == SqlState::OutOfMemory && mode == Mode::InMemory {
            tracing::debug!("memory ran out: planning again with operators that spill");
            mode = Mode::Spilling;
        } else if error.retryable() {
            conflicts += 1;
            if conflicts >= max_attempts.max(1) {
                return Err(exhausted(error, conflicts));
            }
            tracing::debug!(
                conflicts,
                "a concurrent commit came first: starting again on the new snapshot"
            );
            tokio::time::sleep(pause(conflicts)).await;
        } else {
            return Err(error);
        }
    }
}

/// A growing pause, so that many writers on one table do not keep in step.
fn pause(conflicts: usize) -> Duration {
    let step = u64::try_from(conflicts.min(6)).unwrap_or(6);
    Duration::from_millis(5 << step)
}

fn exhausted(error: LoadError, tries: usize) -> LoadError {
    if tries <= 1 {
        return error;
    }
    let detail = match error.detail_text() {
        Some(detail) => format!("{detail} The statement was tried {tries} times."),
        None => format!("The statement was tried {tries} times."),
    };
    error.detail(detail)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn conflict() -> LoadError {
        LoadError::new(SqlState::Serialization, "table \"t\" was changed by another commit")
    }

    #[tokio::test]
    async fn conflicts_are_retried_up_to_the_limit() {
        let tries = AtomicUsize::new(0);
        let attempt = |_| {
            tries.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), _>(conflict()) }
        };
        let error = with_retry(3, Mode::InMemory, attempt).await.unwrap_err();
        assert_eq!((error.code(), tries.load(Ordering::SeqCst)), ("40001", 3));
        assert!(error.detail_text().unwrap().contains("tried 3 times"));
    }

    #[tokio::test]
    async fn running_out_of_memory_is_answered_by_spilling_once() {
        let attempt = |mode| async move {
            match mode {
                Mode::InMemory => Err(LoadError::new(SqlState::OutOfMemory, "the memory limit is reached")),
                Mode::Spilling => Ok(7),
            }
        };
        assert_eq!(with_retry(1, Mode::InMemory, attempt).await.unwrap(), 7);
        let always = |_| async { Err::<(), _>(LoadError::new(SqlState::OutOfMemory, "the memory limit is reached")) };
        assert_eq!(with_retry(5, Mode::InMemory, always).await.unwrap_err().code(), "53200");
    }

    #[tokio::test]
    async fn other_errors_are_final() {
        let attempt = |_| async { Err::<(), _>(LoadError::new(SqlState::Syntax, "no")) };
        assert_eq!(
            with_retry(9, Mode::InMemory, attempt).await.unwrap_err().code(),
            "42601"
        );
    }
}
