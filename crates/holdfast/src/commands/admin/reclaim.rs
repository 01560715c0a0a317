//! `holdfast admin reclaim`: frees the space of what nothing names any more.

use client::admin::{Admin, ReclaimReply, ReclaimRequest};
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::output;
use crate::quantity;

/// Free the space of data that no version, archive or deletion needs any more
///
/// The server does it by itself after an expiration. Backups and restores go on meanwhile. Stopped
/// with Ctrl-C, or killed, it loses nothing, and the next run goes on.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast reclaim --dry-run
  holdfast admin --server /srv/holdfast reclaim --dead-percent 20")]
pub(crate) struct Args {
    /// Tell what there is to win, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write packs again of which so many per cent are dead; as server.toml says unless given
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    dead_percent: Option<u32>,
    /// Of a server that was made again: all is as it should be, and what its catalogue does not
    /// name may go
    #[arg(long, conflicts_with = "dry_run")]
    release: bool,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let dead_percent = args.dead_percent.unwrap_or(0);
    let request = ReclaimRequest { dry_run: args.dry_run, dead_percent, release: args.release };
    let global = &context.global;
    let shows = !global.quiet && (global.progress || output::stderr_is_terminal());
    let outcome = admin.reclaim(request, &mut |reply| {
        if shows {
            output::say(&format!(
                "{} pages and versions read, {} written again, {} packs removed",
                quantity::count(reply.examined),
                quantity::bytes_with_unit(reply.bytes_rewritten),
                quantity::count(reply.packs_removed),
            ));
        }
    })?;
    if context.output.is_json() {
        context.output.json(&OutcomeDocument::new(&outcome, args.dry_run));
    } else {
        context.output.text(&text(&outcome, args.dry_run));
    }
    Ok(DONE)
}

fn text(outcome: &ReclaimReply, is_dry: bool) -> String {
    let all = format!(
        "Of {} packs with {}, {} of data are dead, before compression.\n",
        quantity::count(outcome.packs),
        quantity::bytes_with_unit(outcome.pack_bytes),
        quantity::bytes_with_unit(outcome.dead_bytes),
    );
    if is_dry {
        return all;
    }
    let waiting = match outcome.packs_waiting {
        0 => String::new(),
        count => format!("{} packs go once nobody reads them.\n", quantity::count(count)),
    };
    let locked = match outcome.packs_locked {
        0 => String::new(),
        count => format!(
            "{} packs with {} stay as they are: their object store has them locked.\n",
            quantity::count(count),
            quantity::bytes_with_unit(outcome.bytes_locked)
        ),
    };
    format!(
        "{all}{} packs with {} are removed; {} packs with {} alive are written again.\n\
         {waiting}{locked}",
        quantity::count(outcome.packs_removed),
        quantity::bytes_with_unit(outcome.bytes_removed),
        quantity::count(outcome.packs_rewritten),
        quantity::bytes_with_unit(outcome.bytes_rewritten),
    )
}

/// `reclaim --json`.
#[derive(Serialize)]
struct OutcomeDocument {
    packs: u64,
    pack_bytes: u64,
    dead_bytes: u64,
    packs_removed: u64,
    bytes_removed: u64,
    packs_rewritten: u64,
    bytes_rewritten: u64,
    packs_waiting: u64,
    packs_locked: u64,
    bytes_locked: u64,
    examined: u64,
    dry_run: bool,
}

impl OutcomeDocument {
    fn new(outcome: &ReclaimReply, dry_run: bool) -> Self {
        Self {
            packs: outcome.packs,
            pack_bytes: outcome.pack_bytes,
            dead_bytes: outcome.dead_bytes,
            packs_removed: outcome.packs_removed,
            bytes_removed: outcome.bytes_removed,
            packs_rewritten: outcome.packs_rewritten,
            bytes_rewritten: outcome.bytes_rewritten,
            packs_waiting: outcome.packs_waiting,
            packs_locked: outcome.packs_locked,
            bytes_locked: outcome.bytes_locked,
            examined: outcome.examined,
            dry_run,
        }
    }
}
