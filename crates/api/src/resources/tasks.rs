//! The server's own tasks: runs that it began by itself, and tasks that a person starts.
//!
//! A task that a person starts is an event of the server. It is watched and cancelled like other
//! events. A run that the server began by itself has a number of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use catalog::LoggedRun;
use policy::schedule::{Action, LIBRARY, Word, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::lifecycle::tasks;
use store::schedules;

use super::events::{self, EventDocument};
use super::live::{self, LiveState};
use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::ListQuery;
use crate::desk::Desk;
use crate::download::Download;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A run of a task that the server began by itself.
#[derive(PartialEq, Serialize, JsonSchema)]
struct TaskDocument {
    number: u64,
    task: String,
    due: Time,
    started: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How far the run has come, from the server that does the work: each kind of task has numbers
    /// of its own. Most have `done` and `total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<BTreeMap<String, u64>>,
    /// True if a person has cancelled the run, and it has not ended yet.
    is_cancelled: bool,
}

#[derive(Deserialize, JsonSchema)]
struct TaskPath {
    /// Number of the run.
    task: u64,
}

/// A task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum TaskName {
    /// Drops the versions that are due.
    Expire,
    /// Frees the space of data that nothing names.
    Reclaim,
    /// Compares the catalogue with the pools.
    Audit,
    /// Reads all stored data.
    Scrub,
    /// Copies the catalogue into the pools.
    CopyCatalog,
    /// Moves the packs of a pool to its next pool.
    Drain,
    /// Copies to a copy pool, or to all of them, the packs that they lack.
    CopyPools,
    /// Repairs damaged packs from other pools.
    Repair,
    /// Empties volumes whose data is mostly dead: those of one pool or of all, or named ones.
    ReclaimVolumes,
    /// Moves the needed packs off volumes.
    MoveVolumes,
    /// Reads volumes from end to end, and checks their packs.
    AuditVolumes,
}

/// A task that begins now.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartBody {
    task: TaskName,
    /// Name of the pool, for a task on a pool.
    pool: Option<String>,
    /// Names of the volumes, for a task on volumes.
    #[serde(default)]
    volumes: Vec<String>,
    /// Name of the library of the volumes; needed if several libraries have volumes of these names.
    library: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Tasks;
    let summary = "Lists the tasks that the server began by itself, the last begun first";
    routes.add(Operation::read("tasks.list", "/v1/tasks", area, summary), list);
    let one = "/v1/tasks/{task}";
    let summary = "Describes a task that the server began by itself";
    routes.add(Operation::read("tasks.get", one, area, summary), get);
    let summary =
        "Follows a task that the server began by itself: server-sent events, until it ends";
    let path = "/v1/tasks/{task}/stream";
    routes.stream(Operation::read("tasks.watch", path, area, summary), live::MEDIA, watch);
    let summary = "Cancels a task that the server began by itself; it rests for an hour";
    routes.add(Operation::delete("tasks.cancel", one, area, summary), cancel);
    let summary = "Starts a task of the server now; its event is watched and cancelled as others";
    let operation = Operation::post("tasks.start", "/v1/tasks", area, summary)
        .example("expire", json!({ "task": "expire" }))
        .example("volumes", json!({ "task": "audit-volumes", "volumes": ["A00001"] }));
    routes.make(operation, start);
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<TaskDocument>> {
    call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    let portion = call.query.portion()?;
    let from = portion.first_number()?;
    let runs = call.desk.store().catalog.task_runs(from, portion.read_max())?;
    let page = portion.page(runs, |one| one.number.to_string().into_bytes());
    let items = page.items.into_iter().map(|one| describe(&call.desk, one));
    Ok(Page { items: items.collect::<Result<_, _>>()?, next: page.next })
}

fn describe(desk: &Desk, one: LoggedRun) -> Answer<TaskDocument> {
    let store = desk.store();
    let tasks::RunSight { logged, progress, is_cancelled } =
        tasks::see(&*store.catalog, &store.tasks, one)?;
    let LoggedRun { number, run } = logged;
    Ok(TaskDocument {
        number,
        task: run.task,
        due: Time(run.due),
        started: Time(run.started),
        ended: run.ended.as_ref().map(|end| Time(end.at)),
        code: run.ended.as_ref().map(|end| end.code),
        reason: run.ended.map(|end| end.reason).filter(|reason| !reason.is_empty()),
        progress: progress.and_then(|numbers| serde_json::from_value(numbers).ok()),
        is_cancelled,
    })
}

/// Finds a run by its number.
fn find(desk: &Desk, number: u64) -> Answer<LoggedRun> {
    Ok(tasks::find(&*desk.store().catalog, number)?)
}

fn get(call: &mut Call<TaskPath, Empty, Empty>) -> Answer<TaskDocument> {
    call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    describe(&call.desk, find(&call.desk, call.path.task)?)
}

fn watch(call: &mut Call<TaskPath, Empty, Empty>) -> Answer<Download> {
    call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    let number = find(&call.desk, call.path.task)?.number;
    let desk = Arc::clone(&call.desk);
    let look = move || -> io::Result<Option<LiveState<TaskDocument>>> {
        let run = tasks::find(&*desk.store().catalog, number).map_err(io::Error::other)?;
        let is_over = run.run.ended.is_some();
        let ended_early = |problem: Problem| io::Error::other(problem.detail);
        let document = describe(&desk, run).map_err(ended_early)?;
        Ok(Some(LiveState { document, is_over }))
    };
    Ok(live::follow(Arc::clone(&call.desk), look))
}

fn cancel(call: &mut Call<TaskPath, Empty, Empty>) -> Answer<Empty> {
    call.caller.check(Area::Tasks, Right::Write, Subject::Service)?;
    tasks::cancel(&*call.desk.store().catalog, call.path.task, &call.caller.name)?;
    Ok(Empty {})
}

fn action(body: &StartBody) -> Answer<Action> {
    let work = match body.task {
        TaskName::Expire => Work::Expire,
        TaskName::Reclaim => Work::Reclaim,
        TaskName::Audit => Work::Audit,
        TaskName::Scrub => Work::Scrub,
        TaskName::CopyCatalog => Work::CopyCatalog,
        TaskName::Drain => Work::Drain,
        TaskName::CopyPools => Work::CopyPools,
        TaskName::Repair => Work::Repair,
        TaskName::ReclaimVolumes => Work::ReclaimVolumes,
        TaskName::MoveVolumes => Work::MoveVolumes,
        TaskName::AuditVolumes => Work::AuditVolumes,
    };
    let is_on_volumes = matches!(work, Work::MoveVolumes | Work::AuditVolumes);
    let has_volumes = !body.volumes.is_empty() || body.library.is_some();
    // A name without a library could be that of a pool.
    let empties_named = work == Work::ReclaimVolumes && body.pool.is_none() && has_volumes;
    if empties_named && body.library.is_none() {
        return Err(Problem::invalid("name the volumes, and their library"));
    }
    let takes_volumes = is_on_volumes || empties_named;
    if is_on_volumes && body.pool.is_some() || !takes_volumes && has_volumes {
        let text = "a task on volumes names volumes, a task on a pool names a pool";
        return Err(Problem::invalid(text));
    }
    let objects = body.pool.iter().chain(&body.volumes);
    let objects = objects.map(|name| Word(name.clone().into_bytes())).collect();
    let options = body.library.iter().map(|library| format!("{LIBRARY}={library}")).collect();
    let action = Action { work, objects, options };
    action.check().map_err(Problem::invalid)?;
    Ok(action)
}

fn start(call: &mut Call<Empty, Empty, StartBody>) -> Answer<EventDocument> {
    call.caller.check(Area::Tasks, Right::Write, Subject::Service)?;
    let action = action(&call.body)?;
    let event = schedules::start_task(call.desk.store(), &action, &call.caller.name)?;
    call.desk.office.announce()?;
    let numbering = call.desk.numbering(&call.caller);
    Ok(events::describe(&numbering, event, Some(action.work)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_names_what_it_is_about() {
        let of = |json: &str| action(&serde_json::from_str(json).expect("a body"));
        for right in [
            r#"{"task":"expire"}"#,
            r#"{"task":"drain","pool":"A"}"#,
            r#"{"task":"copy-pools"}"#,
            r#"{"task":"move-volumes","volumes":["A","B"],"library":"TL"}"#,
            r#"{"task":"reclaim-volumes"}"#,
            r#"{"task":"reclaim-volumes","pool":"A"}"#,
            r#"{"task":"reclaim-volumes","volumes":["A"],"library":"TL"}"#,
            r#"{"task":"reclaim-volumes","volumes":["A","B"],"library":"TL"}"#,
        ] {
            assert!(of(right).is_ok(), "{right}");
        }
        for wrong in [
            r#"{"task":"expire","pool":"A"}"#,
            r#"{"task":"drain"}"#,
            r#"{"task":"drain","volumes":["A"]}"#,
            r#"{"task":"audit-volumes"}"#,
            r#"{"task":"audit-volumes","pool":"A"}"#,
            r#"{"task":"repair","library":"TL"}"#,
            r#"{"task":"reclaim-volumes","volumes":["A"]}"#,
            r#"{"task":"reclaim-volumes","library":"TL"}"#,
            r#"{"task":"reclaim-volumes","pool":"A","volumes":["B"],"library":"TL"}"#,
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
