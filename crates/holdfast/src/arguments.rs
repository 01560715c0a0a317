//! The command line: parsed into [`Arguments`], or refused in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::commands::Command;
use crate::error::CommandError;
use crate::options::Global;
use crate::output::Format;

const NAME: &str = "holdfast";

/// Backs up file trees to a server, always incrementally, and restores them.
#[derive(clap::Parser, Debug)]
#[command(name = NAME, version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  holdfast enroll backup.example.org:1500 --token TOKEN
  holdfast backup /home
  holdfast restore /home/ann/letters --at 'yesterday 18:00' --to /tmp/letters

Exit codes: 0 all done; 4 some objects failed or were skipped; 8 done with warnings; 12 not done.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Name of the command, as in `holdfast image backup`.
    #[arg(skip)]
    pub(crate) name: String,
}

/// Reasons why a command line gives no command to run.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command line asks for help or the version.
    Help(clap::Error),
    Usage(CommandError),
}

/// Returns the form of the results that a command line asks for, even if it cannot be parsed.
pub(crate) fn format(words: &[OsString]) -> Format {
    let mut options = words.iter().take_while(|word| *word != "--");
    if options.any(|word| word == "--json") { Format::Json } else { Format::Text }
}

/// Parses a command line, which begins with the name of the program.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Arguments, Stop> {
    let parsed = Arguments::try_parse_from(&words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Help(error),
        _ => Stop::Usage(usage_error(&error, &words)),
    })?;
    let (name, _) = command_named(&Arguments::command(), &words);
    Ok(Arguments { name, ..parsed })
}

fn usage_error(error: &clap::Error, words: &[OsString]) -> CommandError {
    let whole = Arguments::command();
    let (command, definition) = command_named(&whole, words);
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("'{command}' needs a command after it")
        }
        _ => first_paragraph(&error.to_string()),
    };
    CommandError::usage(&format!("{message}{}", suggestion(error, definition)), &command)
}

/// Returns clap's message without its advice, on one line.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines = text.lines().map(str::trim);
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ")
}

/// Returns the names that are meant, in place of an unknown name: those that it abbreviates,
/// otherwise the one that clap finds similar.
fn suggestion(error: &clap::Error, command: &clap::Command) -> String {
    let abbreviated = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
            beginning_with(word, command)
        }
        _ => Vec::new(),
    };
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        names.join(", ")
    };
    match &abbreviated[..] {
        [] => {}
        [only] => return format!("; '{only}' begins so"),
        several => return format!("; {} begin so", list(several)),
    }
    let kinds =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggested = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        // The last is the most similar.
        ContextValue::Strings(all) => all.last().cloned(),
        _ => None,
    });
    suggested.map_or_else(String::new, |meant| format!("; '{meant}' is similar"))
}

/// Returns the names of the commands in `command` that begin with `word`.
fn beginning_with(word: &str, command: &clap::Command) -> Vec<String> {
    let names = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names = names.map(|inner| inner.get_name().to_owned());
    names.filter(|name| name.starts_with(word)).collect()
}

/// Returns the longest command that `words` name, as in `holdfast admin node`, and its definition.
fn command_named<'a>(whole: &'a clap::Command, words: &[OsString]) -> (String, &'a clap::Command) {
    let mut command = whole;
    let mut named = NAME.to_owned();
    for word in words.iter().skip(1) {
        if let Some(found) = command.find_subcommand(word) {
            named = format!("{named} {}", found.get_name());
            command = found;
        }
    }
    (named, command)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        std::iter::once(NAME)
            .chain(line.split_whitespace())
            .map(OsString::from)
            .collect()
    }

    #[track_caller]
    fn refusal(line: &str) -> String {
        match parse(words(line)) {
            Err(Stop::Usage(error)) => {
                assert_eq!(error.hint, None);
                assert!(
                    !error.message.contains('\n'),
                    "the message has more than one line: {}",
                    error.message
                );
                error.message
            }
            other => panic!("{line} should be refused: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_refusal_is_one_line_that_names_the_thing() {
        let lines = [
            "",
            "server",
            "admin node",
            "no-such-command",
            "backup --no-such-option",
            "bakcup /home",
            "res /home",
            "arch",
            "admin nod list",
            "admin nodes list",
            "admin volume labl",
            "hsm recal /data",
            "backup /home --compresion 3",
            "backup /home --compression 20",
            "backup /home --resourceutilization many",
            "backup --filelist /tmp/list /home",
            "restore",
            "restore /x --at the-day-before",
            "restore /x --replace perhaps",
            "list --recursive",
            "enroll localhost",
            "admin --server /srv node add bert --expires soon",
            "backup /home --quiet --verbose",
        ];
        let refusals = lines.map(refusal).join("\n");
        insta::assert_snapshot!(refusals);
    }

    #[test]
    fn the_form_of_an_error_is_known_before_the_options_are() {
        for (line, format) in [
            ("bakcup --json", Format::Json),
            ("--json list", Format::Json),
            ("backup /x", Format::Text),
            ("backup -- --json", Format::Text),
        ] {
            assert_eq!(super::format(&words(line)), format, "{line}");
        }
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in [
            "--home /h --json backup --progress /x",
            "backup /x --progress --json --home /h",
            "backup --home /h /x --json --progress",
        ] {
            let global = parse(words(line)).expect("parses").global;
            assert!(global.json && global.progress && !global.quiet);
            assert_eq!(global.home, Some(PathBuf::from("/h")));
        }
    }

    #[test]
    fn compression_levels_may_be_negative() {
        parse(words("backup /x --compression -7")).expect("parses");
        parse(words("backup /x --compression=-7")).expect("parses");
    }

    #[test]
    fn every_command_shows_an_example() {
        fn visit(command: &mut clap::Command, path: &str, missing: &mut Vec<String>) {
            let help = command.render_long_help().to_string();
            if !help.contains("Example") {
                missing.push(path.to_owned());
            }
            let own = command
                .get_subcommands_mut()
                .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
            for inner in own {
                let path = format!("{path} {}", inner.get_name());
                visit(inner, &path, missing);
            }
        }
        let mut missing = Vec::new();
        visit(&mut Arguments::command(), NAME, &mut missing);
        assert_eq!(missing, [""; 0]);
    }
}
