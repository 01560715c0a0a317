//! Runs of the server's own tasks.

use model::ServerTime;

use crate::CatalogError;

/// A run of a task that the server begins by itself when it is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRun {
    /// Name of the task, in a few words.
    pub task: String,
    /// Time at which the run was due.
    pub due: ServerTime,
    pub started: ServerTime,
    /// End of the run; `None` while it is running.
    pub ended: Option<TaskEnd>,
}

/// A run with its number. A run that begins later has a larger number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedRun {
    pub number: u64,
    pub run: TaskRun,
}

/// The end of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskEnd {
    pub at: ServerTime,
    /// TSM's return code: 0 for success, [`Self::WARNED`], [`Self::CANCELLED`] or [`Self::FAILED`].
    pub code: u8,
    /// Reason of another end than a success; empty after a success.
    pub reason: String,
}

impl TaskEnd {
    /// Code of a run that did a part of its work.
    pub const WARNED: u8 = 4;
    /// Code of a run that a person has cancelled. The next run does the rest.
    pub const CANCELLED: u8 = 8;
    /// Code of a run that failed.
    pub const FAILED: u8 = 12;
}

/// The runs of the server's tasks.
pub trait Tasks {
    /// At most `limit` runs, the last begun first. The list begins with the run numbered `from`, or
    /// with the last run if `from` is `None`.
    fn task_runs(&self, from: Option<u64>, limit: usize) -> Result<Vec<LoggedRun>, CatalogError>;

    /// For each task its open run, the last run that failed and the last that did not, the last
    /// begun first. Runs that were cancelled are left out.
    fn last_task_runs(&self) -> Result<Vec<LoggedRun>, CatalogError>;
}
