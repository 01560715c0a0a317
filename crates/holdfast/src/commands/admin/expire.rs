//! `holdfast admin expire`: drops the versions that policy no longer keeps.

use client::ClientError;
use client::admin::{Admin, Expiration, ExpirationRequest};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, WARNED};
use crate::output;
use crate::quantity;

/// Expire the inactive versions that policy no longer keeps
///
/// The server does this by itself once a day. If a run is stopped with Ctrl-C, the next run
/// continues where it ended.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast expire --dry-run
  holdfast admin --server /srv/holdfast expire --node web-01 --rate 20000")]
pub(crate) struct Args {
    /// Expire versions of this node only
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Count the versions that would expire, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Maximum number of versions, not of bytes, to examine in a second, as in 20000
    #[arg(long, value_name = "VERSIONS", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Examine all versions, not only versions that may be due
    #[arg(long)]
    all: bool,
    /// Confirm that the server's clock is right, although it has jumped
    ///
    /// The server keeps a record of time and expires nothing while its clock does not agree with
    /// the record. With this option, the clock replaces the record.
    #[arg(long, alias = "confirm-clock", conflicts_with = "dry_run")]
    confirm: bool,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = ExpirationRequest {
        node: args.node.clone(),
        dry_run: args.dry_run,
        rate: args.rate,
        all: args.all,
        confirm_clock: args.confirm,
    };
    let outcome = follow(context, |visit| admin.expire(request, visit))?;
    if context.output.is_json() {
        context.output.json(&OutcomeDocument::new(&outcome, args.dry_run));
    } else {
        context.output.text(&text(&outcome, args.dry_run));
    }
    if outcome.damaged == 0 {
        return Ok(DONE);
    }
    output::say(&format!(
        "The catalogue cannot read {}, which stayed as before. 'holdfast admin audit' tells which, \
         and what to do.",
        quantity::counted(outcome.damaged, "directory"),
    ));
    Ok(WARNED)
}

fn text(outcome: &Expiration, is_dry: bool) -> String {
    format!(
        "{}{} expired, {}, of {}; {} in {} examined.\n",
        quantity::counted(outcome.expired, "version"),
        if is_dry { " would have" } else { "" },
        quantity::bytes_with_unit(outcome.expired_bytes),
        quantity::counted(outcome.nodes, "node"),
        quantity::counted(outcome.examined, "version"),
        quantity::counted(outcome.directories, "directory"),
    )
}

/// Runs `work` and shows its progress on a terminal.
pub(super) fn follow(
    context: &Context,
    work: impl FnOnce(&mut dyn FnMut(&Expiration)) -> Result<Expiration, ClientError>,
) -> Result<Expiration, CommandError> {
    let shows = context.shows_steps();
    let outcome = work(&mut |state| {
        if shows {
            output::say(&format!(
                "{} examined, {} due; {} of {} done",
                quantity::counted(state.examined, "version"),
                quantity::count(state.expired),
                quantity::count(state.filespaces_done),
                quantity::counted(state.filespaces, "filespace"),
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
    nodes: u64,
    examined: u64,
    directories: u64,
    /// Number of directories that were passed over because they are damaged.
    damaged_directories: u64,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_anyway: Option<u64>,
}

impl OutcomeDocument {
    pub(super) fn new(outcome: &Expiration, dry_run: bool) -> Self {
        Self {
            expired: outcome.expired,
            expired_bytes: outcome.expired_bytes,
            nodes: outcome.nodes,
            examined: outcome.examined,
            directories: outcome.directories,
            damaged_directories: outcome.damaged,
            dry_run,
            due_anyway: (outcome.due_anyway > 0).then_some(outcome.due_anyway),
        }
    }
}
