//! Work on packs as it goes, and what came of it: of pools, and of volumes.

use client::ClientError;
use client::admin::TendPoolReply;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::{CommandError, FAILED};
use crate::output;
use crate::quantity;

/// How a work is told.
pub(super) struct Telling {
    /// What has become of packs.
    done: &'static str,
    /// What is said of one with which it failed.
    failed: &'static str,
}

pub(super) const COPIED: Telling = Telling { done: "copied", failed: "stays" };
pub(super) const MOVED: Telling = Telling { done: "moved", failed: "stays" };
pub(super) const REPAIRED: Telling = Telling { done: "repaired", failed: "stays" };
pub(super) const LOCKED: Telling = Telling { done: "locked", failed: "is not locked" };
pub(super) const TAKEN_IN: Telling = Telling { done: "taken in", failed: "was not taken in" };
pub(super) const READ: Telling = Telling { done: "read", failed: "could not be read" };

/// Hears the server out: shows how `work` goes, and what came of it.
pub(super) fn run(
    telling: &Telling,
    context: &mut Context,
    work: impl FnOnce(&mut dyn FnMut(&TendPoolReply)) -> Result<TendPoolReply, ClientError>,
) -> Result<u8, CommandError> {
    let global = &context.global;
    let shows = !global.quiet && (global.progress || output::stderr_is_terminal());
    let outcome = work(&mut |reply| {
        if shows {
            output::say(&so_far(reply, telling));
        }
    })?;
    if context.output.is_json() {
        context.output.json(&TendDocument::new(&outcome));
    } else {
        context.output.text(&text(&outcome, telling));
    }
    Ok(if outcome.failures.is_empty() { DONE } else { FAILED })
}

fn so_far(reply: &TendPoolReply, telling: &Telling) -> String {
    format!(
        "{} of {} packs, {} of {} {}",
        quantity::count(reply.packs_done),
        quantity::count(reply.packs),
        quantity::bytes_with_unit(reply.bytes_done),
        quantity::bytes_with_unit(reply.bytes),
        telling.done,
    )
}

fn text(outcome: &TendPoolReply, telling: &Telling) -> String {
    let mut text = format!(
        "{} packs with {} are {}.\n",
        quantity::count(outcome.packs_done),
        quantity::bytes_with_unit(outcome.bytes_done),
        telling.done
    );
    for failure in &outcome.failures {
        let what = match failure.pack {
            0 => ["volume ", &failure.volume].concat(),
            pack => ["pack ", &pack.to_string(), " ", telling.failed].concat(),
        };
        text.push_str(&["  ", &what, ": ", &failure.reason, "\n"].concat());
    }
    if !outcome.failures.is_empty() && telling.done != LOCKED.done {
        text.push_str("'holdfast admin audit' names the versions that need them.\n");
    }
    text
}

/// `pool copy|drain|repair|lock --json` and `volume reclaim|move|audit --json`.
#[derive(Serialize)]
struct TendDocument<'a> {
    packs: u64,
    bytes: u64,
    packs_done: u64,
    bytes_done: u64,
    failures: Vec<FailureDocument<'a>>,
}

#[derive(Serialize)]
struct FailureDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pack: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    volume: &'a str,
    reason: &'a str,
}

impl<'a> TendDocument<'a> {
    fn new(outcome: &'a TendPoolReply) -> Self {
        let failures = outcome.failures.iter();
        Self {
            packs: outcome.packs,
            bytes: outcome.bytes,
            packs_done: outcome.packs_done,
            bytes_done: outcome.bytes_done,
            failures: failures
                .map(|failure| FailureDocument {
                    pack: Some(failure.pack).filter(|pack| *pack != 0),
                    volume: &failure.volume,
                    reason: &failure.reason,
                })
                .collect(),
        }
    }
}
