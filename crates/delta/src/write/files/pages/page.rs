//! The rows of a page, and the same with other values in some of them.

use std::borrow::Cow;

use datafusion::parquet::basic::Encoding;
use datafusion::parquet::column::page::Page;

use super::bounds::Bounds;
use super::dictionary::Dictionary;
use super::fresh::Fresh;
use super::hybrid;
use super::kind::Kind;
use super::packed::Packed;
use super::values::{Flags, Texts, pack_booleans, put_text, split_levels, unpack_booleans};

/// New values for some rows of a page.
pub(super) struct NewValues<'a> {
    pub(super) fresh: &'a Fresh<'a>,
    /// Rows of the page, ascending, and which fresh value each is to have.
    pub(super) rows: Vec<(usize, usize)>,
}

impl NewValues<'_> {
    /// The lowest and the highest of them.
    pub(super) fn bounds(&self, kind: Kind) -> Bounds {
        Bounds::of(kind, self.rows.iter().filter_map(|(_, fresh)| self.fresh.get(*fresh)))
    }
}

/// What a page holds.
pub(super) struct Content<'a> {
    kind: Kind,
    rows: usize,
    pub(super) flags: Flags,
    values: Values<'a>,
}

/// The values of the rows that have one.
enum Values<'a> {
    /// As they are in a page; booleans in a byte each.
    Plain(Cow<'a, [u8]>),
    /// Places in the dictionary, as they are in a page.
    Packed(Packed<'a>),
    /// Places in the dictionary.
    Places(Vec<u32>),
}

/// A changed page.
pub(super) struct Changed<'a> {
    pub(super) content: Content<'a>,
    /// The lowest and the highest of the values that are gone.
    pub(super) gone: Bounds,
}

impl<'a> Content<'a> {
    /// `None`: the page is stored in a way that is not known here.
    pub(super) fn read(page: &'a Page, optional: bool, kind: Kind) -> Option<Self> {
        let Page::DataPage {
            buf,
            num_values,
            encoding,
            ..
        } = page
        else {
            return None;
        };
        let rows = usize::try_from(*num_values).ok()?;
        let (flags, bytes) = split_levels(buf, optional, rows)?;
        let present = flags.present(0..rows);
        let values = match (encoding, kind.width()) {
            (Encoding::PLAIN, _) if kind == Kind::Boolean => Values::Plain(unpack_booleans(bytes, present)?.into()),
            (Encoding::PLAIN, Some(width)) => Values::Plain(bytes.get(..present.checked_mul(width)?)?.into()),
            (Encoding::PLAIN, None) => Values::Plain(bytes.into()),
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, _) => Values::Packed(Packed::read(bytes, present)?),
            _ => return None,
        };
        Some(Self {
            kind,
            rows,
            flags,
            values,
        })
    }

    /// Whether values are stored as they are, and not as places in the dictionary.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.values, Values::Plain(_))
    }

    /// How many rows are NULL.
    pub(super) fn nulls(&self) -> usize {
        self.rows - self.flags.present(0..self.rows)
    }

    /// The lowest and the highest value.
    pub(super) fn bounds(&self, dictionary: Option<&Dictionary>) -> Bounds {
        let of = |places: &[u32], dictionary: &Dictionary| Bounds::of(self.kind, dictionary.values_at(places));
        match (&self.values, dictionary) {
            (Values::Plain(bytes), _) => Bounds::of_plain(self.kind, bytes),
            (Values::Places(places), Some(dictionary)) => of(places, dictionary),
            (Values::Packed(packed), Some(dictionary)) => packed
                .places()
                .map_or_else(Bounds::default, |places| of(&places, dictionary)),
            (Values::Places(_) | Values::Packed(_), None) => Bounds::default(),
        }
    }

    /// The bytes of the page. `None`: there are places, but no dictionary.
    pub(super) fn put(&self, dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(match &self.values {
            Values::Plain(bytes) => bytes.len() + self.rows / 8 + 64,
            Values::Places(_) | Values::Packed(_) => 64,
        });
        self.flags.put(&mut out)?;
        match &self.values {
            Values::Plain(bytes) if self.kind == Kind::Boolean => pack_booleans(bytes, &mut out),
            Values::Plain(bytes) => out.extend_from_slice(bytes),
            Values::Packed(packed) => packed.put(&mut out)?,
            Values::Places(places) => {
                let width = hybrid::width_of(dictionary?.len());
                out.push(u8::try_from(width).ok()?);
                hybrid::encode(places, width, &mut out);
            }
        }
        Some(out)
    }

    /// The rows with `new` values. Inner `None`: they have them already; outer: they cannot be put in here.
    pub(super) fn replace(
        &self,
        new: &NewValues<'_>,
        dictionary: &mut Option<Dictionary>,
    ) -> Option<Option<Changed<'static>>> {
        if let Values::Packed(packed) = &self.values {
            return self.replace_packed(packed, new, dictionary);
        }
        if let (Values::Places(_), Some(known)) = (&self.values, dictionary.as_ref())
            && known.is_large()
        {
            return match self.differs(new, Some(known))? {
                true => self.unfolded(known)?.replace(new, &mut None),
                false => Some(None),
            };
        }
        let in_place = match self.kind.width() {
            Some(4) => self.replace_in_place::<4>(new),
            Some(8) => self.replace_in_place::<8>(new),
            _ => None,
        };
        if in_place.is_some() {
            return in_place;
        }
        if !self.differs(new, dictionary.as_ref())? {
            return Some(None);
        }
        let mut flags = self.flags.clone();
        let mut editor = Editor::new(self);
        let mut gone = Bounds::default();
        let (mut changed, mut next) = (false, 0);
        for (row, fresh) in &new.rows {
            editor.keep(self.flags.present(next..*row))?;
            let value = new.fresh.get(*fresh);
            let old = match self.flags.is_present(*row) {
                true => Some(editor.pass()?),
                false => None,
            };
            if editor.differs(old, value, dictionary.as_ref())? {
                changed = true;
                if let Some(old) = old {
                    gone.widen(self.kind, editor.value(old, dictionary.as_ref())?);
                }
            }
            flags.set(*row, value.is_some())?;
            if let Some(value) = value {
                editor.put(value, dictionary)?;
            }
            next = row + 1;
        }
        editor.keep(self.flags.present(next..self.rows))?;
        let values = editor.out;
        Some(changed.then_some(Changed {
            content: Content {
                kind: self.kind,
                rows: self.rows,
                flags,
                values,
            },
            gone,
        }))
    }
}

impl Content<'_> {
    /// [`Self::replace`] of plain values of one width, none of which comes or goes.
    fn replace_in_place<const WIDTH: usize>(&self, new: &NewValues<'_>) -> Option<Option<Changed<'static>>> {
        let Values::Plain(bytes) = &self.values else {
            return None;
        };
        let (stored, _) = bytes.as_chunks::<WIDTH>();
        let mut changed: Option<Vec<[u8; WIDTH]>> = None;
        let mut gone = Vec::new();
        let (mut next, mut at) = (0, 0);
        for (row, fresh) in &new.rows {
            at += self.flags.present(next..*row);
            next = *row;
            let value: &[u8; WIDTH] = match (self.flags.is_present(*row), new.fresh.get(*fresh)) {
                (true, Some(value)) => value.try_into().ok()?,
                (false, None) => continue,
                _ => return None,
            };
            let old = stored.get(at)?;
            if old != value {
                gone.extend_from_slice(old);
                *changed.get_or_insert_with(|| stored.to_vec()).get_mut(at)? = *value;
            }
        }
        let content = |values: Vec<[u8; WIDTH]>| Content {
            kind: self.kind,
            rows: self.rows,
            flags: self.flags.clone(),
            values: Values::Plain(values.into_flattened().into()),
        };
        Some(changed.map(|values| Changed {
            content: content(values),
            gone: Bounds::of_plain(self.kind, &gone),
        }))
    }

    /// [`Self::replace`] of places, among their bits if that can be done.
    fn replace_packed(
        &self,
        packed: &Packed<'_>,
        new: &NewValues<'_>,
        dictionary: &mut Option<Dictionary>,
    ) -> Option<Option<Changed<'static>>> {
        let with = |values| Content {
            kind: self.kind,
            rows: self.rows,
            flags: self.flags.clone(),
            values,
        };
        let known = dictionary.as_mut().filter(|known| !known.is_large());
        match known.and_then(|known| packed.changed(self.kind, &self.flags, new, known)) {
            Some(repacked) => Some(repacked.map(|repacked| Changed {
                content: with(Values::Packed(repacked.places)),
                gone: repacked.gone,
            })),
            None => with(Values::Places(packed.places()?)).replace(new, dictionary),
        }
    }

    /// Whether any of the rows has another value than its new one, as far as that is seen without making the page anew.
    fn differs(&self, new: &NewValues<'_>, dictionary: Option<&Dictionary>) -> Option<bool> {
        match (&self.values, dictionary, self.kind.width()) {
            (Values::Places(places), Some(dictionary), _) => {
                self.any_differs(new, |nth, _| dictionary.get(*places.get(nth)?))
            }
            (Values::Plain(bytes), _, None) => {
                let mut texts = Texts(bytes);
                self.any_differs(new, |_, passed| texts.nth(passed))
            }
            _ => Some(true),
        }
    }

    /// `old` gives the value that so many are before in the page; and between it and the last that was asked for.
    fn any_differs<'b>(
        &self,
        new: &NewValues<'_>,
        mut old: impl FnMut(usize, usize) -> Option<&'b [u8]>,
    ) -> Option<bool> {
        let (mut next, mut at, mut behind) = (0, 0, 0);
        for (row, fresh) in &new.rows {
            at += self.flags.present(next..*row);
            next = *row;
            let value = match self.flags.is_present(*row) {
                true => {
                    let value = old(at, at - behind)?;
                    behind = at + 1;
                    Some(value)
                }
                false => None,
            };
            if value != new.fresh.get(*fresh) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// The same with the values themselves instead of their places in the dictionary.
    fn unfolded(&self, dictionary: &Dictionary) -> Option<Content<'static>> {
        let Values::Places(places) = &self.values else {
            return None;
        };
        let mut plain = Vec::with_capacity(places.len() * (self.kind.width().unwrap_or(16)));
        for place in places {
            let value = dictionary.get(*place)?;
            match self.kind.width() {
                Some(_) => plain.extend_from_slice(value),
                None => put_text(value, &mut plain)?,
            }
        }
        Some(Content {
            kind: self.kind,
            rows: self.rows,
            flags: self.flags.clone(),
            values: Values::Plain(plain.into()),
        })
    }
}

/// Goes through the values of a page and copies them.
struct Editor<'a> {
    kind: Kind,
    values: &'a Values<'a>,
    /// A byte, or a place among places.
    at: usize,
    out: Values<'static>,
}

/// A value that was passed over.
#[derive(Clone, Copy)]
enum Passed<'a> {
    Value(&'a [u8]),
    Place(u32),
}

impl<'a> Editor<'a> {
    fn new(content: &'a Content<'a>) -> Self {
        Self {
            kind: content.kind,
            values: &content.values,
            at: 0,
            out: match &content.values {
                Values::Plain(bytes) => Values::Plain(Vec::with_capacity(bytes.len() + bytes.len() / 8).into()),
                Values::Places(places) => Values::Places(Vec::with_capacity(places.len())),
                Values::Packed(_) => Values::Places(Vec::new()),
            },
        }
    }

    /// Copies `count` values.
    fn keep(&mut self, count: usize) -> Option<()> {
        let end = self.end(count)?;
        match (&mut self.out, self.values) {
            (Values::Plain(out), Values::Plain(bytes)) => out.to_mut().extend_from_slice(bytes.get(self.at..end)?),
            (Values::Places(out), Values::Places(places)) => out.extend_from_slice(places.get(self.at..end)?),
            _ => return None,
        }
        self.at = end;
        Some(())
    }

    /// Where the next `count` values end.
    fn end(&self, count: usize) -> Option<usize> {
        match (self.values, self.kind.width()) {
            (Values::Places(_), _) => self.at.checked_add(count),
            (Values::Packed(_), _) => None,
            (Values::Plain(_), Some(width)) => self.at.checked_add(count.checked_mul(width)?),
            (Values::Plain(bytes), None) => {
                let mut texts = Texts(bytes.get(self.at..)?);
                for _ in 0..count {
                    texts.next()?;
                }
                Some(bytes.len() - texts.0.len())
            }
        }
    }

    /// Goes beyond a value.
    fn pass(&mut self) -> Option<Passed<'a>> {
        let (start, end) = (self.at, self.end(1)?);
        self.at = end;
        match (self.values, self.kind.width()) {
            (Values::Places(places), _) => places.get(start).copied().map(Passed::Place),
            (Values::Packed(_), _) => None,
            (Values::Plain(bytes), Some(_)) => bytes.get(start..end).map(Passed::Value),
            (Values::Plain(bytes), None) => bytes.get(start + 4..end).map(Passed::Value),
        }
    }

    fn value<'b>(&self, passed: Passed<'b>, dictionary: Option<&'b Dictionary>) -> Option<&'b [u8]> {
        match passed {
            Passed::Value(value) => Some(value),
            Passed::Place(place) => dictionary?.get(place),
        }
    }

    fn differs(&self, old: Option<Passed<'_>>, new: Option<&[u8]>, dictionary: Option<&Dictionary>) -> Option<bool> {
        match old {
            Some(old) => Some(Some(self.value(old, dictionary)?) != new),
            None => Some(new.is_some()),
        }
    }

    fn put(&mut self, value: &[u8], dictionary: &mut Option<Dictionary>) -> Option<()> {
        match (&mut self.out, self.kind.width()) {
            (Values::Places(out), _) => out.push(dictionary.as_mut()?.place_of(value)?),
            (Values::Packed(_), _) => return None,
            (Values::Plain(out), Some(_)) => out.to_mut().extend_from_slice(value),
            (Values::Plain(out), None) => put_text(value, out.to_mut())?,
        }
        Some(())
    }
}
