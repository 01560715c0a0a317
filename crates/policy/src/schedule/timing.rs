//! The times at which an action is due, with their windows.

use jiff::tz::TimeZone;
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blackout::{self, Blackout};
use super::calendar::Calendar;
use super::interval::Interval;
use super::zone::{self, MINUTE_MICROS};

/// Window of a schedule whose definition names none, in minutes.
pub const WINDOW_MINUTES_DEFAULT: u32 = 60;
/// Maximum window, in minutes: 30 days.
pub const WINDOW_MINUTES_MAX: u32 = 30 * 24 * 60;

/// Number of planned times in a row whose windows blackouts cover, after which the search gives up.
/// A blackout that covers many times counts as one, so a daily blackout is followed for 41 years.
const COVERED_MAX: usize = 41 * 366;

/// The times at which an action is due.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    pub starts: Starts,
    /// Length of the window in which the action may start, in minutes.
    pub window_minutes: u32,
    /// Part of the window over which the starts of many nodes are spread, in percent.
    pub spread_percent: u8,
    /// Day after which nothing is due, by the time zone of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_day: Option<jiff::civil::Date>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Blackout>,
}

/// The rule for planned times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Starts {
    Calendar(Calendar),
    Interval(Interval),
    /// One planned time, in microseconds since 1970.
    Once(i64),
}

/// One time at which an action is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Occurrence {
    /// The time by the calendar; it names the occurrence.
    pub planned: ServerTime,
    /// Begin of the window: the planned time, or the end of a blackout.
    pub opens: ServerTime,
    /// End of the window, which does not belong to it.
    pub closes: ServerTime,
}

impl Occurrence {
    pub fn is_open(&self, now: ServerTime) -> bool {
        self.opens <= now && now < self.closes
    }
}

impl Timing {
    /// Returns the occurrences that are planned after `after`, in ascending order. The list ends
    /// where blackouts cover more than [`COVERED_MAX`] times in a row.
    pub fn occurrences<'a>(
        &'a self,
        zone: &'a TimeZone,
        after: ServerTime,
    ) -> impl Iterator<Item = Occurrence> + 'a {
        self.occurrences_until(zone, after, ServerTime::MAX)
    }

    /// Returns the occurrences that are planned after `after`, and at `last` or before.
    fn occurrences_until<'a>(
        &'a self,
        zone: &'a TimeZone,
        after: ServerTime,
        last: ServerTime,
    ) -> impl Iterator<Item = Occurrence> + 'a {
        let mut planned = self.planned(zone, after);
        std::iter::from_fn(move || {
            for _ in 0..COVERED_MAX {
                let next = planned.next()?;
                if next > last || !self.is_within_life(next, zone) {
                    return None;
                }
                match self.occurrence(next, zone) {
                    Ok(occurrence) => return Some(occurrence),
                    // Windows that close before the end of the blackout are covered, too.
                    Err(end) => {
                        let before_end = ServerTime(end.0.saturating_sub(self.window_micros()));
                        if before_end > next {
                            planned = self.planned(zone, before_end);
                        }
                    }
                }
            }
            None
        })
    }

    /// Returns the occurrences whose windows open after `after`, and at `now` or before.
    pub fn openings<'a>(
        &'a self,
        zone: &'a TimeZone,
        after: ServerTime,
        now: ServerTime,
    ) -> impl Iterator<Item = Occurrence> + 'a {
        // A window opens within its length after its planned time.
        let from = ServerTime(after.0.saturating_sub(self.window_micros()));
        self.occurrences_until(zone, from, now)
            .filter(move |occurrence| after < occurrence.opens && occurrence.opens <= now)
    }

    /// Returns the last occurrence that is planned after `after`, and at `now` or before.
    pub fn latest(
        &self,
        zone: &TimeZone,
        after: ServerTime,
        now: ServerTime,
    ) -> Option<Occurrence> {
        self.occurrences_until(zone, after, now).last()
    }

    /// Returns the end of the blackout in which `now` is; `None` if a start is allowed.
    pub fn blackout_end(&self, zone: &TimeZone, now: ServerTime) -> Option<ServerTime> {
        blackout::end_of(&self.blackouts, zone, now)
    }

    /// Returns the planned times after `after`, in ascending order, each once.
    fn planned<'a>(
        &'a self,
        zone: &'a TimeZone,
        after: ServerTime,
    ) -> Box<dyn Iterator<Item = ServerTime> + 'a> {
        match &self.starts {
            Starts::Calendar(calendar) => Box::new(calendar.planned(zone, after)),
            Starts::Interval(interval) => Box::new(interval.planned(zone, after)),
            Starts::Once(at) => {
                let once = Some(ServerTime(*at)).filter(|at| *at > after);
                Box::new(once.into_iter())
            }
        }
    }

    fn is_within_life(&self, planned: ServerTime, zone: &TimeZone) -> bool {
        self.last_day.is_none_or(|last| zone::wall(planned, zone).date() <= last)
    }

    fn window_micros(&self) -> i64 {
        i64::from(self.window_minutes) * MINUTE_MICROS
    }

    /// Returns the occurrence that is planned at `planned`. If blackouts cover its window, returns
    /// the end of the last one instead.
    fn occurrence(&self, planned: ServerTime, zone: &TimeZone) -> Result<Occurrence, ServerTime> {
        let closes = ServerTime(planned.0.saturating_add(self.window_micros()));
        let mut opens = planned;
        while let Some(end) = blackout::end_of(&self.blackouts, zone, opens) {
            assert!(end > opens, "a blackout ends after each moment in it");
            opens = end;
            if opens >= closes {
                return Err(opens);
            }
        }
        Ok(Occurrence { planned, opens, closes })
    }
}
