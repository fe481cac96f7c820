//! Ctrl-C as something a statement can wait for.

use std::future::pending;

use tokio::sync::watch;

/// Counts how often Ctrl-C was pressed. From its creation on, Ctrl-C no longer ends the process by itself.
pub(crate) struct Interrupts {
    presses: watch::Receiver<u64>,
}

impl Interrupts {
    /// Listens from now on. Must be called inside the runtime.
    pub(crate) fn listen() -> Self {
        let (sender, presses) = watch::channel(0_u64);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                sender.send_modify(|count| *count += 1);
            }
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
