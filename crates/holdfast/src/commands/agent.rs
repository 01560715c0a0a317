//! `holdfast agent`: the process that starts on a node what schedules ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agent::EventSummary;
use client::AgentConfig;
use model::ServerTime;
use policy::schedule::Definition;
use policy::schedule::agenda::next_start;
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::interrupt::Signals;
use crate::moment;
use crate::table::{self, Align};

/// Start on this node what schedules of the server ask for
///
/// The agent keeps its schedules on disk, starts what is due while the server is away, and reports
/// when the server is back. What it may start is set in the section [agent] of client.toml.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast agent run
  holdfast agent schedules
  holdfast agent status")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(clap::Subcommand, Debug)]
enum AgentCommand {
    /// Run the agent until it is told to stop; tasks go on without it
    #[command(after_help = "Example:\n  holdfast agent run")]
    Run,
    /// List the schedules that the server has given this node last, with the next start of each
    #[command(after_help = "Example:\n  holdfast agent schedules")]
    Schedules,
    /// List the events that this node has begun, newest first
    #[command(after_help = "Example:\n  holdfast agent status")]
    Status,
    #[command(hide = true)]
    Keep(KeepArgs),
}

/// Keep a task of the agent
#[derive(clap::Args, Debug)]
struct KeepArgs {
    /// Minutes after which the task is ended
    #[arg(long)]
    minutes_max: Option<u32>,
    /// Folder of the attempt
    folder: PathBuf,
    /// Program
    program: OsString,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    match args.command {
        AgentCommand::Run => serve(context),
        AgentCommand::Schedules => schedules(context),
        AgentCommand::Status => status(context),
        AgentCommand::Keep(args) => {
            let KeepArgs { minutes_max, folder, program, arguments } = args;
            let duration_max =
                minutes_max.map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
            let task = agent::Task { program, arguments, duration_max };
            agent::keep(&folder, &task).map_err(|error| CommandError::chain(&error))?;
            Ok(DONE)
        }
    }
}

fn serve(context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let program = std::env::current_exe()
        .map_err(|error| CommandError::new(format!("cannot find this program: {error}")))?;
    let stop = async {
        match Signals::catch() {
            Ok(mut signals) => signals.next().await,
            Err(error) => tracing::warn!(error.message, "signals end the agent at once"),
        }
    };
    agent::run(&home, &program, stop).map_err(|error| CommandError::chain(&error))?;
    Ok(DONE)
}

/// A schedule of this node.
struct KnownSchedule {
    name: String,
    /// `None` if only a newer program understands the definition.
    definition: Option<Definition>,
    document: Value,
    next_start: Option<ServerTime>,
}

/// `agent schedules --json`, one document per line.
#[derive(Serialize)]
struct ScheduleDocument<'a> {
    schedule: &'a str,
    definition: &'a Value,
    next_start: Option<String>,
}

fn schedules(context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let AgentConfig { node, .. } = client::agent_config(&home)?;
    let now = sys::clock::now();
    let known = agent::schedules(&home).into_iter().map(|schedule| {
        let definition: Option<Definition> = serde_json::from_str(&schedule.definition).ok();
        let next = definition.as_ref().and_then(|one| next_start(one, schedule.since, &node, now));
        let document = serde_json::from_str(&schedule.definition).unwrap_or_default();
        KnownSchedule { name: schedule.name, definition, document, next_start: next }
    });
    let known: Vec<KnownSchedule> = known.collect();
    if context.output.is_json() {
        for KnownSchedule { name, document, next_start, .. } in &known {
            context.output.json(&ScheduleDocument {
                schedule: name,
                definition: document,
                next_start: next_start.map(moment::rfc3339),
            });
        }
    } else if known.is_empty() {
        context.output.note("The agent of this node has received no schedule.");
    } else {
        context.output.text(&schedules_text(&known));
    }
    Ok(DONE)
}

fn schedules_text(known: &[KnownSchedule]) -> String {
    let columns = [
        ("Schedule", Align::Left),
        ("Next start", Align::Left),
        ("Action", Align::Left),
        ("Description", Align::Left),
    ];
    let row = |schedule: &KnownSchedule| {
        let definition = schedule.definition.as_ref();
        let next = match schedule.next_start {
            Some(next) => moment::shown(next),
            None if definition.is_some_and(|one| one.is_suspended) => "suspended".to_owned(),
            None => "none".to_owned(),
        };
        let action = definition.map_or_else(
            || "of a kind that only a newer program knows".to_owned(),
            |one| model::printable(&one.action.words()).into_owned(),
        );
        let description = definition.map(|one| model::printable(&one.description).into_owned());
        [schedule.name.clone(), next, action, description.unwrap_or_default()]
    };
    table::render(columns, &known.iter().map(row).collect::<Vec<_>>())
}

/// `agent status --json`, one document per line.
#[derive(Serialize)]
struct EventDocument<'a> {
    schedule: &'a str,
    planned: String,
    attempt: u32,
    state: &'static str,
    begun: Option<String>,
    ended: Option<String>,
    code: Option<u8>,
    reason: &'a str,
    log: String,
}

fn status(context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    if !home.is_dir() {
        return Err(client::not_enrolled(&home).into());
    }
    let mut events = agent::events(&home).map_err(|error| {
        CommandError::new(format!("cannot read the agent's record in {}: {error}", home.display()))
    })?;
    events.reverse();
    if let Some(reason) = agent::refusal(&home) {
        context.output.note(&format!("The agent of this node begins nothing: {reason}"));
    }
    if context.output.is_json() {
        for event in &events {
            context.output.json(&EventDocument {
                schedule: &event.schedule,
                planned: moment::rfc3339(event.planned),
                attempt: event.attempt,
                state: state(event),
                begun: event.begun.map(moment::rfc3339),
                ended: event.ended.map(moment::rfc3339),
                code: event.code,
                reason: &event.reason,
                log: event.log.display().to_string(),
            });
        }
    } else if events.is_empty() {
        context.output.note("This node has begun no event yet.");
    } else {
        context.output.text(&text(&events));
    }
    Ok(DONE)
}

fn state(event: &EventSummary) -> &'static str {
    match (event.is_running, event.ended, event.code) {
        (true, _, _) => "running",
        (false, None, _) => "waiting",
        (false, Some(_), None) => "interrupted",
        (false, Some(_), Some(..12)) => "completed",
        (false, Some(_), Some(_)) => "failed",
    }
}

fn text(events: &[EventSummary]) -> String {
    let columns = [
        ("Planned", Align::Left),
        ("Schedule", Align::Left),
        ("State", Align::Left),
        ("Code", Align::Right),
        ("Begun", Align::Left),
        ("Ended", Align::Left),
        ("Reason", Align::Left),
        ("Log", Align::Left),
    ];
    let row = |event: &EventSummary| {
        let time = |time: Option<_>| time.map_or_else(String::new, moment::shown);
        [
            moment::shown(event.planned),
            event.schedule.clone(),
            state(event).to_owned(),
            event.code.map_or_else(String::new, |code| code.to_string()),
            time(event.begun),
            time(event.ended),
            model::printable(&event.reason).into_owned(),
            event.log.display().to_string(),
        ]
    };
    table::render(columns, &events.iter().map(row).collect::<Vec<_>>())
}
