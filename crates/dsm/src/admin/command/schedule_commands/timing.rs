//! Times of schedules.
//!
//! | TSM | Holdfast |
//! |---|---|
//! | classic, a period of 1 day | `--time`, with `--days` for a day of the week |
//! | classic, a period of 1 week | `--time --days` |
//! | classic, any other period, or a first day to come | `--every --start` |
//! | classic, PERUNITS=ONETIME | `--every 1d --start --until`: one day |
//! | enhanced | `--time`, `--months`, `--monthdays`, `--weeks`, `--days` |

use jiff::civil::{DateTime, Weekday};
use policy::schedule::{MONTH_NAMES, WEEKDAY_NAMES};

use crate::admin::calendar;
use crate::admin::command::definition::Request;
use crate::admin::command::parameter::{Parameter, ValueKind, may};
use crate::admin::command::plan::Line;
use crate::admin::message::Message;

/// Parameters of times.
pub(super) const TIMES: [Parameter; 12] = [
    may("STARTDate", ValueKind::Text),
    may("STARTTime", ValueKind::Text),
    may("DURation", ValueKind::Number),
    may("DURUnits", ValueKind::Word(&["Minutes", "Hours", "Days", "INDefinite"])),
    may("PERiod", ValueKind::Number),
    may("PERUnits", ValueKind::Word(&["Hours", "Days", "Weeks", "Months", "Years", "Onetime"])),
    may("DAYofweek", ValueKind::List),
    may("EXPiration", ValueKind::Text),
    may("SCHEDStyle", ValueKind::Word(&["Classic", "Enhanced"])),
    may("MONth", ValueKind::List),
    may("DAYOFMonth", ValueKind::List),
    may("WEEKofmonth", ValueKind::List),
];

/// Window of DURUNITS=INDEFINITE: the longest that Holdfast has.
const INDEFINITE: &str = "30d";

fn wrong(request: &Request, name: &str, value: &str, expected: &str) -> Message {
    Message::invalid_value(&request.command.name(), name, value, expected)
}

/// Adds the times to the line of a schedule.
pub(super) fn times(request: &Request, line: Line, is_new: bool) -> Result<Line, Message> {
    let line = line.option("--window", window(request, is_new));
    // A part of a window without an end would be days. One with an end is spread again.
    let spread = match request.text("DURUnits") {
        Some("INDEFINITE") => Some("0"),
        Some(_) if !is_new => Some("25"),
        _ => None,
    };
    let line = line.option("--spread", spread);
    let line = line.option("--until", until(request)?);
    let has_starts = ["STARTDate", "STARTTime", "PERiod", "PERUnits", "DAYofweek", "SCHEDStyle"]
        .into_iter()
        .chain(["MONth", "DAYOFMonth", "WEEKofmonth"])
        .any(|name| request.has(name));
    if !is_new && !has_starts {
        return Ok(line);
    }
    let start = start(request)?;
    let is_enhanced = request.text("SCHEDStyle") == Some("ENHANCED")
        || ["MONth", "DAYOFMonth", "WEEKofmonth"].into_iter().any(|name| request.has(name));
    if is_enhanced { enhanced(request, line, start) } else { classic(request, line, start) }
}

/// Returns the first time of the schedule, in whole minutes. NOW stands for the next one: the
/// present minute has begun already.
fn start(request: &Request) -> Result<DateTime, Message> {
    let words =
        calendar::EndWords { day: request.text("STARTDate"), time: request.text("STARTTime") };
    let now = request.now;
    let start = calendar::end(words, now, now).map(|start| match start.second() {
        0 => start,
        seconds => start.saturating_add(jiff::Span::new().seconds(60 - i64::from(seconds))),
    });
    start.ok_or_else(|| {
        let value = words.day.or(words.time).unwrap_or_default();
        let expected = "a day as TODAY or 11/26/2026, and a time as 22:00";
        wrong(request, "STARTDATE and STARTTIME", value, expected)
    })
}

fn window(request: &Request, is_new: bool) -> Option<String> {
    let unit = request.text("DURUnits");
    if unit == Some("INDEFINITE") {
        return Some(INDEFINITE.to_owned());
    }
    let number = request.number("DURation");
    if number.is_none() && unit.is_none() {
        // TSM's window is one hour.
        return is_new.then(|| "1h".to_owned());
    }
    let letter = match unit {
        Some("MINUTES") => "m",
        Some("DAYS") => "d",
        _ => "h",
    };
    Some(format!("{}{letter}", number.unwrap_or(1)))
}

fn until(request: &Request) -> Result<Option<String>, Message> {
    let Some(text) = request.text("EXPiration") else { return Ok(None) };
    if text.eq_ignore_ascii_case("never") {
        return Ok(None);
    }
    let day = calendar::day(text, request.now);
    let day = day.ok_or_else(|| wrong(request, "EXPIRATION", text, "NEVER, or a day"))?;
    Ok(Some(day.to_string()))
}

fn clock(start: DateTime) -> String {
    start.strftime("%H:%M").to_string()
}

fn classic(request: &Request, line: Line, start: DateTime) -> Result<Line, Message> {
    let period = request.number("PERiod").unwrap_or(1).max(1);
    let unit = request.text("PERUnits").unwrap_or("DAYS");
    let days = weekdays(request)?;
    let every = |number: u64, letter: &str| {
        let first = start.strftime("%Y-%m-%dT%H:%M").to_string();
        line.clone()
            .option("--every", Some(format!("{number}{letter}")))
            .option("--start", Some(first))
    };
    let timed = || line.clone().option("--time", Some(clock(start)));
    let begins_later = start.date() > request.now.date();
    Ok(match (unit, period, days) {
        ("ONETIME", ..) => every(1, "d").option("--until", Some(start.date().to_string())),
        // A calendar has no first day, but an interval has.
        ("DAYS", 1, None) if begins_later => every(1, "d"),
        ("WEEKS", 1, None) if begins_later => every(1, "w"),
        (_, 1, Some(_)) if begins_later => return Err(later(request)),
        ("DAYS", 1, days) => timed().option("--days", days),
        ("WEEKS", 1, days) => {
            let own = weekday(start.weekday()).to_owned();
            timed().option("--days", Some(days.unwrap_or(own)))
        }
        (_, _, Some(_)) => {
            let name = request.command.name();
            let reason = "a day of the week goes with a period of one day or one week";
            return Err(Message::refused_parameter(&name, "DAYOFWEEK", reason));
        }
        ("HOURS", number, None) => every(number, "h"),
        ("DAYS", number, None) => every(number, "d"),
        ("WEEKS", number, None) => every(number, "w"),
        ("MONTHS", number, None) => every(number, "mo"),
        (_, number, None) => every(number * 12, "mo"),
    })
}

fn later(request: &Request) -> Message {
    let reason = "a schedule by days of the week or of the month begins today";
    Message::refused_parameter(&request.command.name(), "STARTDATE", reason)
}

fn enhanced(request: &Request, line: Line, start: DateTime) -> Result<Line, Message> {
    if start.date() > request.now.date() {
        return Err(later(request));
    }
    let words = |name: &str| {
        let list = request.list(name);
        let is_any = list.iter().any(|word| word.eq_ignore_ascii_case("any"));
        if is_any { &[] } else { list }
    };
    let months: Result<Vec<&str>, Message> = words("MONth")
        .iter()
        .map(|word| month(word).ok_or_else(|| wrong(request, "MONTH", word, "the name of a month")))
        .collect();
    let days: Result<Vec<String>, Message> = words("DAYOFMonth")
        .iter()
        .map(|word| {
            month_day(word)
                .ok_or_else(|| wrong(request, "DAYOFMONTH", word, "1 to 31 or -1 to -31"))
        })
        .collect();
    let weeks: Result<Vec<&str>, Message> = words("WEEKofmonth")
        .iter()
        .map(|word| {
            week(word).ok_or_else(|| {
                wrong(request, "WEEKOFMONTH", word, "FIRST, SECOND, THIRD, FOURTH or LAST")
            })
        })
        .collect();
    let joined = |words: Vec<String>| (!words.is_empty()).then(|| words.join(","));
    let owned = |words: Vec<&str>| joined(words.into_iter().map(str::to_owned).collect());
    let weeks = owned(weeks?);
    let days = joined(days?);
    let of_week = if days.is_some() { None } else { weekdays(request)? };
    Ok(line
        .option("--time", Some(clock(start)))
        .option("--months", owned(months?))
        .option("--monthdays", days)
        .option("--weeks", weeks)
        .option("--days", of_week))
}

/// Returns the days of the week in Holdfast's words; `None` for any.
fn weekdays(request: &Request) -> Result<Option<String>, Message> {
    let mut days = Vec::new();
    for word in request.list("DAYofweek") {
        let lower = word.to_lowercase();
        match lower.as_str() {
            "any" | "a" => return Ok(None),
            "weekday" | "wd" => days.push("mon-fri"),
            "weekend" | "we" => days.push("sat,sun"),
            _ => {
                let expected = "ANY, WEEKDAY, WEEKEND, or the name of a day";
                let is_meant = |name: &&str| lower.len() >= 2 && name.starts_with(&lower);
                let day = WEEKDAY_NAMES.into_iter().find(is_meant);
                let day = day.ok_or_else(|| wrong(request, "DAYOFWEEK", word, expected))?;
                days.push(&day[..3]);
            }
        }
    }
    Ok((!days.is_empty()).then(|| days.join(",")))
}

fn weekday(day: Weekday) -> &'static str {
    let index = usize::try_from(day.to_monday_zero_offset()).expect("below 7");
    &WEEKDAY_NAMES[index][..3]
}

fn month(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    let found = MONTH_NAMES.into_iter().find(|name| word.len() >= 3 && name.starts_with(&word));
    found.map(|name| &name[..3])
}

/// TSM counts days from the end of a month as -1 for the last, -2 for the day before, and so on.
fn month_day(word: &str) -> Option<String> {
    match word.parse::<i8>().ok()? {
        -1 => Some("last".to_owned()),
        number @ -31..=-2 => Some(format!("last{}", number + 1)),
        number @ 1..=31 => Some(number.to_string()),
        _ => None,
    }
}

fn week(word: &str) -> Option<&'static str> {
    let words = ["FIrst", "Second", "Third", "FOurth", "Last"];
    let index = crate::admin::abbreviation::resolve(word, words.into_iter()).ok()?;
    Some(["first", "second", "third", "fourth", "last"][index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_have_short_names() {
        assert_eq!((month("SEPT"), month("ma"), month("x")), (Some("sep"), None, None));
        assert_eq!(month_day("-1").as_deref(), Some("last"));
        assert_eq!(month_day("-3").as_deref(), Some("last-2"));
        assert_eq!((month_day("15").as_deref(), month_day("32")), (Some("15"), None));
        assert_eq!((week("fourth"), week("l")), (Some("fourth"), Some("last")));
    }
}
