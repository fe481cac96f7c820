//! The command line's arguments.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::format::{Format, Style};
use crate::size;

const EXAMPLES: &str = "\
Examples:
  alluvium                                        a prompt on the tables below this directory
  alluvium -w s3://bucket/lake -f nightly.sql     run a script against a warehouse
  alluvium -c \"UPSERT INTO t USING 'new.csv' KEYS (id)\" -c \"SELECT count(*) FROM t\"
  cat load.sql | alluvium -w lake --format json | jq .

Statements are separated by semicolons. -c and -f run in the order given; the first error ends the run.
Exit code: 0 all statements ran; 1 one failed; 2 wrong usage; 130 cancelled by Ctrl-C.

JSON: decimals, dates, timestamps (ISO 8601), NaN and infinities are strings; binary values are hexadecimal digits.
CSV:  NULL is an empty field, an empty text is \"\".";

/// Incremental loading into Delta Lake as SQL.
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, about, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Args {
    /// Run these statements; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,

    /// Run the statements of this file, or of standard input for `-`; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Directory or URL below which every Delta table is a table by its name
    #[arg(short = 'w', long, value_name = "DIR|URL", default_value = ".")]
    pub(crate) warehouse: String,

    /// How results are written
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,

    /// No row counts, times, progress or greeting
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Bound the memory of operators, such as 512MB, 2GiB, 1g; what does not fit is spilled to disk
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) memory_limit: Option<usize>,

    /// Threads, and partitions of a plan [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Rows in a batch [default: 8192]
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<NonZeroUsize>,

    /// Set a DataFusion setting, such as datafusion.execution.time_zone=UTC; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
}

/// Where statements come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// The argument of `-c`.
    Sql(String),
    /// The argument of `-f`.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Args {
    /// Reads the arguments, and the inputs in the order in which they were given.
    pub(crate) fn read<I, T>(arguments: I) -> Result<(Self, Vec<Input>), clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let matches = Self::command().try_get_matches_from(arguments)?;
        let args = Self::from_arg_matches(&matches)?;
        let inputs = args.inputs(&matches);
        Ok((args, inputs))
    }

    /// How results are written.
    pub(crate) fn style(&self) -> Style {
        Style {
            format: self.format,
            quiet: self.quiet,
            timing: true,
        }
    }

    fn inputs(&self, matches: &ArgMatches) -> Vec<Input> {
        let commands = self.commands.iter().map(|sql| Input::Sql(sql.clone()));
        let files = self.files.iter().map(|path| match path.as_os_str() == "-" {
            true => Input::Stdin,
            false => Input::File(path.clone()),
        });
        let mut inputs: Vec<(usize, Input)> = indices(matches, "commands").zip(commands).collect();
        inputs.extend(indices(matches, "files").zip(files));
        inputs.sort_by_key(|(index, _)| *index);
        inputs.into_iter().map(|(_, input)| input).collect()
    }
}

fn indices<'a>(matches: &'a ArgMatches, id: &str) -> impl Iterator<Item = usize> + 'a {
    matches.indices_of(id).into_iter().flatten()
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<(Args, Vec<Input>), clap::Error> {
        Args::read([&["alluvium"], arguments].concat())
    }

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn commands_and_files_keep_their_common_order() {
        let (_, inputs) = read(&["-c", "a", "-f", "b.sql", "-q", "-c", "c", "-f", "-", "--file=d.sql"]).unwrap();
        let file = |name: &str| Input::File(PathBuf::from(name));
        let sql = |text: &str| Input::Sql(text.to_owned());
        assert_eq!(inputs, [sql("a"), file("b.sql"), sql("c"), Input::Stdin, file("d.sql")]);
    }

    #[test]
    fn a_command_may_begin_with_a_comment() {
        let (_, inputs) = read(&["-c", "-- first\nSELECT 1"]).unwrap();
        assert_eq!(inputs, [Input::Sql("-- first\nSELECT 1".to_owned())]);
    }

    #[test]
    fn everything_has_a_default() {
        let (args, inputs) = read(&[]).unwrap();
        assert_eq!(
            (args.warehouse.as_str(), args.format, args.quiet),
            (".", Format::Table, false)
        );
        assert!(inputs.is_empty() && args.threads.is_none() && args.settings.is_empty());
    }

    #[test]
    fn values_are_read_into_their_types() {
        let (args, _) = read(&[
            "--memory-limit",
            "2GiB",
            "--threads",
            "3",
            "--batch-size",
            "7",
            "--set",
            "a.b=c=d",
            "--set",
            "e=",
            "--format",
            "ndjson",
        ])
        .unwrap();
        assert_eq!(args.memory_limit, Some(2 << 30));
        assert_eq!(args.threads.map(NonZeroUsize::get), Some(3));
        assert_eq!(args.batch_size.map(NonZeroUsize::get), Some(7));
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(args.settings, [pair("a.b", "c=d"), pair("e", "")]);
        assert_eq!(args.format, Format::Ndjson);
    }

    #[test]
    fn wrong_usage_has_exit_code_2() {
        for arguments in [
            &["file.sql"][..],
            &["--format", "xml"],
            &["--threads", "0"],
            &["--memory-limit", "lots"],
            &["--set", "novalue"],
            &["-c"],
            &["--nonsense"],
        ] {
            assert_eq!(read(arguments).unwrap_err().exit_code(), 2, "{arguments:?}");
        }
    }
}
