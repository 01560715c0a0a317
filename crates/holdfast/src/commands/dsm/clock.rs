//! Moments of the server's clock, by the clock on the wall of this machine.

use dsm::forms::Moment;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::{ServerTime, Timestamp};

use crate::error::CommandError;

/// Returns the moment by the clock on the wall.
pub(super) fn moment(time: ServerTime) -> Moment {
    fn small(number: i8) -> u8 {
        u8::try_from(number).unwrap_or(0)
    }
    let zoned = crate::moment::zoned(time);
    Moment {
        year: zoned.year(),
        month: small(zoned.month()),
        day: small(zoned.day()),
        hour: small(zoned.hour()),
        minute: small(zoned.minute()),
        second: small(zoned.second()),
    }
}

/// Returns the moment of a time of a file.
pub(super) fn of_file(time: Timestamp) -> Moment {
    moment(ServerTime(time.secs.saturating_mul(1_000_000)))
}

/// Returns the time of a moment, in RFC 3339 to the second, which means the end of the second.
pub(super) fn rfc3339(moment: Moment) -> Result<String, CommandError> {
    fn small(number: u8) -> i8 {
        i8::try_from(number).unwrap_or(i8::MAX)
    }
    let Moment { year, month, day, hour, minute, second } = moment;
    let wrong = |_| CommandError::new("there is no such day or time");
    let civil =
        DateTime::new(year, small(month), small(day), small(hour), small(minute), small(second), 0)
            .map_err(wrong)?;
    let zoned = civil.to_zoned(TimeZone::system()).map_err(wrong)?;
    Ok(zoned.timestamp().to_string())
}

/// Returns the server's time of a moment: the end of its second.
pub(super) fn server_time(moment: Moment) -> Result<ServerTime, CommandError> {
    let text = rfc3339(moment)?;
    crate::moment::parse(&text).map_err(|error| CommandError::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_stands_for_its_second() {
        let time = ServerTime::from_secs(1_790_000_000);
        let end = server_time(moment(time)).expect("a time");
        assert_eq!(end.secs(), time.secs());
        assert!(end > time);
    }

    #[test]
    fn a_day_that_is_none_is_refused() {
        let moment = Moment { year: 2026, month: 2, day: 30, hour: 0, minute: 0, second: 0 };
        assert!(rfc3339(moment).is_err());
    }
}
