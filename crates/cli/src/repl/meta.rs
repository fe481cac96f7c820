//! The commands of the prompt: a backslash and a word.

use std::path::PathBuf;

/// The text of `\?`.
pub(super) const COMMANDS: &str = "\
\\q             quit (also Ctrl-D)
\\h [STATEMENT] help on a statement, such as \\h upsert; without a name, the list
\\d [NAME]      the tables, or the columns of one
\\timing        show times: on or off
\\x             one column per line: on or off
\\i FILE        run the statements of a file
\\?             this list

A statement ends with a semicolon. Ctrl-C clears what was typed, or cancels the statement that runs.";

/// The words, for completion.
pub(super) const WORDS: &[&str] = &["\\q", "\\h", "\\d", "\\timing", "\\x", "\\i", "\\?"];

/// A command of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Help(Option<String>),
    Tables,
    Columns(String),
    Timing,
    Vertical,
    Include(PathBuf),
    Commands,
    /// A known word that lacks its argument, or an unknown one: what to say about it.
    Wrong(String),
}

impl Command {
    /// Reads a line; `None` when it is no command but the begin of a statement.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let bare = line.trim_end_matches(';').trim_end();
        if bare.eq_ignore_ascii_case("quit") || bare.eq_ignore_ascii_case("exit") {
            return Some(Self::Quit);
        }
        if !line.starts_with('\\') {
            return None;
        }
        let (word, argument) = bare.split_once(char::is_whitespace).unwrap_or((bare, ""));
        let argument = Some(argument.trim()).filter(|text| !text.is_empty());
        Some(Self::of(word, argument))
    }

    fn of(word: &str, argument: Option<&str>) -> Self {
        match (word, argument.map(str::to_owned)) {
            ("\\q", _) => Self::Quit,
            ("\\h", statement) => Self::Help(statement),
            ("\\d" | "\\dt", None) => Self::Tables,
            ("\\d", Some(name)) => Self::Columns(name),
            ("\\timing", _) => Self::Timing,
            ("\\x", _) => Self::Vertical,
            ("\\i", Some(file)) => Self::Include(PathBuf::from(file.trim_matches('\''))),
            ("\\i", None) => Self::Wrong("\\i needs the name of a file".to_owned()),
            ("\\?", _) => Self::Commands,
            (word, _) => Self::Wrong(format!("there is no command {word}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_their_arguments() {
        let read = |line| Command::read(line).unwrap();
        assert_eq!(read("\\q"), Command::Quit);
        assert_eq!(read(" EXIT; "), Command::Quit);
        assert_eq!(read("\\h"), Command::Help(None));
        assert_eq!(
            read("\\h merge overwrite;"),
            Command::Help(Some("merge overwrite".into()))
        );
        assert_eq!(read("\\d"), Command::Tables);
        assert_eq!(read("\\d  lake.orders "), Command::Columns("lake.orders".into()));
        assert_eq!(read("\\i 'my file.sql'"), Command::Include("my file.sql".into()));
        assert!(matches!(read("\\i"), Command::Wrong(_)));
        assert_eq!(read("\\nope x"), Command::Wrong("there is no command \\nope".into()));
    }

    #[test]
    fn statements_are_no_commands() {
        for line in ["SELECT 1;", "", "quit now", "exit_code"] {
            assert_eq!(Command::read(line), None, "{line}");
        }
    }

    #[test]
    fn every_word_is_a_command_and_is_described() {
        for word in WORDS {
            assert!(COMMANDS.contains(word), "{word}");
            assert_ne!(
                Command::read(word),
                Some(Command::Wrong(format!("there is no command {word}")))
            );
        }
    }
}
