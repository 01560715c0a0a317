//! Times of schedules on the command line.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use model::ServerTime;
use policy::schedule::{
    Blackout, Calendar, Days, Definition, Every, Interval, MonthDays, Months,
    SPREAD_PERCENT_DEFAULT, Starts, Times, Timing, WINDOW_MINUTES_DEFAULT, Weekdays, Weeks,
    parse_day, parse_wall, time_zone,
};

use crate::error::CommandError;
use crate::moment;

/// Number of minutes in a day.
const DAY_MINUTES: u32 = 24 * 60;

/// When it is done
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Times")]
pub(super) struct TimingArgs {
    /// Times of the day, as in 22:00 or 04:00,16:00
    #[arg(long, value_name = "TIMES", conflicts_with_all = ["every", "start"])]
    time: Option<Times>,
    /// Days of the week, as in mon-fri or sat,sun [default: any]
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["every", "monthdays"])]
    days: Option<Weekdays>,
    /// Weeks of the month, as in first or first,last; days 1 to 7 are the first week
    /// [default: any]
    #[arg(long, value_name = "WEEKS", conflicts_with_all = ["every", "monthdays"])]
    weeks: Option<Weeks>,
    /// Days of the month, as in 1,15,last or last-1
    #[arg(long, value_name = "DAYS", conflicts_with = "every")]
    monthdays: Option<MonthDays>,
    /// Months, as in jan or jan-mar,oct [default: any]
    #[arg(long, value_name = "MONTHS", conflicts_with = "every")]
    months: Option<Months>,
    /// Interval, as in 30m, 4h, 2d, 1w or 1mo. Minutes and hours count as they elapse; days, weeks
    /// and months keep the time of day of the zone
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    every: Option<Every>,
    /// First time of the interval, as in 2026-11-27T06:00, by the time zone of the schedule
    /// [default: now]
    #[arg(long, value_name = "DATETIME", value_parser = parse_start)]
    start: Option<DateTime>,
    /// Length of the window in which the work may begin [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = moment::parse_length)]
    window: Option<i64>,
    /// Part of the window over which the nodes' starts are spread, in percent [default: 25]
    #[arg(long, value_name = "PERCENT")]
    spread: Option<u8>,
    /// Last day on which something is due, as in 2026-12-31; none for no end [default: none]
    #[arg(long, value_name = "DATE", value_parser = parse_until)]
    until: Option<LastDay>,
    /// Time in which nothing begins, as in 'mon-fri 08:00-18:00' or 2026-12-24..2026-12-26; may be
    /// given several times; none removes all
    #[arg(long, value_name = "TIMES")]
    blackout: Vec<String>,
    /// Time zone, as in Europe/Berlin [default: the zone of this machine]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
}

/// Last day on which something is due; `None` if there is no end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LastDay(Option<Date>);

/// Parses an interval.
fn parse_every(text: &str) -> Result<Every, String> {
    let wrong = || "an interval is a number with m, h, d, w or mo, as in 4h".to_owned();
    let split = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let times =
        |factor: u32| number.checked_mul(factor).filter(|count| *count > 0).ok_or_else(wrong);
    match unit {
        "m" => Ok(Every::Minutes(times(1)?)),
        "h" => Ok(Every::Minutes(times(60)?)),
        "d" => Ok(Every::Days(times(1)?)),
        "w" => Ok(Every::Days(times(7)?)),
        "mo" => Ok(Every::Months(times(1)?)),
        _ => Err(wrong()),
    }
}

fn parse_start(text: &str) -> Result<DateTime, String> {
    parse_wall(text).ok_or_else(|| {
        "give a day and a time by the schedule's time zone (--zone), as in 2026-11-27T06:00"
            .to_owned()
    })
}

fn parse_until(text: &str) -> Result<LastDay, String> {
    if text == "none" {
        return Ok(LastDay(None));
    }
    let day = parse_day(text).ok_or("give a day without a time, as in 2026-12-31, or none");
    Ok(LastDay(Some(day?)))
}

/// Converts seconds to minutes. Fails unless they are whole minutes.
pub(in crate::commands::admin) fn minutes(secs: i64, option: &str) -> Result<u32, CommandError> {
    let minutes = u32::try_from(secs / 60).ok().filter(|minutes| *minutes > 0 && secs % 60 == 0);
    minutes.ok_or_else(|| {
        CommandError::new(format!("{option} takes whole minutes, at least one (1m)"))
    })
}

/// Returns the name of this machine's time zone.
pub(in crate::commands::admin) fn local_zone() -> String {
    let zone = TimeZone::system();
    zone.iana_name().unwrap_or("UTC").to_owned()
}

impl TimingArgs {
    pub(super) fn zone(&self) -> Result<String, CommandError> {
        Ok(self.zone.clone().unwrap_or_else(local_zone))
    }

    pub(super) fn timing(&self) -> Result<Timing, CommandError> {
        let starts = self.starts(None, &self.zone()?)?.ok_or_else(|| {
            CommandError::new("say when it is done, with --time TIMES or --every TIME")
        })?;
        let mut timing = Timing {
            starts,
            window_minutes: WINDOW_MINUTES_DEFAULT,
            spread_percent: SPREAD_PERCENT_DEFAULT,
            last_day: None,
            blackouts: Vec::new(),
        };
        self.change_rest(&mut timing)?;
        Ok(timing)
    }

    /// Changes what is named.
    pub(super) fn change(&self, definition: &mut Definition) -> Result<(), CommandError> {
        if let Some(zone) = &self.zone {
            definition.zone.clone_from(zone);
        }
        if let Some(starts) = self.starts(Some(&definition.timing.starts), &definition.zone)? {
            definition.timing.starts = starts;
        }
        self.change_rest(&mut definition.timing)
    }

    fn change_rest(&self, timing: &mut Timing) -> Result<(), CommandError> {
        if let Some(secs) = self.window {
            timing.window_minutes = minutes(secs, "--window")?;
        }
        timing.spread_percent = self.spread.unwrap_or(timing.spread_percent);
        if let Some(LastDay(day)) = self.until {
            timing.last_day = day;
        }
        if !self.blackout.is_empty() {
            let given = self.blackout.iter().filter(|text| *text != "none");
            let parsed = given.map(|text| text.parse::<Blackout>()).collect::<Result<_, _>>();
            timing.blackouts = parsed.map_err(|error| CommandError::new(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns the rule for planned times, if one is named or changed. `zone` is the name of the
    /// schedule's time zone.
    fn starts(&self, known: Option<&Starts>, zone: &str) -> Result<Option<Starts>, CommandError> {
        if let Some(every) = self.every {
            let first = match (self.start, known) {
                (Some(start), _) => start,
                (None, Some(Starts::Interval(known))) => known.first,
                (None, _) => this_minute(sys::clock::now(), zone)?,
            };
            return Ok(Some(Starts::Interval(Interval { first, every })));
        }
        if let (Some(first), Some(Starts::Interval(known))) = (self.start, known) {
            return Ok(Some(Starts::Interval(Interval { first, ..known.clone() })));
        }
        let is_calendar = self.time.is_some()
            || self.days.is_some()
            || self.weeks.is_some()
            || self.monthdays.is_some()
            || self.months.is_some();
        if !is_calendar {
            return Ok(None);
        }
        let known = match known {
            Some(Starts::Calendar(known)) => Some(known),
            _ => None,
        };
        let time = self.time.clone().or_else(|| known.map(|known| known.times.clone()));
        let times = time.ok_or_else(|| CommandError::new("name the times, with --time TIMES"))?;
        let months = self.months.or(known.map(|known| known.months)).unwrap_or_default();
        let known_week = match known.map(|known| &known.days) {
            Some(Days::OfWeek { weekdays, weeks }) => Some((*weekdays, *weeks)),
            _ => None,
        };
        let days = match (&self.monthdays, known.map(|known| &known.days)) {
            (Some(month_days), _) => Days::OfMonth { month_days: month_days.clone() },
            (None, Some(days @ Days::OfMonth { .. }))
                if self.days.is_none() && self.weeks.is_none() =>
            {
                days.clone()
            }
            _ => Days::OfWeek {
                weekdays: self.days.or(known_week.map(|known| known.0)).unwrap_or_default(),
                weeks: self.weeks.or(known_week.map(|known| known.1)).unwrap_or_default(),
            },
        };
        Ok(Some(Starts::Calendar(Calendar { times, months, days })))
    }
}

/// Returns the minute of `now` by the clock on the wall of `zone`.
fn this_minute(now: ServerTime, zone: &str) -> Result<DateTime, CommandError> {
    let zone = time_zone(zone).map_err(|error| CommandError::new(error.to_string()))?;
    let wall = moment::zoned(now).with_time_zone(zone).datetime();
    Ok(wall.date().at(wall.hour(), wall.minute(), 0, 0))
}

/// Returns the rule for planned times in words.
pub(super) fn starts_words(starts: &Starts) -> String {
    match starts {
        Starts::Once(at) => format!("once, {}", moment::shown(ServerTime(*at))),
        Starts::Interval(Interval { first, every }) => {
            let every = match every {
                Every::Minutes(minutes) => minutes_words(*minutes),
                Every::Days(days) => format!("{days}d"),
                Every::Months(months) => format!("{months}mo"),
            };
            format!("every {every} from {} on", first.strftime("%F %H:%M"))
        }
        Starts::Calendar(Calendar { times, months, days }) => {
            let mut words = match days {
                Days::OfMonth { month_days } => format!("{month_days} of the month"),
                Days::OfWeek { weekdays, weeks } if weeks.is_all() => match weekdays.is_all() {
                    true => "daily".to_owned(),
                    false => weekdays.to_string(),
                },
                Days::OfWeek { weekdays, weeks } => format!("{weeks} {weekdays} of the month"),
            };
            if !months.is_all() {
                words = format!("{words} in {months}");
            }
            format!("{words} {times}")
        }
    }
}

/// Returns a length of time, as in `4h`, `1h30m` or `2d`.
pub(super) fn minutes_words(minutes: u32) -> String {
    let (days, hours, minutes) = (minutes / DAY_MINUTES, minutes % DAY_MINUTES / 60, minutes % 60);
    let part = |number: u32, unit: &str| match number {
        0 => String::new(),
        number => format!("{number}{unit}"),
    };
    let words = format!("{}{}{}", part(days, "d"), part(hours, "h"), part(minutes, "m"));
    if words.is_empty() { "0m".to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read() {
        assert_eq!(parse_every("30m"), Ok(Every::Minutes(30)));
        assert_eq!(parse_every("4h"), Ok(Every::Minutes(240)));
        assert_eq!(parse_every("2w"), Ok(Every::Days(14)));
        assert_eq!(parse_every("1mo"), Ok(Every::Months(1)));
        for wrong in ["", "4", "h", "0h", "1y", "-1h", "99999999999h", "1h30m"] {
            assert!(parse_every(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_part_of_a_time_is_left_out() {
        let start = parse_start("2026-11-27T06:00").expect("is read");
        assert_eq!(parse_start("2026-11-27 06:00"), Ok(start));
        assert_eq!(start.to_string(), "2026-11-27T06:00:00");
        for wrong in ["2027-01-01T06:00+05:00", "2027-01-01T06:00Z", "2027-01-01T06:00[UTC]"] {
            assert!(parse_start(wrong).is_err(), "{wrong}");
        }
        let day = parse_until("2026-12-31").expect("is read");
        assert_eq!(day.0.map(|day| day.to_string()).as_deref(), Some("2026-12-31"));
        assert_eq!(parse_until("none"), Ok(LastDay(None)));
        for wrong in ["2026-12-31T10:00", "2026-12-31 10:00", "2026-12-32", "soon"] {
            assert!(parse_until(wrong).is_err(), "{wrong}");
        }
        assert_eq!(minutes(5400, "--window").ok(), Some(90));
        for secs in [30, 90, 119] {
            let error = minutes(secs, "--window").expect_err("is refused");
            assert_eq!(error.message, "--window takes whole minutes, at least one (1m)");
        }
    }

    /// The clock on the wall of this machine counted as the time in the zone.
    #[test]
    fn an_interval_begins_now_in_the_zone_of_the_schedule() {
        let now: jiff::Timestamp = "2026-11-29T11:41:30Z".parse().expect("a time");
        let begin = this_minute(ServerTime(now.as_microsecond()), "America/New_York");
        assert_eq!(begin.expect("is known").to_string(), "2026-11-29T06:41:00");
        assert!(this_minute(ServerTime(0), "Mars/Olympus").is_err());
    }

    #[test]
    fn lengths_are_written() {
        let words = [0, 1, 60, 90, 1440, 1500].map(minutes_words);
        assert_eq!(words, ["0m", "1m", "1h", "1h30m", "1d", "1d1h"]);
    }

    #[test]
    fn a_change_leaves_what_is_not_named() {
        let args = |time: Option<&str>, days: Option<&str>| TimingArgs {
            time: time.map(|text| text.parse().expect("times")),
            days: days.map(|text| text.parse().expect("days")),
            ..TimingArgs::default()
        };
        let first = args(Some("22:00"), Some("mon-fri")).timing().expect("a timing");
        let later = args(Some("23:00"), None).starts(Some(&first.starts), "UTC").expect("is read");
        assert_eq!(starts_words(&later.expect("is changed")), "mon-fri 23:00");
        let weekend =
            args(None, Some("sat,sun")).starts(Some(&first.starts), "UTC").expect("is read");
        assert_eq!(starts_words(&weekend.expect("is changed")), "sat,sun 22:00");
        assert_eq!(args(None, None).starts(Some(&first.starts), "UTC").expect("is read"), None);
        assert!(args(None, None).timing().is_err());
    }
}
