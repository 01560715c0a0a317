//! Times as people write them, by this machine's clock and zone, and as the program shows them to
//! people. What people may write is in [`policy::moment`].

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use model::{LENGTH_MAX, ServerTime};
use policy::moment::{MomentError, parse as parse_from, parse_start as parse_start_from, span};

const DAY_SECS: i64 = 24 * 3600;
pub(crate) const NEVER: &str = "never";

/// Error for a text that is no length of time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum LengthError {
    #[error("a length of time must be a number with s, m, h, d or w, as in 24h")]
    Form,
    #[error("a length of time must be at most 3650d, which are ten years")]
    TooLong,
}

/// Parses a moment, relative to the present time, in the local time zone.
pub(crate) fn parse(text: &str) -> Result<ServerTime, MomentError> {
    let now = Timestamp::from_microsecond(sys::clock::now().0).map_err(|_| MomentError)?;
    parse_from(text, &now.to_zoned(TimeZone::system()))
}

/// Parses a moment at which something begins: a day stands for its beginning.
pub(crate) fn parse_start(text: &str) -> Result<ServerTime, MomentError> {
    let now = Timestamp::from_microsecond(sys::clock::now().0).map_err(|_| MomentError)?;
    parse_start_from(text, &now.to_zoned(TimeZone::system()))
}

/// Parses a length of time, as in `24h`, into whole seconds, at most [`LENGTH_MAX`]. A day has 24
/// hours.
pub(crate) fn parse_length(text: &str) -> Result<i64, LengthError> {
    let span = span(text.trim()).ok_or(LengthError::Form)?;
    let secs = span.total((jiff::Unit::Second, jiff::SpanRelativeTo::days_are_24_hours()));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fractions do not count, and a span is below 2^53 s"
    )]
    let secs = secs.map_err(|_| LengthError::Form)? as i64;
    match u64::try_from(secs) {
        Ok(0) | Err(_) => Err(LengthError::Form),
        Ok(length) if length > LENGTH_MAX.as_secs() => Err(LengthError::TooLong),
        Ok(_) => Ok(secs),
    }
}

/// Returns `time` for people: local time, to the second.
pub(crate) fn shown(time: ServerTime) -> String {
    shown_in(time, &TimeZone::system())
}

/// Returns `time` by the clock on the wall of the zone with this name, with its offset if the clock
/// shows this time twice.
pub(crate) fn in_zone(time: ServerTime, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let shown = shown_in(time, &zone);
    match Timestamp::from_microsecond(time.0).map(|timestamp| timestamp.to_zoned(zone.clone())) {
        Ok(zoned) if zone.to_ambiguous_timestamp(zoned.datetime()).is_ambiguous() => {
            format!("{shown}{}", zoned.strftime("%:z"))
        }
        _ => shown,
    }
}

/// Returns `time` in the local time zone.
pub(crate) fn zoned(time: ServerTime) -> Zoned {
    Timestamp::from_microsecond(time.0)
        .unwrap_or_default()
        .to_zoned(TimeZone::system())
}

fn shown_in(time: ServerTime, zone: &TimeZone) -> String {
    match Timestamp::from_microsecond(time.0) {
        Ok(timestamp) => timestamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => outside(time.secs(), 0),
    }
}

/// Returns the time of day of `time` for people, to the second.
pub(crate) fn time_of_day(time: ServerTime) -> String {
    let shown = shown(time);
    shown.split_once(' ').map_or(shown.clone(), |(_, time)| time.to_owned())
}

/// Returns `time` for people: without its date if it is on the day of `before`.
pub(crate) fn shown_after(time: ServerTime, before: ServerTime) -> String {
    let date = |time| shown(time).split_once(' ').map(|(date, _)| date.to_owned());
    if date(time) == date(before) { time_of_day(time) } else { shown(time) }
}

pub(crate) fn shown_or_never(time: Option<ServerTime>) -> String {
    time.map_or_else(|| NEVER.to_owned(), shown)
}

/// Returns `time` for programs: RFC 3339, UTC.
pub(crate) fn rfc3339(time: ServerTime) -> String {
    match Timestamp::from_microsecond(time.0) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => outside(time.secs(), 0),
    }
}

/// Returns the second of `time` in RFC 3339. As a time of a command it means the end of the second.
pub(crate) fn rfc3339_to_second(time: ServerTime) -> String {
    rfc3339(ServerTime::from_secs(time.secs()))
}

/// Returns a file's time for programs: RFC 3339, UTC, with all nine digits.
pub(crate) fn file_time(time: model::Timestamp) -> String {
    let nanos = i32::try_from(time.nanos).unwrap_or(0);
    match Timestamp::new(time.secs, nanos) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => outside(time.secs, time.nanos),
    }
}

/// Returns a time outside the years of `Timestamp`, which file systems can hold, in the notation of
/// GNU date.
fn outside(secs: i64, nanos: u32) -> String {
    format!("@{secs}.{nanos:09}")
}

/// Returns true if more than `days` lie between `time` and `now`.
pub(crate) fn is_older(time: ServerTime, now: ServerTime, days: i64) -> bool {
    now.secs().saturating_sub(time.secs()) > days * DAY_SECS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Friday in winter, in a zone one hour ahead of UTC.
    const NOW: &str = "2026-11-20T12:30:00.25[Europe/Berlin]";

    #[track_caller]
    fn check_from(now: &str, text: &str, expected: &str) {
        let now = now.parse::<Zoned>().expect("a zoned time");
        let time = parse_from(text, &now).map(rfc3339);
        assert_eq!(time.as_deref(), Ok(expected), "{text}");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        check_from(NOW, text, expected);
    }

    #[test]
    fn any_text_is_a_time_or_refused() {
        let now = NOW.parse::<Zoned>().expect("a zoned time");
        let seeds = ["2026-11-20T18:00:00+01:00", "yesterday 18:00", "1h 30m", "2026-11-20", "2w"];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        fuzz::exercise("moment", &seeds, &|input| {
            let Ok(text) = str::from_utf8(input) else { return };
            if let Ok(time) = parse_from(text, &now) {
                let again = parse_from(&rfc3339(time), &now).expect("a shown time can be read");
                assert_eq!(again.secs(), time.secs(), "{text}");
            }
            if let Ok(secs) = parse_length(text) {
                assert!(secs > 0, "{text}");
            }
        });
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
        let start = |text| parse_start_from(text, &now).map(rfc3339);
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
        let start = |text| parse_start_from(text, &now).map(rfc3339);
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
            assert_eq!(parse_from(text, &now), Err(MomentError), "{text}");
        }
    }

    #[test]
    fn lengths_are_seconds() {
        for (text, expected) in [
            ("1s", 1),
            ("90m", 5_400),
            ("24h", 86_400),
            ("7d", 604_800),
            ("2w", 1_209_600),
            ("1h30m", 5_400),
        ] {
            assert_eq!(parse_length(text), Ok(expected));
        }
        for text in ["", "0h", "24", "h", "-1h", "1y", "1mo", "500ms"] {
            assert_eq!(parse_length(text), Err(LengthError::Form), "{text}");
        }
        assert_eq!(parse_length("3650d"), Ok(315_360_000));
        assert_eq!(parse_length("3651d"), Err(LengthError::TooLong));
    }

    #[test]
    fn times_are_shown_whatever_they_are() {
        let zone = TimeZone::get("Europe/Berlin").expect("a known zone");
        assert_eq!(shown_in(ServerTime(0), &zone), "1970-01-01 01:00:00");
        assert_eq!(shown_in(ServerTime::MAX, &zone), "@9223372036854.000000000");
        assert_eq!(rfc3339(ServerTime(1_500_000)), "1970-01-01T00:00:01.5Z");
        let before = model::Timestamp { secs: -1, nanos: 250_000_001 };
        assert_eq!(file_time(before), "1969-12-31T23:59:59.250000001Z");
        let beyond = model::Timestamp { secs: i64::MAX, nanos: 7 };
        assert_eq!(file_time(beyond), "@9223372036854775807.000000007");
    }

    /// A window of an hour in the night of the change looked like one of no length.
    #[test]
    fn a_time_that_comes_twice_has_its_offset() {
        for (time, expected) in [
            ("2026-10-24T23:59:59Z", "2026-10-25 01:59:59"),
            ("2026-10-25T00:30:00Z", "2026-10-25 02:30:00+02:00"),
            ("2026-10-25T01:30:00Z", "2026-10-25 02:30:00+01:00"),
            ("2026-10-25T02:00:00Z", "2026-10-25 03:00:00"),
            ("2026-03-29T01:00:00Z", "2026-03-29 03:00:00"),
        ] {
            let time: Timestamp = time.parse().expect("a time");
            let time = ServerTime(time.as_microsecond());
            assert_eq!(in_zone(time, "Europe/Berlin"), expected);
        }
        assert_eq!(in_zone(ServerTime::MAX, "Europe/Berlin"), "@9223372036854.000000000");
    }

    #[test]
    fn age_is_counted_in_whole_days() {
        let day = 86_400;
        let now = ServerTime::from_secs(10 * day);
        assert!(!is_older(ServerTime::from_secs(8 * day), now, 2));
        assert!(is_older(ServerTime::from_secs(8 * day - 1), now, 2));
        assert!(!is_older(ServerTime::from_secs(11 * day), now, 2));
    }
}
