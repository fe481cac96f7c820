//! A store that holds a write back until the test lets it pass.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::channel::oneshot;
use object_store::{ObjectStore, Result};

use super::request::Request;
use super::wrapped::{Around, Wrapped};

/// Blocks the first write of a log entry (`_delta_log/*.json`) until it is opened. Whoever waits for
/// [`Gate::arrived`] knows that the statement has done all its work but the commit.
#[derive(Debug, Clone)]
pub struct GateStore {
    wrapped: Wrapped<Guard>,
}

/// The test's side of the gate.
#[derive(Debug)]
pub struct Gate {
    arrived: oneshot::Receiver<()>,
    open: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Guard {
    /// Taken by the first log write.
    closed: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
}

#[async_trait]
impl Around for Guard {
    async fn before(&self, request: &Request) -> Result<()> {
        if !is_log_write(request) {
            return Ok(());
        }
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((arrived, opened)) = closed {
            // A test that dropped its gate does not wait: then neither do we.
            let _ = arrived.send(());
            let _ = opened.await;
        }
        Ok(())
    }
}

fn is_log_write(request: &Request) -> bool {
    let path = request.path.as_ref();
    request.operation.is_write() && path.contains("_delta_log/") && path.ends_with(".json")
}

impl GateStore {
    /// A closed gate in front of a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> (Self, Gate) {
        let (send_arrived, arrived) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        let around = Arc::new(Guard {
            closed: Mutex::new(Some((send_arrived, opened))),
        });
        (
            Self {
                wrapped: Wrapped { inner, around },
            },
            Gate { arrived, open },
        )
    }
}

impl Gate {
    /// Waits until a log write stands before the gate; `false` if none ever will. Gives back what opens it.
    pub async fn arrived(self) -> (bool, Opener) {
        (self.arrived.await.is_ok(), Opener { open: self.open })
    }
}

/// Opens the gate, also when dropped.
#[derive(Debug)]
pub struct Opener {
    open: oneshot::Sender<()>,
}

impl Opener {
    /// Lets the write pass.
    pub fn open(self) {
        let _ = self.open.send(());
    }
}

delegate!(GateStore);
