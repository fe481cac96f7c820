//! A store that holds a request back until the test lets it pass.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::channel::oneshot;
use object_store::{ObjectStore, Result};

use super::request::Request;
use super::wrapped::{Around, Wrapped};

/// Blocks one request until it is opened: the first write of a log entry (`_delta_log/*.json`), or the k-th request.
/// Whoever waits for [`Gate::arrived`] at a log write knows that the statement has done all its work but the commit.
#[derive(Debug, Clone)]
pub struct GateStore {
    wrapped: Wrapped<Guard>,
}

/// The test's side of the gate.
#[derive(Debug)]
pub struct Gate {
    arrived: oneshot::Receiver<Request>,
    open: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Guard {
    at: At,
    /// Such requests so far.
    seen: AtomicUsize,
    /// Whether a log write has come, before the gate or past it.
    log_write: AtomicBool,
    /// Taken by the request that stands before the gate.
    closed: Mutex<Option<(oneshot::Sender<Request>, oneshot::Receiver<()>)>>,
}

/// Where the gate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    LogWrite,
    Request(usize),
    DataWrite(usize),
}

impl Guard {
    /// Whether the gate is before this request.
    fn holds(&self, request: &Request) -> bool {
        let nth = |counts: bool, at: usize| counts && self.seen.fetch_add(1, Ordering::SeqCst) == at;
        match self.at {
            At::LogWrite => is_log_write(request),
            At::Request(at) => nth(true, at),
            At::DataWrite(at) => nth(is_data_write(request), at),
        }
    }
}

#[async_trait]
impl Around for Guard {
    async fn before(&self, request: &Request) -> Result<()> {
        self.log_write.fetch_or(is_log_write(request), Ordering::SeqCst);
        if !self.holds(request) {
            return Ok(());
        }
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((arrived, opened)) = closed {
            // A test that dropped its gate does not wait: then neither do we.
            let _ = arrived.send(request.clone());
            let _ = opened.await;
        }
        Ok(())
    }

    fn writes_on(&self) -> bool {
        matches!(self.at, At::DataWrite(_))
    }
}

fn is_data_write(request: &Request) -> bool {
    request.operation.is_write() && !request.path.as_ref().contains("_delta_log")
}

fn is_log_write(request: &Request) -> bool {
    let path = request.path.as_ref();
    request.operation.is_write() && path.contains("_delta_log/") && path.ends_with(".json")
}

impl GateStore {
    /// A closed gate in front of a store's log.
    pub fn new(inner: Arc<dyn ObjectStore>) -> (Self, Gate) {
        Self::with(inner, At::LogWrite)
    }

    /// A gate that request number `at`, counted from 0, finds closed, whatever it asks for.
    pub fn at_request(inner: Arc<dyn ObjectStore>, at: usize) -> (Self, Gate) {
        Self::with(inner, At::Request(at))
    }

    /// A gate that write number `at` of a data file finds closed. Writes go on when nobody waits for them any more.
    pub fn at_write(inner: Arc<dyn ObjectStore>, at: usize) -> (Self, Gate) {
        Self::with(inner, At::DataWrite(at))
    }

    /// Whether anything was written to the log so far, or tried to.
    pub fn saw_log_write(&self) -> bool {
        self.wrapped.around.log_write.load(Ordering::SeqCst)
    }

    fn with(inner: Arc<dyn ObjectStore>, at: At) -> (Self, Gate) {
        let (send_arrived, arrived) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        let around = Arc::new(Guard {
            at,
            seen: AtomicUsize::new(0),
            log_write: AtomicBool::new(false),
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
    /// Waits until the request stands before the gate; `None` if none ever will. Gives back what opens it.
    pub async fn arrived(self) -> (Option<Request>, Opener) {
        (self.arrived.await.ok(), Opener { open: self.open })
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
