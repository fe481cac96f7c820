//! Ctrl-C as something a statement can wait for.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::watch;

/// Counts how often Ctrl-C was pressed. From its creation on, Ctrl-C no longer ends the process by itself.
pub(crate) struct Interrupts {
    presses: watch::Receiver<u64>,
}

impl Interrupts {
    /// Listens from now on, on a thread of its own: statements may keep every thread of the runtime busy.
    ///
    /// Should that thread not start, Ctrl-C keeps ending the process.
    pub(crate) fn listen() -> Self {
        let (sender, presses) = watch::channel(0_u64);
        let (starting, started) = mpsc::channel::<()>();
        let _ = thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
            if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
                runtime.block_on(count(sender, starting));
            }
        });
        // The line editor replaces the handler while it reads and then puts back what it found: ours has to be there
        // by then. The wait ends when the other side is dropped.
        let _ = started.recv();
        Self { presses }
    }

    /// Forgets presses that nobody waited for.
    pub(crate) fn forget(&mut self) {
        self.presses.borrow_and_update();
    }

    /// Whether Ctrl-C was pressed and nobody waited for it yet.
    pub(crate) fn is_pressed(&self) -> bool {
        self.presses.has_changed().unwrap_or(false)
    }

    /// Waits for a press, including one since the last that was waited for or forgotten.
    pub(crate) async fn pressed(&mut self) {
        if self.presses.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// Counts presses; drops `starting` once the handler is there.
async fn count(presses: watch::Sender<u64>, starting: mpsc::Sender<()>) {
    let mut starting = Some(starting);
    loop {
        let mut press = pin!(tokio::signal::ctrl_c());
        let pressed = poll_fn(|context| {
            // The first poll installs the handler.
            let polled = press.as_mut().poll(context);
            starting.take();
            polled
        });
        if pressed.await.is_err() {
            return;
        }
        presses.send_modify(|count| *count += 1);
    }
}
