//! `holdfast diff`: the objects that differ between two times.

use std::collections::BTreeSet;
use std::path::PathBuf;

use client::{DiffOptions, Difference, ListedVersion};
use model::{Kind, ServerTime, escaped};
use serde::Serialize;

use super::list;
use super::resumption::resumable;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::output::Output;
use crate::path::{self, JsonPath};
use crate::waiter::LinkArgs;
use crate::{moment, quantity};

/// List the objects that were added, removed or changed between two times
///
/// The columns are the kind of the change (+ added, - removed, ~ changed), the sizes before and
/// after, and the path. New attributes alone, such as a mode, are no change: they make no version.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast diff --from yesterday /home/ann
  holdfast diff --from 2026-11-01 --to 2026-11-20

Times: 2026-11-20 (that day), '2026-11-20 18:00', RFC 3339, 'yesterday 18:00', now, or a
length of time before now: 30m, 12h, 3d, 2w.")]
pub(crate) struct Args {
    /// A directory or file; without a path, everything that the node has is compared
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// The first time; a day stands for its beginning
    #[arg(long, value_name = "TIME", value_parser = moment::parse_start)]
    from: ServerTime,
    /// The second time; a day stands for its end [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to: Option<ServerTime>,
    #[command(flatten)]
    link: LinkArgs,
}

/// `diff --json`, one document per line.
#[derive(Serialize)]
struct DifferenceDocument<'a> {
    change: &'static str,
    path: JsonPath<'a>,
    kind: &'static str,
    size_before: Option<u64>,
    size_after: Option<u64>,
    backup_time_before: Option<String>,
    backup_time_after: Option<String>,
}

/// Numbers of objects, and the sum of their sizes.
#[derive(Default)]
struct Totals {
    objects: [u64; 3],
    bytes: [u64; 3],
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let path = args.path.as_ref().map(|path| path::on_node(std::slice::from_ref(path)));
    let options = DiffOptions {
        path: path.transpose()?.and_then(|mut paths| paths.pop()),
        from: args.from,
        to: args.to.unwrap_or(ServerTime::MAX),
    };
    if options.from >= options.to {
        let message = "the time of --from must be before the time of --to";
        return Err(CommandError::usage(message, "holdfast diff"));
    }
    let waiter = context.waiter(&args.link)?;
    let mut totals = Totals::default();
    let output = &mut context.output;
    let mut show = |difference: &Difference, last: &ListedVersion| {
        let index = match (&difference.before, &difference.after) {
            (None, _) => 0,
            (Some(_), None) => 1,
            (Some(_), Some(_)) => 2,
        };
        totals.objects[index] += 1;
        totals.bytes[index] += size(last);
        write(difference, index, output);
        output.is_open()
    };
    let mut parts = BTreeSet::new();
    resumable(&waiter, |client, shown| {
        parts = client.diff(&options, &mut |difference| {
            let last = difference.after.as_ref().or(difference.before.as_ref());
            last.is_none_or(|last| shown.visit(last, || show(difference, last)))
        })?;
        Ok(())
    })?;
    if !context.output.is_json() && !context.output.quiet {
        context.output.text(&text(&totals));
    }
    for name in parts.iter().map(|name| escaped(name)) {
        context.output.note(&format!(
            "objects below {name} were in the filespace around it at one of these times, so they \
             may be shown as added or removed although they are unchanged; 'holdfast diff {name}' \
             with the same times compares them over filespaces"
        ));
    }
    Ok(DONE)
}

/// Returns the size of a file; 0 for other objects.
fn size(version: &ListedVersion) -> u64 {
    let stat = &version.object.stat;
    if stat.kind == Kind::File { stat.size } else { 0 }
}

fn write(difference: &Difference, index: usize, output: &mut Output) {
    let Difference { before, after } = difference;
    let Some(version) = after.as_ref().or(before.as_ref()) else { return };
    let time = |version: &ListedVersion| moment::rfc3339(version.object.inserted);
    if output.is_json() {
        output.json(&DifferenceDocument {
            change: ["added", "removed", "changed"][index],
            path: JsonPath(&version.path),
            kind: list::kind_name(version.object.stat.kind),
            size_before: before.as_ref().map(size),
            size_after: after.as_ref().map(size),
            backup_time_before: before.as_ref().map(time),
            backup_time_after: after.as_ref().map(time),
        });
        return;
    }
    let shown = |version: &Option<ListedVersion>| {
        version
            .as_ref()
            .map_or_else(String::new, |version| quantity::count(size(version)))
    };
    let (sign, path) = (["+", "-", "~"][index], escaped(&version.path));
    output.line(&format!("{sign} {:>15}  {:>15}  {path}", shown(before), shown(after)));
}

fn text(totals: &Totals) -> String {
    let part = |index: usize, verb: &str| {
        let objects = quantity::counted(totals.objects[index], "object");
        let bytes = quantity::bytes_with_unit(totals.bytes[index]);
        format!("{objects} {verb} ({bytes})")
    };
    format!("{}, {}, {}.\n", part(0, "added"), part(1, "removed"), part(2, "changed"))
}
