//! Planned times by calendar: at times of the day, on certain days, in certain months.

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::{MonthDays, Months, Times, Weekdays, Weeks};
use super::zone;

/// Number of days after which the search for a planned time gives up: 41 years. 29 February falls
/// on a given weekday at least once in 40 years, also around 2100, which is no leap year.
const SEARCHED_DAYS: usize = 41 * 366;

/// Times of the day on certain days.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Calendar {
    pub times: Times,
    #[serde(default, skip_serializing_if = "Months::is_all")]
    pub months: Months,
    #[serde(flatten)]
    pub days: Days,
}

/// The days of a month on which something is due.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, from = "DaysForm")]
pub enum Days {
    /// Days by their number in the month.
    OfMonth { month_days: MonthDays },
    /// Days of the week. A week of the month is counted from the first of the month: days 1 to 7
    /// are the first week, and the last seven days are the last week.
    OfWeek {
        #[serde(skip_serializing_if = "Weekdays::is_all")]
        weekdays: Weekdays,
        #[serde(skip_serializing_if = "Weeks::is_all")]
        weeks: Weeks,
    },
}

/// Days as they are written. Without this form, days of the month that are wrong would be read as
/// every day of the week.
#[derive(Deserialize, JsonSchema)]
struct DaysForm {
    /// Days by their number in the month. Beside them, days of the week mean nothing.
    month_days: Option<MonthDays>,
    weekdays: Option<Weekdays>,
    /// Weeks of the month from which days of the week are taken.
    weeks: Option<Weeks>,
}

impl From<DaysForm> for Days {
    fn from(form: DaysForm) -> Self {
        let DaysForm { month_days, weekdays, weeks } = form;
        match month_days {
            Some(month_days) => Self::OfMonth { month_days },
            None => Self::OfWeek {
                weekdays: weekdays.unwrap_or_default(),
                weeks: weeks.unwrap_or_default(),
            },
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(days: &str, expected: Result<&str, &str>) {
        let text = format!(r#"{{"times":"22:00"{days}}}"#);
        let read = serde_json::from_str::<Calendar>(&text).map_err(|error| error.to_string());
        match (read, expected) {
            (Ok(calendar), Ok(written)) => {
                let again = serde_json::to_string(&calendar.days).expect("is data");
                assert_eq!(again, written, "{text}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
            (read, _) => panic!("{text}: {read:?}"),
        }
    }

    #[test]
    fn days_that_are_wrong_are_not_every_day() {
        check("", Ok("{}"));
        check(r#","month_days":"1,last""#, Ok(r#"{"month_days":"1,last"}"#));
        check(r#","weekdays":"mon","weeks":"first""#, Ok(r#"{"weekdays":"mon","weeks":"first"}"#));
        check(r#","month_days":"32""#, Err("'32' is not a day of the month"));
        check(r#","month_days":15"#, Err("string"));
        check(r#","weekdays":"someday""#, Err("'someday' is not a day of the week"));
    }
}
