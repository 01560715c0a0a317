//! `holdfast admin events`: deletions and changes, and who made them.

use client::admin::{Admin, Event};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::table::{self, Align};

/// List deletions and changes by administrators, nodes and the server itself, newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast events --limit 20")]
pub(crate) struct Args {
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// `events --json`, one document per line.
#[derive(Serialize)]
struct EventDocument<'a> {
    number: u64,
    time: String,
    actor: &'a str,
    what: &'a str,
    details: &'a str,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let events = admin.events(args.limit)?;
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
    } else if events.is_empty() {
        context.output.note("Nothing has happened yet.");
    } else {
        context.output.text(&text(&events));
    }
    Ok(DONE)
}

fn text(events: &[Event]) -> String {
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
