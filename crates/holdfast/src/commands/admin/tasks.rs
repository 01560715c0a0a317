//! `holdfast admin tasks`: what the server does by itself, and how that went.

use client::admin::{Admin, TaskRun};
use model::ServerTime;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::moment;
use crate::table::{self, Align};

/// From this code on a task has failed.
const FAILED: u32 = 12;

/// List what the server has done by itself when it was due, newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast tasks --limit 20")]
pub(crate) struct Args {
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// `tasks --json`, one a line.
#[derive(Serialize)]
struct TaskDocument<'a> {
    task: &'a str,
    due: String,
    started: String,
    ended: Option<String>,
    status: &'static str,
    /// 0: well; 4: not all was done; 12: it failed.
    code: Option<u32>,
    reason: Option<&'a str>,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let runs = admin.task_runs(args.limit)?;
    if context.output.is_json() {
        for run in &runs {
            let rfc3339 = |at: i64| moment::rfc3339(ServerTime(at));
            let ended = run.ended.as_ref();
            context.output.json(&TaskDocument {
                task: &run.task,
                due: rfc3339(run.due),
                started: rfc3339(run.started),
                ended: ended.map(|end| rfc3339(end.at)),
                status: status(run),
                code: ended.map(|end| end.code),
                reason: ended.map(|end| end.reason.as_str()),
            });
        }
    } else if runs.is_empty() {
        context.output.note("Nothing was due yet.");
    } else {
        context.output.text(&text(&runs));
    }
    Ok(DONE)
}

fn status(run: &TaskRun) -> &'static str {
    match &run.ended {
        None => "started",
        Some(end) if end.code < FAILED => "completed",
        Some(_) => "failed",
    }
}

fn text(runs: &[TaskRun]) -> String {
    let columns = [
        ("Task", Align::Left),
        ("Due", Align::Left),
        ("Started", Align::Left),
        ("Ended", Align::Left),
        ("Status", Align::Left),
        ("Reason", Align::Left),
    ];
    let row = |run: &TaskRun| {
        let shown = |at: i64| moment::shown(ServerTime(at));
        let ended = run.ended.as_ref();
        [
            run.task.clone(),
            shown(run.due),
            shown(run.started),
            ended.map_or_else(String::new, |end| shown(end.at)),
            status(run).to_owned(),
            ended.map_or_else(String::new, |end| end.reason.clone()),
        ]
    };
    table::render(columns, &runs.iter().map(row).collect::<Vec<_>>())
}
