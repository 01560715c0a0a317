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

/// Number of bytes at the start of a line in which its date is.
const DATE_BYTES_MAX: usize = 32;

/// Search for the first line of a log that is of a day or later. Lines without a date belong to the
/// line before. The log is read in parts, because it may be large.
#[derive(Clone, Debug)]
pub struct Search {
    first: Day,
    forms: Forms,
    /// Place at which the present line begins.
    line_start: u64,
    line_bytes: u64,
    /// First bytes of the present line.
    head: Vec<u8>,
    has_old: bool,
    found: Option<u64>,
}

impl Search {
    pub fn new(first: Day, forms: Forms) -> Self {
        Self {
            first,
            forms,
            line_start: 0,
            line_bytes: 0,
            head: Vec::with_capacity(DATE_BYTES_MAX),
            has_old: false,
            found: None,
        }
    }

    /// Looks through the next part of the log. Returns true as soon as the line is found.
    pub fn read(&mut self, part: &[u8]) -> bool {
        for piece in part.split_inclusive(|&byte| byte == b'\n') {
            if self.found.is_some() {
                break;
            }
            let room = DATE_BYTES_MAX - self.head.len();
            self.head.extend_from_slice(&piece[..piece.len().min(room)]);
            self.line_bytes += piece.len() as u64;
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        self.found.is_some()
    }

    fn end_line(&mut self) {
        match date(&self.head, self.forms) {
            Some(day) if day >= self.first => self.found = Some(self.line_start),
            Some(_) => self.has_old = true,
            None => {}
        }
        self.line_start += self.line_bytes;
        self.line_bytes = 0;
        self.head.clear();
    }

    /// Returns the place of the line: the end of the log if all lines are old, and its start if no
    /// line has a date.
    pub fn end(mut self) -> u64 {
        if self.found.is_none() && self.line_bytes > 0 {
            self.end_line();
        }
        let without = if self.has_old { self.line_start } else { 0 };
        self.found.unwrap_or(without)
    }
}

fn date(line: &[u8], forms: Forms) -> Option<Day> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    forms.parse_date(std::str::from_utf8(&line[..end]).ok()?)
}

/// Returns the place from which a log of `bytes` is kept that must not have more than `bytes_max`.
/// It keeps half of them, so that it is not shortened at each line. The caller goes on to the next
/// line.
pub fn newer_part(bytes: u64, bytes_max: u64) -> Option<u64> {
    (bytes > bytes_max).then(|| bytes - bytes_max / 2)
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

    /// Looks through a log in parts of `part_bytes`, and returns what is kept.
    fn kept(log: &[u8], first: u8, part_bytes: usize) -> &[u8] {
        let mut search = Search::new(day(first), Forms::default());
        for part in log.chunks(part_bytes) {
            if search.read(part) {
                break;
            }
        }
        let at = usize::try_from(search.end()).expect("within the log");
        &log[at..]
    }

    #[track_caller]
    fn check(first: u8, expected: &str) {
        for part_bytes in [1, 7, LOG.len()] {
            let kept = kept(LOG.as_bytes(), first, part_bytes);
            assert_eq!(std::str::from_utf8(kept), Ok(expected), "{first}, {part_bytes}");
        }
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
        assert_eq!(kept(b"a\nb\n", 1, 9), b"a\nb\n");
        assert_eq!(kept(b"", 1, 9), b"");
        assert_eq!(kept(b"11/01/2026 without an end", 2, 9), b"");
    }

    #[test]
    fn a_retention_has_days_or_none() {
        assert_eq!(Retention::of("30 s"), Some(Retention { days: 30, saves: true }));
        assert_eq!(Retention::of("7 d"), Some(Retention { days: 7, saves: false }));
        assert_eq!(Retention::of("n d"), None);
    }

    #[test]
    fn a_large_log_keeps_half_of_its_maximum() {
        assert_eq!(newer_part(100, 100), None);
        assert_eq!(newer_part(101, 100), Some(51));
        assert_eq!(newer_part(1_000, 100), Some(950));
    }

    proptest! {
        #[test]
        fn parts_change_nothing(
            log in proptest::collection::vec(prop_oneof!["[0-9/ ]{1,12}", "\n"], 0..40),
            part_bytes in 1..20_usize,
        ) {
            let log = log.concat().into_bytes();
            prop_assert_eq!(kept(&log, 2, part_bytes), kept(&log, 2, usize::MAX));
        }
    }
}
