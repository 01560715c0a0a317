//! Progress and result of work on the packs of pools and of volumes.

use client::ClientError;
use client::admin::{FailureSubject, PackFailure, PackWork};
use serde::Serialize;

use super::recompression::{self, EffectDocument};
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::output;
use crate::quantity;

/// Words of the messages about a kind of work.
pub(super) struct Wording {
    /// Participle for a pack that is done.
    done: &'static str,
    /// Predicate for a pack with which the work failed.
    failed: &'static str,
}

pub(super) const COPIED: Wording = Wording { done: "copied", failed: "was not copied" };
pub(super) const MOVED: Wording = Wording { done: "moved", failed: "was not moved" };
pub(super) const REPAIRED: Wording = Wording { done: "repaired", failed: "was not repaired" };
pub(super) const LOCKED: Wording = Wording { done: "locked", failed: "was not locked" };
pub(super) const IMPORTED: Wording = Wording { done: "imported", failed: "was not imported" };
pub(super) const READ: Wording = Wording { done: "read", failed: "could not be read" };

/// Runs `work` and shows its progress and its result.
pub(super) fn run(
    wording: &Wording,
    context: &mut Context,
    work: impl FnOnce(&mut dyn FnMut(&PackWork)) -> Result<PackWork, ClientError>,
) -> Result<u8, CommandError> {
    let shows = context.shows_steps();
    let outcome = work(&mut |state| {
        if shows {
            output::say(&progress(state, wording));
        }
    })?;
    if context.output.is_json() {
        context.output.json(&TendDocument::new(&outcome));
    } else {
        context.output.text(&text(&outcome, wording));
    }
    Ok(if outcome.failures.is_empty() { DONE } else { FAILED })
}

fn progress(work: &PackWork, wording: &Wording) -> String {
    format!(
        "{} of {}, {} of {} {}",
        quantity::count(work.packs_done),
        quantity::counted(work.packs, "pack"),
        quantity::bytes_with_unit(work.bytes_done),
        quantity::bytes_with_unit(work.bytes),
        wording.done,
    )
}

fn text(outcome: &PackWork, wording: &Wording) -> String {
    let mut text = format!(
        "{} with {} {} {}.\n",
        quantity::counted(outcome.packs_done, "pack"),
        quantity::bytes_with_unit(outcome.bytes_done),
        quantity::are(outcome.packs_done),
        wording.done
    );
    text.push_str(&outcome.recompression.as_ref().map(recompression::text).unwrap_or_default());
    if outcome.packs_unchanged > 0 {
        let packs = quantity::counted(outcome.packs_unchanged, "pack");
        let reason = " moved without recompression, because the data could not be written again";
        text.push_str(&[&packs, reason, ".\n"].concat());
    }
    for failure in &outcome.failures {
        let what = match &failure.subject {
            FailureSubject::Volume(volume) => format!("volume {volume}"),
            FailureSubject::Pack { number, .. } => format!("pack {number} {}", wording.failed),
        };
        text.push_str(&["  ", &what, ": ", &failure.reason, "\n"].concat());
    }
    if !outcome.failures.is_empty() && wording.done != LOCKED.done {
        text.push_str("'holdfast admin audit' lists the versions that need these packs.\n");
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
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    recompression: Option<RecompressionDocument<'a>>,
}

/// Additional keys of a drain with recompression.
#[derive(Serialize)]
struct RecompressionDocument<'a> {
    recompression: EffectDocument<'a>,
    packs_unchanged: u64,
}

#[derive(Serialize)]
struct FailureDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pack: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<&'a str>,
    reason: &'a str,
}

impl<'a> TendDocument<'a> {
    fn new(outcome: &'a PackWork) -> Self {
        let failures = outcome.failures.iter();
        let recompression = outcome.recompression.as_ref().map(|effect| RecompressionDocument {
            recompression: EffectDocument::new(effect),
            packs_unchanged: outcome.packs_unchanged,
        });
        Self {
            packs: outcome.packs,
            bytes: outcome.bytes,
            packs_done: outcome.packs_done,
            bytes_done: outcome.bytes_done,
            failures: failures.map(FailureDocument::new).collect(),
            recompression,
        }
    }
}

impl<'a> FailureDocument<'a> {
    fn new(failure: &'a PackFailure) -> Self {
        let (pack, volume) = match &failure.subject {
            FailureSubject::Volume(volume) => (None, Some(volume.as_str())),
            FailureSubject::Pack { number, volume } => (Some(*number), volume.as_deref()),
        };
        Self { pack, volume, reason: &failure.reason }
    }
}
