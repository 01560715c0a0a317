//! What a check says.

use std::fmt;

/// The checks, as the ratchet names them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rule {
    Ascii,
    Blanks,
    Columns,
    DeadFile,
    Features,
    FileLines,
    FileName,
    Header,
    Layers,
    MachinePath,
    Ratchet,
    TypeName,
    Unfinished,
    Unsafe,
}

impl Rule {
    /// Every rule that the ratchet can hold back.
    const RATCHETED: [Self; 13] = [
        Self::Ascii,
        Self::Blanks,
        Self::Columns,
        Self::DeadFile,
        Self::Features,
        Self::FileLines,
        Self::FileName,
        Self::Header,
        Self::Layers,
        Self::MachinePath,
        Self::TypeName,
        Self::Unfinished,
        Self::Unsafe,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Blanks => "blanks",
            Self::Columns => "columns",
            Self::DeadFile => "dead-file",
            Self::Features => "features",
            Self::FileLines => "file-lines",
            Self::FileName => "file-name",
            Self::Header => "header",
            Self::Layers => "layers",
            Self::MachinePath => "machine-path",
            Self::Ratchet => "ratchet",
            Self::TypeName => "type-name",
            Self::Unfinished => "unfinished",
            Self::Unsafe => "unsafe",
        }
    }

    /// The rule that the ratchet calls `name`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::RATCHETED.into_iter().find(|rule| rule.name() == name)
    }
}

/// One thing to put right. Orders by place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) rule: Rule,
    /// What the ratchet counts: 1, or the lines of a file that has too many.
    pub(crate) amount: u64,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, rule: Rule, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, amount: 1, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_place() {
        let finding = Finding::new("a.rs", 7, Rule::FileName, "wrong, put it right");
        assert_eq!(finding.to_string(), "a.rs:7: wrong, put it right [file-name]");
    }

    #[test]
    fn rules_survive_their_names() {
        for rule in Rule::RATCHETED {
            assert_eq!(Rule::from_name(rule.name()), Some(rule));
        }
        assert_eq!(Rule::from_name("ratchet"), None);
    }
}
