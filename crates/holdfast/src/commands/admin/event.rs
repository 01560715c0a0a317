//! `holdfast admin event`: what became of schedules at nodes and at the server.

use std::time::Duration;

use client::admin::{Admin, EventFilter, ScheduledEvent};
use client::{ErrorKind, EventControl};
use model::ServerTime;
use policy::schedule::agenda::Retries;
use policy::schedule::event::EventState;
use policy::schedule::{Definition, Work};
use serde::Serialize;
use serde_json::{Map, Value};

use super::length::{LISTED_MAX, cut_note};
use super::schedule::parse_work;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::{moment, quantity, values};

/// Maximum time for which a node that works is asked for its progress, and the pause between two
/// looks.
const PROGRESS_WAIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(300);

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
        #[arg(value_name = "NUMBER", value_parser = parse_number)]
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
///
/// With --state future it lists the next events, which the schedules plan.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast event list --state missed,failed --from yesterday
  holdfast admin --server /srv/holdfast event list --state future --node web-01 --limit 10
  holdfast admin --server /srv/holdfast event list --label db --action image --text snapshot")]
struct ListArgs {
    /// Only events of this node; '(server)' stands for the server's own work
    #[arg(long, value_name = "NODE", value_parser = values::not_empty)]
    node: Option<String>,
    /// Only events of this schedule
    #[arg(long, value_name = "NAME", value_parser = values::not_empty)]
    schedule: Option<String>,
    /// Only events of nodes with this label
    #[arg(long, value_name = "LABEL", value_parser = values::not_empty)]
    label: Option<String>,
    /// Only events of nodes of this policy domain
    #[arg(long, value_name = "DOMAIN", value_parser = values::not_empty)]
    domain: Option<String>,
    /// Only events of schedules with this action, as in 'schedule define --action'; a schedule that
    /// was removed has none
    #[arg(long, value_name = "WORK", value_parser = parse_work)]
    action: Option<Work>,
    /// Only events with this text in the schedule, the node or the reason; upper and lower case are
    /// the same
    #[arg(long, value_name = "TEXT", value_parser = values::not_empty)]
    text: Option<String>,
    /// Only events in these states: future, pending, started, in-progress, completed, missed,
    /// failed, restarted, severed, uncertain
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = parse_state)]
    state: Vec<String>,
    /// Only events that were planned at this time or later; a day stands for its beginning
    #[arg(long, value_name = "TIME", value_parser = moment::parse_start)]
    from: Option<ServerTime>,
    /// Only events that were planned at this time or earlier; a day stands for its end
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to: Option<ServerTime>,
    /// Maximum number of events
    #[arg(
        long,
        value_name = "N",
        default_value_t = LISTED_MAX,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    limit: u32,
}

fn parse_number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| {
        "an event has a number; 'holdfast admin event list --schedule NAME' lists those of a \
         schedule"
    })
}

/// Returns the name of a state.
fn parse_state(text: &str) -> Result<String, String> {
    let wanted = text.trim().to_ascii_lowercase();
    let state = EventState::of_name(&wanted);
    state.map(|state| state.name().to_owned()).ok_or_else(|| {
        let names = EventState::ALL.map(EventState::name).join(", ");
        format!("'{wanted}' is not a state of an event: give {names}")
    })
}

impl ListArgs {
    fn filter(self) -> EventFilter {
        EventFilter {
            node: self.node,
            schedule: self.schedule,
            states: self.state,
            from: self.from,
            to: self.to,
            label: self.label,
            domain: self.domain,
            work: self.action.map(|work| work.name().to_owned()),
            text: self.text,
        }
    }
}

#[derive(clap::Args, Debug)]
struct WishArgs {
    /// The schedule, or the number of an event
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    /// Only at this node
    #[arg(long, value_name = "NODE", value_parser = values::not_empty)]
    node: Option<String>,
}

/// `event list --json`, one document per line.
#[derive(Serialize)]
struct EventDocument<'a> {
    /// Number of the event; `None` for an event of the future.
    event: Option<u64>,
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
    /// Wish of an administrator that has not ended: pause or cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_for: Option<&'a str>,
    /// Time since which the work pauses, as the node has confirmed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_since: Option<String>,
    /// Length of the pause so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_secs: Option<u64>,
    report: Option<Value>,
    /// Progress, while the node works and somebody looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    /// Earliest time of a further attempt after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt: Option<String>,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        EventCommand::List(args) => {
            let limit = args.limit;
            let filter = args.filter();
            let events = admin.scheduled_events(&filter, limit, false)?;
            if events.is_empty() {
                check_names(&filter, admin)?;
            }
            list(&events, context);
            if let Some(note) = cut_note(events.len(), limit) {
                context.output.note(&note);
            }
        }
        EventCommand::Show { number } => {
            let (event, log) = look(admin, number)?;
            let next = next_attempt_of(&event, admin);
            show(&event, &log, next, context);
        }
        EventCommand::Pause(args) => wish(args, EventControl::Pause, admin, context)?,
        EventCommand::Resume(args) => wish(args, EventControl::Resume, admin, context)?,
        EventCommand::Cancel(args) => wish(args, EventControl::Cancel, admin, context)?,
    }
    Ok(DONE)
}

/// Fails if events are looked for by a schedule or a label that does not exist. For an
/// administrator who may not list schedules, the list is just empty.
fn check_names(filter: &EventFilter, admin: &mut Admin) -> Result<(), CommandError> {
    if let Some(name) = &filter.schedule {
        match admin.schedules(Some(name)) {
            Err(error) if error.kind == ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    if let Some(label) = &filter.label
        && let Ok(nodes) = admin.nodes(None)
        && !nodes.iter().any(|node| node.labels.contains(label))
    {
        return Err(CommandError::new(format!("no node has the label {label}")).with_hint(
            "'holdfast admin node list' shows the labels; upper and lower case differ",
        ));
    }
    Ok(())
}

/// Returns an event with its log. If its node works, waits a moment for its progress.
fn look(admin: &mut Admin, number: u64) -> Result<(ScheduledEvent, Vec<u8>), CommandError> {
    let began = sys::clock::monotonic();
    loop {
        let (event, log) = admin.event_log(number)?;
        let is_told = !event.progress.is_empty() || !event.is_running();
        if is_told || began.elapsed() >= PROGRESS_WAIT {
            return Ok((event, log));
        }
        sys::clock::sleep(PAUSE);
    }
}

/// A further attempt of an event that has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NextAttempt {
    number: u32,
    attempts_max: u32,
    /// Earliest time of its begin.
    at: ServerTime,
}

/// Returns the attempt that follows by the schedule of the event, as far as this administrator may
/// see the schedule.
fn next_attempt_of(event: &ScheduledEvent, admin: &mut Admin) -> Option<NextAttempt> {
    if event.state != EventState::Failed.name() {
        return None;
    }
    let schedule = admin.schedules(Some(&event.schedule)).ok()?.pop()?;
    next_attempt(event, &schedule.definition, sys::clock::now())
}

/// Returns the attempt that follows the failure of `event`, if there is one.
fn next_attempt(
    event: &ScheduledEvent,
    definition: &Definition,
    now: ServerTime,
) -> Option<NextAttempt> {
    let retries = Retries::of(definition);
    let at = retries.after(event.attempt, event.ended?, event.closes)?.max(now);
    let is_asked_for = !definition.is_suspended && event.control != Some(EventControl::Cancel);
    (is_asked_for && at < event.closes).then_some(NextAttempt {
        number: event.attempt + 1,
        attempts_max: retries.count + 1,
        at,
    })
}

/// Returns the progress of an event as the line that its node would show.
pub(super) fn progress_line(event: &ScheduledEvent) -> Option<String> {
    let progress: Value = serde_json::from_str(&event.progress).ok()?;
    Some(model::printable(progress["line"].as_str()?).into_owned())
}

/// Writes an event as JSON. `log` is the end of its log.
pub(super) fn write_json(event: &ScheduledEvent, log: Option<&[u8]>, context: &mut Context) {
    context.output.json(&document(event, log));
}

fn document<'a>(event: &'a ScheduledEvent, log: Option<&[u8]>) -> EventDocument<'a> {
    let filled = |text: &'_ str| !text.is_empty();
    EventDocument {
        event: Some(event.number).filter(|number| *number > 0),
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
        asked_for: asked_for(event),
        paused_since: event.paused.map(moment::rfc3339),
        paused_secs: pause(event, sys::clock::now()).map(|length| length.as_secs()),
        report: serde_json::from_str(&event.session).ok(),
        progress: serde_json::from_str(&event.progress).ok(),
        log: log.map(|log| String::from_utf8_lossy(log).into_owned()),
        next_attempt: None,
    }
}

/// Returns the wish of an administrator about an event that has not ended.
fn asked_for(event: &ScheduledEvent) -> Option<&'static str> {
    match event.control.filter(|_| event.is_open())? {
        EventControl::Pause => Some("pause"),
        EventControl::Cancel => Some("cancel"),
        EventControl::Resume => None,
    }
}

/// Returns the length of the pause of an event, which its node has confirmed.
fn pause(event: &ScheduledEvent, now: ServerTime) -> Option<Duration> {
    let micros = now.0.saturating_sub(event.paused?.0);
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// Returns the state of an event with its pause, and with the wish of an administrator of which the
/// node may not have heard yet.
pub(super) fn state_words(event: &ScheduledEvent) -> String {
    words_at(event, sys::clock::now())
}

fn words_at(event: &ScheduledEvent, now: ServerTime) -> String {
    let wish = match (asked_for(event), event.paused.is_some()) {
        (Some("pause"), true) => None,
        (None, true) if event.control == Some(EventControl::Resume) => Some("resume"),
        (wish, _) => wish,
    };
    let paused = pause(event, now).map(|length| format!("paused for {}", quantity::clock(length)));
    let wish = wish.map(|wish| format!("{wish} asked for"));
    let attempt = (event.attempt > 1).then(|| format!("attempt {}", event.attempt));
    let words = [Some(event.state.clone()), attempt, paused, wish];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
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
        let shown = |number: u64| number.to_string();
        let time = |time: Option<ServerTime>| time.map_or_else(String::new, moment::shown);
        [
            Some(event.number).filter(|number| *number > 0).map_or_else(String::new, shown),
            moment::shown(event.planned),
            event.schedule.clone(),
            event.node.clone().unwrap_or_else(|| "(server)".to_owned()),
            state_words(event),
            event.code.map_or_else(String::new, |code| code.to_string()),
            time(event.started),
            time(event.ended),
            model::printable(&event.reason).into_owned(),
        ]
    };
    table::render(columns, &events.iter().map(row).collect::<Vec<_>>())
}

fn show(event: &ScheduledEvent, log: &[u8], next: Option<NextAttempt>, context: &mut Context) {
    if context.output.is_json() {
        let next_attempt = next.map(|next| moment::rfc3339(next.at));
        context
            .output
            .json(&EventDocument { next_attempt, ..document(event, Some(log)) });
        return;
    }
    context.output.text(&show_text(event, log, next));
}

/// Returns an event with its progress, and with the end of its log, which has the report of its
/// session. Work without a log has the report alone.
fn show_text(event: &ScheduledEvent, log: &[u8], next: Option<NextAttempt>) -> String {
    let mut text = table_of(std::slice::from_ref(event));
    if let Some(NextAttempt { number, attempts_max, at }) = next {
        let at = moment::shown(at);
        let line = format!("\nAttempt {number} of {attempts_max} may follow at {at} or later.\n");
        text.push_str(&line);
    }
    if let Some(line) = progress_line(event) {
        text.push_str("\nProgress: ");
        text.push_str(&line);
        text.push('\n');
    }
    if !log.is_empty() {
        text.push_str("\nEnd of the log:\n");
        text.push_str(&log_text(log));
    } else if !event.session.is_empty() {
        text.push_str("\nReport:\n");
        text.push_str(&report_text(&event.session));
    }
    text
}

/// Returns the lines of a report for a terminal: its numbers and texts.
fn report_text(report: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(report) else {
        return log_text(report.as_bytes());
    };
    if let Some(text) = expiration_text(&fields) {
        return text;
    }
    let line = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Array(_) | Value::Object(_) => return None,
            plain => plain.to_string(),
        };
        let line = format!("{}: {value}", name.replace('_', " "));
        Some(format!("  {}\n", model::printable(&line)))
    };
    fields.iter().filter_map(line).collect()
}

/// Returns the line for the numbers of an expiration at the server; `None` for another report.
fn expiration_text(fields: &Map<String, Value>) -> Option<String> {
    let number = |name: &str| fields.get(name)?.as_u64();
    let unread = match number("damaged")? {
        0 => String::new(),
        unread => {
            let directories = quantity::counted(unread, "directory");
            format!("; {directories} could not be read, and stayed as before")
        }
    };
    Some(format!(
        "  {} expired, {}; {} examined, in {} of {}{unread}\n",
        quantity::counted(number("expired")?, "version"),
        quantity::bytes_with_unit(number("expired_bytes")?),
        quantity::counted(number("examined")?, "version"),
        quantity::count(number("done")?),
        quantity::counted(number("total")?, "filespace"),
    ))
}

/// Returns the lines of a log for a terminal.
pub(super) fn log_text(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    text.lines().map(|line| format!("  {}\n", model::printable(line))).collect()
}

/// Returns what an event stands for, if it is at the node that the arguments name.
fn named_by(number: u64, args: &WishArgs, admin: &mut Admin) -> Result<WishArgs, CommandError> {
    let (event, _) = admin.event_log(number)?;
    match &args.node {
        Some(node) if event.node.as_ref().is_none_or(|of| !of.eq_ignore_ascii_case(node)) => {
            Err(CommandError::new(format!("event {number} is not of node {node}")))
        }
        _ => Ok(WishArgs { schedule: event.schedule, node: event.node }),
    }
}

/// Returns what a wish about events has come to.
fn wish_words(wish: EventControl, count: u64) -> String {
    let verb = match wish {
        EventControl::Pause => "pause",
        EventControl::Resume => "go on",
        EventControl::Cancel => "end",
    };
    let are = if count == 1 { "event is" } else { "events are" };
    format!("{count} {are} to {verb}. A node that is away hears of it when it comes back.")
}

fn wish(
    args: WishArgs,
    wish: EventControl,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    // The names of schedules that somebody defines are no numbers; those of runs begin with '@'.
    let args = match args.schedule.parse() {
        Ok(number) => named_by(number, &args, admin)?,
        Err(_) => args,
    };
    let count = admin.control_events(&args.schedule, args.node.as_deref(), wish)?;
    if context.output.is_json() {
        context
            .output
            .json(&serde_json::json!({ "schedule": args.schedule, "events": count }));
    } else if !context.output.quiet {
        context.output.text(&wish_words(wish, count));
    }
    Ok(())
}

/// Makes an event in this state, for tests.
#[cfg(test)]
pub(super) fn sample(state: &str) -> ScheduledEvent {
    ScheduledEvent {
        number: 1,
        schedule: "nightly".to_owned(),
        planned: ServerTime(0),
        node: None,
        opens: ServerTime(0),
        closes: ServerTime(1),
        state: state.to_owned(),
        attempt: 1,
        started: None,
        ended: None,
        code: None,
        reason: String::new(),
        control: None,
        session: String::new(),
        progress: String::new(),
        paused: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_in_upper_and_lower_case() {
        assert_eq!(parse_state(" FAILED").as_deref(), Ok("failed"));
        assert_eq!(parse_state("in-progress").as_deref(), Ok("in-progress"));
        assert!(parse_state("done").expect_err("is refused").contains("give future, pending"));
    }

    fn event(state: &str, control: Option<EventControl>) -> ScheduledEvent {
        ScheduledEvent { control, ..sample(state) }
    }

    /// A failure that is tried again in a moment looked like the last word.
    #[test]
    fn a_failure_that_is_tried_again_says_when() {
        let body = r#"{"action": {"work": "command", "objects": ["true"]}, "zone": "UTC",
            "priority": 5, "retries": 2, "retry_pause_minutes": 20,
            "timing": {"starts": {"once": 0}, "window_minutes": 60, "spread_percent": 0}}"#;
        let definition: Definition = serde_json::from_str(body).expect("a definition");
        let minute = |minutes: i64| ServerTime(minutes * 60_000_000);
        let failed = |attempt, ended, control| ScheduledEvent {
            attempt,
            ended: Some(minute(ended)),
            closes: minute(60),
            ..event("failed", control)
        };
        let next = |event: &ScheduledEvent, now| next_attempt(event, &definition, minute(now));
        let second = next(&failed(1, 5, None), 6).expect("a second attempt");
        assert_eq!((second.number, second.attempts_max, second.at), (2, 3, minute(25)));
        let text = show_text(&failed(1, 5, None), b"", Some(second));
        let follows =
            format!("\nAttempt 2 of 3 may follow at {} or later.\n", moment::shown(minute(25)));
        assert!(text.ends_with(&follows), "{text}");
        assert_eq!(next(&failed(1, 5, None), 30).map(|next| next.at), Some(minute(30)), "late");
        assert_eq!(next(&failed(3, 5, None), 6), None, "it was the last one");
        assert_eq!(next(&failed(1, 40, None), 41), None, "the window is over before");
        assert_eq!(next(&failed(1, 5, Some(EventControl::Cancel)), 6), None);
        assert_eq!(state_words(&failed(2, 5, None)), "failed, attempt 2");
    }

    /// The report stood there as JSON, above the same report as text.
    #[test]
    fn the_report_of_an_event_is_shown_once_as_text() {
        let session = r#"{"expired_bytes": 7, "node": "n\n1", "failures": [], "stages": {}}"#;
        let event = ScheduledEvent { session: session.to_owned(), ..event("completed", None) };
        let after_table = |log: &[u8]| {
            let text = show_text(&event, log, None);
            text.split_once("\n\n")
                .map(|(_, rest)| rest.to_owned())
                .expect("more than a table")
        };
        assert_eq!(after_table(b"one\ntwo\n"), "End of the log:\n  one\n  two\n");
        assert_eq!(after_table(b""), "Report:\n  expired bytes: 7\n  node: n\\x0a1\n");
        assert_eq!(report_text("no JSON\n"), "  no JSON\n");
    }

    /// The numbers stood there alone: examined 3, done 1, total 1.
    #[test]
    fn the_report_of_an_expiration_says_what_its_numbers_count() {
        let report = |damaged: u64| {
            let numbers = serde_json::json!({
                "done": 1, "total": 2, "examined": 3, "expired": 1, "expired_bytes": 5,
                "damaged": damaged,
            });
            report_text(&numbers.to_string())
        };
        let whole = "  1 version expired, 5 B; 3 versions examined, in 1 of 2 filespaces";
        assert_eq!(report(0), format!("{whole}\n"));
        let unread = "2 directories could not be read, and stayed as before";
        assert_eq!(report(2), format!("{whole}; {unread}\n"));
    }

    #[test]
    fn a_wish_is_shown_until_the_event_has_ended() {
        let words = |state, control| state_words(&event(state, Some(control)));
        assert_eq!(words("in-progress", EventControl::Pause), "in-progress, pause asked for");
        assert_eq!(words("pending", EventControl::Cancel), "pending, cancel asked for");
        assert_eq!(words("started", EventControl::Resume), "started");
        assert_eq!(words("completed", EventControl::Pause), "completed");
        let pausing = |control| {
            let event = event("in-progress", Some(control));
            let event = ScheduledEvent { paused: Some(ServerTime(1_000_000)), ..event };
            words_at(&event, ServerTime(62_000_000))
        };
        assert_eq!(pausing(EventControl::Pause), "in-progress, paused for 00:01:01");
        let resumed = "in-progress, paused for 00:01:01, resume asked for";
        assert_eq!(pausing(EventControl::Resume), resumed);
    }
}
