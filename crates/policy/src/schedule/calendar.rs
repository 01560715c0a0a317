//! Planned times by calendar: at times of the day, on certain days, in certain months.

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::ServerTime;
use serde::{Deserialize, Serialize};

use super::words::{MonthDays, Months, Times, Weekdays, Weeks};
use super::zone;

/// Number of days after which the search for a planned time gives up: 41 years. 29 February falls
/// on a given weekday at least once in 40 years, also around 2100, which is no leap year.
const SEARCHED_DAYS: usize = 41 * 366;

/// Times of the day on certain days.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Calendar {
    pub times: Times,
    #[serde(default, skip_serializing_if = "Months::is_all")]
    pub months: Months,
    #[serde(flatten)]
    pub days: Days,
}

/// The days of a month on which something is due.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Days {
    /// Days by their number in the month.
    OfMonth { month_days: MonthDays },
    /// Days of the week. A week of the month is counted from the first of the month: days 1 to 7
    /// are the first week, and the last seven days are the last week.
    OfWeek {
        #[serde(default, skip_serializing_if = "Weekdays::is_all")]
        weekdays: Weekdays,
        #[serde(default, skip_serializing_if = "Weeks::is_all")]
        weeks: Weeks,
    },
}

impl Calendar {
    /// Returns the planned times after `after`, in ascending order, each once.
    pub(super) fn planned<'a>(
        &'a self,
        zone: &'a TimeZone,
        after: ServerTime,
    ) -> impl Iterator<Item = ServerTime> + 'a {
        // A day earlier than `after` may still have times after it: a zone can skip a day.
        let first = zone::wall(after, zone).date().saturating_sub(1.day());
        let mut last = after;
        self.days_from(first)
            .flat_map(move |day| {
                let moments = self
                    .times
                    .iter()
                    .filter_map(move |time| zone::moment(day.to_datetime(time), zone));
                moments.collect::<Vec<_>>()
            })
            .filter(move |moment| {
                let is_later = *moment > last;
                last = last.max(*moment);
                is_later
            })
    }

    /// Returns the days of the calendar from `first` on. The list ends where no day follows within
    /// [`SEARCHED_DAYS`].
    fn days_from(&self, first: Date) -> impl Iterator<Item = Date> {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            for _ in 0..SEARCHED_DAYS {
                let day = next?;
                next = day.tomorrow().ok();
                if self.has(day) {
                    return Some(day);
                }
            }
            next = None;
            None
        })
    }

    fn has(&self, day: Date) -> bool {
        self.months.has(day.month())
            && match &self.days {
                Days::OfMonth { month_days } => month_days.has(day),
                Days::OfWeek { weekdays, weeks } => weekdays.has(day.weekday()) && weeks.has(day),
            }
    }
}
