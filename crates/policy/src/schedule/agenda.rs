//! The agenda of a node: which event begins now, and when to look again. The node decides alone,
//! from the schedules that the server gave it and from its own record of what it has begun.
//!
//! Invariants:
//! 1. Of each schedule, planned times only ever increase: an occurrence before the last one that
//!    was begun never begins, even if the clock goes back.
//! 2. An attempt begins once. A further attempt begins only after a failure, or after an
//!    interruption of work that may be repeated, within the window.
//! 3. Of several windows that are open, or were slept through, only the last is used.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use model::ServerTime;

use super::action::Place;
use super::definition::{Definition, DefinitionError};
use super::spread::start_of;
use super::timing::{Occurrence, Timing};
use super::zone::MINUTE_MICROS;

/// A schedule as its node has to keep it.
#[derive(Clone, Debug)]
pub struct Duty {
    pub timing: Timing,
    pub zone: TimeZone,
    /// Occurrences that are planned before this moment are none of this node.
    pub since: ServerTime,
    /// Order among events that are due at once: lower numbers begin first.
    pub priority: u8,
    pub retries: Retries,
    /// True if an event whose window has passed is made up for, once.
    pub runs_late: bool,
    /// True if an attempt may be made again though nobody knows how far the last one came.
    pub is_repeatable: bool,
}

impl Duty {
    /// Returns the duty by a definition, for occurrences that are planned from `since` on. Fails if
    /// the definition names an unknown time zone.
    pub fn new(definition: &Definition, since: ServerTime) -> Result<Self, DefinitionError> {
        let mut timing = definition.timing.clone();
        if definition.place() == Place::Server {
            // A spread keeps nodes from starting at once. The server does one thing after the
            // other, in the order of the planned times.
            timing.spread_percent = 0;
        }
        Ok(Self {
            timing,
            zone: definition.time_zone()?,
            since,
            priority: definition.priority,
            retries: Retries::of(definition),
            runs_late: definition.runs_late,
            is_repeatable: definition.action.work.is_repeatable(),
        })
    }
}

/// Rule of a schedule for further attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retries {
    /// Number of further attempts after a failure.
    pub count: u32,
    pub pause_minutes: u32,
}

impl Retries {
    /// Returns the rule of a definition.
    pub fn of(definition: &Definition) -> Self {
        Self { count: definition.retries, pause_minutes: definition.retry_pause_minutes }
    }

    /// Returns the earliest time of the attempt after number `attempt`, which failed at `ended`, in
    /// a window that closes at `closes`; `None` if no further attempt follows.
    pub fn after(self, attempt: u32, ended: ServerTime, closes: ServerTime) -> Option<ServerTime> {
        let pause = i64::from(self.pause_minutes) * MINUTE_MICROS;
        let again = ServerTime(ended.0.saturating_add(pause));
        (attempt <= self.count && again < closes).then_some(again)
    }
}

/// The last event of a schedule that a node has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastEvent {
    pub planned: ServerTime,
    pub closes: ServerTime,
    pub attempt: u32,
    pub course: Course,
}

/// How the last attempt of an event went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Course {
    Running,
    Succeeded,
    Failed {
        at: ServerTime,
    },
    /// Nobody knows how far the attempt came.
    Interrupted {
        at: ServerTime,
    },
}

/// An attempt that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    pub schedule: String,
    pub planned: ServerTime,
    pub closes: ServerTime,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Result of a look at the agenda.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agenda {
    /// Attempts that are due, in the order in which they begin.
    pub due: Vec<Start>,
    /// Moment of the next start after `now`; `None` if none is known.
    pub next_look: Option<ServerTime>,
}

/// Looks at all duties of `node` at `now`.
pub fn look(
    duties: &BTreeMap<String, Duty>,
    last_events: &BTreeMap<String, LastEvent>,
    node: &str,
    now: ServerTime,
) -> Agenda {
    let mut due = Vec::new();
    let mut next_look: Option<ServerTime> = None;
    for (schedule, duty) in duties {
        let last = last_events.get(schedule);
        if last.is_some_and(|last| last.course == Course::Running) {
            continue;
        }
        match duty.next(last, node, now) {
            Step::Now(attempt) => {
                let Attempt { planned, closes, number } = attempt;
                let schedule = schedule.clone();
                let start = Start { schedule, planned, closes, attempt: number };
                due.push((duty.priority, start));
            }
            Step::At(moment) => {
                assert!(moment > now, "a start that is due is not put off");
                next_look = Some(next_look.map_or(moment, |known| known.min(moment)));
            }
            Step::Never => {}
        }
    }
    due.sort_by_key(|(priority, start)| (*priority, start.planned));
    Agenda { due: due.into_iter().map(|(_, start)| start).collect(), next_look }
}

/// Returns the next time at which `node` starts the schedule by itself; `None` if nothing is due.
/// Occurrences that are planned before `since` are none of the node.
pub fn next_start(
    definition: &Definition,
    since: ServerTime,
    node: &str,
    now: ServerTime,
) -> Option<ServerTime> {
    if definition.is_suspended {
        return None;
    }
    let (timing, zone) = (&definition.timing, definition.time_zone().ok()?);
    // The node's start in a window that is open may still be to come.
    let window = i64::from(timing.window_minutes) * MINUTE_MICROS;
    let after = ServerTime(now.0.saturating_sub(window).max(since.0.saturating_sub(1)));
    let mut starts = timing
        .occurrences(&zone, after)
        .map(|occurrence| start_of(timing, occurrence, node));
    starts.find(|start| *start > now)
}

/// The next step of a schedule.
enum Step {
    Now(Attempt),
    At(ServerTime),
    Never,
}

struct Attempt {
    planned: ServerTime,
    closes: ServerTime,
    number: u32,
}

/// Periods before now, in minutes, in which the last window that was slept through is looked for:
/// an hour, a day, a month, and 400 days.
const LATE_SEARCH_MINUTES: [i64; 4] = [60, 1440, 32 * 1440, 400 * 1440];

impl Duty {
    fn next(&self, last: Option<&LastEvent>, node: &str, now: ServerTime) -> Step {
        let decided = last.map_or(ServerTime(i64::MIN), |last| last.planned);
        // Planned times after this one are undecided.
        let after = decided.max(ServerTime(self.since.0.saturating_sub(1)));
        let mut next = match self.current(after, now) {
            Some(occurrence) => self.first_attempt(occurrence, node, now),
            None => last.map_or(Step::Never, |last| self.further_attempt(last, now)),
        };
        if let Step::At(_) | Step::Never = next {
            let future = self.timing.occurrences(&self.zone, after.max(now)).next();
            if let Some(occurrence) = future {
                let start = start_of(&self.timing, occurrence, node);
                next = match next {
                    Step::At(moment) => Step::At(moment.min(start)),
                    _ => Step::At(start),
                };
            }
        }
        next
    }

    /// Returns the last occurrence that is planned by now and is not over, or that is made up for.
    fn current(&self, after: ServerTime, now: ServerTime) -> Option<Occurrence> {
        let window = i64::from(self.timing.window_minutes) * MINUTE_MICROS;
        let latest = |back: i64| {
            let from = after.max(ServerTime(now.0.saturating_sub(back)));
            self.timing.latest(&self.zone, from, now)
        };
        let open = latest(window);
        if open.is_some() || !self.runs_late {
            return open;
        }
        LATE_SEARCH_MINUTES
            .iter()
            .find_map(|minutes| latest(window + minutes * MINUTE_MICROS))
    }

    fn first_attempt(&self, occurrence: Occurrence, node: &str, now: ServerTime) -> Step {
        let is_over = now >= occurrence.closes;
        let start = if is_over { now } else { start_of(&self.timing, occurrence, node) };
        if now < start {
            return Step::At(start);
        }
        let Occurrence { planned, closes, .. } = occurrence;
        self.attempt_at(now, is_over, Attempt { planned, closes, number: 1 })
    }

    fn further_attempt(&self, last: &LastEvent, now: ServerTime) -> Step {
        let ended = match last.course {
            Course::Failed { at } => at,
            Course::Interrupted { at } if self.is_repeatable => at,
            _ => return Step::Never,
        };
        let again = self.retries.after(last.attempt, ended, last.closes);
        let Some(again) = again.filter(|_| now < last.closes) else { return Step::Never };
        if now < again {
            return Step::At(again);
        }
        let LastEvent { planned, closes, .. } = *last;
        self.attempt_at(now, false, Attempt { planned, closes, number: last.attempt + 1 })
    }

    /// Returns the attempt, unless a blackout forbids a start at `now`.
    fn attempt_at(&self, now: ServerTime, is_late: bool, attempt: Attempt) -> Step {
        match self.timing.blackout_end(&self.zone, now) {
            None => Step::Now(attempt),
            Some(end) if is_late || end < attempt.closes => Step::At(end),
            Some(_) => Step::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_attempts_follow_after_a_pause_within_the_window() {
        let rule = Retries { count: 2, pause_minutes: 20 };
        let minute = |minute: i64| ServerTime(minute * MINUTE_MICROS);
        let after = |attempt, ended| rule.after(attempt, minute(ended), minute(60));
        assert_eq!(after(1, 10), Some(minute(30)));
        assert_eq!(after(2, 39), Some(minute(59)));
        assert_eq!(after(2, 40), None, "the window closes");
        assert_eq!(after(3, 10), None, "there are two further attempts");
    }

    #[test]
    fn only_the_starts_of_nodes_are_spread() {
        let definition = |work: &str| -> Definition {
            let document = format!(
                r#"{{"action":{{"work":"{work}"}},"timing":{{"starts":{{"calendar":
                {{"times":"22:00"}}}},"window_minutes":60,"spread_percent":25}},"zone":"UTC",
                "priority":5,"retries":2,"retry_pause_minutes":20}}"#
            );
            serde_json::from_str(&document).expect("a definition")
        };
        let spread = |work: &str| {
            let duty = Duty::new(&definition(work), ServerTime(0)).expect("a duty");
            duty.timing.spread_percent
        };
        assert_eq!((spread("expire"), spread("incremental")), (0, 25));
    }
}
