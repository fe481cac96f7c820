//! Single values of a page, found by where they are.

use datafusion::parquet::basic::Encoding;

use super::form::Form;
use crate::pages::codec::Unpacker;
use crate::pages::header::{Described, Header};
use crate::pages::hybrid::{Runs, WIDEST};
use crate::pages::texts::Texts;

/// The values of a page, by how many values are before them. They are asked for in ascending order.
pub(super) enum Values<'a> {
    Fixed(&'a [u8], usize),
    Bits(&'a [u8]),
    /// The texts that follow, and how many came before them.
    Texts(Texts<'a>, usize),
    /// Truths as numbers of one bit.
    Truths(&'a [u8], Runs<'a>),
    /// Places in the dictionary, of so many bits.
    Places(&'a [u8], u32, Runs<'a>),
}

const FALSE: &[u8] = &[0];
const TRUE: &[u8] = &[1];

impl<'a> Values<'a> {
    /// The values of a page of this encoding, in `bytes`. `None`: it is not known here.
    pub(super) fn of(encoding: Encoding, form: Form, bytes: &'a [u8]) -> Option<Self> {
        match (encoding, form) {
            (Encoding::PLAIN, Form::Boolean) => Some(Self::Bits(bytes)),
            (Encoding::PLAIN, Form::Bytes) => Some(Self::Texts(Texts(bytes), 0)),
            (Encoding::PLAIN, form) => Some(Self::Fixed(bytes, form.width()?)),
            (Encoding::RLE, Form::Boolean) => {
                // Behind their length.
                let bits = bytes.get(4..)?;
                Some(Self::Truths(bits, Runs::new(bits, 1)))
            }
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, form) if form != Form::Boolean => {
                // A page of NULLs may go without a width.
                let (width, bytes) = bytes.split_first().unwrap_or((&0, &[]));
                let width = u32::from(*width);
                (width <= WIDEST).then(|| Self::Places(bytes, width, Runs::new(bytes, width)))
            }
            _ => None,
        }
    }

    /// The value that has `nth` values before it. `None`: it is not there.
    pub(super) fn get(&mut self, nth: usize, dictionary: Option<&'a Dictionary>) -> Option<&'a [u8]> {
        match self {
            Self::Fixed(bytes, width) => {
                let start = nth.checked_mul(*width)?;
                bytes.get(start..start.checked_add(*width)?)
            }
            Self::Bits(bits) => Some(match bits.get(nth / 8)? >> (nth % 8) & 1 {
                0 => FALSE,
                _ => TRUE,
            }),
            Self::Texts(texts, before) => {
                let text = texts.nth(nth.checked_sub(*before)?)?;
                *before = nth + 1;
                Some(text)
            }
            Self::Truths(bits, runs) => {
                let (at, run) = runs.seek(nth)?;
                Some(match run.number(bits, 1, at)? {
                    0 => FALSE,
                    _ => TRUE,
                })
            }
            Self::Places(places, width, runs) => {
                let (at, run) = runs.seek(nth)?;
                dictionary?.get(run.number(places, *width, at)?)
            }
        }
    }
}

/// The dictionary of a chunk, in memory that the one before it had.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    /// How many of the bytes are its own.
    used: usize,
    width: Option<usize>,
    /// Where values end that are not all as long.
    ends: Vec<u32>,
}

impl Dictionary {
    /// Becomes the dictionary in the page that `header` describes, whose bytes are `page`. `None`: it is another page, or
    /// not known here.
    pub(super) fn read(&mut self, header: &Header, page: &[u8], unpacker: &mut Unpacker, form: Form) -> Option<()> {
        let Described::Dictionary {
            values,
            encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY,
        } = header.page
        else {
            return None;
        };
        let page = unpacker.unpack_into(page, header.unpacked, &mut self.bytes)?;
        self.ends.clear();
        self.width = form.width();
        self.used = match (form, self.width) {
            (_, Some(width)) => values.checked_mul(width).filter(|used| *used <= page.len())?,
            (Form::Bytes, None) => {
                let mut texts = Texts(page);
                for _ in 0..values {
                    texts.next()?;
                    self.ends.push(u32::try_from(page.len() - texts.0.len()).ok()?);
                }
                page.len()
            }
            (_, None) => return None,
        };
        Some(())
    }

    fn get(&self, place: u32) -> Option<&[u8]> {
        let place = usize::try_from(place).ok()?;
        let (start, end) = match self.width {
            Some(width) => (place.checked_mul(width)?, place.checked_add(1)?.checked_mul(width)?),
            None => {
                let before = match place.checked_sub(1) {
                    Some(before) => *self.ends.get(before)?,
                    None => 0,
                };
                // Behind its length.
                (
                    usize::try_from(before).ok()? + 4,
                    usize::try_from(*self.ends.get(place)?).ok()?,
                )
            }
        };
        self.bytes.get(..self.used)?.get(start..end)
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }
}
