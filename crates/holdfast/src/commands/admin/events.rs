//! `holdfast admin events`: who has deleted or changed what.

use client::admin::{Admin, Event};
use model::ServerTime;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::moment;
use crate::table::{self, Align};

/// List what administrators, nodes and the server itself have deleted or changed, newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast events --limit 20")]
pub(crate) struct Args {
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// `events --json`, one a line.
#[derive(Serialize)]
struct EventDocument<'a> {
    number: i64,
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
            let Event { number, time, actor, what, details } = event;
            let time = moment::rfc3339(ServerTime(*time));
            context
                .output
                .json(&EventDocument { number: *number, time, actor, what, details });
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
        let time = moment::shown(ServerTime(event.time));
        [time, event.actor.clone(), event.what.clone(), event.details.clone()]
    };
    table::render(columns, &events.iter().map(row).collect::<Vec<_>>())
}
