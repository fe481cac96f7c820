//! A store that crashes at a chosen write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use object_store::{Error, ObjectStore, Result};

use super::request::Request;
use super::wrapped::{Around, Wrapped};

/// When the chosen write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing is written.
    Before,
    /// It is written, but the answer never arrives.
    After,
}

/// Fails the k-th write (counted from 0) and everything after it, as a process that died would: what comes later than a
/// crash must not tidy up what the crash left.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    wrapped: Wrapped<Fault>,
}

#[derive(Debug)]
struct Fault {
    at: usize,
    moment: Moment,
    /// Writes begun.
    writes: AtomicUsize,
}

impl Fault {
    fn crash(&self, request: &Request) -> Error {
        let message = format!("injected crash {:?} write {}: {request}", self.moment, self.at);
        Error::Generic {
            store: "FaultyStore",
            source: message.into(),
        }
    }

    fn dead(&self) -> bool {
        self.writes.load(Ordering::SeqCst) > self.at
    }
}

#[async_trait]
impl Around for Fault {
    async fn before(&self, request: &Request) -> Result<()> {
        if self.dead() {
            return Err(self.crash(request));
        }
        let write = request
            .operation
            .is_write()
            .then(|| self.writes.fetch_add(1, Ordering::SeqCst));
        match (write, self.moment) {
            (Some(n), Moment::Before) if n >= self.at => Err(self.crash(request)),
            (Some(n), Moment::After) if n > self.at => Err(self.crash(request)),
            _ => Ok(()),
        }
    }

    async fn after(&self, request: &Request) -> Result<()> {
        if request.operation.is_write() && self.dead() {
            Err(self.crash(request))
        } else {
            Ok(())
        }
    }
}

impl FaultyStore {
    /// Around a store; write number `at` fails.
    pub fn new(inner: Arc<dyn ObjectStore>, at: usize, moment: Moment) -> Self {
        let around = Arc::new(Fault {
            at,
            moment,
            writes: AtomicUsize::new(0),
        });
        Self {
            wrapped: Wrapped { inner, around },
        }
    }

    /// Whether the chosen write was reached.
    pub fn crashed(&self) -> bool {
        self.wrapped.around.dead()
    }
}

delegate!(FaultyStore);
