//! Events of the audit trail, and runs of tasks.

use catalog::{EventRow, LoggedEvent, LoggedRun};
use model::ServerTime;
use store::lifecycle::audit_trail::Filter;
use wire::proto;

pub(crate) fn filter(message: Option<proto::EventFilter>) -> Filter {
    let proto::EventFilter { from, to, node, kind, text } = message.unwrap_or_default();
    let time = |time| Some(time).filter(|&time| time != 0).map(ServerTime);
    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    Filter {
        from: time(from),
        to: time(to),
        node: filled(node),
        kind: filled(kind),
        text: filled(text),
    }
}

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
