//! Places in the dictionary as a page holds them, of which some change: found and changed among their bits, so that
//! a page is neither taken apart nor put together.

use std::borrow::Cow;

use super::bounds::Bounds;
use super::dictionary::Dictionary;
use super::hybrid::{self, Runs};
use super::kind::Kind;
use super::page::NewValues;
use super::values::Flags;

/// The places of a page's rows.
pub(super) struct Packed<'a> {
    bytes: Cow<'a, [u8]>,
    width: u32,
    count: usize,
}

/// Places of which some are new, with the lowest and the highest of the values that are gone.
pub(super) struct Repacked {
    pub(super) places: Packed<'static>,
    pub(super) gone: Bounds,
}

impl<'a> Packed<'a> {
    /// `count` places, behind the number of their bits.
    pub(super) fn read(bytes: &'a [u8], count: usize) -> Option<Self> {
        // A page of NULLs may go without a width.
        let (width, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        let width = u32::from(*width);
        (width <= hybrid::WIDEST).then_some(Self {
            bytes: bytes.into(),
            width,
            count,
        })
    }

    /// One number for each.
    pub(super) fn places(&self) -> Option<Vec<u32>> {
        hybrid::decode(&self.bytes, self.width, self.count)
    }

    /// As a page holds them.
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        out.push(u8::try_from(self.width).ok()?);
        out.extend_from_slice(&self.bytes);
        Some(())
    }

    /// With the places of `new` values. Inner `None`: they are the same; outer: they have to be packed again, as
    /// they are wider, are part of a run, or as rows become NULL or are so no longer.
    pub(super) fn changed(
        &self,
        kind: Kind,
        flags: &Flags,
        new: &NewValues<'_>,
        dictionary: &mut Dictionary,
    ) -> Option<Option<Repacked>> {
        let mut bytes = Cow::Borrowed(self.bytes.as_ref());
        let mut gone = Bounds::default();
        let mut runs = Runs::new(&self.bytes, self.width);
        let (mut next, mut at) = (0, 0);
        for (row, fresh) in &new.rows {
            at += flags.present(next..*row);
            next = *row;
            let value = match (flags.is_present(*row), new.fresh.get(*fresh)) {
                (true, Some(value)) => value,
                (false, None) => continue,
                _ => return None,
            };
            let (nth, run) = runs.seek(at)?;
            let old = run.number(&self.bytes, self.width, nth)?;
            let known = dictionary.get(old)?;
            if known == value {
                continue;
            }
            gone.widen(kind, known);
            let place = dictionary.place_of(value)?;
            run.set(bytes.to_mut(), self.width, nth, place)?;
        }
        let Cow::Owned(bytes) = bytes else {
            return Some(None);
        };
        let places = Packed {
            bytes: bytes.into(),
            width: self.width,
            count: self.count,
        };
        Some(Some(Repacked { places, gone }))
    }
}
