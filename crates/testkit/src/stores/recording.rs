//! A store that writes down what it is asked.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use object_store::{ObjectStore, Result};

use super::request::Request;
use super::wrapped::{Around, Wrapped};

/// Records every request in the order in which they arrive.
#[derive(Debug, Clone)]
pub struct RecordingStore {
    wrapped: Wrapped<Recorder>,
}

#[derive(Debug, Default)]
struct Recorder {
    requests: Mutex<Vec<Request>>,
}

#[async_trait]
impl Around for Recorder {
    async fn before(&self, request: &Request) -> Result<()> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request.clone());
        Ok(())
    }
}

impl RecordingStore {
    /// Around a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self {
            wrapped: Wrapped {
                inner,
                around: Arc::default(),
            },
        }
    }

    /// The requests since the last call.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(
            &mut *self
                .wrapped
                .around
                .requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The requests since the last call that write.
    pub fn take_writes(&self) -> Vec<Request> {
        self.take()
            .into_iter()
            .filter(|request| request.operation.is_write())
            .collect()
    }
}

delegate!(RecordingStore);
