//! Forms of dates, times and numbers (DATEFORMAT, TIMEFORMAT, NUMBERFORMAT).

use crate::options::Options;

/// A moment by the clock on the wall.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment {
    pub year: i16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

/// Day of the calendar, as it is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Day {
    pub year: i16,
    pub month: u8,
    pub day: u8,
}

/// Time of day, as it is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Clock {
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

/// Last second of a day, which a date without a time stands for.
pub const END_OF_DAY: Clock = Clock { hour: 23, minute: 59, second: 59 };

/// Forms that the options choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forms {
    date: u64,
    time: u64,
    number: u64,
}

impl Default for Forms {
    fn default() -> Self {
        Self { date: 1, time: 1, number: 1 }
    }
}

/// Order of the parts of a date.
#[derive(Clone, Copy)]
enum Order {
    MonthDayYear,
    DayMonthYear,
    YearMonthDay,
}

impl Forms {
    /// Returns the forms that the options name. The form 0, that of the system, is the first one.
    pub fn of(options: &Options) -> Self {
        let form = |name| options.number(name).filter(|form| *form > 0).unwrap_or(1);
        Self { date: form("DATEFORMAT"), time: form("TIMEFORMAT"), number: form("NUMBERFORMAT") }
    }

    fn date_parts(self) -> (Order, char) {
        match self.date {
            2 => (Order::DayMonthYear, '-'),
            3 => (Order::YearMonthDay, '-'),
            4 => (Order::DayMonthYear, '.'),
            5 => (Order::YearMonthDay, '.'),
            6 => (Order::YearMonthDay, '/'),
            7 => (Order::DayMonthYear, '/'),
            _ => (Order::MonthDayYear, '/'),
        }
    }

    pub fn date(self, moment: Moment) -> String {
        let Moment { year, month, day, .. } = moment;
        let (order, mark) = self.date_parts();
        match order {
            Order::MonthDayYear => format!("{month:02}{mark}{day:02}{mark}{year:04}"),
            Order::DayMonthYear => format!("{day:02}{mark}{month:02}{mark}{year:04}"),
            Order::YearMonthDay => format!("{year:04}{mark}{month:02}{mark}{day:02}"),
        }
    }

    pub fn time(self, moment: Moment) -> String {
        let Moment { hour, minute, second, .. } = moment;
        let half = if hour < 12 { 'A' } else { 'P' };
        let twelve = (hour + 11) % 12 + 1;
        match self.time {
            2 => format!("{hour:02},{minute:02},{second:02}"),
            3 => format!("{hour:02}.{minute:02}.{second:02}"),
            4 => format!("{twelve:02}:{minute:02}:{second:02} {half}"),
            5 => format!("{half} {twelve:02}:{minute:02}:{second:02}"),
            _ => format!("{hour:02}:{minute:02}:{second:02}"),
        }
    }

    /// Returns the date and the time with a blank between.
    pub fn stamp(self, moment: Moment) -> String {
        format!("{} {}", self.date(moment), self.time(moment))
    }

    /// Parses a date. A date that begins with a year of four digits is understood in every form.
    /// Any other has the marks of this form: one of another form has its parts in another order.
    pub fn parse_date(self, text: &str) -> Option<Day> {
        let text = text.trim();
        let (order, mark) = self.date_parts();
        let begins_with_year = text.bytes().take_while(u8::is_ascii_digit).count() == 4;
        let own = [mark];
        let marks: &[char] = if begins_with_year { &['/', '-', '.'] } else { &own };
        let parts: Vec<&str> = text.split(marks).collect();
        let [first, second, third] = parts[..] else { return None };
        let (year, month, day) = match order {
            _ if begins_with_year => (first, second, third),
            Order::MonthDayYear => (third, first, second),
            Order::DayMonthYear => (third, second, first),
            // Two digits could be the day of another form.
            Order::YearMonthDay => return None,
        };
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse::<i16>().ok()).flatten()
        };
        // A year of two digits is of this century.
        let year = number(year).map(|year| if year < 100 { 2000 + year } else { year })?;
        let month = u8::try_from(number(month)?).ok().filter(|month| (1..=12).contains(month))?;
        let day = u8::try_from(number(day)?).ok().filter(|day| (1..=31).contains(day))?;
        Some(Day { year, month, day })
    }

    /// Parses a time of day: hours and minutes, with or without seconds, with or without a letter
    /// for the half of the day.
    pub fn parse_time(self, text: &str) -> Option<Clock> {
        let text = text.trim().to_ascii_uppercase();
        let half = text.chars().find(|letter| matches!(letter, 'A' | 'P'));
        let plain = text.replace(['A', 'P', 'M', ' '], "");
        let parts: Vec<&str> = plain.split([':', '.', ',']).collect();
        let number = |text: &str, most: u8| {
            let is_plain =
                (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            is_plain
                .then(|| text.parse::<u8>().ok())
                .flatten()
                .filter(|number| *number <= most)
        };
        let (hour, minute, second) = match parts[..] {
            [hour, minute] => (hour, minute, "0"),
            [hour, minute, second] => (hour, minute, second),
            _ => return None,
        };
        let (hour, minute, second) = (number(hour, 23)?, number(minute, 59)?, number(second, 59)?);
        let hour = match half {
            Some(_) if hour == 0 || hour > 12 => return None,
            Some('P') => hour % 12 + 12,
            Some(_) => hour % 12,
            None => hour,
        };
        Some(Clock { hour, minute, second })
    }

    /// Puts the marks of this form into a number or a line with numbers such as `1,234.56`.
    pub fn marked(self, text: &str) -> String {
        let (thousands, decimals) = match self.number {
            2 => (',', ','),
            3 => (' ', ','),
            4 => (' ', '.'),
            5 => ('.', ','),
            6 => ('\'', ','),
            _ => return text.to_owned(),
        };
        let bytes = text.as_bytes();
        let is_digit =
            |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        text.char_indices()
            .map(|(at, letter)| match letter {
                ',' if is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) => thousands,
                '.' if is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) => decimals,
                letter => letter,
            })
            .collect()
    }

    /// Returns a whole number with its marks.
    pub fn count(self, number: u64) -> String {
        self.marked(&grouped(number))
    }
}

/// Returns `number` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVENING: Moment =
        Moment { year: 2026, month: 11, day: 3, hour: 18, minute: 5, second: 9 };

    fn forms(date: u64, time: u64, number: u64) -> Forms {
        Forms { date, time, number }
    }

    #[test]
    fn dates_and_times_have_their_forms() {
        for (form, expected) in [
            (1, "11/03/2026"),
            (2, "03-11-2026"),
            (3, "2026-11-03"),
            (4, "03.11.2026"),
            (5, "2026.11.03"),
            (6, "2026/11/03"),
            (7, "03/11/2026"),
        ] {
            assert_eq!(forms(form, 1, 1).date(EVENING), expected);
        }
        for (form, expected) in [
            (1, "18:05:09"),
            (2, "18,05,09"),
            (3, "18.05.09"),
            (4, "06:05:09 P"),
            (5, "P 06:05:09"),
        ] {
            assert_eq!(forms(1, form, 1).time(EVENING), expected);
        }
        let midnight = Moment { hour: 0, ..EVENING };
        assert_eq!(forms(1, 4, 1).time(midnight), "12:05:09 A");
    }

    #[test]
    fn a_date_is_read_in_its_form() {
        let day = |year, month, day| Some(Day { year, month, day });
        assert_eq!(forms(1, 1, 1).parse_date("11/03/2026"), day(2026, 11, 3));
        assert_eq!(forms(2, 1, 1).parse_date("03-11-2026"), day(2026, 11, 3));
        assert_eq!(forms(3, 1, 1).parse_date("2026-11-03"), day(2026, 11, 3));
        assert_eq!(forms(1, 1, 1).parse_date("2026-11-03"), day(2026, 11, 3));
        assert_eq!(forms(4, 1, 1).parse_date("3.11.26"), day(2026, 11, 3));
        for text in ["", "13/01/2026", "01/32/2026", "1/1", "a/b/c", "1/1/1/1", "-1/1/2026"] {
            assert_eq!(forms(1, 1, 1).parse_date(text), None, "{text}");
        }
    }

    /// The first of December was read as the twelfth of January, or as a day of 2012 or 2001.
    #[test]
    fn a_date_of_another_form_is_no_date() {
        for (form, text) in [
            (1, "01.12.2026"),
            (1, "01-12-2026"),
            (2, "12/01/2026"),
            (7, "01.12.2026"),
            (3, "12/01/26"),
            (3, "01-12-26"),
            (5, "01.12.26"),
        ] {
            assert_eq!(forms(form, 1, 1).parse_date(text), None, "{form} {text}");
        }
        let first = Some(Day { year: 2026, month: 12, day: 1 });
        for form in 1..8 {
            assert_eq!(forms(form, 1, 1).parse_date("2026/12/01"), first, "{form}");
        }
    }

    #[test]
    fn a_time_is_read_with_or_without_seconds() {
        let clock = |hour, minute, second| Some(Clock { hour, minute, second });
        let read = |text| Forms::default().parse_time(text);
        assert_eq!(read("18:05:09"), clock(18, 5, 9));
        assert_eq!(read("8:05"), clock(8, 5, 0));
        assert_eq!(read("06:05:09 P"), clock(18, 5, 9));
        assert_eq!(read("12:00 AM"), clock(0, 0, 0));
        assert_eq!(read("12:00P"), clock(12, 0, 0));
        for text in ["", "24:00", "1", "1:60", "13:00 P", "a:b", "1:2:3:4", "001:00"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_have_their_marks() {
        for (form, expected) in [
            (1, "1,234,567.89 KB"),
            (2, "1,234,567,89 KB"),
            (3, "1 234 567,89 KB"),
            (4, "1 234 567.89 KB"),
            (5, "1.234.567,89 KB"),
            (6, "1'234'567,89 KB"),
        ] {
            assert_eq!(forms(1, 1, form).marked("1,234,567.89 KB"), expected);
        }
        assert_eq!(forms(1, 1, 5).marked("a, b. c,d 1. 2,"), "a, b. c,d 1. 2,");
        assert_eq!(forms(1, 1, 5).count(1000), "1.000");
    }

    proptest! {
        #[test]
        fn a_date_that_is_written_is_read(
            form in 1..8_u64,
            year in 1970..9999_i16,
            month in 1..13_u8,
            day in 1..32_u8,
        ) {
            let moment = Moment { year, month, day, ..EVENING };
            let read = forms(form, 1, 1).parse_date(&forms(form, 1, 1).date(moment));
            prop_assert_eq!(read, Some(Day { year, month, day }));
        }

        #[test]
        fn a_time_that_is_written_is_read(
            form in 1..6_u64,
            hour in 0..24_u8,
            minute in 0..60_u8,
            second in 0..60_u8,
        ) {
            let moment = Moment { hour, minute, second, ..EVENING };
            let read = forms(1, form, 1).parse_time(&forms(1, form, 1).time(moment));
            prop_assert_eq!(read, Some(Clock { hour, minute, second }));
        }

        #[test]
        fn any_text_is_no_panic(text in ".{0,30}") {
            let _ = Forms::default().parse_date(&text);
            let _ = Forms::default().parse_time(&text);
            let marked = forms(1, 1, 6).marked(&text);
            prop_assert_eq!(marked.chars().count(), text.chars().count());
        }
    }
}
