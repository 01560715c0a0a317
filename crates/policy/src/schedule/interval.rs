//! Planned times at equal intervals.
//!
//! Minutes count as they elapse, so a change of the clock moves the times on the wall. Days and
//! months count on the wall, so the time of day stays.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan as _};
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::zone::{self, MINUTE_MICROS};

/// A first time on the wall, and the interval to the next.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Time on the wall, such as `2026-11-20T18:00:00`.
    #[schemars(with = "String")]
    pub first: DateTime,
    pub every: Every,
}

/// Length of an interval. Each is at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Every {
    /// Elapsed minutes.
    Minutes(u32),
    /// Days, at the same time on the wall.
    Days(u32),
    /// Months, on the same day; a month that lacks this day has its last day.
    Months(u32),
}

impl Every {
    pub(super) fn is_zero(self) -> bool {
        let (Self::Minutes(count) | Self::Days(count) | Self::Months(count)) = self;
        count == 0
    }
}

impl Interval {
    /// Returns the planned times after `after`, in ascending order, each once.
    pub(super) fn planned<'a>(
        &'a self,
        zone: &'a TimeZone,
        after: ServerTime,
    ) -> impl Iterator<Item = ServerTime> + 'a {
        let mut number = self.number_before(zone, after);
        let mut last = after;
        std::iter::from_fn(move || {
            loop {
                let moment = self.moment(number?, zone)?;
                number = number.and_then(|number| number.checked_add(1));
                if moment > last {
                    last = moment;
                    return Some(moment);
                }
            }
        })
    }

    /// Returns the number of an interval that begins at or before `after`, or 0.
    fn number_before(&self, zone: &TimeZone, after: ServerTime) -> Option<i64> {
        let wall = zone::wall(after, zone);
        let elapsed = match self.every {
            Every::Minutes(minutes) => {
                let first = zone::moment(self.first, zone)?;
                after.0.saturating_sub(first.0) / MINUTE_MICROS / i64::from(minutes)
            }
            Every::Days(days) => {
                let since = wall.date().since(self.first.date()).ok()?;
                i64::from(since.get_days()) / i64::from(days)
            }
            Every::Months(months) => {
                let passed = |at: DateTime| i64::from(at.year()) * 12 + i64::from(at.month());
                (passed(wall) - passed(self.first)) / i64::from(months)
            }
        };
        // One interval less: the time on the wall may have gone back since.
        Some((elapsed - 1).max(0))
    }

    /// Returns the moment at which the interval number `number` begins.
    fn moment(&self, number: i64, zone: &TimeZone) -> Option<ServerTime> {
        match self.every {
            Every::Minutes(minutes) => {
                let first = zone::moment(self.first, zone)?;
                let elapsed = number.checked_mul(i64::from(minutes) * MINUTE_MICROS)?;
                first.0.checked_add(elapsed).map(ServerTime)
            }
            Every::Days(days) => self.on_the_wall(number, days, |count| 1.day() * count, zone),
            Every::Months(months) => {
                self.on_the_wall(number, months, |count| 1.month() * count, zone)
            }
        }
    }

    /// Returns the moment of the first time plus `number` times `length` units.
    fn on_the_wall(
        &self,
        number: i64,
        length: u32,
        span: impl FnOnce(i64) -> Span,
        zone: &TimeZone,
    ) -> Option<ServerTime> {
        let count = number.checked_mul(i64::from(length))?;
        // A span takes at most so many units; the calendar ends before.
        if count > COUNT_MAX {
            return None;
        }
        zone::moment(self.first.checked_add(span(count)).ok()?, zone)
    }
}

/// Number of months in the calendar of years -9999 to 9999, and fewer days than it has.
const COUNT_MAX: i64 = 2 * 9999 * 12;
