//! `holdfast admin event`: what became of schedules at nodes and at the server.

use client::admin::{Admin, EventFilter, EventWish, ScheduledEvent};
use model::ServerTime;
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::table::{self, Align};

/// Show what became of schedules, and pause, resume or cancel what is under way
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast event list --state missed,failed --from yesterday
  holdfast admin --server /srv/holdfast event show 4711
  holdfast admin --server /srv/holdfast event cancel nightly --node web-01")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: EventCommand,
}

#[derive(clap::Subcommand, Debug)]
enum EventCommand {
    List(ListArgs),
    /// Show an event with the report of its session and the end of its log
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast event show 4711")]
    Show {
        /// Number of the event
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
    /// Let the work of a schedule pause where it is under way
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast event pause nightly --node web-01")]
    Pause(WishArgs),
    /// Let paused work go on
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast event resume nightly --node web-01")]
    Resume(WishArgs),
    /// End the work of a schedule where it is under way or pending
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast event cancel nightly --node web-01")]
    Cancel(WishArgs),
}

/// List events, the one that opened last first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast event list --state missed,failed --from yesterday")]
struct ListArgs {
    /// Only events of this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only events of this schedule
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Only events in these states: pending, started, in-progress, completed, missed, failed,
    /// restarted, severed, uncertain
    #[arg(long, value_name = "STATES", value_delimiter = ',')]
    state: Vec<String>,
    /// Only events that were planned at this time or later
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    from: Option<ServerTime>,
    /// Only events that were planned at this time or earlier
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to: Option<ServerTime>,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

#[derive(clap::Args, Debug)]
struct WishArgs {
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    /// Only at this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

/// `event list --json`, one document per line.
#[derive(Serialize)]
struct EventDocument<'a> {
    event: u64,
    schedule: &'a str,
    node: Option<&'a str>,
    planned: String,
    opens: String,
    closes: String,
    state: &'a str,
    attempt: u32,
    started: Option<String>,
    ended: Option<String>,
    /// Exit code: 0 all done, 4 partly done, 8 done with warnings, 12 or more failed.
    code: Option<u32>,
    reason: Option<&'a str>,
    report: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        EventCommand::List(args) => {
            let ListArgs { node, schedule, state, from, to, limit } = args;
            let filter = EventFilter { node, schedule, states: state, from, to };
            list(&admin.scheduled_events(&filter, limit)?, context);
        }
        EventCommand::Show { number } => {
            let (event, log) = admin.event_log(number)?;
            show(&event, &log, context);
        }
        EventCommand::Pause(args) => wish(args, EventWish::Pause, admin, context)?,
        EventCommand::Resume(args) => wish(args, EventWish::Resume, admin, context)?,
        EventCommand::Cancel(args) => wish(args, EventWish::Cancel, admin, context)?,
    }
    Ok(DONE)
}

/// Writes an event as JSON. `log` is the end of its log.
pub(super) fn write_json(event: &ScheduledEvent, log: Option<&[u8]>, context: &mut Context) {
    let filled = |text: &'_ str| !text.is_empty();
    context.output.json(&EventDocument {
        event: event.number,
        schedule: &event.schedule,
        node: event.node.as_deref(),
        planned: moment::rfc3339(event.planned),
        opens: moment::rfc3339(event.opens),
        closes: moment::rfc3339(event.closes),
        state: &event.state,
        attempt: event.attempt,
        started: event.started.map(moment::rfc3339),
        ended: event.ended.map(moment::rfc3339),
        code: event.code,
        reason: Some(event.reason.as_str()).filter(|reason| filled(reason)),
        report: serde_json::from_str(&event.session).ok(),
        log: log.map(|log| String::from_utf8_lossy(log).into_owned()),
    });
}

fn list(events: &[ScheduledEvent], context: &mut Context) {
    if context.output.is_json() {
        events.iter().for_each(|event| write_json(event, None, context));
        return;
    }
    if events.is_empty() {
        context.output.note("No event matches.");
        return;
    }
    context.output.text(&table_of(events));
}

/// The table of events.
pub(super) fn table_of(events: &[ScheduledEvent]) -> String {
    let columns = [
        ("Event", Align::Right),
        ("Planned", Align::Left),
        ("Schedule", Align::Left),
        ("Node", Align::Left),
        ("State", Align::Left),
        ("Code", Align::Right),
        ("Started", Align::Left),
        ("Ended", Align::Left),
        ("Reason", Align::Left),
    ];
    let row = |event: &ScheduledEvent| {
        let time = |time: Option<ServerTime>| time.map_or_else(String::new, moment::shown);
        [
            event.number.to_string(),
            moment::shown(event.planned),
            event.schedule.clone(),
            event.node.clone().unwrap_or_else(|| "(server)".to_owned()),
            event.state.clone(),
            event.code.map_or_else(String::new, |code| code.to_string()),
            time(event.started),
            time(event.ended),
            model::printable(&event.reason).into_owned(),
        ]
    };
    table::render(columns, &events.iter().map(row).collect::<Vec<_>>())
}

fn show(event: &ScheduledEvent, log: &[u8], context: &mut Context) {
    if context.output.is_json() {
        write_json(event, Some(log), context);
        return;
    }
    let mut text = table_of(std::slice::from_ref(event));
    if !event.session.is_empty() {
        text.push_str("\nReport: ");
        text.push_str(&model::printable(&event.session));
        text.push('\n');
    }
    if !log.is_empty() {
        text.push_str("\nEnd of the log:\n");
        text.push_str(&log_text(log));
    }
    context.output.text(&text);
}

/// Returns the lines of a log for a terminal.
pub(super) fn log_text(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    text.lines().map(|line| format!("  {}\n", model::printable(line))).collect()
}

fn wish(
    args: WishArgs,
    wish: EventWish,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    let count = admin.control_events(&args.schedule, args.node.as_deref(), wish)?;
    if context.output.is_json() {
        context
            .output
            .json(&serde_json::json!({ "schedule": args.schedule, "events": count }));
    } else if !context.output.quiet {
        let noun = if count == 1 { "event is told" } else { "events are told" };
        context.output.text(&format!("{count} {noun}."));
    }
    Ok(())
}
