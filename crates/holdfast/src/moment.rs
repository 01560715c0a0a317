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
    #[error("a length of time must be a number above 0 with s, m, h, d or w, as in 24h")]
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
