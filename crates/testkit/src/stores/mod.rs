//! Object stores around another store, for tests of crashes, requests and concurrency. None of them sleeps or races.

/// The store trait for a type with a field `wrapped`.
macro_rules! delegate {
    ($store:ident) => {
        impl fmt::Display for $store {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($store), self.wrapped.inner)
            }
        }

        #[async_trait]
        impl ObjectStore for $store {
            async fn put_opts(
                &self,
                location: &object_store::path::Path,
                payload: object_store::PutPayload,
                opts: object_store::PutOptions,
            ) -> Result<object_store::PutResult> {
                self.wrapped.put_opts(location, payload, opts).await
            }

            async fn put_multipart_opts(
                &self,
                location: &object_store::path::Path,
                opts: object_store::PutMultipartOptions,
            ) -> Result<Box<dyn object_store::MultipartUpload>> {
                self.wrapped.put_multipart_opts(location, opts).await
            }

            async fn get_opts(
                &self,
                location: &object_store::path::Path,
                options: object_store::GetOptions,
            ) -> Result<object_store::GetResult> {
                self.wrapped.get_opts(location, options).await
            }

            async fn get_ranges(
                &self,
                location: &object_store::path::Path,
                ranges: &[std::ops::Range<u64>],
            ) -> Result<Vec<bytes::Bytes>> {
                self.wrapped.get_ranges(location, ranges).await
            }

            fn delete_stream(
                &self,
                locations: futures::stream::BoxStream<'static, Result<object_store::path::Path>>,
            ) -> futures::stream::BoxStream<'static, Result<object_store::path::Path>> {
                self.wrapped.delete_stream(locations)
            }

            fn list(
                &self,
                prefix: Option<&object_store::path::Path>,
            ) -> futures::stream::BoxStream<'static, Result<object_store::ObjectMeta>> {
                self.wrapped.list(prefix)
            }

            fn list_with_offset(
                &self,
                prefix: Option<&object_store::path::Path>,
                offset: &object_store::path::Path,
            ) -> futures::stream::BoxStream<'static, Result<object_store::ObjectMeta>> {
                self.wrapped.list_with_offset(prefix, offset)
            }

            async fn list_with_delimiter(
                &self,
                prefix: Option<&object_store::path::Path>,
            ) -> Result<object_store::ListResult> {
                self.wrapped.list_with_delimiter(prefix).await
            }

            async fn copy_opts(
                &self,
                from: &object_store::path::Path,
                to: &object_store::path::Path,
                options: object_store::CopyOptions,
            ) -> Result<()> {
                self.wrapped.copy_opts(from, to, options).await
            }

            async fn rename_opts(
                &self,
                from: &object_store::path::Path,
                to: &object_store::path::Path,
                options: object_store::RenameOptions,
            ) -> Result<()> {
                self.wrapped.rename_opts(from, to, options).await
            }
        }
    };
}

mod fault;
mod gate;
mod recording;
mod request;
mod wrapped;

#[cfg(test)]
mod tests;

pub use fault::{FaultyStore, Moment, SECRET};
pub use gate::{Gate, GateStore, Opener};
pub use recording::RecordingStore;
pub use request::{Operation, Request};
