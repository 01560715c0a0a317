//! The command line of a subcommand: flags, options with a value, and plain words.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::trouble::Trouble;

/// What a subcommand knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grammar {
    pub(crate) flags: &'static [&'static str],
    /// Options that take the word behind them.
    pub(crate) options: &'static [&'static str],
}

/// A line that has been taken apart.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    flags: Vec<&'static str>,
    /// In the order given: the last one of a name counts.
    options: Vec<(&'static str, OsString)>,
    words: Vec<OsString>,
}

impl Line {
    /// Returns `None` when help is asked for.
    pub(crate) fn parse(
        words: impl IntoIterator<Item = OsString>,
        grammar: Grammar,
    ) -> Result<Option<Self>, Trouble> {
        let mut words = words.into_iter();
        let mut line = Self::default();
        while let Some(word) = words.next() {
            let known = |names: &'static [&'static str]| {
                names.iter().find(|name| OsStr::new(name) == word).copied()
            };
            if word == "--" {
                line.words.extend(words);
                break;
            } else if word == "-h" || word == "--help" {
                return Ok(None);
            } else if let Some(flag) = known(grammar.flags) {
                line.flags.push(flag);
            } else if let Some(option) = known(grammar.options) {
                let value = words.next();
                let value = value.ok_or_else(|| Trouble::new(format!("{option} takes a value")))?;
                line.options.push((option, value));
            } else if word.as_encoded_bytes().starts_with(b"-") {
                return Err(Trouble::new(format!("unknown option {}; see --help", word.display())));
            } else {
                line.words.push(word);
            }
        }
        Ok(Some(line))
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.flags.contains(&name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        let named = self.options.iter().rfind(|(option, _)| *option == name);
        named.map(|(_, value)| value.as_os_str())
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(PathBuf::from)
    }

    pub(crate) fn number(
        &self,
        name: &str,
        default: usize,
        bounds: RangeInclusive<usize>,
    ) -> Result<usize, Trouble> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let text = value.to_string_lossy();
        text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
            let (least, most) = (bounds.start(), bounds.end());
            Trouble::new(format!("{name} takes a number from {least} to {most}, not '{text}'"))
        })
    }

    /// Returns a size as in `4096`, `64K`, `2.5G`: units are powers of 1024.
    pub(crate) fn bytes(&self, name: &str, default: u64) -> Result<u64, Trouble> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let text = value.to_string_lossy();
        parse_bytes(&text)
            .ok_or_else(|| Trouble::new(format!("{name} takes a size as 512M or 8G, not '{text}'")))
    }

    /// Returns the names in a value as `a,b`, and none where the option is not given.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let value = self.value(name).unwrap_or_default().to_string_lossy().into_owned();
        value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the plain words, which must be as many as `whats`, each a noun for messages.
    pub(crate) fn paths<const N: usize>(&self, whats: [&str; N]) -> Result<[PathBuf; N], Trouble> {
        if let Some(extra) = self.words.get(N) {
            return Err(Trouble::new(format!("{} is a word too much", extra.display())));
        }
        if let Some(missing) = whats.get(self.words.len()) {
            return Err(Trouble::new(format!("name the {missing}; see --help")));
        }
        Ok(std::array::from_fn(|index| PathBuf::from(&self.words[index])))
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let Some((whole, tenths)) = digits.split_once('.') else {
        return digits.parse::<u64>().ok()?.checked_mul(1 << shift);
    };
    let tenth = tenths.parse::<u64>().ok().filter(|tenth| shift > 0 && *tenth < 10)?;
    let tenths = whole.parse::<u64>().ok()?.checked_mul(10)?.checked_add(tenth)?;
    Some(tenths.checked_mul(1 << shift)? / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar =
        Grammar { flags: &["--json"], options: &["--rounds", "--bytes", "--only"] };

    fn parse(line: &str) -> Result<Option<Line>, Trouble> {
        Line::parse(line.split_whitespace().map(OsString::from), GRAMMAR)
    }

    fn line(text: &str) -> Line {
        parse(text).unwrap().unwrap()
    }

    #[track_caller]
    fn refused(result: Result<impl std::fmt::Debug, Trouble>, expected: &str) {
        assert_eq!(result.unwrap_err(), Trouble::new(expected));
    }

    #[test]
    fn flags_options_and_words_may_stand_in_any_order() {
        let line = line("/usr --json --rounds 2 --rounds 4 --only a,b,");
        assert!(line.flag("--json") && !line.flag("--cold"));
        assert_eq!(line.number("--rounds", 3, 1..=9), Ok(4));
        assert_eq!(line.names("--only"), ["a", "b"]);
        assert_eq!(line.paths(["tree"]), Ok(["/usr".into()]));
    }

    #[test]
    fn what_stands_behind_two_dashes_is_a_word() {
        assert_eq!(line("-- --json").paths(["tree"]), Ok(["--json".into()]));
        assert_eq!(parse("/usr --help"), Ok(None));
        assert_eq!(line("-- --help").paths(["tree"]), Ok(["--help".into()]));
    }

    #[test]
    fn wrong_lines_are_refused_by_name() {
        refused(parse("/usr --fast"), "unknown option --fast; see --help");
        refused(parse("/usr --rounds"), "--rounds takes a value");
        refused(line("").paths(["tree"]), "name the tree; see --help");
        refused(line("/a /b").paths(["tree"]), "/b is a word too much");
        let zero = line("--rounds 0").number("--rounds", 3, 1..=100);
        refused(zero, "--rounds takes a number from 1 to 100, not '0'");
        let wrong = line("--bytes 8X").bytes("--bytes", 1);
        refused(wrong, "--bytes takes a size as 512M or 8G, not '8X'");
    }

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(line("").bytes("--bytes", 7), Ok(7));
        assert_eq!(parse_bytes("12"), Some(12));
        assert_eq!(parse_bytes("3K"), Some(3 << 10));
        assert_eq!(parse_bytes("8G"), Some(8 << 30));
        assert_eq!(parse_bytes("2.5G"), Some(5 << 29));
        assert_eq!(parse_bytes("2.55G"), None);
        assert_eq!(parse_bytes("2.5"), None);
        assert_eq!(parse_bytes("99999999999T"), None);
        assert_eq!(parse_bytes("G"), None);
        assert_eq!(parse_bytes(""), None);
    }
}
