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

/// Takes pages of a chunk out of their compression.
pub(crate) enum Unpacker {
    Uncompressed,
    Snappy(snap::raw::Decoder),
    Zstd(Box<zstd::bulk::Decompressor<'static>>),
}

impl Unpacker {
    /// `None`: it is not known here.
    pub(crate) fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::UNCOMPRESSED => Some(Self::Uncompressed),
            Compression::SNAPPY => Some(Self::Snappy(snap::raw::Decoder::new())),
            Compression::ZSTD(_) => Some(Self::Zstd(Box::new(zstd::bulk::Decompressor::new().ok()?))),
            _ => None,
        }
    }

    /// The `length` bytes that `packed` stands for, in `buffer` if they are not there already. `None`: they are others,
    /// or fewer or more.
    pub(crate) fn unpack<'a>(&mut self, packed: &'a [u8], length: usize, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match self {
            Self::Uncompressed => packed.get(..length),
            Self::Snappy(_) | Self::Zstd(_) => self.unpack_into(packed, length, buffer),
        }
    }

    /// [`Self::unpack`], in `buffer` in any case.
    pub(crate) fn unpack_into<'a>(
        &mut self,
        packed: &[u8],
        length: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        if let Self::Snappy(_) = self
            && length > 0
            && snap::raw::decompress_len(packed).ok()? != length
        {
            return None;
        }
        // What the page before has left there is written over.
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let room = buffer.get_mut(..length)?;
        let unpacked = match self {
            // Nothing may be packed as nothing.
            _ if length == 0 => 0,
            Self::Uncompressed => {
                room.copy_from_slice(packed.get(..length)?);
                length
            }
            Self::Snappy(decoder) => decoder.decompress(packed, room).ok()?,
            Self::Zstd(decompressor) => decompressor.decompress_to_buffer(packed, room).ok()?,
        };
        (unpacked == length).then_some(room)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::parquet::basic::ZstdLevel;

    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let level = ZstdLevel::try_new(3).unwrap();
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(level)] {
            let (mut codec, mut unpacker) = (Codec::of(compression).unwrap(), Unpacker::of(compression).unwrap());
            let (mut packing, mut unpacking) = (Vec::new(), Vec::new());
            for length in [40_000_u32, 0, 1, 500] {
                let bytes: Vec<u8> = (0..length).flat_map(|i| (i / 7).to_le_bytes()).collect();
                let packed = codec.compress(&bytes, &mut packing).unwrap().to_vec();
                let unpacked = unpacker.unpack(&packed, bytes.len(), &mut unpacking);
                assert_eq!(unpacked, Some(bytes.as_slice()), "{compression} {length}");
                assert_eq!(unpacker.unpack(&packed, bytes.len() + 1, &mut unpacking), None);
                let cut = packed.len().checked_sub(1).and_then(|end| packed.get(..end));
                if let Some(cut) = cut.filter(|_| !bytes.is_empty()) {
                    assert_eq!(unpacker.unpack(cut, bytes.len(), &mut unpacking), None);
                }
            }
        }
        assert!(Unpacker::of(Compression::LZ4).is_none());
    }
}
