//! The agent of a node: a small process that starts what schedules ask for.
//!
//! ```text
//!   server --- plan, wishes ---> line ----> plan file
//!          <-- reports ---------  ^           |
//!                                 |           v
//!   clock ---------------------> agent: policy::schedule::agenda decides
//!                                 |           ^
//!                                 v           |
//!                              task keeper -> record of events (a folder each)
//!                                 |
//!                                 v
//!                              holdfast backup ...
//! ```
//!
//! A task runs under a *task keeper*, a process of its own, which outlives the agent. The keeper
//! holds a lock while the task runs, and writes down how it ended. So an agent that is started
//! again finds out whether a task runs, how it ended, or that it was cut off. If the keeper is
//! killed, the kernel interrupts the task, unless it is a shell command.
//!
//! Invariants:
//! 1. An event is recorded on disk before anything of it begins (`record`).
//! 2. An attempt begins once: its keeper creates a file that exists only once (`keeper`).
//! 3. A record stays until the server has confirmed the event's last state, and the last event of
//!    each schedule stays as long as the schedule (`record::prune`). So no event begins twice.
//! 4. What the node forbids does not run, whatever the server asks for (`command_line`). While the
//!    node's file cannot be read, nothing runs that the file could forbid.
//! 5. While the server refuses this agent because another agent of the node lives, nothing begins
//!    (`instance`).

mod command_line;
mod instance;
mod keeper;
mod line;
mod plan_file;
mod record;
mod run;
mod server_clock;
mod slot;

pub use instance::refusal;
pub use keeper::{KeeperError, Task, keep};
pub use record::{EventSummary, events};
pub use run::{AgentError, run};

/// Returns the schedules that the agent of the node in the folder `home` has received last, without
/// those for one action.
pub fn schedules(home: &std::path::Path) -> Vec<client::PlannedSchedule> {
    let mut all = plan_file::load(&home.join(FOLDER)).schedules;
    all.retain(|one| !one.name.starts_with(policy::schedule::ONCE_PREFIX));
    all
}

/// Folder of the agent in the node's folder.
pub const FOLDER: &str = "agent";
