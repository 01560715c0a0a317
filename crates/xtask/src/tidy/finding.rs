//! Findings: the results of the checks.

use std::fmt;

/// The checks, as the ratchet names them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rule {
    Ascii,
    Blanks,
    Circles,
    Columns,
    DeadFile,
    Edge,
    Features,
    FileLines,
    FileName,
    Header,
    Headless,
    Layers,
    Links,
    Locks,
    MachinePath,
    Output,
    Proofs,
    Ratchet,
    Spelling,
    TypeName,
    Unfinished,
    Unsafe,
}

impl Rule {
    /// All rules that the ratchet can hold back.
    const RATCHETED: [Self; 21] = [
        Self::Ascii,
        Self::Blanks,
        Self::Circles,
        Self::Columns,
        Self::DeadFile,
        Self::Edge,
        Self::Features,
        Self::FileLines,
        Self::FileName,
        Self::Header,
        Self::Headless,
        Self::Layers,
        Self::Links,
        Self::Locks,
        Self::MachinePath,
        Self::Output,
        Self::Proofs,
        Self::Spelling,
        Self::TypeName,
        Self::Unfinished,
        Self::Unsafe,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Blanks => "blanks",
            Self::Circles => "circles",
            Self::Columns => "columns",
            Self::DeadFile => "dead-file",
            Self::Edge => "edge",
            Self::Features => "features",
            Self::FileLines => "file-lines",
            Self::FileName => "file-name",
            Self::Header => "header",
            Self::Headless => "headless",
            Self::Layers => "layers",
            Self::Links => "links",
            Self::Locks => "locks",
            Self::MachinePath => "machine-path",
            Self::Output => "output",
            Self::Proofs => "proofs",
            Self::Ratchet => "ratchet",
            Self::Spelling => "spelling",
            Self::TypeName => "type-name",
            Self::Unfinished => "unfinished",
            Self::Unsafe => "unsafe",
        }
    }

    /// Returns the rule that the ratchet calls `name`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::RATCHETED.into_iter().find(|rule| rule.name() == name)
    }
}

/// One fault to correct. Findings are ordered by place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Line of the fault, counted from 1.
    pub(crate) line: usize,
    pub(crate) rule: Rule,
    /// Weight in the ratchet: 1, or the lines of a long file, or the members of a circle.
    pub(crate) amount: u64,
    /// The fault, and the way to correct it.
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
