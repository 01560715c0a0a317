//! What belongs to a backup: the statements, in order, and the verdict on one object.
//!
//! Statements are asked in order and the first that matches decides; what none matches is included.
//! Each keeps its source, so that a report can name the rule that left an object out. Every
//! statement excludes and stands on the command line: `include` and options files are deliberately
//! absent, and their place is a variant of [`Source`] and a tag in [`Selection::canonical`].
//!
//! A verdict is about one object only. The walk does not descend into an excluded directory, so
//! what lies below it is never asked about and nothing below it can be included again.

use model::Kind;

use crate::{Pattern, PatternError};

/// Version of the canonical form. It rises when the same text comes to select something else.
const CANONICAL_VERSION: u8 = 1;
/// Tag of an excluding statement in the canonical form.
const TAG_EXCLUDE: u8 = 1;

/// Where a statement stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The `--exclude` number `index` of the command, counted from 0.
    CommandLine { index: usize },
}

/// One rule: objects that match are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    pub source: Source,
    pub pattern: Pattern,
}

/// What is to be done with an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Included,
    /// Left out by the statement number `rule_index`; a directory with all that is in it.
    Excluded {
        rule_index: usize,
    },
}

/// The statements of one backup, in order. The default selects everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    statements: Vec<Statement>,
}

impl Selection {
    /// Parses the patterns of `--exclude` in their order; an error comes with the index of its
    /// pattern.
    pub fn from_command_line<'a>(
        excludes: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, (usize, PatternError)> {
        let statement = |(index, text)| match Pattern::parse(text) {
            Ok(pattern) => Ok(Statement { source: Source::CommandLine { index }, pattern }),
            Err(error) => Err((index, error)),
        };
        let statements =
            excludes.into_iter().enumerate().map(statement).collect::<Result<_, _>>()?;
        Ok(Self { statements })
    }

    /// Decides on the object `path` of the node, an absolute path with or without a slash at its
    /// end.
    ///
    /// Costs at most the length of all patterns times the length of the path; nothing is allocated.
    pub fn verdict(&self, path: &[u8], kind: Kind) -> Verdict {
        let matches = |statement: &Statement| {
            (kind == Kind::Directory || !statement.pattern.directories_only())
                && statement.pattern.matches(path)
        };
        match self.statements.iter().position(matches) {
            Some(rule_index) => Verdict::Excluded { rule_index },
            None => Verdict::Included,
        }
    }

    /// The statements that verdicts refer to by index.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// Bytes that differ whenever two selections could decide differently, for the caller to hash
    /// into the directory digest. Where a statement stands is not part of it, the order is.
    ///
    /// A version byte, then for each statement its tag, the length of its pattern (4 bytes, little
    /// endian) and the pattern.
    pub fn canonical(&self) -> Vec<u8> {
        let mut bytes = vec![CANONICAL_VERSION];
        for statement in &self.statements {
            let text = statement.pattern.as_bytes();
            let text_bytes = u32::try_from(text.len()).expect("bounded by PATTERN_BYTES_MAX");
            bytes.push(TAG_EXCLUDE);
            bytes.extend_from_slice(&text_bytes.to_le_bytes());
            bytes.extend_from_slice(text);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(excludes: &[&str]) -> Selection {
        Selection::from_command_line(excludes.iter().map(|text| text.as_bytes())).expect("parses")
    }

    /// `expected` is the index of the rule that leaves `path` out; a directory ends with a slash.
    #[track_caller]
    fn check(excludes: &[&str], path: &str, expected: Option<usize>) {
        let kind = if path.ends_with('/') { Kind::Directory } else { Kind::File };
        let verdict = selection(excludes).verdict(path.as_bytes(), kind);
        let expected =
            expected.map_or(Verdict::Included, |rule_index| Verdict::Excluded { rule_index });
        assert_eq!(verdict, expected, "{excludes:?} on {path}");
    }

    #[test]
    fn without_rules_everything_is_included() {
        check(&[], "/etc/passwd", None);
        check(&[], "/", None);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = ["*.o", "/src/.../*.o", "/src/target"];
        check(&rules, "/src/a.o", Some(0));
        check(&rules, "/src/target/", Some(2));
        check(&rules, "/src/a.c", None);
    }

    #[test]
    fn a_slash_at_the_end_means_directories_only() {
        check(&["cache/"], "/var/cache/", Some(0));
        check(&["cache/"], "/var/cache", None);
        check(&["/var/cache/"], "/var/cache/", Some(0));
        check(&["/var/cache/"], "/var/cache", None);
        check(&["cache"], "/var/cache", Some(0));
        check(&["cache"], "/var/cache/", Some(0));
    }

    #[test]
    fn a_symlink_to_a_directory_is_no_directory() {
        let verdict = selection(&["cache/"]).verdict(b"/var/cache", Kind::Symlink);
        assert_eq!(verdict, Verdict::Included);
    }

    #[test]
    fn an_error_names_its_pattern() {
        let patterns = [&b"*.o"[..], b"a/b"];
        assert_eq!(Selection::from_command_line(patterns), Err((1, PatternError::Relative)));
    }

    #[test]
    fn statements_keep_their_source() {
        let selection = selection(&["a", "b"]);
        let Verdict::Excluded { rule_index } = selection.verdict(b"/b", Kind::File) else {
            panic!("b is excluded")
        };
        let statement = &selection.statements()[rule_index];
        assert_eq!(statement.source, Source::CommandLine { index: 1 });
        assert_eq!(statement.pattern.to_string(), "b");
    }

    #[test]
    fn every_change_of_the_rules_shows_in_the_canonical_bytes() {
        let rules: [&[&str]; 7] =
            [&[], &["a"], &["a/"], &["a", "b"], &["b", "a"], &["ab"], &["a", "a"]];
        let mut forms: Vec<_> = rules.iter().map(|rules| selection(rules).canonical()).collect();
        assert_eq!(forms[1], [1, 1, 1, 0, 0, 0, b'a']);
        forms.sort();
        forms.dedup();
        assert_eq!(forms.len(), rules.len());
    }
}
