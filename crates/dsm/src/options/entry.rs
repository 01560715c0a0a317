//! Entries of option files and command lines, and the lines that are none.

use std::fmt;

use super::definition::{Definition, Fate};

/// Place of an option.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Line of a file, counted from 1.
    File {
        path: String,
        line: usize,
    },
    CommandLine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{path} line {line}"),
            Self::CommandLine => f.write_str("the command line"),
        }
    }
}

/// An option with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub place: Place,
    pub definition: &'static Definition,
    /// Value in its usual form. A statement has its keyword, too.
    pub value: Vec<u8>,
}

/// A line that is no option, or has a value that its option does not take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub place: Place,
    /// The thing that is wrong, and the thing to do.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Result of the check of one entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub fate: Fate,
    /// Remark for the person who reads the check.
    pub remark: Option<&'static str>,
}

impl Entry {
    pub fn fate(&self) -> Fate {
        self.definition.fate_of(&self.value)
    }

    /// Returns the fate of the entry, which stands in `dsm.sys` if `in_system` is true.
    pub fn verdict(&self, in_system: bool) -> Verdict {
        let homes = self.definition.homes;
        let remark = match (in_system, homes.system, homes.user) {
            (true, false, true) => Some("TSM reads this option in dsm.opt"),
            (false, true, false) => Some("TSM reads this option in dsm.sys"),
            (_, false, false) => Some("TSM reads this option on the command line only"),
            _ => None,
        };
        Verdict { fate: self.fate(), remark }
    }

    /// The value as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.value).into_owned()
    }

    pub fn is_yes(&self) -> bool {
        self.value == b"yes"
    }
}
