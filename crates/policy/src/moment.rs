//! Times as people write them.
//!
//! ```text
//!   2026-11-20T18:00:00Z   RFC 3339, with an offset or Z
//!   2026-11-20 18:00       local time; also 18:00:05, and a T instead of the space
//!   2026-11-20             the end of that day
//!   yesterday 18:00        local time; also today 18:00
//!   yesterday, today       the end of that day
//!   now
//!   30m 12h 3d 2w          this long ago; also 90s and 1h30m
//! ```
//!
//! A day stands for its end, 23:59:59, or for its beginning where something begins (`--from`). A
//! time that is given to the second stands for the end of that second: a version that a list shows
//! with the backup time 18:00:05 exists at 18:00:05.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, Timestamp, Zoned};
use model::ServerTime;

/// Microseconds from the beginning of a second to its last moment.
const LAST_MICROS: i64 = 999_999;

/// Error for a text that is no time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a time must be 2026-11-20, '2026-11-20 18:00', RFC 3339, 'yesterday 18:00', now, \
     or a length of time before now: 30m, 12h, 3d, 2w"
)]
pub struct MomentError;

/// Parses a moment at which something begins: a day stands for its beginning.
pub fn parse_start(text: &str, now: &Zoned) -> Result<ServerTime, MomentError> {
    match parse_day(text.trim(), now) {
        Ok(day) => Ok(server_time(local(day.to_datetime(Time::midnight()), now)?)),
        Err(_) => parse(text, now),
    }
}

/// Parses a moment, relative to `now` and in its time zone.
pub fn parse(text: &str, now: &Zoned) -> Result<ServerTime, MomentError> {
    let text = text.trim();
    if text == "now" {
        return Ok(server_time(now.timestamp()));
    }
    if let Some(back) = span(text) {
        let then = now.checked_sub(back).map_err(|_| MomentError)?;
        return Ok(server_time(then.timestamp()));
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(to_end_of_second(timestamp, text));
    }
    let (day, time) = match text.split_once([' ', 'T']) {
        Some((day, time)) => (day, Some(time.trim())),
        None => (text, None),
    };
    let day = parse_day(day, now)?;
    let Some(time) = time else {
        let last = day.at(23, 59, 59, 0);
        return Ok(to_end_of_second(local(last, now)?, "23:59:59"));
    };
    Ok(to_end_of_second(local(day.to_datetime(parse_time(time)?), now)?, time))
}

fn parse_day(text: &str, now: &Zoned) -> Result<Date, MomentError> {
    match text {
        "today" => Ok(now.date()),
        "yesterday" => now.date().yesterday().map_err(|_| MomentError),
        text => crate::schedule::parse_day(text).ok_or(MomentError),
    }
}

fn parse_time(text: &str) -> Result<Time, MomentError> {
    let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
    let is_plain = |byte: u8| byte.is_ascii_digit() || b":.,".contains(&byte);
    // The parser would also accept an hour alone, and leave out an offset after the time.
    if starts_well && text.contains(':') && text.bytes().all(is_plain) {
        text.parse().map_err(|_| MomentError)
    } else {
        Err(MomentError)
    }
}

fn local(time: DateTime, now: &Zoned) -> Result<Timestamp, MomentError> {
    let zoned = time.to_zoned(now.time_zone().clone()).map_err(|_| MomentError)?;
    Ok(zoned.timestamp())
}

/// Returns the last moment of the second `time` if `text` gives seconds without a fraction.
fn to_end_of_second(time: Timestamp, text: &str) -> ServerTime {
    // An offset may have a colon, too.
    let time_of_day = text.rsplit(['T', 't', ' ']).next().unwrap_or(text);
    let clock = time_of_day.split(['+', '-']).next().unwrap_or(time_of_day);
    let to_the_second = clock.matches(':').count() >= 2 && !clock.contains(['.', ',']);
    let ServerTime(micros) = server_time(time);
    ServerTime(if to_the_second { micros + LAST_MICROS } else { micros })
}

fn server_time(time: Timestamp) -> ServerTime {
    ServerTime(time.as_microsecond())
}

/// Parses a length of time, as in `3d` or `1h 30m`.
pub fn span(text: &str) -> Option<Span> {
    // The parser would also accept a time of day, and a fraction.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b' ';
    let starts_well = text.starts_with(|first: char| first.is_ascii_digit());
    if !starts_well || !text.bytes().all(is_plain) {
        return None;
    }
    let span: Span = text.parse().ok()?;
    // Months and years are refused because they differ in length. The span of "3 days ago" is
    // negative.
    let is_fixed = span.get_years() == 0 && span.get_months() == 0;
    (is_fixed && !span.is_negative()).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Friday in winter, in a zone one hour ahead of UTC.
    const NOW: &str = "2026-11-20T12:30:00.25[Europe/Berlin]";

    /// Returns a time in UTC.
    fn shown(time: ServerTime) -> String {
        Timestamp::from_microsecond(time.0)
            .expect("a time near the present one")
            .to_string()
    }

    #[track_caller]
    fn check_from(now: &str, text: &str, expected: &str) {
        let now = now.parse::<Zoned>().expect("a zoned time");
        let time = parse(text, &now).map(shown);
        assert_eq!(time.as_deref(), Ok(expected), "{text}");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        check_from(NOW, text, expected);
    }

    #[test]
    fn exact_times_are_taken_as_they_are() {
        check("2026-11-20T18:00:00.5Z", "2026-11-20T18:00:00.5Z");
        check("2026-11-20T18:00:00.000+01:00", "2026-11-20T17:00:00Z");
        check("2026-11-19 18:00", "2026-11-19T17:00:00Z");
        check("2026-11-19T18:00", "2026-11-19T17:00:00Z");
        check("yesterday 18:00", "2026-11-19T17:00:00Z");
        check("today 00:00", "2026-11-19T23:00:00Z");
        check("now", "2026-11-20T11:30:00.25Z");
    }

    #[test]
    fn a_day_means_its_end() {
        check("2026-11-18", "2026-11-18T22:59:59.999999Z");
        check("yesterday", "2026-11-19T22:59:59.999999Z");
        check("today", "2026-11-20T22:59:59.999999Z");
    }

    #[test]
    fn a_day_at_which_something_begins_means_its_beginning() {
        let now = NOW.parse::<Zoned>().expect("a zoned time");
        let start = |text| parse_start(text, &now).map(shown);
        assert_eq!(start("2026-11-18").as_deref(), Ok("2026-11-17T23:00:00Z"));
        assert_eq!(start("yesterday").as_deref(), Ok("2026-11-18T23:00:00Z"));
        assert_eq!(start("yesterday 18:00").as_deref(), Ok("2026-11-19T17:00:00Z"));
        assert_eq!(start("2026-11-19T18:00:05Z").as_deref(), Ok("2026-11-19T18:00:05.999999Z"));
        assert_eq!(start("30m").as_deref(), Ok("2026-11-20T11:00:00.25Z"));
        assert!(start("someday").is_err());
    }

    #[test]
    fn a_time_of_day_counts_where_something_begins() {
        let now = NOW.parse::<Zoned>().expect("a zoned time");
        let start = |text| parse_start(text, &now).map(shown);
        assert_eq!(start("2026-11-18 11:41").as_deref(), Ok("2026-11-18T10:41:00Z"));
        assert_eq!(start("2026-11-18T11:41:05").as_deref(), Ok("2026-11-18T10:41:05.999999Z"));
        assert_eq!(start("2026-11-18T11:41+05:00").as_deref(), Ok("2026-11-18T06:41:00Z"));
        assert_eq!(start("2026-11-18T01:41:00.0+05:00").as_deref(), Ok("2026-11-17T20:41:00Z"));
        for text in ["2026-11-18 11", "2026-11-18T11", "2026-11-18[Asia/Tokyo]"] {
            assert_eq!(start(text), Err(MomentError), "{text}");
        }
    }

    #[test]
    fn a_second_means_its_end() {
        check("2026-11-19 18:00:05", "2026-11-19T17:00:05.999999Z");
        check("2026-11-19T18:00:05Z", "2026-11-19T18:00:05.999999Z");
        check("2026-11-19T18:00:05+05:30", "2026-11-19T12:30:05.999999Z");
    }

    #[test]
    fn lengths_count_back_from_now() {
        check("90s", "2026-11-20T11:28:30.25Z");
        check("30m", "2026-11-20T11:00:00.25Z");
        check("12h", "2026-11-19T23:30:00.25Z");
        check("3d", "2026-11-17T11:30:00.25Z");
        check("2w", "2026-11-06T11:30:00.25Z");
        check("1h 30m", "2026-11-20T10:00:00.25Z");
        check("3 days", "2026-11-17T11:30:00.25Z");
    }

    /// Clocks were set back on 2026-10-25, so that noon of the day before is 25 hours away.
    #[test]
    fn days_follow_the_calendar() {
        let now = "2026-10-25T12:00:00[Europe/Berlin]";
        check_from(now, "1d", "2026-10-24T10:00:00Z");
        check_from(now, "24h", "2026-10-24T11:00:00Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let now = NOW.parse::<Zoned>().expect("a zoned time");
        for text in [
            "",
            "the-day-before",
            "d",
            "-3d",
            "3",
            "3y",
            "3mo",
            "3 days ago",
            "1.5h",
            "18:00:05",
            "2026-13-01",
            "2026-11-20 25:00",
            "2026-11-20 18",
            "tomorrow",
            "yesterday noon",
            "yesterday 18:00+05:00",
            "2026-11-18[Asia/Tokyo]",
            "99999999999999d",
            "9000000d",
            "3\u{e9}",
        ] {
            assert_eq!(parse(text, &now), Err(MomentError), "{text}");
        }
    }
}
