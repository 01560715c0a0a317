//! Schedules: what nodes and the server do by themselves, and the events that come of it.
//!
//! ```text
//!  administrator -> define -> catalogue -> plan ------> the agents of the nodes
//!                                |    ^                        |
//!                                v    |                        v
//!                            timetable -- events <-- report <--+
//!                                |
//!                                `-> work (the server's own)
//! ```
//!
//! An agent decides by itself when an event begins, and reports it. The timetable only opens events
//! and closes those that no node began. It runs at the server that keeps house.

mod announcement;
mod attendance;
mod audience;
mod conditions;
mod define;
mod differences;
mod errand;
mod events;
mod followers;
mod future;
mod missed;
mod owner;
mod plan;
mod timetable;
mod work;

pub(crate) use announcement::announce;
pub use announcement::generation;
pub use attendance::{
    attend, attend_without_place, connected_agents, end_attendance, last_poll, note_poll,
};
pub use audience::{put_progress, watch, watched};
pub use conditions::{EventConditions, narrow};
pub use define::{
    Schedule, ScheduleRef, add, add_of_domain, associate, change, check_followers, check_following,
    definition, dissociate, list, readable, remove, unknown,
};
pub use events::{
    EventTarget, control, control_one, event_numbered, find_event, node_events, note_obstacle,
    report, run_now, sever, start_task,
};
pub use followers::LabelChange;
pub(crate) use followers::label_change;
pub use future::future_events;
pub use owner::{OwnedBy, owner, plain_body};
pub use plan::{Plan, PlannedControl, PlannedSchedule, plan_of};
pub use timetable::{Timetable, tick};
pub use work::{Line, run_due};

#[cfg(test)]
mod tests;
