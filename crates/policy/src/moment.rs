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
