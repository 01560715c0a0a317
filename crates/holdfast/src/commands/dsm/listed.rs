//! Objects that a list names: their kinds, and their places below a destination.
//!
//! A directory of a list stands for itself, as in TSM. A restore of its path would bring everything
//! in it, so directories come by a command line of their own.

use std::collections::{BTreeMap, BTreeSet};

use client::Client;
use dsm::client::Spec;

use super::stored::{self, Filter};
use crate::error::CommandError;

/// Paths of a list that are in one file space.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ListedPaths {
    pub(super) directories: Vec<Vec<u8>>,
    pub(super) others: Vec<Vec<u8>>,
    /// Names under which nothing is stored that the options of the command take.
    pub(super) absent: Vec<Vec<u8>>,
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
        let names: Vec<(usize, &Spec)> = lines.iter().enumerate().collect();
        let mut kinds = Kinds::new();
        stored::select_each(client, &names, false, filter, &mut |_, object| {
            let is_directory = object.is_directory();
            // The newest version comes first.
            kinds.entry(object.path).or_insert(is_directory);
            false
        })?;
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
}

/// Places of the objects of a list below a destination: directly in it, or with their directories
/// if two objects have one name. A restore does the same for the paths of one command line, and a
/// list may need several.
pub(super) struct ListLayout {
    /// Folder; `None` for the old places.
    destination: Option<Vec<u8>>,
    /// Deepest directory that holds all objects, if their directories below it are kept.
    top: Option<Vec<u8>>,
}

impl ListLayout {
    pub(super) fn new<'p>(
        destination: Option<Vec<u8>>,
        paths: impl IntoIterator<Item = &'p [u8]>,
    ) -> Self {
        let paths: BTreeSet<&[u8]> = paths.into_iter().collect();
        let names: BTreeSet<&[u8]> = paths.iter().copied().map(name_of).collect();
        let has_namesakes = names.len() < paths.len();
        Self { destination, top: has_namesakes.then(|| common_directory(&paths)) }
    }

    /// Divides paths by their folders; `None` stands for the old places.
    pub(super) fn folders(&self, paths: Vec<Vec<u8>>) -> BTreeMap<Option<Vec<u8>>, Vec<Vec<u8>>> {
        let mut folders = BTreeMap::<_, Vec<Vec<u8>>>::new();
        for path in paths {
            folders.entry(self.folder(&path)).or_default().push(path);
        }
        folders
    }

    fn folder(&self, path: &[u8]) -> Option<Vec<u8>> {
        let destination = self.destination.as_ref()?;
        let below = self.top.as_ref().map_or(&b""[..], |top| &directory_of(path)[top.len()..]);
        Some([&destination[..], below].concat())
    }
}

/// Returns the directory of a path, without a slash at its end.
fn directory_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    &path[..end]
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Returns the deepest directory that holds all paths.
fn common_directory(paths: &BTreeSet<&[u8]>) -> Vec<u8> {
    let mut directories = paths.iter().copied().map(directory_of);
    let mut top = directories.next().unwrap_or_default();
    for directory in directories {
        while !model::is_at_or_below(directory, top) {
            top = directory_of(top);
        }
    }
    top.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divided_by_kind() {
        let line = |path: &str| Spec::parse_listed(path.as_bytes(), b"/").expect("a line");
        let lines = ["/a", "/a/x", "/gone"].map(line);
        let kinds = [("/a", true), ("/a/x", false)];
        let kinds =
            kinds.into_iter().map(|(path, kind)| (path.as_bytes().to_vec(), kind)).collect();
        let found = ListedPaths::by_kind(&lines, &kinds);
        assert_eq!(found.directories, [b"/a".to_vec()]);
        assert_eq!(found.others, [b"/a/x".to_vec()]);
        assert_eq!(found.absent, [b"/gone".to_vec()]);
    }

    #[track_caller]
    fn check(destination: Option<&str>, paths: &[&str], expected: &[&str]) {
        let destination = destination.map(|to| to.as_bytes().to_vec());
        let layout = ListLayout::new(destination, paths.iter().map(|path| path.as_bytes()));
        let paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let shown = |(folder, paths): (Option<Vec<u8>>, Vec<Vec<u8>>)| {
            let folder = folder.map_or_else(|| "-".to_owned(), |folder| model::escaped(&folder));
            let paths: Vec<_> = paths.iter().map(|path| model::escaped(path)).collect();
            format!("{folder}: {}", paths.join(" "))
        };
        let folders: Vec<_> = layout.folders(paths).into_iter().map(shown).collect();
        assert_eq!(folders, expected);
    }

    #[test]
    fn objects_of_one_name_keep_their_directories() {
        check(None, &["/a/x", "/b/x"], &["-: /a/x /b/x"]);
        check(Some("/to"), &["/a/x", "/b/y"], &["/to: /a/x /b/y"]);
        check(Some("/to"), &["/a/x", "/a/x"], &["/to: /a/x /a/x"]);
        check(Some("/to"), &["/a/x", "/b/x"], &["/to/a: /a/x", "/to/b: /b/x"]);
        check(
            Some("/to"),
            &["/t/a/x", "/t/ab/x", "/t/y"],
            &["/to: /t/y", "/to/a: /t/a/x", "/to/ab: /t/ab/x"],
        );
    }
}
