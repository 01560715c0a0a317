//! `holdfast admin run`: an action at nodes, now.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use client::admin::{Admin, EventFilter, PollingAgent, ScheduledEvent, StartedAction};
use model::ServerTime;
use policy::schedule::Definition;
use policy::schedule::event::EventState;
use serde::Serialize;
use serde_json::Value;
use sys::lock::Mutex;

use super::absence::AbsentServer;
use super::event;
use super::polling::call_words;
use super::schedule::{FollowerArgs, local_zone, minutes, nodes_words, words_to_action};
use crate::context::Context;
use crate::error::{CommandError, DONE, NOT_DONE};
use crate::meter::Meter;
use crate::{moment, quantity};

/// Pause between two looks at the events.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of nodes whose progress is shown at once.
const LINES_MAX: usize = 20;
/// Maximum number of nodes at which one command runs.
const NODES_MAX: u32 = 100_000;

/// Run a command at nodes now, and wait for its end
///
/// Meanwhile it shows how far each node has come, and the result of each node as it ends.
///
/// The command is one of backup (or incremental), selective, full, archive, restore, verify, drill
/// SAMPLE, image backup, or command TEXT for the shell, whose TEXT is one word: quote it. A node
/// whose agent is away begins when it comes back within the window, and one whose agent polls at
/// its next call. A locked node is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast run web-01 -- backup /etc
  holdfast admin --server /srv/holdfast run --label db --detach -- backup --full
  holdfast admin --server /srv/holdfast run web-01 -- command 'systemctl reload nginx'")]
pub(crate) struct Args {
    /// Nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    followers: FollowerArgs,
    /// Time in which a node may begin
    #[arg(long, value_name = "TIME", value_parser = moment::parse_length, default_value = "1h")]
    window: i64,
    /// Time after which a node ends the command, without its pauses [default: none]
    #[arg(long, value_name = "TIME", value_parser = moment::parse_length)]
    duration_max: Option<i64>,
    /// Return at once
    #[arg(long)]
    detach: bool,
    /// The command
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn run(
    args: Args,
    server_wait: Option<Duration>,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let followers = args.followers.followers(args.nodes)?;
    let window_minutes = minutes(args.window, "--window")?;
    let action = words_to_action(args.command)?;
    let duration_max = args.duration_max.map(|secs| minutes(secs, "--duration-max"));
    let definition = Definition {
        zone: local_zone(),
        priority: 1,
        retry_pause_minutes: 1,
        duration_max_minutes: duration_max.transpose()?,
        // The server takes its own time.
        ..Definition::once(action, ServerTime(0), window_minutes)
    };
    if !args.detach {
        // A signal from now on must not hide that the action goes on.
        context.progress_of_look()?;
    }
    let started = admin.run_action(&followers, &definition)?;
    let window = Duration::from_secs(args.window.unsigned_abs());
    for line in notes(&started, window, sys::clock::now()) {
        context.output.note(&line);
    }
    if args.detach {
        return Ok(detached(&started, context));
    }
    let events = wait(&started, server_wait, admin, context)
        .map_err(|error| without_server(error, &started.schedule))?;
    if events.len() > 1 && !context.output.is_json() && !context.output.quiet {
        context.output.text(&summary(&events));
    }
    Ok(highest_code(&events))
}

/// Adds to the loss of the server that the nodes go on without it.
fn without_server(error: CommandError, schedule: &str) -> CommandError {
    if !error.is_loss {
        return error;
    }
    error.with_hint(format!(
        "the action goes on at the nodes; once the server is back, 'holdfast admin event list \
         --schedule {schedule}' shows what becomes of it"
    ))
}

/// Returns why nodes do not begin now.
fn notes(started: &StartedAction, window: Duration, now: ServerTime) -> Vec<String> {
    let named = |nodes: &[String]| {
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        nodes_words(&nodes)
    };
    let mut notes = Vec::new();
    if !started.locked.is_empty() {
        notes.push(format!("Left out, because they are locked: {}.", named(&started.locked)));
    }
    let polls = |name: &str| started.polling.iter().any(|agent| agent.node == name);
    let away: Vec<String> = started.away.iter().filter(|name| !polls(name)).cloned().collect();
    if !away.is_empty() {
        let (away, window) = (named(&away), model::show_length(window));
        notes.push(format!(
            "No agent is connected. These wait until their agents come, at most {window}: {away}."
        ));
    }
    notes.extend(polling_notes(&started.polling, window, now));
    notes
}

/// Returns when nodes begin whose agents poll, and which of them call too late for the window.
fn polling_notes(polling: &[PollingAgent], window: Duration, now: ServerTime) -> Vec<String> {
    let words = |agents: &[&PollingAgent]| {
        let words: Vec<String> = agents.iter().map(|agent| call_words(agent, now)).collect();
        nodes_words(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let all: Vec<&PollingAgent> = polling.iter().collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![format!("These poll, and begin when they call: {}.", words(&all))];
    let wait_of = |agent: &PollingAgent| {
        Duration::from_micros(u64::try_from(agent.next.0.saturating_sub(now.0)).unwrap_or(0))
    };
    let late: Vec<&PollingAgent> =
        all.into_iter().filter(|agent| wait_of(agent) > window).collect();
    if let Some(longest) = late.iter().map(|agent| wait_of(agent)).max() {
        let minutes = longest.as_secs() / 60 + 1;
        let enough = model::show_length(Duration::from_secs(60 * minutes));
        let window = model::show_length(window);
        notes.push(format!(
            "The window of {window} ends before these may call, and then the action is missed \
             there; --window {enough} is long enough: {}.",
            words(&late)
        ));
    }
    notes
}

/// An agent that polls, in a JSON document.
#[derive(Serialize)]
struct PollingDocument<'a> {
    node: &'a str,
    last_call: String,
    next_call: String,
}

impl<'a> PollingDocument<'a> {
    fn new(PollingAgent { node, last, next }: &'a PollingAgent) -> Self {
        let (last_call, next_call) = (moment::rfc3339(*last), moment::rfc3339(*next));
        Self { node, last_call, next_call }
    }
}

fn detached(started: &StartedAction, context: &mut Context) -> u8 {
    let StartedAction { schedule, nodes, locked, away, polling } = started;
    if context.output.is_json() {
        context.output.json(&serde_json::json!({
            "schedule": schedule,
            "nodes": nodes,
            "locked": locked,
            "away": away,
            "polling": polling.iter().map(PollingDocument::new).collect::<Vec<_>>(),
        }));
    } else if !context.output.quiet {
        context.output.text(&format!(
            "The action is {schedule}; 'holdfast admin event list --schedule {schedule}' shows \
             what becomes of it."
        ));
    }
    DONE
}

/// Waits until no event of the action is open, over absences of the server. Shows each change of a
/// state, the progress, and the result of each node as it ends.
fn wait(
    started: &StartedAction,
    server_wait: Option<Duration>,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<Vec<ScheduledEvent>, CommandError> {
    let progress = context.progress_of_look()?;
    let filter = EventFilter { schedule: Some(started.schedule.clone()), ..EventFilter::default() };
    let mut server = AbsentServer::new(server_wait, Arc::clone(&progress));
    let mut watch = Watch::default();
    let mut meter = watch.meter(context);
    loop {
        match look(&filter, &mut watch, &mut meter, admin, context) {
            Ok(events) => {
                server.end(context);
                if !events.iter().any(ScheduledEvent::is_open) {
                    return Ok(events);
                }
                if meter.is_none() {
                    meter = watch.meter(context);
                }
            }
            Err(error) => {
                drop(meter.take());
                server.wait(error, context)?;
            }
        }
        if progress.is_stopped() {
            return Err(CommandError::new(format!(
                "the action goes on at the nodes; 'holdfast admin event cancel {}' ends it",
                started.schedule
            )));
        }
        sys::clock::sleep(PAUSE);
    }
}

/// Looks at the events once, and shows what is new. A result that cannot be read now is shown after
/// a later look.
fn look(
    filter: &EventFilter,
    watch: &mut Watch,
    meter: &mut Option<Meter>,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<Vec<ScheduledEvent>, CommandError> {
    let events = admin.scheduled_events(filter, NODES_MAX, true)?;
    watch.take(&events, context);
    for event in events.iter().filter(|event| !event.is_open()) {
        if watch.ended.contains(&event.number) {
            continue;
        }
        // The results must not stand in the lines of the meter.
        drop(meter.take());
        show_result(event.number, admin, context)?;
        watch.ended.insert(event.number);
    }
    // A program that reads the progress or the results gets them now.
    context.output.flush();
    Ok(events)
}

/// The last that was shown of each event.
#[derive(Default)]
struct Watch {
    states: BTreeMap<u64, (String, String)>,
    /// Events whose results were shown.
    ended: BTreeSet<u64>,
    /// One line for each node that works.
    lines: Arc<Mutex<String>>,
}

/// `run --json` while nodes work, one document for each change. The result of a node has other
/// keys.
#[derive(Serialize)]
struct ProgressDocument<'a> {
    event: u64,
    node: Option<&'a str>,
    state: &'a str,
    progress: Value,
}

impl Watch {
    /// Shows the lines of the nodes that work, until the result is dropped.
    fn meter(&self, context: &Context) -> Option<Meter> {
        let lines = Arc::clone(&self.lines);
        (!context.output.is_json()).then(|| context.meter_of(move || lines.lock().clone()))
    }

    fn take(&mut self, events: &[ScheduledEvent], context: &mut Context) {
        for event in events {
            let now = (event.state.clone(), event.progress.clone());
            let known = self.states.insert(event.number, now.clone());
            if known.as_ref() == Some(&now) || !event.is_open() {
                continue;
            }
            if context.output.is_json() {
                context.output.json(&ProgressDocument {
                    event: event.number,
                    node: event.node.as_deref(),
                    state: &event.state,
                    progress: serde_json::from_str(&event.progress).unwrap_or_default(),
                });
            }
        }
        let line = |event: &ScheduledEvent| {
            let node = event.node.as_deref().unwrap_or_default();
            let progress = event::progress_line(event);
            let progress = progress.map(|line| format!("  {line}")).unwrap_or_default();
            format!("{node}: {}{progress}", event::state_words(event))
        };
        let open = events.iter().filter(|event| event.is_open()).take(LINES_MAX).map(line);
        *self.lines.lock() = open.collect::<Vec<_>>().join("\n");
    }
}

/// Returns how many nodes have ended in each state, and those where the action is not done.
fn summary(events: &[ScheduledEvent]) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        let words = match event.code {
            Some(code) if code > 0 && is_done(event) => format!("{}, code {code}", event.state),
            _ => event.state.clone(),
        };
        *counts.entry(words).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(words, nodes)| format!("{} {words}", quantity::count(*nodes)));
    let counts = counts.collect::<Vec<_>>().join("; ");
    let left = events.iter().filter(|event| !is_done(event));
    let left: Vec<&str> = left.filter_map(|event| event.node.as_deref()).collect();
    let left = match left.is_empty() {
        true => String::new(),
        false => format!(" Not done at {}.", nodes_words(&left)),
    };
    format!("{}: {counts}.{left}", quantity::counted(events.len() as u64, "node"))
}

fn is_done(event: &ScheduledEvent) -> bool {
    event.state == EventState::Completed.name()
}

/// Shows the result of a node; of a quiet command only if the action is not done there.
fn show_result(number: u64, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let (event, log) = admin.event_log(number)?;
    if context.output.is_json() {
        event::write_json(&event, Some(&log), context);
    } else if !context.output.quiet || !is_done(&event) {
        let node = event.node.as_deref().unwrap_or_default();
        let code = event.code.map_or_else(String::new, |code| format!(", code {code}"));
        let reason = match event.reason.as_str() {
            "" => String::new(),
            reason => format!(": {}", model::printable(reason)),
        };
        let mut text = format!("{node}: {}{code}{reason}\n", event.state);
        text.push_str(&event::log_text(&log));
        context.output.text(&text);
    }
    Ok(())
}

fn highest_code(events: &[ScheduledEvent]) -> u8 {
    let code = |event: &ScheduledEvent| {
        let code = event.code.and_then(|code| u8::try_from(code).ok());
        code.unwrap_or(if is_done(event) { DONE } else { NOT_DONE })
    };
    events.iter().map(code).max().unwrap_or(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_server_does_not_look_like_the_end_of_the_action() {
        let error = |is_loss| CommandError { is_loss, ..CommandError::new("broke") };
        let lost = without_server(error(true), "@1").hint.expect("a hint");
        assert!(lost.starts_with("the action goes on at the nodes"), "{lost}");
        assert!(lost.contains("event list --schedule @1"), "{lost}");
        assert_eq!(without_server(error(false), "@1").hint, None);
    }

    /// After the reports of a thousand nodes, nobody could tell whether all of them had succeeded.
    #[test]
    fn many_nodes_are_summed_up() {
        let event = |node: &str, state: &str, code| ScheduledEvent {
            node: Some(node.to_owned()),
            code,
            ..event::sample(state)
        };
        let good = [event("a", "completed", Some(0)), event("b", "completed", Some(0))];
        assert_eq!(summary(&good), "2 nodes: 2 completed.");
        let [a, b] = good;
        let (failed, partly) = (event("c", "failed", Some(12)), event("d", "completed", Some(4)));
        let all = [a, event("e", "missed", None), failed, partly, b];
        let counts = "2 completed; 1 completed, code 4; 1 failed; 1 missed";
        assert_eq!(summary(&all), format!("5 nodes: {counts}. Not done at 2 nodes: e, c."));
    }

    #[test]
    fn nodes_that_cannot_begin_now_are_named_with_the_reason() {
        let mut started = StartedAction {
            schedule: "@1".to_owned(),
            nodes: vec!["a".to_owned()],
            locked: Vec::new(),
            away: Vec::new(),
            polling: Vec::new(),
        };
        let hour = Duration::from_secs(3600);
        let now = ServerTime::from_secs(1_700_000_000);
        assert_eq!(notes(&started, hour, now), [""; 0]);
        started.locked = vec!["b".to_owned(), "c".to_owned()];
        started.away = vec!["a".to_owned()];
        assert_eq!(
            notes(&started, hour, now),
            [
                "Left out, because they are locked: 2 nodes: b, c.",
                "No agent is connected. These wait until their agents come, at most 1h: 1 node: a.",
            ]
        );
    }

    /// A node that polls was said to have no agent, and nobody could tell when it would begin.
    #[test]
    fn a_node_that_polls_begins_when_it_calls() {
        let now = ServerTime::from_secs(1_700_000_000);
        let in_minutes = |minutes: i64| ServerTime::from_secs(1_700_000_000 + 60 * minutes);
        let agent = |node: &str, last, next| PollingAgent {
            node: node.to_owned(),
            last: in_minutes(last),
            next: in_minutes(next),
        };
        let started = |polling: Vec<PollingAgent>| StartedAction {
            schedule: "@1".to_owned(),
            nodes: vec!["a".to_owned(), "b".to_owned()],
            locked: Vec::new(),
            away: vec!["a".to_owned(), "b".to_owned()],
            polling,
        };
        let hour = Duration::from_secs(3600);
        let call = |word, last, next| {
            let (last, next) = (in_minutes(last), in_minutes(next));
            let next = moment::shown_after(next, last);
            format!("(last call {}, {word} {next})", moment::shown(last))
        };
        let late = call("late since", -5, -1);
        assert_eq!(
            notes(&started(vec![agent("b", -5, -1)]), hour, now),
            [
                "No agent is connected. These wait until their agents come, at most 1h: 1 node: a."
                    .to_owned(),
                format!("These poll, and begin when they call: 1 node: b {late}."),
            ]
        );
        let both = started(vec![agent("a", -5, 5), agent("b", -30, 150)]);
        let (soon, far) = (call("next by", -5, 5), call("next by", -30, 150));
        assert_eq!(
            notes(&both, hour, now),
            [
                format!("These poll, and begin when they call: 2 nodes: a {soon}, b {far}."),
                format!(
                    "The window of 1h ends before these may call, and then the action is missed \
                     there; --window 151m is long enough: 1 node: b {far}."
                ),
            ]
        );
    }
}
