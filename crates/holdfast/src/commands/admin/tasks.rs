//! `holdfast admin tasks`: runs of the work that the server does by itself.

use client::admin::{Admin, TaskEnd, TaskRun};
use serde::Serialize;
use serde_json::json;

use super::length::{LISTED_MAX, cut_note};
use super::request::ask;
use super::user::tell;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::table::{self, Align};

/// Lowest exit code of a task that failed.
const FAILED_MIN: u32 = 12;

/// List the work that the server has done by itself, newest first, or cancel it
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast tasks --limit 20
  holdfast admin --server /srv/holdfast tasks --cancel 17")]
pub(crate) struct Args {
    /// Maximum number of runs
    #[arg(
        long,
        value_name = "N",
        default_value_t = LISTED_MAX,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    limit: u32,
    /// Cancel the run with this number: it ends after what it does at the moment, and the task does
    /// not begin again for an hour
    #[arg(long, value_name = "NUMBER", conflicts_with = "limit")]
    cancel: Option<u64>,
}

/// `tasks --json`, one document per line.
#[derive(Serialize)]
struct TaskDocument<'a> {
    number: u64,
    task: &'a str,
    due: String,
    started: String,
    ended: Option<String>,
    status: &'static str,
    /// Exit code: 0 all done, 4 partly done, 8 cancelled, 12 failed.
    code: Option<u32>,
    reason: Option<&'a str>,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    if let Some(number) = args.cancel {
        ask(admin, "DELETE", &format!("/v1/tasks/{number}"), None)?;
        let text = format!("Run {number} is cancelled. It ends after what it does at the moment.");
        tell(&json!({ "number": number, "is_cancelled": true }), &text, context);
        return Ok(DONE);
    }
    let runs = admin.task_runs(args.limit)?;
    if context.output.is_json() {
        for run in &runs {
            let ended = run.ended.as_ref();
            context.output.json(&TaskDocument {
                number: run.number,
                task: &run.task,
                due: moment::rfc3339(run.due),
                started: moment::rfc3339(run.started),
                ended: ended.map(|end| moment::rfc3339(end.at)),
                status: status(run),
                code: ended.map(|end| end.code),
                reason: ended.map(|end| end.reason.as_str()),
            });
        }
    } else if runs.is_empty() {
        context.output.note("No task has been due yet.");
    } else {
        context.output.text(&text(&runs));
    }
    if let Some(note) = cut_note(runs.len(), args.limit) {
        context.output.note(&note);
    }
    Ok(DONE)
}

fn status(run: &TaskRun) -> &'static str {
    match &run.ended {
        None => "started",
        Some(end) if end.code == TaskEnd::CANCELLED => "cancelled",
        Some(end) if end.code < FAILED_MIN => "completed",
        Some(_) => "failed",
    }
}

fn text(runs: &[TaskRun]) -> String {
    let columns = [
        ("Number", Align::Right),
        ("Task", Align::Left),
        ("Due", Align::Left),
        ("Started", Align::Left),
        ("Ended", Align::Left),
        ("Status", Align::Left),
        ("Reason", Align::Left),
    ];
    let row = |run: &TaskRun| {
        let ended = run.ended.as_ref();
        [
            run.number.to_string(),
            run.task.clone(),
            moment::shown(run.due),
            moment::shown(run.started),
            ended.map_or_else(String::new, |end| moment::shown(end.at)),
            status(run).to_owned(),
            ended.map_or_else(String::new, |end| end.reason.clone()),
        ]
    };
    table::render(columns, &runs.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    #[test]
    fn a_task_has_one_status() {
        let check = |code: Option<u32>, expected| {
            let (due, started) = (ServerTime(0), ServerTime(0));
            let ended = code.map(|code| TaskEnd { at: started, code, reason: String::new() });
            assert_eq!(
                status(&TaskRun { number: 1, task: "expire".to_owned(), due, started, ended }),
                expected
            );
        };
        check(None, "started");
        check(Some(0), "completed");
        check(Some(4), "completed");
        check(Some(8), "cancelled");
        check(Some(12), "failed");
    }
}
