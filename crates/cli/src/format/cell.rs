//! A value as the lines of one cell on a screen.

use std::borrow::Cow;

use datafusion::arrow::array::Array;
use unicode_width::UnicodeWidthStr;

use super::value::write_text;

/// Fills `buffer` with the value as it is shown to people and returns it without control characters other than line
/// feeds: they would break the alignment, or drive the terminal.
pub(crate) fn cell<'a>(buffer: &'a mut String, array: &dyn Array, row: usize) -> Cow<'a, str> {
    buffer.clear();
    if !write_text(buffer, array, row) {
        buffer.push_str("NULL");
    }
    printable(buffer)
}

/// `text` with control characters other than line feeds written as escapes.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let unsafe_char = |c: char| c.is_control() && c != '\n';
    if !text.contains(unsafe_char) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| match unsafe_char(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// The columns that the widest line of `text` takes on a screen.
pub(crate) fn width(text: &str) -> usize {
    text.split('\n').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_twice_and_lines_count_alone() {
        assert_eq!(width("東京"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("ab\nabc\n"), 3);
    }

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(printable("a\tb\u{1b}[31m\n"), "a\\tb\\u{1b}[31m\n");
        assert_eq!(printable("plain"), "plain");
    }
}
