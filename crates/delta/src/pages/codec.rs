//! Compression of a page, as that of the pages around it.

use datafusion::parquet::basic::Compression;

/// Compresses as the chunk's other pages are compressed.
pub(crate) enum Codec {
    Uncompressed,
    Snappy(Box<snap::raw::Encoder>),
    Zstd(i32),
}

impl Codec {
    /// `None`: it is not known here.
    pub(crate) fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::UNCOMPRESSED => Some(Self::Uncompressed),
            Compression::SNAPPY => Some(Self::Snappy(Box::new(snap::raw::Encoder::new()))),
            Compression::ZSTD(level) => Some(Self::Zstd(level.compression_level())),
            _ => None,
        }
    }

    /// `bytes`, compressed into `buffer`. `None`: there is too much of it.
    pub(crate) fn compress<'a>(&mut self, bytes: &'a [u8], buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match self {
            Self::Uncompressed => Some(bytes),
            Self::Snappy(encoder) => {
                let most = snap::raw::max_compress_len(bytes.len());
                if buffer.len() < most {
                    buffer.resize(most, 0);
                }
                let length = encoder.compress(bytes, buffer).ok()?;
                buffer.get(..length)
            }
            Self::Zstd(level) => {
                *buffer = zstd::bulk::compress(bytes, *level).ok()?;
                Some(buffer)
            }
        }
    }
}
