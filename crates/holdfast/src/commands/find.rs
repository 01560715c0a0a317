//! `holdfast find`: stored objects that match a pattern.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use client::{FindOptions, ListedVersion, VersionChoice};
use model::ServerTime;

use super::list;
use super::resumption::resumable;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::waiter::{LinkArgs, Waiter};
use crate::{moment, quantity};

/// Find stored objects by a pattern, in all filespaces of this node
///
/// A pattern without a slash matches names at any depth, and a pattern that begins with a slash
/// matches whole paths. The columns are those of 'holdfast list'.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast find '*.sql'
  holdfast find '/home/.../letters/*' --at 2026-11-20
  holdfast find passwd --inactive

* ? [a-z] stand for characters, ... for any number of directories; \\ takes the next character as it
is.")]
pub(crate) struct Args {
    /// A name or a path with wildcards, in quotes
    #[arg(value_name = "NAME")]
    pattern: OsString,
    /// Find the versions that were active at this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse, conflicts_with = "inactive")]
    at: Option<ServerTime>,
    /// Find all versions, not only the active ones
    #[arg(long, alias = "all")]
    inactive: bool,
    /// Maximum number of versions
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    limit: u64,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let options = FindOptions {
        pattern: args.pattern.as_bytes().to_vec(),
        which: VersionChoice { at: args.at, inactive: false },
        all_versions: args.inactive,
    };
    let waiter = context.waiter(&args.link)?;
    let is_headed = !context.output.is_json() && !context.output.quiet;
    let mut found = 0;
    let output = &mut context.output;
    let mut show = |version: &ListedVersion| {
        if found == args.limit {
            found += 1;
            return false;
        }
        if found == 0 && is_headed {
            output.line(&list::heading());
        }
        found += 1;
        list::write(version, output);
        output.is_open()
    };
    resumable(&waiter, |client, shown| {
        client.find(&options, &mut |version| shown.visit(version, || show(version)))
    })?;
    if found == 0 {
        let is_older =
            !args.inactive && has_any(&FindOptions { all_versions: true, ..options }, &waiter)?;
        context.output.note(match (is_older, args.at.is_some()) {
            (true, true) => {
                "Nothing that matches was active at this time, but at others: --inactive in place \
                 of --at finds the versions that match."
            }
            (true, false) => "No active object matches; --inactive finds the versions that match.",
            (false, _) => "No stored object matches.",
        });
    } else if found > args.limit {
        let shown = quantity::counted(args.limit, "version");
        context
            .output
            .note(&format!("There are more than {shown}; --limit shows more."));
    }
    Ok(DONE)
}

/// Returns true if any version matches.
fn has_any(options: &FindOptions, waiter: &Waiter) -> Result<bool, CommandError> {
    let mut has_one = false;
    resumable(waiter, |client, _| {
        client.find(options, &mut |_| {
            has_one = true;
            false
        })
    })?;
    Ok(has_one)
}
