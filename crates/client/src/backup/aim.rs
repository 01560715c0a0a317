//! Aims: the directories that a backup by journal looks at, as a tree of names. The module is pure.

use std::collections::BTreeMap;

use model::{DirPath, Name};

/// Maximum number of levels of an aim. A directory that lies deeper makes a subtree of the
/// directory at this level. A deeper tree would need too much stack when it is dropped.
const LEVELS_MAX: usize = 256;

/// Aim of a walk at and below one directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Aim {
    /// True if the walk looks at the objects of this directory.
    pub(super) looks: bool,
    /// True if the walk visits everything at and below this directory.
    pub(super) is_subtree: bool,
    pub(super) below: BTreeMap<Name, Self>,
}

/// Directories of an aim.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AimedDirectories {
    /// Directories whose objects are looked at.
    pub(super) single: Vec<DirPath>,
    /// Directories that are walked with everything below them.
    pub(super) subtrees: Vec<DirPath>,
}

impl Aim {
    /// Adds the objects of `directory`.
    pub(super) fn add(&mut self, directory: &DirPath) {
        self.at(directory).looks = true;
    }

    /// Adds the objects of the directory that holds `directory`, because the entry of `directory`
    /// there may have changed. The root lies in no directory that is walked.
    pub(super) fn add_entry(&mut self, directory: &DirPath) {
        if *directory != DirPath::root()
            && let Some((parent, _)) = directory.parent()
        {
            self.add(&parent);
        }
    }

    /// Adds everything at and below `directory`.
    pub(super) fn add_subtree(&mut self, directory: &DirPath) {
        self.at(directory).is_subtree = true;
    }

    fn at(&mut self, directory: &DirPath) -> &mut Self {
        let mut aim = self;
        for (level, part) in crate::path::components(directory.as_bytes()).enumerate() {
            if level == LEVELS_MAX {
                aim.is_subtree = true;
                return aim;
            }
            let name = Name::new(part).expect("a directory path consists of names");
            aim = aim.below.entry(name).or_default();
        }
        aim
    }

    /// Returns true if the walk looks at the objects of `directory`.
    pub(super) fn covers(&self, directory: &DirPath) -> bool {
        let mut aim = self;
        for part in crate::path::components(directory.as_bytes()) {
            if aim.is_subtree {
                return true;
            }
            let Some(next) = Name::new(part).ok().and_then(|name| aim.below.get(&name)) else {
                return false;
            };
            aim = next;
        }
        aim.looks || aim.is_subtree
    }

    /// Returns the directories of this aim, which is at the root.
    pub(super) fn directories(&self) -> AimedDirectories {
        let mut found = AimedDirectories::default();
        let mut waiting = vec![(self, DirPath::root())];
        while let Some((aim, path)) = waiting.pop() {
            if aim.is_subtree {
                found.subtrees.push(path);
                continue;
            }
            waiting.extend(aim.below.iter().map(|(name, below)| (below, path.child(name))));
            if aim.looks {
                found.single.push(path);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn directory(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).expect("a directory")
    }

    #[test]
    fn an_aim_covers_what_was_added() {
        let mut aim = Aim::default();
        aim.add(&directory("/a/b/"));
        aim.add_subtree(&directory("/c/d/"));
        aim.add_entry(&directory("/e/f/"));
        aim.add_entry(&directory("/"));
        for (path, expected) in [
            ("/", false),
            ("/a/", false),
            ("/a/b/", true),
            ("/a/b/c/", false),
            ("/c/", false),
            ("/c/d/", true),
            ("/c/d/x/y/", true),
            ("/e/", true),
            ("/e/f/", false),
            ("/none/", false),
        ] {
            assert_eq!(aim.covers(&directory(path)), expected, "{path}");
        }
        let AimedDirectories { single, subtrees } = aim.directories();
        let single: BTreeSet<_> = single.into_iter().collect();
        assert_eq!(single, [directory("/a/b/"), directory("/e/")].into());
        assert_eq!(subtrees, [directory("/c/d/")]);
        aim.add_entry(&directory("/a/"));
        assert!(aim.covers(&directory("/")), "the entry of /a/ is in the root");
    }

    #[test]
    fn a_deep_directory_is_part_of_a_subtree() {
        let levels = |count: usize| directory(&format!("/{}", "d/".repeat(count)));
        let mut aim = Aim::default();
        aim.add(&levels(DirPath::LEVELS_MAX));
        let found = aim.directories();
        assert_eq!((found.single, found.subtrees), (vec![], vec![levels(LEVELS_MAX)]));
        assert!(aim.covers(&levels(DirPath::LEVELS_MAX)));
        assert!(!aim.covers(&levels(LEVELS_MAX - 1)));
    }

    fn path() -> impl Strategy<Value = DirPath> {
        prop::collection::vec("[a-c]", 0..4).prop_map(|parts| {
            let parts: String = parts.iter().map(|part| format!("{part}/")).collect();
            directory(&format!("/{parts}"))
        })
    }

    proptest! {
        #[test]
        fn covering_agrees_with_a_list(
            single in prop::collection::vec(path(), 0..6),
            subtrees in prop::collection::vec(path(), 0..3),
            asked in path(),
        ) {
            let mut aim = Aim::default();
            single.iter().for_each(|path| aim.add(path));
            subtrees.iter().for_each(|path| aim.add_subtree(path));
            let is_below = subtrees.iter().any(|top| asked.as_bytes().starts_with(top.as_bytes()));
            prop_assert_eq!(aim.covers(&asked), is_below || single.contains(&asked));
            let found = aim.directories();
            let again = found.subtrees.iter().any(|top| {
                asked.as_bytes().starts_with(top.as_bytes())
            });
            prop_assert_eq!(again || found.single.contains(&asked), aim.covers(&asked));
        }
    }
}
