//! Days, weeks, months and times as a person writes them, such as `mon-fri` and `first,last`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};
use model::spelling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text that names no days, weeks, months or times.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{word}' is not {expected}{hint}")]
pub struct WordsError {
    word: String,
    expected: &'static str,
    /// End of the message, with the question for the words that are meant; empty if there are none.
    hint: String,
}

impl WordsError {
    pub(super) fn new(word: &str, expected: &'static str) -> Self {
        Self { word: word.to_owned(), expected, hint: String::new() }
    }

    /// Returns the error for a word that is none of the names in `list` and no full name of one.
    fn of_name(word: &str, list: &[&str], expected: &'static str) -> Self {
        let question = spelling::question(word, list)
            .or_else(|| spelling::question(word, &full_names(list)))
            .map(|question| format!("; {question}"));
        Self { hint: question.unwrap_or_default(), ..Self::new(word, expected) }
    }
}

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const WEEKS: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "last"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A set of names out of a list of names, as one bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Names {
    bits: u16,
}

impl Names {
    /// Parses names and ranges of names, separated by commas. A range may go over the end of the
    /// list: `sat-mon`. `any` means all.
    fn parse(text: &str, list: &[&str], expected: &'static str) -> Result<Self, WordsError> {
        if text.trim().eq_ignore_ascii_case("any") {
            return Ok(Self::all(list));
        }
        let find = |word: &str| {
            let word = word.trim().to_ascii_lowercase();
            let is_meant =
                |name: &&str| word == **name || (word.len() > name.len() && full_name(&word, name));
            let found = list.iter().position(is_meant);
            found.ok_or_else(|| WordsError::of_name(&word, list, expected))
        };
        let mut bits = 0;
        for part in text.split(',') {
            let (from, to) = match part.split_once('-') {
                Some((from, to)) => (find(from)?, find(to)?),
                None => (find(part)?, find(part)?),
            };
            let length = (to + list.len() - from) % list.len();
            for step in 0..=length {
                bits |= 1 << ((from + step) % list.len());
            }
        }
        Ok(Self { bits })
    }

    fn all(list: &[&str]) -> Self {
        Self { bits: (1 << list.len()) - 1 }
    }

    fn has(self, index: usize) -> bool {
        self.bits & (1 << index) != 0
    }

    /// Writes the names, with runs of at least three as ranges.
    fn write(self, list: &[&str], out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self == Self::all(list) {
            return out.write_str("any");
        }
        let mut index = 0;
        let mut separator = "";
        while index < list.len() {
            let run = (index..list.len()).take_while(|at| self.has(*at)).count();
            let shown = if run >= 3 { run } else { run.min(1) };
            match shown {
                0 => {}
                1 => write!(out, "{separator}{}", list[index])?,
                _ => write!(out, "{separator}{}-{}", list[index], list[index + run - 1])?,
            }
            if shown > 0 {
                separator = ",";
            }
            index += shown.max(1);
        }
        Ok(())
    }
}

/// Full English names of the days of a week.
pub const WEEKDAY_NAMES: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// Full English names of the months.
pub const MONTH_NAMES: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Returns true if `word` is the full English name whose first letters are `name`.
fn full_name(word: &str, name: &str) -> bool {
    full_names(&[name]).contains(&word)
}

/// Returns the full English names whose first letters are one of the names in `list`.
fn full_names(list: &[&str]) -> Vec<&'static str> {
    let is_of_list = |full: &&str| list.iter().any(|name| full.starts_with(*name));
    WEEKDAY_NAMES.into_iter().chain(MONTH_NAMES).filter(is_of_list).collect()
}

/// Defines a set of names with its text form.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident, $list:ident, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Names);

        impl $name {
            pub fn all() -> Self {
                Self(Names::all(&$list))
            }

            pub fn is_all(&self) -> bool {
                *self == Self::all()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::all()
            }
        }

        impl FromStr for $name {
            type Err = WordsError;

            fn from_str(text: &str) -> Result<Self, WordsError> {
                Names::parse(text, &$list, $expected).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(&$list, out)
            }
        }

        text_forms!($name);
    };
}

/// Defines the conversions of a type that is stored as its text.
macro_rules! text_forms {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{self}")
            }
        }

        impl TryFrom<String> for $name {
            type Error = WordsError;

            fn try_from(text: String) -> Result<Self, WordsError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(words: $name) -> Self {
                words.to_string()
            }
        }
    };
}

names!(
    /// Days of the week, such as `mon-fri`; `any` means all.
    Weekdays,
    WEEKDAYS,
    "a day of the week (mon to sun, a range such as mon-fri, or any)"
);
names!(
    /// Weeks of a month, such as `first,last`; `any` means all.
    Weeks,
    WEEKS,
    "a week of the month (first, second, third, fourth, fifth, last, or any)"
);
names!(
    /// Months of a year, such as `jan-mar,oct`; `any` means all.
    Months,
    MONTHS,
    "a month (jan to dec, a range such as jan-mar, or any)"
);

impl Weekdays {
    pub(super) fn has(self, day: Weekday) -> bool {
        self.0.has(usize::try_from(day.to_monday_zero_offset()).expect("is 0 to 6"))
    }
}

impl Weeks {
    /// Returns true if `day` is in one of these weeks of its month.
    pub(super) fn has(self, day: Date) -> bool {
        let number = usize::try_from((day.day() - 1) / 7).expect("is 0 to 4");
        let is_last = day.day() + 7 > day.days_in_month();
        self.0.has(number) || (is_last && self.0.has(WEEKS.len() - 1))
    }
}

impl Months {
    /// Returns true if the set has the month `number`, 1 to 12.
    pub(super) fn has(self, number: i8) -> bool {
        self.0.has(usize::try_from(number - 1).expect("is 0 to 11"))
    }
}

/// Days of a month by number, such as `1,15,last`; `last-1` is the day before the last.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct MonthDays {
    /// Numbers from 1 for days from the first of the month, then numbers up to -1 for days from
    /// its end; both in ascending order.
    numbers: Vec<i8>,
}

impl MonthDays {
    pub(super) fn has(&self, day: Date) -> bool {
        let from_end = day.day() - day.days_in_month() - 1;
        self.numbers.contains(&day.day()) || self.numbers.contains(&from_end)
    }

    fn parse_day(word: &str) -> Result<i8, WordsError> {
        let word = word.trim().to_ascii_lowercase();
        let fail =
            || WordsError::new(&word, "a day of the month (1 to 31, last, or last-1 to last-30)");
        let number = |text: &str, max: i8| {
            text.parse().ok().filter(|number| (1..=max).contains(number)).ok_or_else(fail)
        };
        match word.strip_prefix("last") {
            Some("") => Ok(-1),
            Some(before) => {
                let before = before.strip_prefix('-').ok_or_else(fail)?;
                Ok(-1 - number(before, 30)?)
            }
            None => number(&word, 31),
        }
    }
}

impl FromStr for MonthDays {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Self, WordsError> {
        let mut numbers: Vec<i8> =
            text.split(',').map(Self::parse_day).collect::<Result<_, _>>()?;
        numbers.sort_unstable_by_key(|number| (*number < 0, *number));
        numbers.dedup();
        Ok(Self { numbers })
    }
}

impl fmt::Display for MonthDays {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |number: &i8| match number {
            -1 => "last".to_owned(),
            before @ ..-1 => format!("last{}", before + 1),
            day => day.to_string(),
        };
        let words: Vec<String> = self.numbers.iter().map(word).collect();
        out.write_str(&words.join(","))
    }
}

text_forms!(MonthDays);

/// Times of the day, in whole minutes, such as `04:00,22:30`; at least one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Times {
    /// Times in ascending order, each once.
    times: Vec<Time>,
}

impl Times {
    /// Returns the number of times in a day.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Time> {
        self.times.iter().copied()
    }
}

/// Parses a time of the day in whole minutes, such as `22:30`.
pub(super) fn parse_time(word: &str) -> Result<Time, WordsError> {
    let fail = || WordsError::new(word.trim(), "a time of the day (00:00 to 23:59)");
    let (hour, minute) = word.trim().split_once(':').ok_or_else(fail)?;
    let number = |text: &str| {
        let is_plain = (1..=2).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
        if is_plain { text.parse().map_err(|_| fail()) } else { Err(fail()) }
    };
    if minute.len() != 2 {
        return Err(fail());
    }
    Time::new(number(hour)?, number(minute)?, 0, 0).map_err(|_| fail())
}

/// Writes a time of the day as [`parse_time`] reads it.
pub(super) fn time_words(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

impl FromStr for Times {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Self, WordsError> {
        let mut times: Vec<Time> = text.split(',').map(parse_time).collect::<Result<_, _>>()?;
        times.sort_unstable();
        times.dedup();
        Ok(Self { times })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.iter().map(time_words).collect();
        out.write_str(&words.join(","))
    }
}

text_forms!(Times);

#[cfg(test)]
mod tests {
    use super::*;

    fn same<T: FromStr<Err = WordsError> + fmt::Display>(text: &str) -> String {
        text.parse::<T>()
            .map_or_else(|error| error.to_string(), |words| words.to_string())
    }

    #[test]
    fn names_and_ranges_are_read_and_written() {
        assert_eq!(same::<Weekdays>("mon-fri"), "mon-fri");
        assert_eq!(same::<Weekdays>("Sunday, MON"), "mon,sun");
        assert_eq!(same::<Weekdays>("sat-mon"), "mon,sat,sun");
        assert_eq!(same::<Weekdays>("mon-sun"), "any");
        assert_eq!(same::<Weekdays>("any"), "any");
        assert_eq!(same::<Months>("december,feb-apr"), "feb-apr,dec");
        assert_eq!(same::<Weeks>("last,first"), "first,last");
        let expected = "'x' is not a day of the week (mon to sun, a range such as mon-fri, or any)";
        assert_eq!(same::<Weekdays>("x"), expected);
        for wrong in ["", "mon,", "mon-", "monster", "tue-fri-sat", "8"] {
            assert!(wrong.parse::<Weekdays>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let check = |said: &str, meant: &str| {
            assert!(said.ends_with(&format!("); did you mean {meant}?")), "{said}");
        };
        check(&same::<Weekdays>("mon-fry"), "'fri'");
        check(&same::<Weekdays>("mo"), "'mon'");
        check(&same::<Weekdays>("Wendesday,fri"), "'wednesday'");
        check(&same::<Months>("ju"), "'jun' or 'jul'");
        check(&same::<Months>("agust"), "'august'");
        check(&same::<Weeks>("fist"), "'first'");
    }

    #[test]
    fn days_of_the_month_and_times_are_read_and_written() {
        assert_eq!(same::<MonthDays>("15,1,last,last-1"), "1,15,last-1,last");
        for wrong in ["", "0", "32", "-1", "last-0", "last-31", "lastly", "1.5"] {
            assert!(wrong.parse::<MonthDays>().is_err(), "{wrong}");
        }
        assert_eq!(same::<Times>("22:30, 4:00,22:30"), "04:00,22:30");
        for wrong in ["", "24:00", "12", "12:5", "12:60", "+1:00", "12:00:00", "1 :00"] {
            assert!(wrong.parse::<Times>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn weeks_and_days_count_from_both_ends_of_a_month() {
        let date = |text: &str| text.parse::<Date>().expect("a date");
        let weeks: Weeks = "first,last".parse().expect("are weeks");
        assert!(weeks.has(date("2026-02-07")) && weeks.has(date("2026-02-22")));
        assert!(!weeks.has(date("2026-02-08")) && !weeks.has(date("2026-02-21")));
        assert!(weeks.has(date("2026-03-25")) && !weeks.has(date("2026-03-24")));
        let days: MonthDays = "31,last-1".parse().expect("are days");
        assert!(days.has(date("2028-02-28")) && days.has(date("2026-02-27")));
        assert!(days.has(date("2026-01-31")) && !days.has(date("2028-02-29")));
    }
}
