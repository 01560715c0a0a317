//! Logs of errors and schedules: their lines, and what becomes of old ones.

use crate::forms::{Day, Forms};

/// Time for which lines are kept, and what becomes of older ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    pub days: u32,
    /// True if older lines are saved in another file.
    pub saves: bool,
}

impl Retention {
    /// Parses the usual form of a value, such as `30 s`. Returns `None` if lines are kept for ever.
    pub fn of(value: &str) -> Option<Self> {
        let (days, rest) = value.split_once(' ')?;
        Some(Self { days: days.parse().ok()?, saves: rest == "s" })
    }
}

/// Text of a log, divided by age.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Division<'a> {
    pub old: &'a [u8],
    pub kept: &'a [u8],
}

/// Divides a log at its first line that is of the day `first` or later. Lines without a date belong
/// to the line before. A log without dates is kept.
pub fn divide(log: &[u8], first: Day, forms: Forms) -> Division<'_> {
    let mut at = 0;
    let mut old_end = 0;
    for line in log.split_inclusive(|&byte| byte == b'\n') {
        match date(line, forms) {
            Some(day) if day >= first => {
                return Division { old: &log[..old_end.max(at)], kept: &log[at..] };
            }
            Some(_) => old_end = at + line.len(),
            None => {}
        }
        at += line.len();
    }
    // All dated lines are old; what follows the last of them belongs to it.
    match old_end {
        0 => Division { old: &[], kept: log },
        _ => Division { old: log, kept: &[] },
    }
}

fn date(line: &[u8], forms: Forms) -> Option<Day> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    forms.parse_date(std::str::from_utf8(&line[..end]).ok()?)
}

/// Returns the newer half of a log that has become too large, from the beginning of a line on.
pub fn newer_half(log: &[u8]) -> &[u8] {
    let half = log.len() / 2;
    let start = log[half..]
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(log.len(), |at| half + at + 1);
    &log[start..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOG: &str = "no date\n11/01/2026 10:00:00 a\n  more\n11/02/2026 10:00:00 b\n\
                       11/03/2026 10:00:00 c\nlast\n";

    fn day(day: u8) -> Day {
        Day { year: 2026, month: 11, day }
    }

    #[track_caller]
    fn check(first: u8, kept: &str) {
        let division = divide(LOG.as_bytes(), day(first), Forms::default());
        assert_eq!(division.kept, kept.as_bytes(), "{first}");
        assert_eq!([division.old, division.kept].concat(), LOG.as_bytes());
    }

    #[test]
    fn lines_are_old_by_their_date() {
        check(1, &LOG[8..]);
        check(2, "11/02/2026 10:00:00 b\n11/03/2026 10:00:00 c\nlast\n");
        check(3, "11/03/2026 10:00:00 c\nlast\n");
        check(4, "");
    }

    #[test]
    fn a_log_without_dates_is_kept() {
        let division = divide(b"a\nb\n", day(1), Forms::default());
        assert_eq!((division.old, division.kept), (&b""[..], &b"a\nb\n"[..]));
    }

    #[test]
    fn a_retention_has_days_or_none() {
        assert_eq!(Retention::of("30 s"), Some(Retention { days: 30, saves: true }));
        assert_eq!(Retention::of("7 d"), Some(Retention { days: 7, saves: false }));
        assert_eq!(Retention::of("n d"), None);
    }

    #[test]
    fn a_large_log_keeps_whole_lines() {
        assert_eq!(newer_half(b"aaaa\nbbbb\ncccc\n"), b"cccc\n");
        assert_eq!(newer_half(b"aaaaaaaa"), b"");
    }

    proptest! {
        #[test]
        fn nothing_of_a_log_is_lost(log in proptest::collection::vec(any::<u8>(), 0..500)) {
            let division = divide(&log, day(2), Forms::default());
            prop_assert_eq!([division.old, division.kept].concat(), log.clone());
            prop_assert!(log.ends_with(newer_half(&log)));
        }
    }
}
