//! Times on the wall of a time zone, and the moments that they mean.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use model::ServerTime;

/// Number of microseconds in a minute.
pub(super) const MINUTE_MICROS: i64 = 60_000_000;

/// Parses a day and a time on the wall, as in `2026-11-27T06:00`. A day alone means its beginning.
pub fn parse_wall(text: &str) -> Option<DateTime> {
    // The parser would also accept an offset or the name of a zone, and leave it out.
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"-T: ".contains(&byte);
    text.bytes().all(is_plain).then(|| text.parse().ok()).flatten()
}

/// Parses a day, as in `2026-12-31`.
pub fn parse_day(text: &str) -> Option<Date> {
    // The parser would also accept a day with a time, and leave the time out.
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(is_plain).then(|| text.parse().ok()).flatten()
}

/// Returns the time on the wall at `moment`. A moment beyond the calendar (before the year -9999 or
/// after 9999) counts as the calendar's first or last.
pub(super) fn wall(moment: ServerTime, zone: &TimeZone) -> DateTime {
    zone.to_datetime(timestamp(moment))
}

/// Returns the moment that `wall` means. Of a time that comes twice it is the first. For a time
/// that is skipped it is the moment of the change. Returns `None` at the ends of the calendar.
pub(super) fn moment(wall: DateTime, zone: &TimeZone) -> Option<ServerTime> {
    let at = match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok()?,
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok()?,
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset that holds after the change, a skipped time lies before the change.
            let before_change = after.to_timestamp(wall).ok()?;
            zone.following(before_change).next()?.timestamp()
        }
    };
    Some(ServerTime(at.as_microsecond()))
}

fn timestamp(moment: ServerTime) -> Timestamp {
    // The last second of the calendar takes no fractions as microseconds.
    let bounds = [Timestamp::MIN, Timestamp::MAX].map(|end| end.as_second() * 1_000_000);
    let micros = moment.0.clamp(bounds[0], bounds[1]);
    Timestamp::from_microsecond(micros).expect("the value is within its bounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(zone: &TimeZone, text: &str) -> String {
        let moment = moment(text.parse().expect("a time"), zone).expect("is in the calendar");
        timestamp(moment).to_string()
    }

    #[test]
    fn a_time_that_is_skipped_is_the_moment_of_the_change_and_a_double_one_the_first() {
        let berlin = TimeZone::get("Europe/Berlin").expect("is known");
        assert_eq!(at(&berlin, "2026-03-29T01:59"), "2026-03-29T00:59:00Z");
        assert_eq!(at(&berlin, "2026-03-29T02:00"), "2026-03-29T01:00:00Z");
        assert_eq!(at(&berlin, "2026-03-29T02:30"), "2026-03-29T01:00:00Z");
        assert_eq!(at(&berlin, "2026-03-29T03:00"), "2026-03-29T01:00:00Z");
        assert_eq!(at(&berlin, "2026-10-25T02:30"), "2026-10-25T00:30:00Z");
        assert_eq!(at(&berlin, "2026-10-25T03:00"), "2026-10-25T02:00:00Z");
        // Samoa left out 30 December 2011.
        let apia = TimeZone::get("Pacific/Apia").expect("is known");
        assert_eq!(at(&apia, "2011-12-30T12:00"), "2011-12-30T10:00:00Z");
        assert_eq!(at(&apia, "2011-12-31T00:00"), "2011-12-30T10:00:00Z");
    }
}
