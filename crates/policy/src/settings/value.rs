//! Values of settings, as people write them in option sets, and what they mean.
//!
//! Names of files are bytes. In a value they stand as elsewhere in the program's output: `\xNN` is
//! a byte, and `\\` is a backslash. In a list of paths, a comma in a name is `\x2c`.

/// Minimum of a limit, in bytes per second. A probe of the connection waits for the frame before
/// it, of up to 1 MiB, and must be answered within 20 seconds.
pub const RATE_BYTES_MIN: u64 = 128 << 10;

/// Maximum length of a value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// Kind of the values of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    YesNo,
    /// One of these words.
    Word(&'static [&'static str]),
    Number {
        min: u64,
        max: u64,
    },
    /// A number of bytes. A number without a unit counts in `unit` bytes. More than `most` counts
    /// as `most`.
    Size {
        unit: u64,
        min: u64,
        max: u64,
        most: u64,
    },
    /// A number of megabytes, or a size, of which whole megabytes count.
    Megabytes {
        max: u64,
    },
    /// Bytes per second.
    Rate,
    /// A length of time.
    Length,
    /// Strength of compression.
    Compression,
    Text,
    /// A path from the root.
    Path,
    /// Paths and words of a list of what is backed up.
    Paths,
    /// Directories from the root.
    Directories,
    /// Shell commands that the server may start.
    Commands,
    /// Limits by time of day.
    Windows,
}

/// A value with its meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    YesNo(bool),
    Number(u64),
    Text(String),
    List(Vec<String>),
    /// Windows of limits: keys and texts of each.
    Windows(Vec<Vec<(&'static str, String)>>),
}

/// Reason why a value is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the value must be {expected}")]
pub struct ValueError {
    expected: String,
}

impl ValueError {
    pub(super) fn expecting(expected: impl Into<String>) -> Self {
        Self { expected: expected.into() }
    }
}

impl Kind {
    pub fn parse(self, text: &str) -> Result<Value, ValueError> {
        let refused = || ValueError::expecting(self.expected());
        let own =
            |is_valid: bool| is_valid.then(|| Value::Text(text.to_owned())).ok_or_else(refused);
        if text.len() > VALUE_BYTES_MAX || text.contains(['\0', '\n', '\r']) {
            return Err(refused());
        }
        match self {
            Self::YesNo => match text.to_ascii_lowercase().as_str() {
                "yes" | "true" => Ok(Value::YesNo(true)),
                "no" | "false" => Ok(Value::YesNo(false)),
                _ => Err(refused()),
            },
            Self::Word(words) => {
                let word = text.to_ascii_lowercase();
                let is_known = words.contains(&word.as_str());
                is_known.then_some(Value::Text(word)).ok_or_else(refused)
            }
            Self::Number { min, max } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Value::Number).ok_or_else(refused)
            }
            Self::Size { unit, min, max, most } => {
                let bytes = model::parse_bytes(text, unit).ok();
                let bytes = bytes.filter(|bytes| (min..=max).contains(bytes));
                bytes.map(|bytes| Value::Number(bytes.min(most))).ok_or_else(refused)
            }
            Self::Megabytes { max } => {
                let megabytes = megabytes(text).filter(|megabytes| *megabytes <= max);
                megabytes.map(Value::Number).ok_or_else(refused)
            }
            Self::Rate => own(is_rate(text)),
            Self::Length => own(model::parse_length(text).is_ok()),
            Self::Compression => own(is_compression(text)),
            Self::Text => own(!text.is_empty()),
            Self::Path => own(text.starts_with('/')),
            Self::Paths => {
                let words = split_words(text);
                path_words(&words).map_err(|error| ValueError::expecting(error.to_string()))?;
                Ok(Value::List(words))
            }
            Self::Directories => {
                let words = split_words(text);
                directory_words(&words)
                    .map_err(|error| ValueError::expecting(error.to_string()))?;
                Ok(Value::List(words))
            }
            Self::Commands => match text {
                "all" | "none" => own(true),
                _ => Ok(Value::List(split_words(text))),
            },
            Self::Windows => {
                let windows: Option<Vec<_>> = text.split(';').map(window).collect();
                windows.map(Value::Windows).ok_or_else(refused)
            }
        }
    }

    /// Values of the kind, for people.
    pub fn expected(self) -> String {
        match self {
            Self::YesNo => "yes or no".to_owned(),
            Self::Word(words) => words.join(", "),
            Self::Number { min, max: u64::MAX } => format!("a number from {min}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Size { unit, min, max, .. } => {
                let unit = if unit == 1 { "" } else { "; a number without a unit is in KiB" };
                match max {
                    u64::MAX => format!("a size of at least {min} bytes, as in 64K{unit}"),
                    _ => format!("a size from {min} to {max} bytes, as in 64M{unit}"),
                }
            }
            Self::Megabytes { max } => format!(
                "0, or a size from 1M to {max}M, as in 512M; a number without a unit is in \
                 megabytes"
            ),
            Self::Rate => "a number of bytes per second of at least 128K, as in 10M".to_owned(),
            Self::Length => "a length of time, as in 90s or 2h".to_owned(),
            Self::Compression => {
                "standard, auto, gpu, threads, none, or a level from -7 to 19".to_owned()
            }
            Self::Text => "a text".to_owned(),
            Self::Path => "a path from the root".to_owned(),
            Self::Paths => {
                "all-local, paths, and -/PATH to leave out, separated by commas".to_owned()
            }
            Self::Directories => "directories from the root, separated by commas".to_owned(),
            Self::Commands => "all, none, or a list of commands".to_owned(),
            Self::Windows => {
                "windows of limits separated by semicolons, as in 'mon-fri 08:00-18:00 send=10M \
                 receive=20M; send=50M'"
                    .to_owned()
            }
        }
    }
}

/// Parses a number of whole megabytes. A size that has none is refused, because 0 may mean
/// something else.
fn megabytes(text: &str) -> Option<u64> {
    let bytes = model::parse_bytes(text, 1 << 20).ok()?;
    let megabytes = bytes >> 20;
    (megabytes > 0 || bytes == 0).then_some(megabytes)
}

fn is_rate(text: &str) -> bool {
    model::parse_bytes(text, 1).is_ok_and(|bytes| bytes >= RATE_BYTES_MIN)
}

fn is_compression(text: &str) -> bool {
    matches!(text, "standard" | "auto" | "gpu" | "threads" | "none")
        || text.parse::<i32>().is_ok_and(|level| (-7..=19).contains(&level))
}

/// Parses a window of limits, such as `mon-fri 08:00-18:00 send=10M`.
fn window(text: &str) -> Option<Vec<(&'static str, String)>> {
    let mut keys: Vec<(&str, String)> = Vec::new();
    for word in text.split_ascii_whitespace() {
        let new = match word.split_once('=') {
            Some(("send", rate)) if is_rate(rate) => vec![("send", rate)],
            Some(("receive", rate)) if is_rate(rate) => vec![("receive", rate)],
            Some(_) => return None,
            None => match word.split_once('-') {
                Some((from, to)) if is_time(from) && is_time(to) => {
                    vec![("from", from), ("to", to)]
                }
                _ if are_days(word) => vec![("days", word)],
                _ => return None,
            },
        };
        for (key, value) in new {
            if keys.iter().any(|(known, _)| *known == key) {
                return None;
            }
            keys.push((key, value.to_ascii_lowercase()));
        }
    }
    let limits_something = keys.iter().any(|(key, _)| matches!(*key, "send" | "receive"));
    // A rate may have a unit in upper case.
    limits_something.then(|| with_units(keys))
}

fn with_units(mut keys: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    for (key, value) in &mut keys {
        if matches!(*key, "send" | "receive") {
            *value = value.to_ascii_uppercase().replace("IB", "iB");
        }
    }
    keys
}

fn is_time(text: &str) -> bool {
    let number = |digits: &str| {
        let is_plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let parts = text.split_once(':');
    let time = parts.and_then(|(hours, minutes)| Some((number(hours)?, number(minutes)?)));
    time.is_some_and(|(hours, minutes)| minutes < 60 && hours * 60 + minutes <= 24 * 60)
}

fn are_days(text: &str) -> bool {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let is_day = |word: &str| DAYS.contains(&word.to_ascii_lowercase().as_str());
    let is_part = |part: &str| match part.split_once('-') {
        Some((from, to)) => is_day(from) && is_day(to),
        None => is_day(part),
    };
    text.split(',').all(is_part)
}

/// Splits a list at its commas. Blanks around a word do not count.
pub fn split_words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Word that stands for all local file systems of real disks.
const ALL_LOCAL: &str = "all-local";

/// Paths of a backup without paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathWords {
    /// True if all local file systems are backed up.
    pub all_local: bool,
    /// Paths that are backed up.
    pub paths: Vec<Vec<u8>>,
    /// Mount points of local file systems that are not backed up.
    pub left_out: Vec<Vec<u8>>,
}

/// Reason why a list of paths is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathWordsError {
    #[error("a list that names something to back up: all-local or paths from the root")]
    Nothing,
    #[error("all-local, a path from the root, or -/PATH to leave out, and not '{0}'")]
    Word(String),
    #[error("with all-local if it leaves out '{0}'")]
    Exclusion(String),
}

/// Parses the words of a list of paths. Paths are in escaped form.
pub fn path_words(words: &[String]) -> Result<PathWords, PathWordsError> {
    let mut found = PathWords::default();
    let mut first_left_out = None;
    for word in words {
        let path = |text: &str| {
            let path = parse_escaped(text).filter(|path| path.starts_with(b"/"));
            path.ok_or_else(|| PathWordsError::Word(word.clone()))
        };
        if word.eq_ignore_ascii_case(ALL_LOCAL) {
            found.all_local = true;
        } else if let Some(left_out) = word.strip_prefix('-') {
            found.left_out.push(without_end(path(left_out)?));
            first_left_out.get_or_insert_with(|| word.clone());
        } else {
            found.paths.push(path(word)?);
        }
    }
    if !found.all_local && found.paths.is_empty() {
        return Err(PathWordsError::Nothing);
    }
    match first_left_out {
        Some(word) if !found.all_local => Err(PathWordsError::Exclusion(word)),
        _ => Ok(found),
    }
}

/// Reason why a list of directories is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("directories below the root, without '.', '..' and double slashes, and not '{0}'")]
pub struct DirectoryWordError(String);

/// Parses the words of a list of directories. Paths are in escaped form.
pub fn directory_words(words: &[String]) -> Result<Vec<Vec<u8>>, DirectoryWordError> {
    let directory = |word: &String| {
        let path = parse_escaped(word).map(without_end).filter(|path| is_plain_directory(path));
        path.ok_or_else(|| DirectoryWordError(word.clone()))
    };
    words.iter().map(directory).collect()
}

/// Returns true if `path` can be the path of a directory below the root, as a walk names it.
pub fn is_plain_directory(path: &[u8]) -> bool {
    let Some(names) = path.strip_prefix(b"/") else { return false };
    let mut parts = names.split(|&byte| byte == b'/');
    parts.all(|part| !matches!(part, b"" | b"." | b"..")) && !path.contains(&0)
}

/// Returns the path without slashes at its end.
fn without_end(mut path: Vec<u8>) -> Vec<u8> {
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    path
}

/// Parses bytes in the form of `model::escaped`; `None` if a backslash begins nothing that it
/// writes.
pub fn parse_escaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [b'x', high, low, after @ ..]) => (hexadecimal(*high, *low)?, after),
            (b'\\', _) => return None,
            plain => plain,
        };
        bytes.push(byte);
        rest = after;
    }
    Some(bytes)
}

fn hexadecimal(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::table::{SETTINGS, find};

    fn parse(name: &str, text: &str) -> Result<Value, ValueError> {
        find(name).expect("a setting").kind.parse(text)
    }

    #[test]
    fn values_have_the_forms_of_the_command_line() {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        assert_eq!(parse("compression", "19"), text("19"));
        assert_eq!(parse("compression", "auto"), text("auto"));
        assert_eq!(parse("resourceutilization", "8"), Ok(Value::Number(8)));
        assert_eq!(parse("deduplication", "No"), Ok(Value::YesNo(false)));
        assert_eq!(parse("txnbytelimit", "25600"), Ok(Value::Number(25 << 20)));
        assert_eq!(parse("txnbytelimit", "10G"), Ok(Value::Number(1 << 30)));
        assert_eq!(parse("dedup-cache-megabytes", "512"), Ok(Value::Number(512)));
        assert_eq!(parse("dedup-cache-megabytes", "1.5G"), Ok(Value::Number(1536)));
        assert_eq!(parse("dedup-cache-megabytes", "0"), Ok(Value::Number(0)));
        assert_eq!(parse("snapshot", "LVM"), text("lvm"));
        assert_eq!(parse("wait", "2h"), text("2h"));
        assert_eq!(parse("limit-rate-send", "10M"), text("10M"));
        for (name, wrong) in [
            ("compression", "20"),
            ("resourceutilization", "0"),
            ("resourceutilization", "101"),
            ("deduplication", "maybe"),
            ("txnbytelimit", "1000"),
            ("snapshot", "zfs"),
            ("wait", "soon"),
            ("limit-rate-send", "1K"),
            ("dedup-cache-folder", "here"),
            ("dedup-cache-megabytes", "100K"),
            ("dedup-cache-megabytes", "2T"),
            ("dedup-cache-megabytes", "-1"),
            ("dirmc", ""),
            ("paths", "home"),
            ("paths", ""),
            ("paths", "-/scratch"),
            ("paths", "/odd\\q"),
            ("pre-command", "a\nb"),
            ("agent-mode", "sometimes"),
        ] {
            assert!(parse(name, wrong).is_err(), "{name}={wrong}");
        }
    }

    #[test]
    fn windows_of_limits_are_read() {
        let found = parse("limits", "mon-fri 08:00-18:00 send=10m receive=20MiB; send=50M");
        let text = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
        };
        let first = [
            ("days", "mon-fri"),
            ("from", "08:00"),
            ("to", "18:00"),
            ("send", "10M"),
            ("receive", "20MiB"),
        ];
        assert_eq!(found, Ok(Value::Windows(vec![text(&first), text(&[("send", "50M")])])));
        for wrong in
            ["", "mon-fri", "fri- send=1M", "8:00-9:00 send=1M", "send=1K", "send=1M send=2M", ";"]
        {
            assert!(parse("limits", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_may_have_any_byte() {
        let words = split_words("all-local, -/scratch/, /odd\\x2c\\xff\\\\");
        let found = path_words(&words).expect("a list");
        assert!(found.all_local);
        assert_eq!(found.left_out, [b"/scratch".to_vec()]);
        assert_eq!(found.paths, [b"/odd,\xff\\".to_vec()]);
    }

    #[test]
    fn directories_are_below_the_root() {
        let parse = |text: &str| directory_words(&split_words(text));
        let found = parse("/srv/projects/, /odd\\x2c\\xff\\\\").expect("a list");
        assert_eq!(found, [b"/srv/projects".to_vec(), b"/odd,\xff\\".to_vec()]);
        assert_eq!(parse("").expect("no directory"), [] as [Vec<u8>; 0]);
        for wrong in ["/", "//", "home", "/a/../b", "/a/./b", "/a//b", "/a\\x00", "/a, b", "/a\\q"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn escaped_bytes_are_read_back(bytes: Vec<u8>) {
            prop_assert_eq!(parse_escaped(&model::escaped(&bytes)), Some(bytes));
        }

        #[test]
        fn no_text_is_too_odd_for_a_kind(text in ".{0,40}", index in 0..SETTINGS.len()) {
            let kind = SETTINGS[index].kind;
            // A value that is taken is taken in the same way again.
            if let Ok(value) = kind.parse(&text) {
                prop_assert_eq!(kind.parse(&text), Ok(value));
            }
        }
    }
}
