//! Functions of DB2 for SQLite. Times are texts, as `2026-11-26 15:20:30.000000`.
//!
//! A value that is no time gives NULL, as DB2's functions do for NULL.

use std::ops::Range;

use jiff::ToSpan as _;
use jiff::civil::{self, Date, DateTime, Time};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, Error, Result};

use super::format;

/// Day before the first day that DAYS counts.
const DAYS_EPOCH: (i16, i8, i8) = (0, 12, 31);

/// Number that DAYS and the Julian day of the same day differ by.
const JULIAN_DAYS: i64 = 1_721_425;
/// Maximum length of a text, as in DB2.
const TEXT_MAX: u16 = 32_672;
/// Length of a day.
const DAY_END: usize = "2026-11-26".len();
/// Length of a time down to its seconds.
const SECONDS_END: usize = "2026-11-26 15:20:30".len();

type Function = fn(&Context<'_>) -> Result<Option<Value>>;

/// Functions with their numbers of arguments.
const FUNCTIONS: [(&str, i32, Function); 36] = [
    ("db2_shift", 3, shift),
    ("db2_between", 2, between),
    ("db2_timestampdiff", 2, timestampdiff),
    ("db2_date", 1, |context| Ok(time(context, 0)?.map(|time| text(time.date().to_string())))),
    ("db2_time", 1, |context| {
        Ok(time(context, 0)?.map(|time| text(time.strftime("%H:%M:%S").to_string())))
    }),
    ("db2_timestamp", -1, timestamp),
    ("db2_days", 1, |context| Ok(time(context, 0)?.and_then(|time| days(time.date())))),
    ("db2_year", 1, |context| part_or(context, 0..4, |time| time.year().into())),
    ("db2_month", 1, |context| part_or(context, 4..6, |time| time.month().into())),
    ("db2_day", 1, |context| part_or(context, 6..8, |time| time.day().into())),
    ("db2_hour", 1, |context| part_or(context, 8..10, |time| time.hour().into())),
    ("db2_minute", 1, |context| part_or(context, 10..12, |time| time.minute().into())),
    ("db2_second", 1, |context| part_or(context, 12..14, |time| time.second().into())),
    ("db2_dayofweek", 1, |context| {
        part(context, |time| time.weekday().to_sunday_one_offset().into())
    }),
    ("db2_dayname", 1, |context| {
        Ok(time(context, 0)?.map(|time| text(time.strftime("%A").to_string())))
    }),
    ("db2_monthname", 1, |context| {
        Ok(time(context, 0)?.map(|time| text(time.strftime("%B").to_string())))
    }),
    ("db2_midnight_seconds", 1, |context| {
        part(context, |time| {
            (i64::from(time.hour()) * 60 + i64::from(time.minute())) * 60 + i64::from(time.second())
        })
    }),
    ("db2_microsecond", 1, |context| {
        part(context, |time| (time.subsec_nanosecond() / 1000).into())
    }),
    ("db2_dayofyear", 1, |context| part(context, |time| time.day_of_year().into())),
    ("db2_week", 1, |context| part(context, week)),
    ("db2_week_iso", 1, |context| part(context, |time| time.date().iso_week_date().week().into())),
    ("db2_quarter", 1, |context| part(context, |time| (i64::from(time.month()) + 2) / 3)),
    ("db2_julian_day", 1, julian_day),
    ("db2_last_day", 1, |context| {
        Ok(time(context, 0)?.map(|time| text(time.date().last_of_month().to_string())))
    }),
    ("db2_to_date", 2, to_date),
    ("db2_ceiling", 1, |context| {
        // The sum has no negative zero.
        Ok(number(context, 0)?.map(|number| Value::Real(number.ceil() + 0.0)))
    }),
    ("db2_floor", 1, |context| Ok(number(context, 0)?.map(|number| Value::Real(number.floor())))),
    ("db2_lpad", -1, |context| padded(context, |text, pad| format!("{pad}{text}"))),
    ("db2_rpad", -1, |context| padded(context, |text, pad| format!("{text}{pad}"))),
    ("db2_repeat", 2, repeat),
    ("db2_format", 2, formatted),
    ("db2_translate", -1, translate),
    ("db2_digits", 1, digits),
    ("db2_text", -1, characters),
    ("db2_decimal", 2, decimal),
    ("db2_rounded", 2, rounded),
];

/// Adds the functions to a database.
pub(super) fn add(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for (name, arguments, function) in FUNCTIONS {
        connection.create_scalar_function(name, arguments, flags, move |context| {
            function(context).map(|value| value.unwrap_or(Value::Null))
        })?;
    }
    Ok(())
}

fn text(text: String) -> Value {
    Value::Text(text)
}

/// Returns a time as it stands in a view.
fn shown(time: DateTime) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string()
}

/// Parses a time, a day, or a time of the day.
fn parse(text: &str) -> Option<DateTime> {
    let text = text.trim();
    if let Ok(time) = text.replacen(' ', "T", 1).parse::<DateTime>() {
        return Some(time);
    }
    if let Ok(day) = text.parse::<Date>() {
        return Some(day.at(0, 0, 0, 0));
    }
    // DB2 writes times of the day with points, too: 15.20.30.
    // A number has one point at most.
    let has_points = text.matches('.').count() == 2 && !text.contains(':');
    let clock = if has_points { text.replace('.', ":") } else { text.to_owned() };
    // A time of the day is one of the first day.
    clock.parse::<Time>().ok().map(|time| Date::MIN.to_datetime(time))
}

/// Returns the argument with this index as a time.
fn time(context: &Context<'_>, index: usize) -> Result<Option<DateTime>> {
    let argument = context.get::<Value>(index)?;
    Ok(match argument {
        Value::Text(text) => parse(&text),
        _ => None,
    })
}

/// `db2_timestamp(time)`, `db2_timestamp(day, time of the day)`, and `db2_timestamp(time, digits)`
/// with this number of digits of a second.
fn timestamp(context: &Context<'_>) -> Result<Option<Value>> {
    let Some(day) = time(context, 0)? else { return Ok(None) };
    if context.len() < 2 {
        return Ok(Some(text(shown(day))));
    }
    if let Value::Integer(digits) = context.get::<Value>(1)? {
        let micros = usize::try_from(digits).unwrap_or_default().min(6);
        let whole = shown(day);
        let end = if micros == 0 { SECONDS_END } else { SECONDS_END + 1 + micros };
        return Ok(Some(text(whole[..end].to_owned())));
    }
    let clock = time(context, 1)?;
    Ok(clock.map(|clock| text(shown(day.date().to_datetime(clock.time())))))
}

fn part(context: &Context<'_>, part: fn(DateTime) -> i64) -> Result<Option<Value>> {
    Ok(time(context, 0)?.map(|time| Value::Integer(part(time))))
}

/// Returns the part of a time, or the part of a length whose digits are in `place`.
fn part_or(
    context: &Context<'_>,
    place: Range<usize>,
    of_time: fn(DateTime) -> i64,
) -> Result<Option<Value>> {
    let Value::Text(length) = context.get::<Value>(0)? else { return Ok(None) };
    match length_digits(&length) {
        Some((sign, digits)) => {
            Ok(digits[place].parse().ok().map(|part: i64| Value::Integer(sign * part)))
        }
        None => part(context, of_time),
    }
}

/// Returns the sign and the 14 digits of a length as [`between`] writes it.
fn length_digits(length: &str) -> Option<(i64, &str)> {
    let (sign, length) = match length.strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, length),
    };
    let (digits, micros) = length.split_once('.')?;
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_length = digits.len() == 14 && micros.len() == 6;
    (is_length && are_digits(digits) && are_digits(micros)).then_some((sign, digits))
}

/// Returns the week of the year. The first week has the first of January, and a week begins on a
/// Sunday.
fn week(time: DateTime) -> i64 {
    let before = time.date().first_of_year().weekday().to_sunday_one_offset() - 1;
    (i64::from(time.day_of_year()) + i64::from(before) - 1) / 7 + 1
}

/// `db2_julian_day(time)`: the number of days since the first day of 4713 before Christ.
fn julian_day(context: &Context<'_>) -> Result<Option<Value>> {
    let Some(time) = time(context, 0)? else { return Ok(None) };
    Ok(days(time.date()).map(|days| match days {
        Value::Integer(days) => Value::Integer(days + JULIAN_DAYS),
        other => other,
    }))
}

/// `db2_to_date(text, form)`: a time, of its text in a form.
fn to_date(context: &Context<'_>) -> Result<Option<Value>> {
    let argument = |index| context.get::<Option<String>>(index);
    let (Some(given), Some(form)) = (argument(0)?, argument(1)?) else { return Ok(None) };
    let time = format::to_time(&given, &form);
    let time = time.map_err(|reason| Error::UserFunctionError(reason.into()))?;
    // The times of views have one form, whatever the given one is.
    Ok(time.or_else(|| parse(&given)).map(|time| text(shown(time))))
}

fn days(day: Date) -> Option<Value> {
    let (year, month, of_month) = DAYS_EPOCH;
    let epoch = Date::new(year, month, of_month).ok()?;
    let days = epoch.until(day).ok()?.get_days();
    Some(Value::Integer(days.into()))
}

fn number(context: &Context<'_>, index: usize) -> Result<Option<f64>> {
    Ok(match context.get::<Value>(index)? {
        #[expect(clippy::cast_precision_loss, reason = "DB2 computes with 53 bits, too")]
        Value::Integer(number) => Some(number as f64),
        Value::Real(number) => Some(number),
        Value::Text(text) => text.trim().parse().ok(),
        Value::Null | Value::Blob(_) => None,
    })
}

/// `db2_shift(time, number, unit)`. A day that is shifted by days, months or years stays a day, and
/// a time of the day stays one.
fn shift(context: &Context<'_>) -> Result<Option<Value>> {
    let (Some(time), Some(number)) = (time(context, 0)?, number(context, 1)?) else {
        return Ok(None);
    };
    #[expect(clippy::cast_possible_truncation, reason = "the span refuses what is too large")]
    let count = number as i64;
    let unit = context.get::<String>(2)?;
    let span = match unit.as_str() {
        "YEAR" => 0.days().try_years(count),
        "MONTH" => 0.days().try_months(count),
        "DAY" => 0.days().try_days(count),
        "HOUR" => 0.days().try_hours(count),
        "MINUTE" => 0.days().try_minutes(count),
        "SECOND" => 0.days().try_seconds(count),
        _ => 0.days().try_microseconds(count),
    };
    let given = context.get::<String>(0)?;
    let is_clock = time.date() == Date::MIN;
    // The first day has none before it, to which an early time of the day could be shifted.
    let time = if is_clock { civil::date(2000, 1, 1).to_datetime(time.time()) } else { time };
    let Ok(shifted) = span.and_then(|span| time.checked_add(span)) else { return Ok(None) };
    let stays_day = is_day(&given) && ["YEAR", "MONTH", "DAY"].contains(&unit.as_str());
    Ok(Some(text(if is_clock {
        shifted.strftime("%H:%M:%S").to_string()
    } else if stays_day {
        shifted.date().to_string()
    } else {
        shown(shifted)
    })))
}

/// Returns true for a day without a time of the day.
fn is_day(time: &str) -> bool {
    let time = time.trim();
    time.len() == DAY_END && !time.contains(':')
}

/// `db2_between(later, earlier)`: the length between two times, as `YYYYMMDDhhmmss.uuuuuu`.
fn between(context: &Context<'_>) -> Result<Option<Value>> {
    let (Some(later), Some(earlier)) = (time(context, 0)?, time(context, 1)?) else {
        return Ok(None);
    };
    let Ok(span) = earlier.until((jiff::Unit::Year, later)) else { return Ok(None) };
    let sign = if span.is_negative() { "-" } else { "" };
    let span = span.abs();
    let micros = span.get_milliseconds() * 1000 + span.get_microseconds();
    Ok(Some(text(format!(
        "{sign}{:04}{:02}{:02}{:02}{:02}{:02}.{micros:06}",
        span.get_years(),
        span.get_months(),
        span.get_days(),
        span.get_hours(),
        span.get_minutes(),
        span.get_seconds(),
    ))))
}

/// `db2_timestampdiff(unit, length)`: as DB2, with 365 days in a year and 30 days in a month.
fn timestampdiff(context: &Context<'_>) -> Result<Option<Value>> {
    let unit = context.get::<Value>(0)?;
    let Value::Text(length) = context.get::<Value>(1)? else { return Ok(None) };
    Ok(seconds(&length)
        .zip(unit_secs(&unit))
        .map(|(secs, unit)| Value::Integer(secs / unit)))
}

fn unit_secs(unit: &Value) -> Option<i64> {
    let Value::Integer(unit) = unit else { return None };
    const DAY_SECS: i64 = 24 * 3600;
    match unit {
        2 => Some(1),
        4 => Some(60),
        8 => Some(3600),
        16 => Some(DAY_SECS),
        32 => Some(7 * DAY_SECS),
        64 => Some(30 * DAY_SECS),
        128 => Some(91 * DAY_SECS),
        256 => Some(365 * DAY_SECS),
        _ => None,
    }
}

/// Returns the number of seconds in a length of DB2's form.
fn seconds(length: &str) -> Option<i64> {
    let whole = length.trim().split('.').next()?;
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, whole),
    };
    if digits.is_empty() || digits.len() > 14 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let padded = format!("{digits:0>14}");
    let part = |from: usize, to: usize| padded[from..to].parse::<i64>().ok();
    let days = part(0, 4)? * 365 + part(4, 6)? * 30 + part(6, 8)?;
    let secs = ((days * 24 + part(8, 10)?) * 60 + part(10, 12)?) * 60 + part(12, 14)?;
    Some(sign * secs)
}

/// `db2_text(value)` and `db2_text(value, length)`.
fn characters(context: &Context<'_>) -> Result<Option<Value>> {
    let whole = match context.get::<Value>(0)? {
        Value::Text(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => super::plain(number),
        Value::Null | Value::Blob(_) => return Ok(None),
    };
    let length = if context.len() > 1 { number(context, 1)? } else { None };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float is cut to the range"
    )]
    let kept = length.map_or(usize::MAX, |length| length as usize);
    Ok(Some(text(whole.chars().take(kept).collect())))
}

/// Returns the argument with this index as a length of a text; none beyond what DB2 has.
fn length(context: &Context<'_>, index: usize) -> Result<Option<usize>> {
    let max = f64::from(TEXT_MAX);
    let number = number(context, index)?.filter(|number| (0.0..=max).contains(number));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is in the range"
    )]
    let length = number.map(|number| number as usize);
    Ok(length)
}

/// `db2_repeat(text, count)`.
fn repeat(context: &Context<'_>) -> Result<Option<Value>> {
    let (Some(part), Some(count)) = (context.get::<Option<String>>(0)?, length(context, 1)?) else {
        return Ok(None);
    };
    let length = part.chars().count().saturating_mul(count).min(usize::from(TEXT_MAX));
    Ok(Some(text(part.chars().cycle().take(length).collect())))
}

/// `db2_lpad(value, length, pad)` and `db2_rpad`, with blanks unless a pad is given. A longer text
/// is cut. `join` puts the text and its pad together.
fn padded(context: &Context<'_>, join: fn(&str, &str) -> String) -> Result<Option<Value>> {
    let pad = if context.len() > 2 { context.get(2)? } else { Some(" ".to_owned()) };
    let Some(pad): Option<String> = pad else { return Ok(None) };
    let value = match context.get::<Value>(0)? {
        Value::Text(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => super::plain(number),
        Value::Null | Value::Blob(_) => return Ok(None),
    };
    let Some(length) = length(context, 1)? else { return Ok(None) };
    let kept: String = value.chars().take(length).collect();
    let missing = length - kept.chars().count();
    let pad: String = pad.chars().cycle().take(missing).collect();
    Ok(Some(text(join(&kept, &pad))))
}

/// `db2_format(value, form)`: a time or a number in a form.
fn formatted(context: &Context<'_>) -> Result<Option<Value>> {
    let Some(form) = context.get::<Option<String>>(1)? else { return Ok(None) };
    let shown = match (time(context, 0)?, number(context, 0)?) {
        (Some(time), _) => format::of_time(time, &form),
        (None, Some(number)) => format::of_number(number, &form),
        (None, None) => return Ok(None),
    };
    shown
        .map(|shown| Some(text(shown)))
        .map_err(|reason| Error::UserFunctionError(reason.into()))
}

/// `db2_translate(text)`: in capitals. `db2_translate(text, to, from, pad)`: with the characters of
/// `from` replaced by those of `to` in the same places, or by `pad`.
fn translate(context: &Context<'_>) -> Result<Option<Value>> {
    let argument = |index: usize| match index < context.len() {
        true => context.get::<Option<String>>(index),
        false => Ok(None),
    };
    let Some(whole) = argument(0)? else { return Ok(None) };
    let (Some(to), Some(from)) = (argument(1)?, argument(2)?) else {
        return Ok((context.len() == 1).then(|| text(whole.to_uppercase())));
    };
    let pad = argument(3)?.and_then(|pad| pad.chars().next()).unwrap_or(' ');
    let replaced = |letter: char| match from.chars().position(|known| known == letter) {
        Some(at) => to.chars().nth(at).unwrap_or(pad),
        None => letter,
    };
    Ok(Some(text(whole.chars().map(replaced).collect())))
}

/// `db2_digits(value)`: its digits, without sign and point.
fn digits(context: &Context<'_>) -> Result<Option<Value>> {
    Ok(match context.get::<Value>(0)? {
        Value::Integer(number) => Some(text(format!("{:010}", number.unsigned_abs()))),
        Value::Text(whole) => Some(text(whole.chars().filter(char::is_ascii_digit).collect())),
        Value::Real(_) | Value::Null | Value::Blob(_) => None,
    })
}

/// `db2_rounded(value, decimals)`: as text, rounded to this number of decimals.
fn rounded(context: &Context<'_>) -> Result<Option<Value>> {
    let decimals = usize::from(context.get::<u8>(1)?);
    Ok(number(context, 0)?.map(|number| text(format!("{number:.decimals$}"))))
}

/// `db2_decimal(value, decimals)`: cut after this number of decimals.
fn decimal(context: &Context<'_>) -> Result<Option<Value>> {
    let (Some(value), Some(decimals)) = (number(context, 0)?, number(context, 1)?) else {
        return Ok(None);
    };
    let factor = 10_f64.powf(decimals.clamp(-15.0, 15.0));
    // A value such as 0.29 is stored as slightly less, and must not lose its last digit.
    let nudge = value.signum() * 1e-7;
    Ok(Some(Value::Real((value * factor + nudge).trunc() / factor)))
}
