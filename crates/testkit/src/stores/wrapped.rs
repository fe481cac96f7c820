//! One implementation of the store trait for all wrappers: they only say what happens around a request.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode, Result, UploadPart,
};

use super::request::{Operation, Request};

/// What a wrapper does around each request.
#[async_trait]
pub(crate) trait Around: fmt::Debug + Send + Sync + 'static {
    /// Before the inner store sees it; an error keeps it from happening.
    async fn before(&self, request: &Request) -> Result<()>;

    /// After it succeeded; an error hides that from the caller.
    async fn after(&self, _request: &Request) -> Result<()> {
        Ok(())
    }

    /// Whether writes go on when nobody waits for them any more, as those of a local file system do.
    fn writes_on(&self) -> bool {
        false
    }
}

/// A store with something around it.
#[derive(Debug)]
pub(crate) struct Wrapped<A> {
    pub inner: Arc<dyn ObjectStore>,
    pub around: Arc<A>,
}

impl<A> Clone for Wrapped<A> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            around: Arc::clone(&self.around),
        }
    }
}

impl<A: Around> Wrapped<A> {
    async fn run<T>(&self, request: Request, call: impl Future<Output = Result<T>>) -> Result<T> {
        run(self.around.as_ref(), request, call).await
    }
}

async fn run<A: Around, T>(around: &A, request: Request, call: impl Future<Output = Result<T>>) -> Result<T> {
    around.before(&request).await?;
    let answer = call.await?;
    around.after(&request).await?;
    Ok(answer)
}

impl<A> fmt::Display for Wrapped<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wrapped({})", self.inner)
    }
}

#[async_trait]
impl<A: Around> ObjectStore for Wrapped<A> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let operation = if opts.mode == PutMode::Create {
            Operation::PutIfAbsent
        } else {
            Operation::Put
        };
        let request = Request::new(operation, location);
        let (inner, around, location) = (Arc::clone(&self.inner), Arc::clone(&self.around), location.clone());
        let put = async move { run(around.as_ref(), request, inner.put_opts(&location, payload, opts)).await };
        match self.around.writes_on() {
            true => tokio::spawn(put).await?,
            false => put.await,
        }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(WrappedUpload {
            inner,
            location: location.clone(),
            around: Arc::clone(&self.around),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.run(Request::get(location, &options), self.inner.get_opts(location, options))
            .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let text = ranges
            .iter()
            .map(|r| format!("{}-{}", r.start, r.end))
            .collect::<Vec<_>>()
            .join(",");
        let request = Request {
            range: Some(text),
            ..Request::new(Operation::Get, location)
        };
        self.run(request, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, around) = (Arc::clone(&self.inner), Arc::clone(&self.around));
        let delete = move |location: Path| {
            let (inner, around) = (Arc::clone(&inner), Arc::clone(&around));
            async move {
                let request = Request::new(Operation::Delete, &location);
                let one = futures::stream::iter([Ok(location)]).boxed();
                run(around.as_ref(), request, async move {
                    inner.delete_stream(one).try_collect::<Vec<_>>().await
                })
                .await
            }
        };
        locations
            .and_then(delete)
            .map_ok(|deleted| futures::stream::iter(deleted.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let request = Request::new(Operation::List, &prefix.cloned().unwrap_or_default());
        let (around, listed) = (Arc::clone(&self.around), self.inner.list(prefix));
        announced(around, request, listed)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let request = Request::new(Operation::List, &prefix.cloned().unwrap_or_default());
        let (around, listed) = (Arc::clone(&self.around), self.inner.list_with_offset(prefix, offset));
        announced(around, request, listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let request = Request::new(Operation::List, &prefix.cloned().unwrap_or_default());
        self.run(request, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let absent = matches!(options.mode, CopyMode::Create);
        let operation = if absent {
            Operation::PutIfAbsent
        } else {
            Operation::Copy
        };
        self.run(Request::new(operation, to), self.inner.copy_opts(from, to, options))
            .await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let absent = matches!(options.target_mode, RenameTargetMode::Create);
        let operation = if absent {
            Operation::PutIfAbsent
        } else {
            Operation::Rename
        };
        self.run(Request::new(operation, to), self.inner.rename_opts(from, to, options))
            .await
    }
}

/// A listing whose request is announced when it is first polled.
fn announced<A: Around>(
    around: Arc<A>,
    request: Request,
    listed: BoxStream<'static, Result<ObjectMeta>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    let start = async move { around.before(&request).await.map(|()| listed) };
    futures::stream::once(start).try_flatten().boxed()
}

#[derive(Debug)]
struct WrappedUpload<A> {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    around: Arc<A>,
}

#[async_trait]
impl<A: Around> MultipartUpload for WrappedUpload<A> {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, around) = (self.inner.put_part(data), Arc::clone(&self.around));
        let request = Request::new(Operation::PutPart, &self.location);
        async move { run(around.as_ref(), request, part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let request = Request::new(Operation::CompleteUpload, &self.location);
        run(self.around.as_ref(), request, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
