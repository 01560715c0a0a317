//! `holdfast admin expire`: drops the versions that policy no longer keeps.

use client::ClientError;
use client::admin::{Admin, ExpireReply, ExpireRequest};
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::output;
use crate::quantity;

/// Drop the inactive versions that policy no longer keeps
///
/// The server does it by itself once a day. Stopped with Ctrl-C it goes on the next time where it
/// was.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast expire --dry-run
  holdfast admin --server /srv/holdfast expire --node web-01 --rate 20000")]
pub(crate) struct Args {
    /// Only versions of this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Count what would be dropped, and drop nothing
    #[arg(long)]
    dry_run: bool,
    /// Look at so many versions a second at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Look at every version, not only where something may be due
    #[arg(long)]
    all: bool,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = ExpireRequest {
        node: args.node.clone().unwrap_or_default(),
        dry_run: args.dry_run,
        rate: args.rate.unwrap_or(0),
        all: args.all,
    };
    let outcome = hear(context, |visit| admin.expire(request, visit))?;
    if context.output.is_json() {
        context.output.json(&OutcomeDocument::new(&outcome, args.dry_run));
    } else {
        context.output.text(&text(&outcome, args.dry_run));
    }
    Ok(DONE)
}

fn text(outcome: &ExpireReply, is_dry: bool) -> String {
    format!(
        "{} versions{} expired, {}, of {} nodes; {} versions in {} directories were looked at.\n",
        quantity::count(outcome.expired),
        if is_dry { " would have" } else { "" },
        quantity::bytes_with_unit(outcome.expired_bytes),
        outcome.nodes,
        quantity::count(outcome.examined),
        quantity::count(outcome.directories),
    )
}

/// Runs `work`, and shows on a terminal how it goes.
pub(super) fn hear(
    context: &Context,
    work: impl FnOnce(&mut dyn FnMut(&ExpireReply)) -> Result<ExpireReply, ClientError>,
) -> Result<ExpireReply, CommandError> {
    let global = &context.global;
    let shows = !global.quiet && (global.progress || output::stderr_is_terminal());
    let outcome = work(&mut |reply| {
        if shows {
            output::say(&format!(
                "{} versions looked at, {} due; {} of {} filespaces done",
                quantity::count(reply.examined),
                quantity::count(reply.expired),
                reply.filespaces_done,
                reply.filespaces,
            ));
        }
    });
    Ok(outcome?)
}

/// `expire --json` and `policy simulate --json`.
#[derive(Serialize)]
pub(super) struct OutcomeDocument {
    expired: u64,
    expired_bytes: u64,
    nodes: u32,
    examined: u64,
    directories: u64,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_anyway: Option<u64>,
}

impl OutcomeDocument {
    pub(super) fn new(outcome: &ExpireReply, dry_run: bool) -> Self {
        Self {
            expired: outcome.expired,
            expired_bytes: outcome.expired_bytes,
            nodes: outcome.nodes,
            examined: outcome.examined,
            directories: outcome.directories,
            dry_run,
            due_anyway: (outcome.due_anyway > 0).then_some(outcome.due_anyway),
        }
    }
}
