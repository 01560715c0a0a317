//! Tasks: work that servers do by themselves when it is due.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// A run of a task.
#[derive(Clone, Debug)]
pub struct TaskRun {
    pub number: u64,
    pub task: String,
    pub due: ServerTime,
    pub started: ServerTime,
    /// End of the run; `None` while the task is running.
    pub ended: Option<TaskEnd>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct TaskEnd {
    pub at: ServerTime,
    /// Exit code, as for a command: 0 for success, 4 if not everything was done, 8 for a
    /// run that a person has cancelled, 12 for failure.
    pub code: u32,
    pub reason: String,
}

impl TaskEnd {
    /// Code of a run that a person has cancelled.
    pub const CANCELLED: u32 = 8;
}

impl From<proto::TaskRun> for TaskRun {
    fn from(message: proto::TaskRun) -> Self {
        let end = |end: proto::TaskEnd| TaskEnd {
            at: ServerTime(end.at),
            code: end.code,
            reason: end.reason,
        };
        Self {
            number: message.number,
            task: message.task,
            due: ServerTime(message.due),
            started: ServerTime(message.started),
            ended: message.ended.map(end),
        }
    }
}

impl Admin {
    /// Lists at most `limit` runs of tasks, the latest start first.
    pub fn task_runs(&mut self, limit: u32) -> Result<Vec<TaskRun>, ClientError> {
        let runs = portions::first(limit as usize, |portion| {
            let request = proto::TaskRunsRequest { portion: Some(portion) };
            let reply = self.call(async |server| server.task_runs(request).await)?;
            Ok(Section { items: reply.runs, next: reply.next })
        })?;
        Ok(runs.into_iter().map(TaskRun::from).collect())
    }
}
