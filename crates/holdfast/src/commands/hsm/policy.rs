//! `holdfast hsm policy`: the program that Spectrum Scale runs for an external pool (`RULE EXTERNAL
//! POOL 'hsm' EXEC ...`).
//!
//! A line of its list is `inode generation snapshot [SHOW text] -- path`. The first ` -- ` is the
//! divider, because a path may contain ` -- ` too. In a path `\n` stands for a newline and `\\` for
//! a backslash. With ESCAPE '%' in the rule, `%` and two digits stand for a byte instead.

use std::path::PathBuf;

use ::hsm::{PathText, Reply, Request};
use model::escaped;
use serde::Serialize;

use super::ask::{ask, socket_folder};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;

/// Serve the policies of Spectrum Scale as an external pool
///
/// The output has one line for each file, with its outcome. The exit code is 0 if the whole list
/// was processed, even if single files failed: any other code would exclude this node from the run.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  RULE EXTERNAL POOL 'hsm' EXEC '/usr/bin/holdfast-policy' OPTS '--escape-percent' ESCAPE '%'
  holdfast hsm policy MIGRATE /tmp/list --escape-percent")]
pub(super) struct PolicyArgs {
    /// Action on the files
    #[arg(value_enum, ignore_case = true)]
    command: PolicyCommand,
    /// The list of files; for TEST the file system
    #[arg(value_name = "FILE")]
    list: PathBuf,
    /// Paths are written with % and two digits (ESCAPE '%' in the rule)
    #[arg(long)]
    escape_percent: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum PolicyCommand {
    List,
    Migrate,
    Premigrate,
    Recall,
    Purge,
    Test,
}

/// One file of `hsm policy --json`, one document per line.
#[derive(Serialize)]
struct OutcomeDocument<'a> {
    path: JsonPath<'a>,
    ok: bool,
    state: Option<&'a str>,
    error: Option<&'a str>,
}

pub(super) fn policy(args: &PolicyArgs, context: &mut Context) -> Result<u8, CommandError> {
    if args.command == PolicyCommand::Test {
        return test(args, context);
    }
    let failed = |error: std::io::Error| {
        CommandError::new(format!("cannot read {}: {error}", args.list.display()))
    };
    let text = std::fs::read(&args.list).map_err(failed)?;
    let mut paths = Vec::new();
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let path = path_of(line, args.escape_percent).ok_or_else(|| {
            let shown = args.list.display();
            CommandError::new(format!(
                "line {number} of {shown} must be 'inode generation snapshot -- path'"
            ))
        })?;
        paths.push(PathText(path));
    }
    match args.command {
        PolicyCommand::List => {
            paths.iter().for_each(|path| tell(context, &path.0, Some("listed"), None));
        }
        PolicyCommand::Purge => request(&Request::Purge { paths }, context)?,
        PolicyCommand::Migrate => {
            request(&Request::Migrate { paths, only_copies: false, any_size: false }, context)?;
        }
        PolicyCommand::Premigrate => {
            request(&Request::Migrate { paths, only_copies: true, any_size: false }, context)?;
        }
        PolicyCommand::Recall => {
            request(&Request::Recall { paths, resident: false, preview: false }, context)?;
        }
        PolicyCommand::Test => {}
    }
    Ok(DONE)
}

/// Checks that this node manages the file system.
fn test(args: &PolicyArgs, context: &Context) -> Result<u8, CommandError> {
    ask(context, &Request::Status, &mut |_| true)?;
    let path = crate::path::absolute(&args.list)?;
    let home = context.home()?;
    let settings = ::hsm::Settings::load(&home).map_err(|error| CommandError::chain(&error))?;
    let is_managed = settings.filesystems.iter().any(|known| known.mount_point == path);
    if is_managed {
        Ok(DONE)
    } else {
        Err(CommandError::new(format!("{} is not managed on this node", escaped(&path))))
    }
}

fn request(request: &Request, context: &mut Context) -> Result<(), CommandError> {
    let folder = socket_folder(context)?;
    let asked = ::hsm::ask(&folder, request, &mut |reply| {
        if let Reply::File(outcome) = reply {
            tell(context, &outcome.path.0, outcome.state.as_deref(), outcome.error.as_deref());
        }
        true
    });
    asked.map_err(|error| CommandError::chain(&error))
}

fn tell(context: &mut Context, path: &[u8], state: Option<&str>, error: Option<&str>) {
    if context.output.is_json() {
        let (ok, path) = (error.is_none(), JsonPath(path));
        context.output.json(&OutcomeDocument { path, ok, state, error });
        return;
    }
    let path = escaped(path);
    let line = match (error, state) {
        (Some(error), _) => format!("FAILED {path}: {error}\n"),
        (None, state) => format!("OK {} {path}\n", state.unwrap_or_default()),
    };
    context.output.text(&line);
}

/// Returns the path of a line, with its escapes decoded.
fn path_of(line: &[u8], percent: bool) -> Option<Vec<u8>> {
    const DIVIDER: &[u8] = b" -- ";
    let at = line.windows(DIVIDER.len()).position(|part| part == DIVIDER)?;
    let mut fields = line[..at].split(|&byte| byte == b' ');
    let is_number = |field: Option<&[u8]>| {
        field.is_some_and(|field| !field.is_empty() && field.iter().all(u8::is_ascii_digit))
    };
    if !(is_number(fields.next()) && is_number(fields.next()) && is_number(fields.next())) {
        return None;
    }
    let path = &line[at + DIVIDER.len()..];
    if path.is_empty() { None } else { unescaped(path, percent) }
}

fn unescaped(path: &[u8], percent: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, tail)) = rest.split_first() {
        let (byte, tail) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) if percent => {
                let digits = [*high, *low];
                (u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?, tail)
            }
            (b'\\', [b'n', tail @ ..]) if !percent => (b'\n', tail),
            (b'\\', [b'\\', tail @ ..]) if !percent => (b'\\', tail),
            _ => (first, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[u8], percent: bool, path: Option<&[u8]>) {
        assert_eq!(path_of(line, percent).as_deref(), path);
    }

    #[test]
    fn a_path_begins_after_the_first_divider() {
        check(b"17 4711 0 -- /gpfs/a b", false, Some(b"/gpfs/a b"));
        check(b"17 4711 0 size 5 -- /gpfs/a -- b", false, Some(b"/gpfs/a -- b"));
        check(b"17 4711 0 -- ", false, None);
        check(b"17 4711 -- /gpfs/a", false, None);
        check(b"/gpfs/a", false, None);
    }

    #[test]
    fn escapes_are_undone_as_the_rule_says() {
        check(br"1 2 3 -- /a\nb\\n\x", false, Some(b"/a\nb\\n\\x"));
        check(br"1 2 3 -- /a%0a%25\n", true, Some(b"/a\n%\\n"));
        check(b"1 2 3 -- /a%0a", false, Some(b"/a%0a"));
        check(b"1 2 3 -- /a%zz", true, None);
        check(b"1 2 3 -- /\xff", false, Some(b"/\xff"));
    }
}
