//! Selection of the objects of a backup: the statements, in order, and the verdict on one object.
//!
//! 1. `exclude.fs`, `exclude.fstype`, `exclude.dir`, `exclude.content` and `exclude.tag` come
//!    first, wherever they stand, and nothing below an object that they leave out can be included
//!    again.
//! 2. Of all other statements the last statement that matches decides: the list is read from the
//!    bottom. An object that no statement matches is included and bound to the default class. These
//!    statements are about files, links and devices; directories always belong to a backup.
//! 3. The patterns of `--exclude` come after all statements, and are about directories too.
//! 4. Statements on treatments, such as compression and deduplication, have no effect on the
//!    verdict. The last statement that matches decides here too.
//!
//! A verdict is about one object only. The walk does not descend into an excluded directory, so no
//! verdict is needed on the objects in it. [`Selection::explain`] also decides on the directories
//! above an object.

use model::Kind;

use crate::statement::{Operation, Rule, Source, Statement, Treatment};
use crate::{Pattern, PatternError};

/// Version of the canonical form. It rises when the same text selects other objects than in an
/// earlier release.
const CANONICAL_VERSION: u8 = 2;

/// Decision on an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Included by the statement number `rule_index`, or because no statement matches.
    Included { rule_index: Option<usize> },
    /// Left out by the statement number `rule_index`. A directory is left out with everything in
    /// it.
    Excluded { rule_index: usize },
}

impl Verdict {
    pub fn is_included(self) -> bool {
        matches!(self, Self::Included { .. })
    }

    /// The index of the statement that decides, if any does.
    pub fn rule_index(self) -> Option<usize> {
        match self {
            Self::Included { rule_index } => rule_index,
            Self::Excluded { rule_index } => Some(rule_index),
        }
    }
}

/// The statements of one run, in order. The default value selects everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    statements: Vec<Statement>,
}

impl Selection {
    /// Joins the statements of the node's own list, the statements of the server's option set, and
    /// the patterns of `--exclude`, in this order. The last of them that matches wins. An error
    /// comes with the index of the pattern in `excludes`.
    pub fn new<'a>(
        own: Vec<Statement>,
        of_server: Vec<Statement>,
        excludes: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, (usize, PatternError)> {
        let mut statements = own;
        statements.extend(of_server);
        for (index, text) in excludes.into_iter().enumerate() {
            let pattern = Pattern::parse(text).map_err(|error| (index, error))?;
            let source = Source::CommandLine { index };
            statements.push(Statement { source, rule: Rule::ExcludeAny(pattern) });
        }
        Ok(Self { statements })
    }

    /// Decides on the object at `path`, an absolute path with or without a slash at its end. The
    /// directory of the object must not be left out itself.
    ///
    /// The time is at most proportional to the length of all patterns times the length of the path.
    /// Nothing is allocated.
    pub fn verdict(&self, path: &[u8], kind: Kind, operation: Operation) -> Verdict {
        let statements = || self.statements.iter().enumerate().rev();
        if kind == Kind::Directory {
            let excludes = |rule: &Rule| match rule {
                Rule::ExcludeAny(pattern) => pattern.matches(path),
                Rule::ExcludeDir(pattern) => {
                    operation == Operation::Backup && pattern.matches(path)
                }
                _ => false,
            };
            let found = statements().find(|(_, statement)| excludes(&statement.rule));
            return found.map_or(Verdict::Included { rule_index: None }, |(rule_index, _)| {
                Verdict::Excluded { rule_index }
            });
        }
        for (rule_index, statement) in statements() {
            match &statement.rule {
                Rule::ExcludeAny(pattern)
                    if !pattern.directories_only() && pattern.matches(path) =>
                {
                    return Verdict::Excluded { rule_index };
                }
                Rule::Exclude { pattern, operation: of, symlinks_only }
                    if *of == operation
                        && (!symlinks_only || kind == Kind::Symlink)
                        && matches_file(pattern, path) =>
                {
                    return Verdict::Excluded { rule_index };
                }
                Rule::Include { pattern, operation: of, .. }
                    if of.is_none_or(|of| of == operation) && matches_file(pattern, path) =>
                {
                    return Verdict::Included { rule_index: Some(rule_index) };
                }
                _ => {}
            }
        }
        Verdict::Included { rule_index: None }
    }

    /// The index of the last statement that includes the file `path`, whether another statement
    /// excludes the file or not.
    pub fn including(&self, path: &[u8], operation: Operation) -> Option<usize> {
        self.statements.iter().rposition(|statement| match &statement.rule {
            Rule::Include { pattern, operation: of, .. } => {
                of.is_none_or(|of| of == operation) && matches_file(pattern, path)
            }
            _ => false,
        })
    }

    /// Decides on `path` and on all directories above it. Returns the verdict and the path that the
    /// verdict is about: the topmost directory that is left out, or `path` itself if there is none.
    pub fn explain<'p>(
        &self,
        path: &'p [u8],
        kind: Kind,
        operation: Operation,
    ) -> (Verdict, &'p [u8]) {
        let above = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        for (end, _) in above {
            let verdict = self.whole_verdict(&path[..end], Kind::Directory, operation);
            if !verdict.is_included() {
                return (verdict, &path[..end]);
            }
        }
        (self.whole_verdict(path, kind, operation), path)
    }

    /// Decides on an object together with its content.
    fn whole_verdict(&self, path: &[u8], kind: Kind, operation: Operation) -> Verdict {
        let verdict = self.verdict(path, kind, operation);
        let left = self.leaves_content(path, operation);
        match left.filter(|_| kind == Kind::Directory && verdict.is_included()) {
            Some(rule_index) => Verdict::Excluded { rule_index },
            None => verdict,
        }
    }

    /// The index of the statement that leaves the content of the directory `path` alone, if any
    /// does.
    pub fn leaves_content(&self, path: &[u8], operation: Operation) -> Option<usize> {
        let leaves = |statement: &Statement| match &statement.rule {
            Rule::ExcludeContent(pattern) => pattern.matches(path),
            _ => false,
        };
        let found = self.statements.iter().rposition(leaves);
        found.filter(|_| operation == Operation::Backup)
    }

    /// Returns true if any statement leaves the content of directories alone.
    pub fn has_left_contents(&self) -> bool {
        let leaves = |statement: &Statement| matches!(statement.rule, Rule::ExcludeContent(_));
        self.statements.iter().any(leaves)
    }

    /// The index of the statement that leaves out the file system mounted at `path`, if any does.
    pub fn excludes_filesystem(&self, path: &[u8], filesystem_type: &str) -> Option<usize> {
        let excludes = |statement: &Statement| match &statement.rule {
            Rule::ExcludeFs(pattern) => pattern.matches(path),
            Rule::ExcludeFsType(types) => {
                types.iter().any(|known| known.eq_ignore_ascii_case(filesystem_type))
            }
            _ => false,
        };
        self.statements.iter().rposition(excludes)
    }

    /// The names of files whose presence excludes the other objects in their directory, each with
    /// the index of its statement.
    pub fn tags(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.statements
            .iter()
            .enumerate()
            .filter_map(|(index, statement)| match &statement.rule {
                Rule::ExcludeTagged(name) => Some((index, &name[..])),
                _ => None,
            })
    }

    /// Returns true if the file `path` gets the treatment, false if it must not get the treatment,
    /// and `None` if no statement decides.
    pub fn treats(&self, path: &[u8], wanted: Treatment) -> Option<bool> {
        self.treating(path, wanted).map(|(is_on, _)| is_on)
    }

    /// Returns the result of [`Self::treats`] with the source of the statement that decides.
    pub fn treating(&self, path: &[u8], wanted: Treatment) -> Option<(bool, &Source)> {
        self.statements.iter().rev().find_map(|statement| match &statement.rule {
            Rule::Treat { pattern, treatment, is_on }
                if *treatment == wanted && matches_file(pattern, path) =>
            {
                Some((*is_on, &statement.source))
            }
            _ => None,
        })
    }

    /// Returns true if any statement is about compression, deduplication or encryption.
    pub fn has_treatments(&self) -> bool {
        self.statements.iter().any(|statement| {
            matches!(statement.rule, Rule::Treat { .. }) && !is_of_space(&statement.rule)
        })
    }

    /// The names of the classes that statements bind to, each with the index of its statement.
    pub fn classes(&self) -> impl Iterator<Item = (usize, &str)> {
        self.statements
            .iter()
            .enumerate()
            .filter_map(|(index, _)| Some((index, self.class(index)?)))
    }

    /// The class that the statement number `rule_index` binds to.
    pub fn class(&self, rule_index: usize) -> Option<&str> {
        match &self.statements.get(rule_index)?.rule {
            Rule::Include { class, .. } => class.as_deref(),
            _ => None,
        }
    }

    /// The statements that verdicts refer to by index.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// Returns bytes that differ whenever two selections could decide differently. The caller
    /// hashes them into the directory digest. The order of the statements has an effect on the
    /// bytes, their sources have none.
    ///
    /// The first byte is the version. Each statement follows as text, after its length in 4 bytes,
    /// little endian.
    pub fn canonical(&self) -> Vec<u8> {
        let mut bytes = vec![CANONICAL_VERSION];
        // Statements on space management have no effect on a backup.
        for statement in self.statements.iter().filter(|one| !is_of_space(&one.rule)) {
            let text = statement.rule.written();
            let text_bytes = u32::try_from(text.len()).expect("bounded by LIST_BYTES_MAX");
            bytes.extend_from_slice(&text_bytes.to_le_bytes());
            bytes.extend_from_slice(&text);
        }
        bytes
    }
}

fn is_of_space(rule: &Rule) -> bool {
    matches!(rule, Rule::Treat { treatment: Treatment::SpaceManagement, .. })
}

/// Returns true if `pattern` matches the file `path`. A pattern that is only for directories
/// matches no file.
fn matches_file(pattern: &Pattern, path: &[u8]) -> bool {
    !pattern.directories_only() && pattern.matches(path)
}

#[cfg(test)]
mod tests;
