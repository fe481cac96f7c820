//! What stands before a page and describes it, in Thrift's compact protocol.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

use datafusion::parquet::basic::Encoding;

/// Structures do not lie deeper in each other than this.
const DEEPEST: usize = 8;

/// A page's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Its own bytes.
    pub(crate) length: usize,
    /// The bytes of the page behind it.
    pub(crate) packed: usize,
    /// The same without compression.
    pub(crate) unpacked: usize,
    pub(crate) page: Described,
}

/// What kind of page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Described {
    Dictionary {
        values: usize,
        encoding: Encoding,
    },
    /// Levels and values, compressed together.
    Data {
        rows: usize,
        encoding: Encoding,
        levels: Encoding,
    },
    /// Levels of so many bytes, and values that may be compressed.
    DataV2 {
        rows: usize,
        encoding: Encoding,
        levels: usize,
        repetitions: usize,
        compressed: bool,
    },
}

impl Header {
    /// The header at the beginning of `bytes`. `None`: it is cut off, or of another page.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = Input { bytes };
        let (mut packed, mut unpacked, mut kind) = (None, None, None);
        let (mut dictionary, mut data, mut newer) = (None, None, None);
        input.fields(|input, id, of| {
            match id {
                1 => kind = Some(input.number(of)?),
                2 => unpacked = Some(input.number(of)?),
                3 => packed = Some(input.number(of)?),
                5 => data = Some(Numbers::read(input, of)?),
                7 => dictionary = Some(Numbers::read(input, of)?),
                8 => newer = Some(Numbers::read(input, of)?),
                _ => input.pass(of, 0)?,
            }
            Some(())
        })?;
        let page = match kind? {
            0 => data?.data(),
            2 => dictionary?.dictionary(),
            3 => newer?.newer(),
            _ => None,
        };
        Some(Self {
            length: bytes.len() - input.bytes.len(),
            packed: usize::try_from(packed?).ok()?,
            unpacked: usize::try_from(unpacked?).ok()?,
            page: page?,
        })
    }
}

/// The numbers of a structure, by their id.
#[derive(Default)]
struct Numbers([Option<i64>; 8]);

impl Numbers {
    fn read(input: &mut Input<'_>, of: u8) -> Option<Self> {
        let mut numbers = Self::default();
        if of != STRUCT {
            return None;
        }
        input.fields(|input, id, of| {
            let slot = usize::try_from(id).ok().and_then(|id| numbers.0.get_mut(id));
            match (slot, of) {
                (Some(slot), TRUE | FALSE) => *slot = Some(i64::from(of == TRUE)),
                (Some(slot), SHORT | INT | LONG) => *slot = Some(input.number(of)?),
                _ => input.pass(of, 1)?,
            }
            Some(())
        })?;
        Some(numbers)
    }

    fn get(&self, id: usize) -> Option<i64> {
        *self.0.get(id)?
    }

    fn count(&self, id: usize) -> Option<usize> {
        usize::try_from(self.get(id)?).ok()
    }

    fn encoding(&self, id: usize) -> Option<Encoding> {
        match self.get(id)? {
            0 => Some(Encoding::PLAIN),
            2 => Some(Encoding::PLAIN_DICTIONARY),
            3 => Some(Encoding::RLE),
            8 => Some(Encoding::RLE_DICTIONARY),
            5 => Some(Encoding::DELTA_BINARY_PACKED),
            6 => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            7 => Some(Encoding::DELTA_BYTE_ARRAY),
            9 => Some(Encoding::BYTE_STREAM_SPLIT),
            _ => None,
        }
    }

    fn dictionary(&self) -> Option<Described> {
        Some(Described::Dictionary {
            values: self.count(1)?,
            encoding: self.encoding(2)?,
        })
    }

    fn data(&self) -> Option<Described> {
        Some(Described::Data {
            rows: self.count(1)?,
            encoding: self.encoding(2)?,
            // Of a kind that went out of use, and is met where there are no levels.
            levels: self.encoding(3).unwrap_or(Encoding::PLAIN),
        })
    }

    fn newer(&self) -> Option<Described> {
        Some(Described::DataV2 {
            rows: self.count(1)?,
            encoding: self.encoding(4)?,
            levels: self.count(5)?,
            repetitions: self.count(6)?,
            compressed: self.get(7) != Some(0),
        })
    }
}

// Types as the protocol numbers them. A truth has its value in its type.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const SHORT: u8 = 4;
const INT: u8 = 5;
const LONG: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    /// Calls `each` with the id and the type of every field of a structure; it has to read the value.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.signed()?,
                step => id.checked_add(i64::from(step))?,
            };
            each(self, id, head & 0x0f)?;
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        let half = i64::try_from(number >> 1).ok()?;
        Some(if number & 1 == 0 { half } else { -half - 1 })
    }

    fn number(&mut self, of: u8) -> Option<i64> {
        matches!(of, SHORT | INT | LONG).then(|| self.signed()).flatten()
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    /// Goes beyond a value that nobody asks for. `None` also of maps: pages have none.
    fn pass(&mut self, of: u8, depth: usize) -> Option<()> {
        match of {
            _ if depth > DEEPEST => None,
            TRUE | FALSE => Some(()),
            BYTE => self.skip(1),
            SHORT | INT | LONG => self.unsigned().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => self.unsigned().and_then(|length| self.skip(length)),
            LIST | SET => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    count => u64::from(count),
                };
                (0..count).try_for_each(|_| match head & 0x0f {
                    TRUE | FALSE => self.skip(1),
                    of => self.pass(of, depth + 1),
                })
            }
            STRUCT => self.fields(|input, _, of| input.pass(of, depth + 1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data page of 300 rows, with statistics, as they stand in a file.
    const DATA: &[u8] = &[
        0x15, 0x00, 0x15, 0x90, 0x03, 0x15, 0x86, 0x02, 0x2c, 0x15, 0xd8, 0x04, 0x15, 0x10, 0x15, 0x06, 0x15, 0x06,
        0x1c, 0x36, 0x00, 0x28, 0x02, b'z', b'z', 0x18, 0x01, b'a', 0x11, 0x11, 0x00, 0x00, 0x00,
    ];

    #[test]
    fn a_header_is_read_with_what_is_passed_over() {
        let header = Header::read(&[DATA, b"values"].concat());
        let wanted = Header {
            length: DATA.len(),
            packed: 131,
            unpacked: 200,
            page: Described::Data {
                rows: 300,
                encoding: Encoding::RLE_DICTIONARY,
                levels: Encoding::RLE,
            },
        };
        assert_eq!(header, Some(wanted));
    }

    #[test]
    fn what_is_cut_off_is_no_header() {
        for length in 0..DATA.len() {
            assert_eq!(Header::read(&DATA[..length]), None, "{length}");
        }
        assert_eq!(Header::read(&[0xff; 100]), None);
    }

    #[test]
    fn kinds_of_pages_are_told_apart() {
        let dictionary = [
            0x15, 0x04, 0x15, 0x02, 0x15, 0x02, 0x4c, 0x15, 0x02, 0x15, 0x00, 0x00, 0x00,
        ];
        let read = Header::read(&dictionary).map(|header| header.page);
        let (values, encoding) = (1, Encoding::PLAIN);
        assert_eq!(read, Some(Described::Dictionary { values, encoding }));
        let newer = [
            0x15, 0x06, 0x15, 0x02, 0x15, 0x02, 0x5c, 0x15, 0x06, 0x15, 0x02, 0x15, 0x06, 0x15, 0x00, 0x15, 0x04, 0x15,
            0x00, 0x12, 0x00, 0x00,
        ];
        let read = Header::read(&newer).map(|header| header.page);
        let wanted = Described::DataV2 {
            rows: 3,
            encoding,
            levels: 2,
            repetitions: 0,
            compressed: false,
        };
        assert_eq!(read, Some(wanted));
    }
}
