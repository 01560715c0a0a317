//! `holdfast agent`: the process that starts on a node what schedules ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agent::EventSummary;
use serde::Serialize;

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
