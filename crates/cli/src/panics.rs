//! A panic is a bug, and is reported like every other error: the first line of standard error is `ERROR XX000: ..`.

use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};

use alluvium::{LoadError, render_error};
use alluvium_core::secrets::redact;

/// Replaces the standard report of panics.
pub(crate) fn report_as_errors() {
    panic::set_hook(Box::new(|info| {
        let _ = writeln!(io::stderr(), "{}", render_error(&described(info), ""));
    }));
}

fn described(info: &PanicHookInfo<'_>) -> LoadError {
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    let error = LoadError::internal(redact(&message.replace('\n', " ")));
    match info.location() {
        Some(place) => error.detail(format!("The program panicked at {}:{}.", place.file(), place.line())),
        None => error,
    }
}
