//! Timetable of limits: which limit holds at which time of the week. The module is pure.
//!
//! 1. A window that ends at or before its beginning goes on after midnight. It belongs to the day
//!    on which it begins.
//! 2. If several windows hold, the smallest limit counts.
//! 3. Times are those that a clock on the wall shows. So a window in the hour that daylight saving
//!    leaves out does not come, and a window in the hour that comes twice holds twice.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::clock::LocalTime;

use super::{Direction, Rate};

const DAY_MINUTES: u16 = 24 * 60;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Limits of a window of time, in `client.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitWindow {
    /// Time of day at which the window begins.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(crate) from: TimeOfDay,
    /// Time of day at which it ends; the same time for a whole day.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(crate) to: TimeOfDay,
    /// Days on which it begins, as in `mon-fri` or `sat,sun`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(crate) days: Days,
    /// Maximum number of bytes that are sent in a second, as in `10M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "no limit"))]
    pub(crate) send: Option<Rate>,
    /// Maximum number of bytes that are received in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "no limit"))]
    pub(crate) receive: Option<Rate>,
}

impl LimitWindow {
    /// Returns true if the window holds at `time`.
    fn holds_at(&self, time: LocalTime) -> bool {
        let LocalTime { weekday, minute } = time;
        let (from, to) = (self.from.0, self.to.0);
        let (today, yesterday) = (self.days.has(weekday), self.days.has((weekday + 6) % 7));
        if from < to {
            return today && (from..to).contains(&minute);
        }
        (today && minute >= from) || (yesterday && minute < to)
    }

    /// Returns true if the window has no limit.
    pub(crate) fn limits_nothing(&self) -> bool {
        self.send.is_none() && self.receive.is_none()
    }

    fn limit(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::Send => self.send,
            Direction::Receive => self.receive,
        }
    }
}

/// Returns the limit of `direction` at `time`.
pub(super) fn limit_at(
    windows: &[LimitWindow],
    direction: Direction,
    time: LocalTime,
) -> Option<Rate> {
    let holding = windows.iter().filter(|window| window.holds_at(time));
    holding.filter_map(|window| window.limit(direction)).min()
}

/// Returns the smallest limit of `direction` at any time.
pub(super) fn smallest(windows: &[LimitWindow], direction: Direction) -> Option<Rate> {
    windows.iter().filter_map(|window| window.limit(direction)).min()
}

/// Minute of a day, as in `08:00`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TimeOfDay(u16);

/// Error for a text that is no time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a time of day must be from 00:00 to 24:00, as in 08:00")]
pub(crate) struct TimeOfDayError;

impl FromStr for TimeOfDay {
    type Err = TimeOfDayError;

    fn from_str(text: &str) -> Result<Self, TimeOfDayError> {
        let number = |digits: &str| {
            let is_plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| digits.parse::<u16>().ok()).flatten().ok_or(TimeOfDayError)
        };
        let (hours, minutes) = text.split_once(':').ok_or(TimeOfDayError)?;
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let total = hours * 60 + minutes;
        if minutes < 60 && total <= DAY_MINUTES {
            // The end of a day is the beginning of the next one.
            Ok(Self(total % DAY_MINUTES))
        } else {
            Err(TimeOfDayError)
        }
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = TimeOfDayError;

    fn try_from(text: String) -> Result<Self, TimeOfDayError> {
        text.parse()
    }
}

impl From<TimeOfDay> for String {
    fn from(TimeOfDay(minute): TimeOfDay) -> Self {
        format!("{:02}:{:02}", minute / 60, minute % 60)
    }
}

/// Days of the week: one bit for each, Monday first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Days(u8);

/// Error for a text that names no days.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("days must be mon, tue, wed, thu, fri, sat or sun, as in mon-fri or sat,sun")]
pub(crate) struct DaysError;

impl Default for Days {
    fn default() -> Self {
        Self(0x7f)
    }
}

impl Days {
    fn has(self, weekday: u8) -> bool {
        self.0 >> weekday & 1 == 1
    }
}

impl FromStr for Days {
    type Err = DaysError;

    fn from_str(text: &str) -> Result<Self, DaysError> {
        let day = |name: &str| {
            let name = name.trim().to_ascii_lowercase();
            DAYS.iter().position(|known| *known == name).ok_or(DaysError)
        };
        let mut days = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (day(first)?, day(last)?);
            let mut next = first;
            loop {
                days |= 1 << next;
                if next == last {
                    break;
                }
                next = (next + 1) % DAYS.len();
            }
        }
        Ok(Self(days))
    }
}

impl TryFrom<String> for Days {
    type Error = DaysError;

    fn try_from(text: String) -> Result<Self, DaysError> {
        text.parse()
    }
}

impl From<Days> for String {
    fn from(days: Days) -> Self {
        let named = DAYS.iter().zip(0..).filter(|(_, day)| days.has(*day));
        named.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> TimeOfDay {
        text.parse().expect("a time of day")
    }

    fn days(text: &str) -> Days {
        text.parse().expect("days")
    }

    fn window(from: &str, to: &str, on: &str, send: u64) -> LimitWindow {
        let send = Some(Rate::new(send).expect("a rate"));
        LimitWindow { from: time(from), to: time(to), days: days(on), send, receive: None }
    }

    fn at(weekday: u8, clock: &str) -> LocalTime {
        LocalTime { weekday, minute: time(clock).0 }
    }

    #[track_caller]
    fn check(windows: &[LimitWindow], weekday: u8, clock: &str, expected: Option<u64>) {
        let found = limit_at(windows, Direction::Send, at(weekday, clock));
        assert_eq!(found.map(Rate::get), expected, "day {weekday}, {clock}");
        assert_eq!(limit_at(windows, Direction::Receive, at(weekday, clock)), None);
    }

    #[test]
    fn a_window_of_office_hours_holds_on_its_days() {
        let office = [window("08:00", "18:00", "mon-fri", 1 << 20)];
        check(&office, 0, "07:59", None);
        check(&office, 0, "08:00", Some(1 << 20));
        check(&office, 4, "17:59", Some(1 << 20));
        check(&office, 4, "18:00", None);
        check(&office, 5, "12:00", None);
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        let night = [window("22:00", "06:00", "fri", 1 << 20)];
        check(&night, 4, "05:00", None);
        check(&night, 4, "22:00", Some(1 << 20));
        check(&night, 5, "05:59", Some(1 << 20));
        check(&night, 5, "06:00", None);
        check(&night, 5, "23:00", None);
        let sunday = [window("22:00", "06:00", "sun", 1 << 20)];
        check(&sunday, 0, "01:00", Some(1 << 20));
    }

    #[test]
    fn the_smallest_limit_counts_and_equal_times_are_a_whole_day() {
        let both = [
            window("00:00", "24:00", "mon-sun", 9 << 20),
            window("12:00", "13:00", "sat-mon", 3 << 20),
        ];
        check(&both, 6, "12:30", Some(3 << 20));
        check(&both, 0, "12:30", Some(3 << 20));
        check(&both, 1, "12:30", Some(9 << 20));
        check(&both, 1, "00:00", Some(9 << 20));
        assert_eq!(smallest(&both, Direction::Send).map(Rate::get), Some(3 << 20));
        assert_eq!(smallest(&both, Direction::Receive), None);
    }

    /// Returns the times that a clock on the wall shows from midnight on, when the clock is moved
    /// from `at` to `to` once.
    fn wall_clock(at: u16, to: u16) -> Vec<u16> {
        (0..at).chain(to..DAY_MINUTES).collect()
    }

    #[test]
    fn daylight_saving_leaves_out_an_hour_and_repeats_one() {
        let held = |clock: Vec<u16>, from, to| {
            let windows = [window(from, to, "sun", 1 << 20)];
            let limit =
                |minute| limit_at(&windows, Direction::Send, LocalTime { weekday: 6, minute });
            clock.into_iter().filter(|&minute| limit(minute).is_some()).count()
        };
        let (spring, autumn) = (|| wall_clock(120, 180), || wall_clock(180, 120));
        assert_eq!(held(spring(), "02:00", "03:00"), 0, "the hour does not come");
        assert_eq!(held(autumn(), "02:00", "03:00"), 120, "the hour comes twice");
        assert_eq!(held(spring(), "01:30", "03:30"), 60);
        assert_eq!(held(autumn(), "01:30", "03:30"), 180);
    }

    #[test]
    fn texts_that_make_no_sense_are_refused() {
        for text in ["", "8:00", "08:60", "24:01", "25:00", "08-00", "0800", "+8:00", "08:0a"] {
            assert_eq!(text.parse::<TimeOfDay>(), Err(TimeOfDayError), "{text}");
        }
        for text in ["", "monday", "mon-", "-fri", "mon,,tue", "mon-fri-sun", "1-5"] {
            assert_eq!(text.parse::<Days>(), Err(DaysError), "{text}");
        }
    }

    proptest! {
        /// A window holds for as many minutes of the week as it is long, on each of its days.
        #[test]
        fn a_window_holds_for_its_length(from in 0_u16..1440, to in 0_u16..1440, set in 1_u8..128) {
            let window = LimitWindow {
                from: TimeOfDay(from),
                to: TimeOfDay(to),
                days: Days(set),
                send: None,
                receive: None,
            };
            let minutes = (0..7).flat_map(|weekday| (0..1440).map(move |minute| (weekday, minute)));
            let held = minutes
                .filter(|&(weekday, minute)| window.holds_at(LocalTime { weekday, minute }))
                .count();
            let length = match (to + DAY_MINUTES - from) % DAY_MINUTES {
                0 => DAY_MINUTES,
                length => length,
            };
            prop_assert_eq!(held, usize::from(length) * set.count_ones() as usize);
        }

        #[test]
        fn texts_are_read_as_they_are_written(minute in 0_u16..1440, set in 1_u8..128) {
            let (minute, set) = (TimeOfDay(minute), Days(set));
            prop_assert_eq!(String::from(minute).parse(), Ok(minute));
            prop_assert_eq!(String::from(set).parse(), Ok(set));
        }
    }
}
