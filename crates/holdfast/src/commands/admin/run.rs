//! `holdfast admin run`: an action at nodes, now.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use client::admin::{Admin, EventFilter, ScheduledEvent, StartedAction};
use policy::schedule::{Definition, Starts, Timing};
use serde::Serialize;
use serde_json::Value;
use sys::lock::Mutex;

use super::event;
use super::schedule::{FollowerArgs, local_zone, minutes, words_to_action};
use crate::context::Context;
use crate::error::{CommandError, DONE, NOT_DONE};
use crate::moment;

/// Pause between two looks at the events.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of nodes whose progress is shown at once.
const LINES_MAX: usize = 20;
/// Maximum number of nodes at which one command runs.
const NODES_MAX: u32 = 100_000;

/// Run a command at nodes now, and wait for its end
///
/// Meanwhile it shows how far each node has come.
///
/// The command is one of backup, archive, restore, verify, 'drill SAMPLE', 'image backup', or
/// 'command TEXT' for the shell. A node whose agent is away begins when it comes back within the
/// window.
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
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let followers = args.followers.followers(args.nodes)?;
    let window_minutes = minutes(args.window, "--window")?;
    let definition = Definition {
        description: String::new(),
        action: words_to_action(args.command)?,
        timing: Timing {
            starts: Starts::Once(0),
            window_minutes,
            spread_percent: 0,
            last_day: None,
            blackouts: Vec::new(),
        },
        zone: local_zone(),
        priority: 1,
        retries: 0,
        retry_pause_minutes: 1,
        duration_max_minutes: args
            .duration_max
            .map(|secs| minutes(secs, "--duration-max"))
            .transpose()?,
        runs_late: false,
        is_suspended: false,
    };
    let started = admin.run_action(&followers, &definition)?;
    if args.detach {
        return Ok(detached(&started, context));
    }
    let events = wait(&started, admin, context)?;
    finish(&events, admin, context)
}

fn detached(started: &StartedAction, context: &mut Context) -> u8 {
    let StartedAction { schedule, nodes } = started;
    if context.output.is_json() {
        context
            .output
            .json(&serde_json::json!({ "schedule": schedule, "nodes": nodes }));
    } else if !context.output.quiet {
        context.output.text(&format!(
            "The action is {schedule}; 'holdfast admin event list --schedule {schedule}' shows \
             what becomes of it."
        ));
    }
    DONE
}

/// Waits until no event of the action is open. Shows each change of a state, and the progress.
fn wait(
    started: &StartedAction,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<Vec<ScheduledEvent>, CommandError> {
    let progress = context.progress()?;
    let filter = EventFilter { schedule: Some(started.schedule.clone()), ..EventFilter::default() };
    let mut watch = Watch::default();
    let shown = Arc::clone(&watch.lines);
    let meter = (!context.output.is_json()).then(|| context.meter_of(move || shown.lock().clone()));
    loop {
        let events = admin.scheduled_events(&filter, NODES_MAX, true)?;
        watch.take(&events, context);
        // A program that reads the progress gets it now.
        context.output.flush();
        if !events.iter().any(ScheduledEvent::is_open) {
            drop(meter);
            return Ok(events);
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

/// The last that was shown of each event.
#[derive(Default)]
struct Watch {
    states: BTreeMap<u64, (String, String)>,
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

/// Shows the results, and returns the highest exit code.
fn finish(
    events: &[ScheduledEvent],
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    for event in events {
        let (event, log) = admin.event_log(event.number)?;
        if context.output.is_json() {
            event::write_json(&event, Some(&log), context);
        } else if !context.output.quiet {
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
    }
    let code = |event: &ScheduledEvent| {
        let code = event.code.and_then(|code| u8::try_from(code).ok());
        if event.state == "completed" { code.unwrap_or(DONE) } else { code.unwrap_or(NOT_DONE) }
    };
    Ok(events.iter().map(code).max().unwrap_or(DONE))
}
