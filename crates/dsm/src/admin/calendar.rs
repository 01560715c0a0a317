//! Days and times of commands, as in `BEGINDATE=TODAY-7 BEGINTIME=-00:30`.
//!
//! ```text
//!   11/26/2026  2026-11-26  TODAY  TODAY-7  -7  +1
//!   22:00  22:00:30  NOW  NOW-01:30  -01:30  +00:10
//! ```

use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, ToSpan as _};

/// Maximum number of days and hours that a time may lie before or after the present one.
const AWAY_MAX: i32 = 9999;

/// Parses a day, relative to `now`.
pub fn day(text: &str, now: DateTime) -> Option<Date> {
    let upper = text.trim().to_ascii_uppercase();
    let rest = upper.strip_prefix("TODAY").unwrap_or(&upper);
    if rest.is_empty() && !upper.is_empty() {
        return Some(now.date());
    }
    if let Some(days) = signed(rest) {
        return now.date().checked_add(days.days()).ok();
    }
    if let [month, rest] = rest.splitn(2, '/').collect::<Vec<_>>()[..] {
        let (day, year) = rest.split_once('/')?;
        let year: i16 = year.parse().ok()?;
        let year = if (0..100).contains(&year) { 2000 + year } else { year };
        return Date::new(year, month.parse().ok()?, day.parse().ok()?).ok();
    }
    rest.parse().ok()
}

/// Parses a time of the day, relative to `now`. A length before or after the present time can lead
/// to another day: the number of such days is returned, too.
pub fn time(text: &str, now: DateTime) -> Option<DateTime> {
    let upper = text.trim().to_ascii_uppercase();
    let rest = upper.strip_prefix("NOW").unwrap_or(&upper);
    if rest.is_empty() && !upper.is_empty() {
        return Some(now);
    }
    if let Some(length) = rest.strip_prefix(['-', '+']) {
        let span = length_of(length)?;
        let span = if rest.starts_with('-') { span.negate() } else { span };
        return now.checked_add(span).ok();
    }
    let clock = if rest.contains(':') { rest.to_owned() } else { format!("{rest}:00") };
    let clock = if clock.len() < 5 { format!("0{clock}") } else { clock };
    Some(now.date().to_datetime(clock.parse::<Time>().ok()?))
}

/// Parses `HH:MM`, or a number of hours.
fn length_of(text: &str) -> Option<Span> {
    let (hours, minutes) = text.split_once(':').unwrap_or((text, "0"));
    let minutes = minutes.split(':').next().unwrap_or_default();
    let hours: i32 = hours.parse().ok().filter(|hours| (0..=AWAY_MAX).contains(hours))?;
    let minutes: i32 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
    Some(hours.hours().minutes(minutes))
}

fn signed(text: &str) -> Option<i32> {
    let number = text.strip_prefix(['-', '+'])?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i32 = number.parse().ok().filter(|number| *number <= AWAY_MAX)?;
    Some(if text.starts_with('-') { -number } else { number })
}

/// The two ends of a time that a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    pub from: DateTime,
    pub to: DateTime,
}

/// Words of a command about one end of a period.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndWords<'a> {
    pub day: Option<&'a str>,
    pub time: Option<&'a str>,
}

/// Returns the time that `words` name. Without words it is `default`; a day without a time has the
/// time of `default`, and a time without a day is on the present day.
pub fn end(words: EndWords<'_>, default: DateTime, now: DateTime) -> Option<DateTime> {
    let EndWords { day: day_word, time: time_word } = words;
    match (day_word, time_word) {
        (None, None) => Some(default),
        (Some(word), None) => Some(day(word, now)?.to_datetime(default.time())),
        (None, Some(word)) => time(word, now),
        (Some(first), Some(second)) => {
            // A length before the present time counts from the same time of the named day.
            let moved = time(second, now)?;
            let days = now.date().until(day(first, now)?).ok()?;
            moved.checked_add(days).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime {
        "2026-11-26T15:20:30".parse().expect("a time")
    }

    #[test]
    fn days_have_many_forms() {
        for (text, expected) in [
            ("11/20/2026", Some("2026-11-20")),
            ("1/2/26", Some("2026-01-02")),
            ("2026-11-20", Some("2026-11-20")),
            ("today", Some("2026-11-26")),
            ("TODAY-7", Some("2026-11-19")),
            ("-7", Some("2026-11-19")),
            ("+4", Some("2026-11-30")),
            ("", None),
            ("today7", None),
            ("13/40/2026", None),
            ("-99999999", None),
        ] {
            let expected = expected.map(|day| day.parse::<Date>().expect("a day"));
            assert_eq!(day(text, now()), expected, "{text}");
        }
    }

    #[test]
    fn times_have_many_forms() {
        for (text, expected) in [
            ("22:00", Some("2026-11-26T22:00:00")),
            ("7:05", Some("2026-11-26T07:05:00")),
            ("22:00:30", Some("2026-11-26T22:00:30")),
            ("now", Some("2026-11-26T15:20:30")),
            ("NOW-01:30", Some("2026-11-26T13:50:30")),
            ("-16:00", Some("2026-11-25T23:20:30")),
            ("+00:10", Some("2026-11-26T15:30:30")),
            ("", None),
            ("25:00", None),
            ("-1:99", None),
            ("-\u{e9}", None),
        ] {
            let expected = expected.map(|time| time.parse::<DateTime>().expect("a time"));
            assert_eq!(time(text, now()), expected, "{text}");
        }
    }

    #[test]
    fn an_end_takes_what_is_missing_from_its_default() {
        let default: DateTime = "2026-11-26T00:00:00".parse().expect("a time");
        let shown =
            |day, time| end(EndWords { day, time }, default, now()).map(|end| end.to_string());
        assert_eq!(shown(None, None).as_deref(), Some("2026-11-26T00:00:00"));
        assert_eq!(shown(Some("-1"), None).as_deref(), Some("2026-11-25T00:00:00"));
        assert_eq!(shown(None, Some("-01:00")).as_deref(), Some("2026-11-26T14:20:30"));
        assert_eq!(shown(Some("-1"), Some("08:00")).as_deref(), Some("2026-11-25T08:00:00"));
        assert_eq!(shown(Some("today"), Some("now")).as_deref(), Some("2026-11-26T15:20:30"));
        assert_eq!(shown(Some("never"), None), None);
    }
}
