//! Blackouts: times in which nothing starts.

use std::fmt;
use std::str::FromStr;

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::{Weekdays, WordsError, parse_time, time_words};
use super::zone::{self, MINUTE_MICROS};

/// A time in which nothing starts, by the time zone of the schedule, such as `mon-fri 08:00-18:00`
/// or `2026-12-24..2026-12-26`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Blackout {
    /// From `from` to `to` on each of the days. It ends on the next day if `to` is not after
    /// `from`.
    Daily { weekdays: Weekdays, from: Time, to: Time },
    /// From the first moment up to the second, which does not belong to it.
    Between { from: DateTime, to: DateTime },
}

const EXPECTED: &str = "a blackout (mon-fri 08:00-18:00, 22:00-06:00, 2026-12-24..2026-12-26, or \
                        2026-12-24T12:00..2026-12-26T06:00)";

/// Returns the end of the blackout in which `moment` is; `None` if it is in none. Where blackouts
/// overlap, the latest end counts. The end is after `moment`.
pub(super) fn end_of(
    blackouts: &[Blackout],
    zone: &TimeZone,
    moment: ServerTime,
) -> Option<ServerTime> {
    let wall = zone::wall(moment, zone);
    let ends = blackouts.iter().filter_map(|blackout| blackout.end(wall));
    let end = zone::moment(ends.max()?, zone).unwrap_or(ServerTime::MAX);
    // The first of two times on the wall that are the same may be over already.
    Some(end.max(ServerTime(moment.0.saturating_add(MINUTE_MICROS))))
}

impl Blackout {
    /// Returns the end of the blackout, if the time `wall` belongs to it.
    fn end(&self, wall: DateTime) -> Option<DateTime> {
        match self {
            Self::Between { from, to } => (*from <= wall && wall < *to).then_some(*to),
            Self::Daily { weekdays, from, to } => {
                let span = |day: Date| {
                    let last = if to > from { day } else { day.saturating_add(1.day()) };
                    (day.to_datetime(*from), last.to_datetime(*to))
                };
                let yesterday = wall.date().saturating_sub(1.day());
                [wall.date(), yesterday]
                    .into_iter()
                    .filter(|day| weekdays.has(day.weekday()))
                    .map(span)
                    .find_map(|(begin, end)| (begin <= wall && wall < end).then_some(end))
            }
        }
    }
}

impl FromStr for Blackout {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Self, WordsError> {
        let text = text.trim();
        let fail = || WordsError::new(text, EXPECTED);
        if let Some((from, to)) = text.split_once("..") {
            let from = parse_moment(from, false).ok_or_else(fail)?;
            let to = parse_moment(to, true).ok_or_else(fail)?;
            return if from < to { Ok(Self::Between { from, to }) } else { Err(fail()) };
        }
        let (days, times) = match text.rsplit_once(' ') {
            Some((days, times)) => (days.parse()?, times),
            None => (Weekdays::all(), text),
        };
        let (from, to) = times.split_once('-').ok_or_else(fail)?;
        let time = |word| parse_time(word).map_err(|_| fail());
        let to = if to == "24:00" { Time::midnight() } else { time(to)? };
        Ok(Self::Daily { weekdays: days, from: time(from)?, to })
    }
}

/// Parses a day or a moment on the wall. The last day of a blackout belongs to it as a whole. A
/// moment with seconds or before the year 0 is refused, because a blackout is not written with it.
fn parse_moment(text: &str, is_end: bool) -> Option<DateTime> {
    let text = text.trim();
    let moment = match zone::parse_day(text) {
        Some(day) => {
            let day = if is_end { day.tomorrow().ok()? } else { day };
            day.at(0, 0, 0, 0)
        }
        None => zone::parse_wall(text)?,
    };
    (moment.second() == 0 && moment.year() >= 0).then_some(moment)
}

impl fmt::Display for Blackout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daily { weekdays, from, to } => {
                if !weekdays.is_all() {
                    write!(out, "{weekdays} ")?;
                }
                write!(out, "{}-{}", time_words(*from), time_words(*to))
            }
            Self::Between { from, to } => {
                let words = |at: &DateTime| at.strftime("%Y-%m-%dT%H:%M").to_string();
                write!(out, "{}..{}", words(from), words(to))
            }
        }
    }
}

impl fmt::Debug for Blackout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl TryFrom<String> for Blackout {
    type Error = WordsError;

    fn try_from(text: String) -> Result<Self, WordsError> {
        text.parse()
    }
}

impl From<Blackout> for String {
    fn from(blackout: Blackout) -> Self {
        blackout.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Blackout {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn blackouts_are_read_and_written() {
        let same = |text: &str| parse(text).to_string();
        assert_eq!(same("mon-fri 8:00-18:00"), "mon-fri 08:00-18:00");
        assert_eq!(same("22:00-06:00"), "22:00-06:00");
        assert_eq!(same("sat 18:00-24:00"), "sat 18:00-00:00");
        assert_eq!(same("2026-12-24..2026-12-26"), "2026-12-24T00:00..2026-12-27T00:00");
        let moments = "2026-12-24T12:00..2026-12-26T06:00";
        assert_eq!(same(moments), moments);
        let offset = "2026-12-24T12:00+05:00..2026-12-26T06:00";
        let within_a_minute = "2026-12-24T12:00:10..2026-12-24T12:00:50";
        let long_ago = "-000100-01-01..2026-12-26";
        for wrong in ["", "mon", "08:00", "x 08:00-09:00", "2026-12-26..2026-12-24", "1-2"]
            .into_iter()
            .chain([offset, within_a_minute, long_ago])
        {
            assert!(wrong.parse::<Blackout>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_blackout_over_midnight_belongs_to_the_day_on_which_it_begins() {
        let night = parse("fri 22:00-06:00");
        let end = |text: &str| night.end(text.parse().expect("a time")).map(|end| end.to_string());
        assert_eq!(end("2026-11-27T21:59"), None);
        assert_eq!(end("2026-11-27T22:00").as_deref(), Some("2026-11-28T06:00:00"));
        assert_eq!(end("2026-11-28T05:59").as_deref(), Some("2026-11-28T06:00:00"));
        assert_eq!(end("2026-11-28T06:00"), None);
        assert_eq!(end("2026-11-28T22:00"), None);
    }
}
