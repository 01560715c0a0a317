//! Definition of an option: its spelling, its values, the files that may have it, and its fate.

use std::fmt;

/// Fate of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Holdfast does what the option says, by this means.
    Done(&'static str),
    /// Holdfast does a part of it, by this means; the rest is named.
    Partly(&'static str),
    /// The option is accepted, and nothing needs to be done, for this reason.
    Needless(&'static str),
    /// The option is refused for a reason, with the thing to do instead.
    Refused { because: &'static str, instead: &'static str },
}

impl Fate {
    /// The fate in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done(_) => "carried out",
            Self::Partly(_) => "carried out in part",
            Self::Needless(_) => "needless",
            Self::Refused { .. } => "refused",
        }
    }

    pub fn is_refused(self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(text) | Self::Partly(text) | Self::Needless(text) => f.write_str(text),
            Self::Refused { because, instead } => write!(f, "{because}; {instead}"),
        }
    }
}

/// Values that an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No value; the option stands on a command line.
    Flag,
    YesNo,
    Number {
        min: u64,
        max: u64,
    },
    /// Number of kibibytes, or of bytes with a unit such as `10G`.
    Size {
        min_kib: u64,
        max_kib: u64,
    },
    /// One of these words, or an unambiguous beginning of one.
    Word(&'static [&'static str]),
    Text,
    Path,
    /// Number of days, or `N`, and what becomes of older lines: `D` or `S`.
    Retention,
    /// List of file systems.
    Domain,
    /// Include or exclude statement.
    Statement,
}

/// Reason why a value is not one of its option.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ValueFault {
    #[error("it takes no value")]
    Superfluous,
    #[error("it needs a value: {0}")]
    Absent(String),
    #[error("'{value}' is not {expected}")]
    Other { value: String, expected: String },
}

impl Kind {
    /// The values, for people.
    pub fn shown(self) -> String {
        match self {
            Self::Flag => "no value".to_owned(),
            Self::YesNo => "yes or no".to_owned(),
            Self::Number { min, max } if max == u64::MAX => format!("a number from {min}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Size { min_kib, max_kib } => {
                format!("a number of kilobytes from {min_kib} to {max_kib}, or a size such as 10G")
            }
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Text => "a text".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Retention => "a number of days or N, and D or S".to_owned(),
            Self::Domain => "a list of file systems".to_owned(),
            Self::Statement => "a statement".to_owned(),
        }
    }

    /// Checks a value and returns its usual form: words and yes or no in full and in lower case.
    pub fn usual(self, value: &[u8]) -> Result<Vec<u8>, ValueFault> {
        let text = String::from_utf8_lossy(value).trim().to_owned();
        let other = || ValueFault::Other { value: model::escaped(value), expected: self.shown() };
        if self == Self::Flag {
            return if text.is_empty() { Ok(Vec::new()) } else { Err(ValueFault::Superfluous) };
        }
        if text.is_empty() {
            return Err(ValueFault::Absent(self.shown()));
        }
        match self {
            // Samples of TSM have on and off, too.
            Self::YesNo => match text.to_ascii_lowercase().as_str() {
                "on" => Ok(b"yes".to_vec()),
                "off" => Ok(b"no".to_vec()),
                _ => word(&text, &["yes", "no"]).ok_or_else(other),
            },
            Self::Word(words) => word(&text, words).ok_or_else(other),
            Self::Number { min, max } => {
                let number = text.parse::<u64>().ok().filter(|number| (min..=max).contains(number));
                number.map(|number| number.to_string().into_bytes()).ok_or_else(other)
            }
            Self::Size { min_kib, max_kib } => {
                let bytes = model::parse_bytes(&text, 1 << 10).ok();
                let kib = bytes.map(|bytes| bytes.div_ceil(1 << 10));
                let kib = kib.filter(|kib| (min_kib..=max_kib).contains(kib));
                kib.map(|kib| kib.to_string().into_bytes()).ok_or_else(other)
            }
            Self::Retention => retention(&text).ok_or_else(other),
            _ => Ok(value.trim_ascii().to_vec()),
        }
    }
}

/// Returns the word that `text` begins, if only one does.
fn word(text: &str, words: &[&str]) -> Option<Vec<u8>> {
    let lower = text.to_ascii_lowercase();
    let exact = words.iter().find(|word| **word == lower);
    let mut beginning = words.iter().filter(|word| word.starts_with(&lower));
    let found = exact.or_else(|| beginning.next().filter(|_| beginning.next().is_none()))?;
    Some(found.as_bytes().to_vec())
}

fn retention(text: &str) -> Option<Vec<u8>> {
    let mut words = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
    let mut next = || words.by_ref().find(|word| !word.is_empty());
    let days = next()?;
    let days = match days.to_ascii_lowercase().as_str() {
        "n" | "no" => "n".to_owned(),
        days => days.parse::<u32>().ok().filter(|days| *days <= 9999)?.to_string(),
    };
    let rest = next().unwrap_or("d").to_ascii_lowercase();
    let is_known = rest == "d" || rest == "s";
    (is_known && next().is_none()).then(|| format!("{days} {rest}").into_bytes())
}

/// Places where an option may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Homes {
    /// File `dsm.sys`.
    pub system: bool,
    /// File `dsm.opt`.
    pub user: bool,
    /// Command line.
    pub line: bool,
}

impl Homes {
    pub(super) const SYS: Self = Self { system: true, user: false, line: false };
    pub(super) const SYS_CMD: Self = Self { system: true, user: false, line: true };
    pub(super) const OPT_CMD: Self = Self { system: false, user: true, line: true };
    pub(super) const ANY: Self = Self { system: true, user: true, line: false };
    pub(super) const ANY_CMD: Self = Self { system: true, user: true, line: true };
    pub(super) const CMD: Self = Self { system: false, user: false, line: true };

    /// The places, for people.
    pub fn shown(self) -> &'static str {
        match (self.system, self.user, self.line) {
            (true, false, false) => "dsm.sys",
            (true, false, true) => "dsm.sys, command",
            (false, true, false) => "dsm.opt",
            (false, true, true) => "dsm.opt, command",
            (true, true, false) => "dsm.sys, dsm.opt",
            (true, true, true) => "dsm.sys, dsm.opt, command",
            (false, false, _) => "command",
        }
    }
}

/// An option of TSM's client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Definition {
    /// Name, with the shortest abbreviation in capital letters.
    pub spelling: &'static str,
    pub kind: Kind,
    pub homes: Homes,
    pub fate: Fate,
    /// Fates of single values, where they differ.
    pub values: &'static [(&'static str, Fate)],
}

impl Definition {
    pub(super) const fn new(spelling: &'static str, kind: Kind, homes: Homes, fate: Fate) -> Self {
        Self { spelling, kind, homes, fate, values: &[] }
    }

    /// Has another fate with these values.
    pub(super) const fn with(self, values: &'static [(&'static str, Fate)]) -> Self {
        Self { values, ..self }
    }

    /// Number of letters in the shortest abbreviation.
    pub fn letters_min(&self) -> usize {
        let ends = |letter: char| letter.is_ascii_lowercase();
        self.spelling.find(ends).unwrap_or(self.spelling.len())
    }

    /// Name in capital letters.
    pub fn name(&self) -> String {
        self.spelling.to_ascii_uppercase()
    }

    /// Returns true if `word` is the name or an abbreviation of it.
    pub fn is_called(&self, word: &str) -> bool {
        word.len() >= self.letters_min()
            && word.len() <= self.spelling.len()
            && self.spelling.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
    }

    /// Returns the fate of a value in its usual form.
    pub fn fate_of(&self, value: &[u8]) -> Fate {
        let same = |known: &str| known.as_bytes().eq_ignore_ascii_case(value.trim_ascii());
        let special = self.values.iter().find(|(known, _)| same(known));
        special.map_or(self.fate, |(_, fate)| *fate)
    }
}

/// An option with a place in `dsm.sys` or `dsm.opt`.
pub(super) const fn option(
    spelling: &'static str,
    kind: Kind,
    homes: Homes,
    fate: Fate,
) -> Definition {
    Definition::new(spelling, kind, homes, fate)
}

/// An option of the command line without a value.
pub(super) const fn flag(spelling: &'static str, fate: Fate) -> Definition {
    Definition::new(spelling, Kind::Flag, Homes::CMD, fate)
}

pub(super) const fn done(by: &'static str) -> Fate {
    Fate::Done(by)
}

pub(super) const fn partly(by: &'static str) -> Fate {
    Fate::Partly(by)
}

pub(super) const fn needless(because: &'static str) -> Fate {
    Fate::Needless(because)
}

pub(super) const fn refused(because: &'static str, instead: &'static str) -> Fate {
    Fate::Refused { because, instead }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, value: &str, expected: Option<&str>) {
        let usual = kind.usual(value.as_bytes()).ok();
        let usual = usual.map(|usual| String::from_utf8(usual).expect("text"));
        assert_eq!(usual.as_deref(), expected, "{kind:?} {value}");
    }

    #[test]
    fn values_have_one_form() {
        check(Kind::YesNo, "Y", Some("yes"));
        check(Kind::YesNo, "no", Some("no"));
        check(Kind::YesNo, "maybe", None);
        check(Kind::YesNo, "On", Some("yes"));
        check(Kind::YesNo, "OFF", Some("no"));
        check(Kind::YesNo, "o", None);
        check(Kind::Word(&["prompt", "generate"]), "GEN", Some("generate"));
        check(Kind::Word(&["all", "all-local"]), "all", Some("all"));
        check(Kind::Word(&["prompt", "polling"]), "p", None);
        check(Kind::Number { min: 1, max: 100 }, "010", Some("10"));
        check(Kind::Number { min: 1, max: 100 }, "101", None);
        check(Kind::Number { min: 1, max: 100 }, "5 * comment", None);
        let size = Kind::Size { min_kib: 300, max_kib: 34_359_738_368 };
        check(size, "10G", Some("10485760"));
        check(size, "25600", Some("25600"));
        check(size, "12", None);
        check(Kind::Flag, "", Some(""));
        check(Kind::Flag, "yes", None);
        check(Kind::Text, "", None);
        check(Kind::Text, " a b ", Some("a b"));
    }

    #[test]
    fn a_retention_has_days_and_a_letter() {
        check(Kind::Retention, "30", Some("30 d"));
        check(Kind::Retention, "30 S", Some("30 s"));
        check(Kind::Retention, "30,s", Some("30 s"));
        check(Kind::Retention, "N", Some("n d"));
        check(Kind::Retention, "30 x", None);
        check(Kind::Retention, "30 d d", None);
        check(Kind::Retention, "10000", None);
    }

    #[test]
    fn an_abbreviation_has_at_least_the_capital_letters() {
        let option = Definition::new("INCLExcl", Kind::Path, Homes::SYS, Fate::Needless(""));
        for (word, expected) in
            [("incle", true), ("INCLEXCL", true), ("inc", false), ("inclexclx", false)]
        {
            assert_eq!(option.is_called(word), expected, "{word}");
        }
        assert_eq!(option.letters_min(), 5);
    }
}
