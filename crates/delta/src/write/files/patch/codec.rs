//! Compression of a page, as that of the pages around it.

use std::borrow::Cow;

use datafusion::parquet::basic::Compression;

/// Compresses as the chunk's other pages are compressed.
pub(super) enum Codec {
    Uncompressed,
    Snappy(snap::raw::Encoder),
    Zstd(i32),
}

impl Codec {
    /// `None`: it is not known here.
    pub(super) fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::UNCOMPRESSED => Some(Self::Uncompressed),
            Compression::SNAPPY => Some(Self::Snappy(snap::raw::Encoder::new())),
            Compression::ZSTD(level) => Some(Self::Zstd(level.compression_level())),
            _ => None,
        }
    }

    /// `None`: there is too much of it.
    pub(super) fn compress<'a>(&mut self, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Uncompressed => Some(bytes.into()),
            Self::Snappy(encoder) => encoder.compress_vec(bytes).ok().map(Cow::Owned),
            Self::Zstd(level) => zstd::bulk::compress(bytes, *level).ok().map(Cow::Owned),
        }
    }
}
