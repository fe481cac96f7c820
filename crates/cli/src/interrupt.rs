//! Ctrl-C as something a statement can wait for.

use std::future::pending;
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
        let _ = thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    sender.send_modify(|count| *count += 1);
                }
            });
        });
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
