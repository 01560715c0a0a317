//! Objects that the list of a restore names, by their kinds.
//!
//! A directory of a list stands for itself, as in TSM. A restore of its path would bring everything
//! in it, so directories come by a command line of their own.

use std::collections::{BTreeMap, BTreeSet};

use client::Client;
use dsm::client::{Last, Spec};

use super::stored::{self, Filter};
use crate::error::CommandError;

/// Minimum number of names of a directory for which the whole directory is listed once. For fewer,
/// the server is asked for each name.
const SIBLINGS_MIN: usize = 16;

/// Paths of a list that are in one file space.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ListedPaths {
    pub(super) directories: Vec<Vec<u8>>,
    pub(super) others: Vec<Vec<u8>>,
    /// Names under which nothing is stored that the options of the command take.
    absent: Vec<Vec<u8>>,
}

/// Kind of each path: true for a directory.
type Kinds = BTreeMap<Vec<u8>, bool>;

impl ListedPaths {
    /// Divides the lines of a list by the kinds of what is stored under their names.
    pub(super) fn of(
        client: &Client,
        lines: &[Spec],
        filter: &Filter,
    ) -> Result<Self, CommandError> {
        let mut by_directory: BTreeMap<&[u8], Vec<&Spec>> = BTreeMap::new();
        for line in lines {
            by_directory.entry(&line.directory).or_default().push(line);
        }
        let mut kinds = Kinds::new();
        for siblings in by_directory.values() {
            if siblings.len() >= SIBLINGS_MIN {
                list_together(client, siblings, filter, &mut kinds)?;
            }
            let is_open = |line: &&Spec| !kinds.contains_key(&line.path());
            let open: Vec<&Spec> = siblings.iter().copied().filter(is_open).collect();
            for line in open {
                stored::select(client, line, false, filter, &mut |object| {
                    let is_directory = object.is_directory();
                    kinds.insert(object.path, is_directory);
                    false
                })?;
            }
        }
        Ok(Self::by_kind(lines, &kinds))
    }

    fn by_kind(lines: &[Spec], kinds: &Kinds) -> Self {
        let mut found = Self::default();
        for line in lines {
            let path = line.path();
            match kinds.get(&path) {
                Some(true) => found.directories.push(path),
                Some(false) => found.others.push(path),
                None => found.absent.push(path),
            }
        }
        found
    }

    /// Puts the absent names beside objects, so that a restore tells them. A command line that
    /// names nothing else would end the whole restore.
    pub(super) fn with_absent(mut self) -> Self {
        let is_alone = self.others.is_empty() && !self.directories.is_empty();
        let beside = if is_alone { &mut self.directories } else { &mut self.others };
        beside.append(&mut self.absent);
        self
    }
}

/// Finds the kinds of names of one directory by a list of what is directly in it.
fn list_together(
    client: &Client,
    siblings: &[&Spec],
    filter: &Filter,
    kinds: &mut Kinds,
) -> Result<(), CommandError> {
    let all = Spec { last: Last::Everything, ..siblings[0].clone() };
    let wanted: BTreeSet<Vec<u8>> = siblings.iter().map(|line| line.path()).collect();
    stored::select(client, &all, false, filter, &mut |object| {
        if wanted.contains(&object.path) {
            let is_directory = object.is_directory();
            kinds.insert(object.path, is_directory);
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kinds: &[(&str, bool)], directories: &[&str], others: &[&str]) {
        let line = |path: &str| Spec::parse_listed(path.as_bytes(), b"/").expect("a line");
        let lines = ["/a", "/a/x", "/gone"].map(line);
        let kinds = kinds.iter().map(|(path, kind)| (path.as_bytes().to_vec(), *kind)).collect();
        let shown =
            |paths: &[Vec<u8>]| paths.iter().map(|path| model::escaped(path)).collect::<Vec<_>>();
        let found = ListedPaths::by_kind(&lines, &kinds).with_absent();
        assert_eq!(shown(&found.directories), directories);
        assert_eq!(shown(&found.others), others);
        assert!(found.absent.is_empty());
    }

    #[test]
    fn lines_are_divided_by_kind() {
        let both = [("/a", true), ("/a/x", false)];
        check(&both, &["/a"], &["/a/x", "/gone"]);
        // An absent name stands beside one that is there.
        check(&both[..1], &["/a", "/a/x", "/gone"], &[]);
        check(&[], &[], &["/a", "/a/x", "/gone"]);
    }
}
