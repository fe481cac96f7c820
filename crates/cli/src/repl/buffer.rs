//! The lines of a statement that is being typed.

use alluvium::script::is_complete;

use super::meta::Command;

/// What a line led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing to do.
    Blank,
    /// The statement goes on.
    More,
    /// Text whose last statement is complete.
    Statements(String),
    /// A command of the prompt.
    Command(Command),
}

/// Collects lines until a semicolon ends the last statement in them.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    text: String,
}

impl LineBuffer {
    /// Whether a statement has been begun.
    pub(super) fn is_open(&self) -> bool {
        !self.text.is_empty()
    }

    /// Forgets what was typed.
    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    /// Takes the next line.
    pub(super) fn push(&mut self, line: &str) -> Entry {
        if !self.is_open() {
            if let Some(command) = Command::read(line) {
                return Entry::Command(command);
            }
        } else {
            self.text.push('\n');
        }
        self.text.push_str(line);
        if self.text.trim().is_empty() {
            self.text.clear();
            return Entry::Blank;
        }
        match is_complete(&self.text) {
            true => Entry::Statements(std::mem::take(&mut self.text)),
            false => Entry::More,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str]) -> Vec<Entry> {
        let mut buffer = LineBuffer::default();
        lines.iter().map(|line| buffer.push(line)).collect()
    }

    fn statements(text: &str) -> Entry {
        Entry::Statements(text.to_owned())
    }

    #[test]
    fn a_statement_ends_with_a_semicolon_outside_quotes_and_comments() {
        assert_eq!(entries(&["SELECT 1;"]), [statements("SELECT 1;")]);
        assert_eq!(entries(&["SELECT", "1", ";"])[2], statements("SELECT\n1\n;"));
        assert_eq!(
            entries(&["SELECT 'a;", "b';"]),
            [Entry::More, statements("SELECT 'a;\nb';")]
        );
        assert_eq!(entries(&["SELECT \"a;", "b\";"])[0], Entry::More);
        assert_eq!(entries(&["SELECT 1 -- not yet;", ";"])[0], Entry::More);
        assert_eq!(entries(&["SELECT 1 /* ;", "*/;"])[0], Entry::More);
        assert_eq!(entries(&["SELECT 1; -- done"]), [statements("SELECT 1; -- done")]);
        assert_eq!(entries(&["SELECT $$ ; ", "$$;"])[0], Entry::More);
    }

    #[test]
    fn several_statements_on_one_line_are_one_entry() {
        let line = "SELECT 'it''s'; SELECT 2; SELECT 3;";
        assert_eq!(entries(&[line]), [statements(line)]);
    }

    #[test]
    fn blank_lines_and_comments_alone_begin_nothing() {
        assert_eq!(entries(&["", "  "]), [Entry::Blank, Entry::Blank]);
        assert_eq!(
            entries(&["-- note", "/* a */"]),
            [statements("-- note"), statements("/* a */")]
        );
    }

    #[test]
    fn commands_are_read_only_where_a_statement_can_begin() {
        assert_eq!(entries(&["\\timing"]), [Entry::Command(Command::Timing)]);
        assert_eq!(entries(&["SELECT", "\\timing"])[1], Entry::More);
    }

    #[test]
    fn clearing_starts_anew() {
        let mut buffer = LineBuffer::default();
        assert_eq!(buffer.push("SELECT 'open"), Entry::More);
        buffer.clear();
        assert!(!buffer.is_open());
        assert_eq!(buffer.push("SELECT 1;"), statements("SELECT 1;"));
    }
}
