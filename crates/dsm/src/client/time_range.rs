//! Times on a command line: a point in time, and a range of times.

use crate::forms::{Clock, Day, END_OF_DAY, Forms, Moment};
use crate::options::Options;

/// Reason why the times of a command cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RangeError {
    #[error("-{option}: '{value}' is no {what} of this form; an example is {example}")]
    Form { option: &'static str, value: String, what: &'static str, example: String },
    #[error("-{0} needs -{1}")]
    Alone(&'static str, &'static str),
}

/// Range of times; a side that is absent is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeRange {
    pub from: Option<Moment>,
    pub to: Option<Moment>,
}

impl TimeRange {
    pub fn has(&self, moment: Moment) -> bool {
        self.from.is_none_or(|from| moment >= from) && self.to.is_none_or(|to| moment <= to)
    }
}

/// An example of a date and a time.
const EXAMPLE: Moment = Moment { year: 2026, month: 11, day: 30, hour: 18, minute: 0, second: 0 };

/// Returns the moment of a day and a time of day.
pub fn instant(day: Day, clock: Clock) -> Moment {
    let (Day { year, month, day }, Clock { hour, minute, second }) = (day, clock);
    Moment { year, month, day, hour, minute, second }
}

/// Returns the point in time of a command (PITDATE, PITTIME). A day alone means its end, and a time
/// alone means `today`.
pub fn point_in_time(
    options: &Options,
    forms: Forms,
    today: Day,
) -> Result<Option<Moment>, RangeError> {
    let day = day(options, "PITDATE", forms)?;
    let clock = clock(options, "PITTIME", forms)?;
    Ok(match (day, clock) {
        (None, None) => None,
        (day, clock) => Some(instant(day.unwrap_or(today), clock.unwrap_or(END_OF_DAY))),
    })
}

/// Returns the range of times of a command (FROMDATE, FROMTIME, TODATE, TOTIME).
pub fn range(options: &Options, forms: Forms) -> Result<TimeRange, RangeError> {
    let side = |date: &'static str, time: &'static str, default: Clock| {
        let (day, clock) = (day(options, date, forms)?, clock(options, time, forms)?);
        match (day, clock) {
            (None, Some(_)) => Err(RangeError::Alone(time, date)),
            (day, clock) => Ok(day.map(|day| instant(day, clock.unwrap_or(default)))),
        }
    };
    let midnight = Clock { hour: 0, minute: 0, second: 0 };
    Ok(TimeRange {
        from: side("FROMDATE", "FROMTIME", midnight)?,
        to: side("TODATE", "TOTIME", END_OF_DAY)?,
    })
}

fn day(options: &Options, name: &'static str, forms: Forms) -> Result<Option<Day>, RangeError> {
    let Some(value) = options.text(name) else { return Ok(None) };
    let example = forms.date(EXAMPLE);
    let wrong = RangeError::Form { option: name, value: value.clone(), what: "date", example };
    forms.parse_date(&value).map(Some).ok_or(wrong)
}

fn clock(options: &Options, name: &'static str, forms: Forms) -> Result<Option<Clock>, RangeError> {
    let Some(value) = options.text(name) else { return Ok(None) };
    let example = forms.time(EXAMPLE);
    let wrong = RangeError::Form { option: name, value: value.clone(), what: "time", example };
    forms.parse_time(&value).map(Some).ok_or(wrong)
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;
    use crate::options::System;
    use crate::words::words;

    const TODAY: Day = Day { year: 2026, month: 11, day: 20 };

    fn options(line: &str) -> Options {
        let words = words(line.as_bytes()).expect("words");
        let (line, _) = command::options_of(&words).expect("options");
        Options::new(&System::default(), None, &[], &line)
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let options = options(line);
        let forms = Forms::of(&options);
        let shown = match point_in_time(&options, forms, TODAY) {
            Ok(moment) => moment.map(|moment| Forms::default().stamp(moment)).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn a_point_in_time_has_a_day_and_a_time() {
        check("", "");
        check("-pitdate=11/03/2026", "11/03/2026 23:59:59");
        check("-pitd=11/03/2026 -pitt=18:00", "11/03/2026 18:00:00");
        check("-pittime=18:00:01", "11/20/2026 18:00:01");
        check("-dateformat=3 -pitdate=2026-11-03", "11/03/2026 23:59:59");
        check("-dateformat=2 -pitdate=03-11-2026", "11/03/2026 23:59:59");
        check(
            "-pitdate=yesterday",
            "-PITDATE: 'yesterday' is no date of this form; an example is 11/30/2026",
        );
        check(
            "-pitd=11/03/2026 -pitt=noon",
            "-PITTIME: 'noon' is no time of this form; an example is 18:00:00",
        );
    }

    #[test]
    fn a_range_has_two_sides() {
        let options = options("-fromdate=11/01/2026 -todate=11/03/2026 -totime=12:00");
        let range = range(&options, Forms::default()).expect("a range");
        let moment =
            |day, hour| instant(Day { day, ..TODAY }, Clock { hour, minute: 0, second: 0 });
        assert!(range.has(moment(1, 0)) && range.has(moment(3, 12)));
        assert!(!range.has(moment(3, 13)));
        assert!(!range.has(instant(Day { month: 10, day: 31, ..TODAY }, END_OF_DAY)));
        let alone = super::range(&self::options("-totime=12:00"), Forms::default());
        assert_eq!(alone, Err(RangeError::Alone("TOTIME", "TODATE")));
    }
}
