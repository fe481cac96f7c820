//! Work that recurses, on a stack of its own.

use std::thread;

use crate::error::{LoadError, Result};
use crate::sqlstate::SqlState;

/// Enough for everything that the limits on nesting let through, in a build without optimizations too. Only what is
/// touched of it takes memory.
const STACK_BYTES: usize = 256 << 20;

/// Runs `work` on a thread of its own and waits for it.
pub(super) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("parser".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|e| LoadError::new(SqlState::OutOfMemory, "no thread to parse the statement on").caused_by(e))?;
        thread.join().map_err(|_| LoadError::internal("the parser stopped"))
    })
}
