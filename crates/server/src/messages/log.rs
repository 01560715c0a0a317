//! Events of the audit trail, and runs of tasks.

use catalog::{EventRow, LoggedEvent, LoggedRun};
use wire::proto;

pub(crate) fn event(event: LoggedEvent) -> proto::Event {
    let LoggedEvent { number, event } = event;
    let EventRow { time, actor, what, details } = event;
    proto::Event { number, time: time.0, actor, what, details }
}

pub(crate) fn task_run(logged: LoggedRun) -> proto::TaskRun {
    let LoggedRun { number, run } = logged;
    proto::TaskRun {
        number,
        task: run.task,
        due: run.due.0,
        started: run.started.0,
        ended: run.ended.map(|end| proto::TaskEnd {
            at: end.at.0,
            code: end.code.into(),
            reason: end.reason,
        }),
    }
}
