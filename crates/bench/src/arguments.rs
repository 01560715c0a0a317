//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::trouble::Trouble;

pub(crate) const USAGE: &str = "\
Times backup and restore of the tree DIR, with a server of its own over TLS, next to the bare walk
of the same tree. DIR is only read.

Usage: bench DIR [--rounds N] [--json]

  --rounds N  Measure so many times, each with a new server [default: 3]
  --json      Write one JSON document with every sample

The program measured is the release build of holdfast beside this one, or the one that
HOLDFAST_BIN names. All else goes to a folder in TMPDIR; each round puts the tree there twice.";

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

/// What the command line asks for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Arguments {
    Help,
    Measure { tree: PathBuf, rounds: usize, json: bool },
}

pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Arguments, Trouble> {
    let mut arguments = arguments;
    let (mut tree, mut rounds, mut json) = (None, ROUNDS_DEFAULT, false);
    let mut only_paths = false;
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--") if !only_paths => only_paths = true,
            Some("-h" | "--help") if !only_paths => return Ok(Arguments::Help),
            Some("--json") if !only_paths => json = true,
            Some("--rounds") if !only_paths => rounds = parse_rounds(arguments.next())?,
            Some(option) if option.starts_with('-') && !only_paths => {
                return Err(Trouble::new(format!("unknown option {option}; see --help")));
            }
            _ if tree.is_none() => tree = Some(PathBuf::from(argument)),
            _ => {
                let extra = argument.display();
                return Err(Trouble::new(format!("one tree at a time: {extra} is too much")));
            }
        }
    }
    let missing = || Trouble::new("name the tree to measure, as in: bench /usr/share");
    Ok(Arguments::Measure { tree: tree.ok_or_else(missing)?, rounds, json })
}

fn parse_rounds(value: Option<OsString>) -> Result<usize, Trouble> {
    let text = value.unwrap_or_default().to_string_lossy().into_owned();
    let rounds = text.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
    let message = || format!("--rounds takes a number from 1 to {ROUNDS_MAX}, not '{text}'");
    rounds.ok_or_else(|| Trouble::new(message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<Arguments, &str>) {
        let expected = expected.map_err(Trouble::new);
        assert_eq!(parse(line.split_whitespace().map(OsString::from)), expected, "{line}");
    }

    fn measure(tree: &str, rounds: usize, json: bool) -> Result<Arguments, &'static str> {
        Ok(Arguments::Measure { tree: tree.into(), rounds, json })
    }

    #[test]
    fn lines_mean_what_the_help_says() {
        check("/usr", measure("/usr", 3, false));
        check("--json /usr --rounds 1", measure("/usr", 1, true));
        check("-- --json", measure("--json", 3, false));
        check("/usr --help", Ok(Arguments::Help));
    }

    #[test]
    fn wrong_lines_are_refused_by_name() {
        check("", Err("name the tree to measure, as in: bench /usr/share"));
        check("/usr --fast", Err("unknown option --fast; see --help"));
        check("/usr /etc", Err("one tree at a time: /etc is too much"));
        check("/usr --rounds", Err("--rounds takes a number from 1 to 100, not ''"));
        check("/usr --rounds 0", Err("--rounds takes a number from 1 to 100, not '0'"));
    }
}
