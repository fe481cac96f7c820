//! A store that crashes at a chosen write, or fails one request and goes on.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use object_store::{Error, ObjectStore, Result};

use super::request::Request;
use super::wrapped::{Around, Wrapped};

/// What the errors of a [`FaultyStore`] carry as the signature of a URL, as those of real stores do: nobody may see it.
pub const SECRET: &str = "SECRETSIG";

/// When the chosen write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing is written.
    Before,
    /// It is written, but the answer never arrives.
    After,
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// A write and everything after it, as for a process that died: what comes later than a crash must not tidy up what
    /// the crash left.
    Crash,
    /// One write: the connection was lost, and the next one works.
    Write,
    /// One request of any kind.
    Request,
}

/// Fails the k-th write or request, counted from 0, see its constructors.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    wrapped: Wrapped<Fault>,
}

#[derive(Debug)]
struct Fault {
    at: usize,
    moment: Moment,
    extent: Extent,
    /// Writes begun, or requests.
    seen: AtomicUsize,
    /// The chosen one, between its beginning and its answer.
    chosen: Mutex<Option<Request>>,
}

impl Fault {
    fn failure(&self, request: &Request) -> Error {
        let message = format!(
            "injected {:?} {:?} number {}: {request}, https://store.test/{}?sv=1&sig={SECRET} aws_secret_access_key={SECRET}",
            self.extent, self.moment, self.at, request.path
        );
        Error::Generic {
            store: "FaultyStore",
            source: message.into(),
        }
    }

    fn reached(&self) -> bool {
        self.seen.load(Ordering::SeqCst) > self.at
    }

    fn dead(&self) -> bool {
        self.extent == Extent::Crash && self.reached()
    }

    /// Counts `request` if it is of the kind that is counted, and tells whether it is the chosen one.
    fn choose(&self, request: &Request) -> bool {
        let counted = self.extent == Extent::Request || request.operation.is_write();
        counted && self.seen.fetch_add(1, Ordering::SeqCst) == self.at
    }

    fn chosen(&self) -> std::sync::MutexGuard<'_, Option<Request>> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Around for Fault {
    async fn before(&self, request: &Request) -> Result<()> {
        if self.dead() {
            return Err(self.failure(request));
        }
        if self.choose(request) {
            if self.moment == Moment::Before {
                return Err(self.failure(request));
            }
            *self.chosen() = Some(request.clone());
        } else if self.dead() && request.operation.is_write() {
            return Err(self.failure(request));
        }
        Ok(())
    }

    async fn after(&self, request: &Request) -> Result<()> {
        let was_chosen = self.chosen().take_if(|chosen| chosen == request).is_some();
        match was_chosen || (self.dead() && request.operation.is_write()) {
            true => Err(self.failure(request)),
            false => Ok(()),
        }
    }
}

impl FaultyStore {
    /// Around a store; write number `at` fails, and everything after it.
    pub fn new(inner: Arc<dyn ObjectStore>, at: usize, moment: Moment) -> Self {
        Self::with(inner, at, moment, Extent::Crash)
    }

    /// Only write number `at` fails.
    pub fn one_write(inner: Arc<dyn ObjectStore>, at: usize, moment: Moment) -> Self {
        Self::with(inner, at, moment, Extent::Write)
    }

    /// Only request number `at` fails, reads and listings included, and does nothing.
    pub fn one_request(inner: Arc<dyn ObjectStore>, at: usize) -> Self {
        Self::with(inner, at, Moment::Before, Extent::Request)
    }

    fn with(inner: Arc<dyn ObjectStore>, at: usize, moment: Moment, extent: Extent) -> Self {
        let around = Arc::new(Fault {
            at,
            moment,
            extent,
            seen: AtomicUsize::new(0),
            chosen: Mutex::default(),
        });
        Self {
            wrapped: Wrapped { inner, around },
        }
    }

    /// Whether the chosen write or request was reached.
    pub fn crashed(&self) -> bool {
        self.wrapped.around.reached()
    }
}

delegate!(FaultyStore);
