//! `holdfast admin log`: deletions and changes, and who made them.

use std::collections::BTreeSet;

use client::admin::{Admin, Event, LogFilter};
use model::ServerTime;
use serde::Serialize;

use super::length::{LISTED_MAX, cut_note};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::{moment, values};

/// Number of events whose kinds are named if none has the kind that is wanted.
const KINDS_LOOKED_AT: u32 = 1000;

/// List deletions and changes by administrators, nodes and the server itself, newest first
///
/// All filters must apply to an event that is listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin log --limit 20
  holdfast admin log --node web-01 --from 7d
  holdfast admin log --kind node --to 2026-11-20 --text locked

Times: 2026-11-20 (that day), '2026-11-20 18:00', RFC 3339, 'yesterday 18:00', now, or a
length of time before now: 30m, 12h, 3d, 2w.")]
pub(crate) struct Args {
    /// List events since this time only; a day stands for its beginning
    #[arg(long, value_name = "TIME", value_parser = moment::parse_start)]
    from: Option<ServerTime>,
    /// List events until this time only
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to: Option<ServerTime>,
    /// List events that this node made, or that are about it
    #[arg(long, value_name = "NODE", value_parser = values::not_empty)]
    node: Option<String>,
    /// List events whose kind, in the column What, has this text in it
    #[arg(long, value_name = "TEXT", value_parser = values::not_empty)]
    kind: Option<String>,
    /// List events that have this text in any column; upper and lower case are the same
    #[arg(long, value_name = "TEXT", value_parser = values::not_empty)]
    text: Option<String>,
    /// Maximum number of events
    #[arg(
        long,
        value_name = "N",
        default_value_t = LISTED_MAX,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    limit: u32,
}

/// `log --json`, one document per line.
#[derive(Serialize)]
struct EventDocument<'a> {
    number: u64,
    time: String,
    actor: &'a str,
    what: &'a str,
    details: &'a str,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let Args { from, to, node, kind, text, limit } = args;
    let filter = LogFilter { from, to, node, kind, text };
    let events = admin.events(&filter, limit)?;
    if context.output.is_json() {
        for event in &events {
            let Event { number, time, actor, action, details } = event;
            let time = moment::rfc3339(*time);
            context.output.json(&EventDocument {
                number: *number,
                time,
                actor,
                what: action,
                details,
            });
        }
    } else if !events.is_empty() {
        context.output.text(&table(&events));
    } else if filter.is_empty() {
        context.output.note("Nothing has happened yet.");
    } else {
        context.output.note("No event matches.");
        // A server that cannot answer has no effect on the result.
        if let Some(kind) = &filter.kind
            && let Ok(newest) = admin.events(&LogFilter::default(), KINDS_LOOKED_AT)
            && let Some(note) = kinds_note(kind, &newest)
        {
            context.output.note(&note);
        }
    }
    if let Some(note) = cut_note(events.len(), limit) {
        context.output.note(&note);
    }
    Ok(DONE)
}

/// Returns what is said about `kind`, if none of the newest events of the log is of this kind.
fn kinds_note(kind: &str, newest: &[Event]) -> Option<String> {
    let kinds: BTreeSet<&str> = newest.iter().map(|event| event.action.as_str()).collect();
    let wanted = kind.to_ascii_lowercase();
    let is_known = kinds.iter().any(|known| known.to_ascii_lowercase().contains(&wanted));
    let kinds: Vec<&str> = kinds.into_iter().collect();
    (!is_known && !kinds.is_empty()).then(|| {
        format!(
            "--kind takes a part of a kind; the last events are of these kinds: {}.",
            kinds.join(", ")
        )
    })
}

fn table(events: &[Event]) -> String {
    let columns = [
        ("Time", Align::Left),
        ("Who", Align::Left),
        ("What", Align::Left),
        ("Details", Align::Left),
    ];
    let row = |event: &Event| {
        let time = moment::shown(event.time);
        [time, event.actor.clone(), event.action.clone(), event.details.clone()]
    };
    table::render(columns, &events.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind that does not exist looked like one that had not happened.
    #[test]
    fn an_unknown_kind_is_told_from_the_known_ones() {
        let event = |action: &str| Event {
            number: 1,
            time: ServerTime(0),
            actor: "anna".to_owned(),
            action: action.to_owned(),
            details: String::new(),
        };
        let newest = ["node locked", "node added", "node locked"].map(event);
        let note = kinds_note("nonsense", &newest).expect("a note");
        assert!(note.ends_with(": node added, node locked."), "{note}");
        assert_eq!(kinds_note("lock", &newest), None, "other conditions leave the events out");
        assert_eq!(kinds_note("LOCK", &newest), None);
        assert_eq!(kinds_note("nonsense", &[]), None);
    }
}
