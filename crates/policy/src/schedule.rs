//! Schedules: when an action is due, and what becomes of each time at which it was due.
//!
//! ```text
//!  planned             opens      begins                     closes
//!     |---- blackout ----|---spread--|--------------------------|
//!     the time by the    the window in which a node may start
//!     calendar
//! ```
//!
//! An *occurrence* is one time at which an action is due. Its planned time names it for ever, so
//! that no occurrence is carried out twice. An *event* is an occurrence at one node.
//!
//! Rules:
//! 1. Planned times follow the clock on the wall of the schedule's time zone. A time that the
//!    change to summer time skips is planned at the moment of the change. A time that comes twice
//!    is planned at the first.
//! 2. A window is for starting only. An action that began within it may go on after it.
//! 3. Nothing starts during a blackout. A window that a blackout covers as a whole does not occur.
//! 4. Intervals of minutes and hours count elapsed time. Intervals of days, weeks and months keep
//!    the time on the wall.

mod action;
pub mod agenda;
mod blackout;
mod calendar;
mod definition;
pub mod event;
mod interval;
mod options;
mod spread;
mod timing;
mod words;
mod zone;

pub use action::{Action, Place, Word, Work};
pub use blackout::Blackout;
pub use calendar::{Calendar, Days};
pub use definition::{
    Definition, DefinitionError, ONCE_PREFIX, PRIORITY_DEFAULT, RETRIES_DEFAULT,
    RETRY_PAUSE_MINUTES_DEFAULT, time_zone,
};
pub use interval::{Every, Interval};
pub use options::{LIBRARY, command_of, option_name, takes_value};
pub use spread::{SPREAD_PERCENT_DEFAULT, start_of};
pub use timing::{Occurrence, Starts, Timing, WINDOW_MINUTES_DEFAULT, WINDOW_MINUTES_MAX};
pub use words::{
    MONTH_NAMES, MonthDays, Months, Times, WEEKDAY_NAMES, Weekdays, Weeks, WordsError,
};
pub use zone::{parse_day, parse_wall};

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
