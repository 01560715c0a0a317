//! Wildcards in paths: the stored paths that match a pattern.
//!
//! A pattern is expanded component by component, so that only the directories are listed that can
//! hold a match. The component `...` stands for any number of directories; everything below it is
//! listed, and matches as it comes. A pattern that ends with a slash stands for directories only.

use std::collections::BTreeSet;

use model::{Kind, mount_point};
use policy::Pattern;

use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::{Entry, Selection};
use crate::options::{Origin, VersionChoice};
use crate::path::{
    Place, absolute, candidates, components, directories_above, directory_paths, normalise, places,
};
use crate::remains::{has_any, no_archived_match, no_match};

/// Maximum number of paths that a pattern may stand for.
const MATCHES_MAX: usize = 100_000;
/// Component that stands for any number of directories.
const DIRECTORIES: &[u8] = b"...";

/// Component of a pattern.
pub(crate) enum Component {
    /// A name without wildcards.
    Name(Vec<u8>),
    Wild(Pattern),
    Directories,
}

/// Returns the paths of `origin` that `path` stands for, sorted: itself, if it has no wildcard or
/// is stored as it is written, and otherwise the paths that match.
pub(crate) fn expand(
    link: &Link,
    path: &[u8],
    which: &VersionChoice,
    origin: &Origin,
) -> Result<Vec<Vec<u8>>, ClientError> {
    let for_directories = path.ends_with(b"/");
    let path = normalise(path)?;
    if !has_wildcards(&path) {
        return Ok(vec![path]);
    }
    let filespaces = link.filespaces_from(origin)?.parts.concat();
    let search = Search { link, filespaces: &filespaces, which, for_directories };
    if search.is_stored(&places(filespaces.iter().map(Vec::as_slice), &path))? {
        return Ok(vec![path]);
    }
    let pattern = Pattern::parse(&path).map_err(|error| {
        let message = format!("'{}': {error}", model::escaped(&path));
        ClientError::new(ErrorKind::Usage, message)
    })?;
    let found = search.find(&pattern)?;
    // The slash is a part of the pattern: files may match without it.
    let shown = if for_directories { joined(&path, b"") } else { path };
    if found.is_empty() && matches!(origin, Origin::Archives(_)) {
        return Err(no_archived_match(&shown));
    }
    if found.is_empty() {
        let ever = VersionChoice { at: None, inactive: true };
        let others = Search { which: &ever, ..search }.find(&pattern);
        // A server that cannot answer has no effect on the message.
        return Err(no_match(&shown, which, others.is_ok_and(|others| !others.is_empty())));
    }
    Ok(found.into_iter().collect())
}

/// Returns `paths` without those below another of them, which comes with everything below it.
/// `paths` is sorted.
pub fn topmost(paths: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
    for path in paths {
        if !directories_above(&path).any(|above| seen.contains(above)) {
            seen.insert(path);
        }
    }
    seen.into_iter().collect()
}

/// Returns true if a component of `path` has a wildcard or an escaped character.
pub fn has_wildcards(path: &[u8]) -> bool {
    components(path).any(is_wild)
}

pub(crate) fn is_wild(component: &[u8]) -> bool {
    component == DIRECTORIES || component.iter().any(|byte| b"*?[\\".contains(byte))
}

/// Parses a component of a pattern.
pub(crate) fn parse(component: &[u8]) -> Result<Component, ClientError> {
    if component == DIRECTORIES {
        return Ok(Component::Directories);
    }
    if !is_wild(component) {
        return Ok(Component::Name(component.to_vec()));
    }
    let pattern = Pattern::parse(component);
    pattern.map(Component::Wild).map_err(|error| {
        let message = format!("'{}': {error}", model::escaped(component));
        ClientError::new(ErrorKind::Usage, message)
    })
}

struct Search<'a> {
    link: &'a Link,
    filespaces: &'a [Vec<u8>],
    which: &'a VersionChoice,
    /// True if nothing but directories matches.
    for_directories: bool,
}

impl Search<'_> {
    fn find(&self, pattern: &Pattern) -> Result<BTreeSet<Vec<u8>>, ClientError> {
        let mut found = BTreeSet::from([Vec::new()]);
        // Names after the last wildcard are looked up at the end.
        let mut is_checked = true;
        // As in a backup, links are followed before the first wildcard, and not after it.
        let mut top = None;
        let mut parts = components(pattern.as_bytes()).peekable();
        while let Some(component) = parts.next() {
            let for_directories = self.for_directories && parts.peek().is_none();
            match parse(component)? {
                Component::Directories => {
                    let top = top.unwrap_or_else(|| Top::take(&mut found));
                    return self.below(&found, pattern, &top);
                }
                Component::Name(name) => {
                    found = found.iter().map(|path| joined(path, &name)).collect();
                    is_checked = false;
                }
                Component::Wild(pattern) => {
                    if top.is_none() {
                        top = Some(Top::take(&mut found));
                    }
                    found = self.matches(&found, &pattern, for_directories)?;
                    is_checked = true;
                }
            }
        }
        if is_checked {
            return Ok(found);
        }
        let mut stored = BTreeSet::new();
        for path in found {
            if self.is_stored(&candidates(self.filespaces.iter().map(Vec::as_slice), &path))? {
                stored.insert(path);
            }
        }
        Ok(stored)
    }

    /// Returns the paths directly in `directories` whose names match; with `for_directories` only
    /// those of directories.
    fn matches(
        &self,
        directories: &BTreeSet<Vec<u8>>,
        pattern: &Pattern,
        for_directories: bool,
    ) -> Result<BTreeSet<Vec<u8>>, ClientError> {
        let mut found = BTreeSet::new();
        for directory in directories {
            for name in self.names_in(or_root(directory), for_directories)? {
                if pattern.matches(&joined(b"", &name)) {
                    add(&mut found, joined(directory, &name))?;
                }
            }
        }
        Ok(found)
    }

    /// Returns the names of the stored objects and of the filespaces directly in the directory
    /// `path`.
    fn names_in(
        &self,
        path: &[u8],
        for_directories: bool,
    ) -> Result<BTreeSet<Vec<u8>>, ClientError> {
        let within = with_slash(path);
        let mounted = self.filespaces.iter().filter_map(|filespace| {
            let rest = mount_point(filespace).strip_prefix(&within[..])?;
            components(rest).next().map(<[u8]>::to_vec)
        });
        let mut names: BTreeSet<Vec<u8>> = mounted.collect();
        for place in candidates(self.filespaces.iter().map(Vec::as_slice), path) {
            let selection = Selection::of_directory(&place.filespace, place.below());
            let mut listing = self.link.list(&selection.with_versions(self.which))?;
            while let Some(entries) = listing.next()? {
                let entries =
                    entries.iter().filter(|entry| !for_directories || is_directory(entry));
                names.extend(entries.map(|entry| entry.object.name.as_bytes().to_vec()));
            }
        }
        Ok(names)
    }

    /// Returns all paths at and below `directories` that match the whole pattern, which begins with
    /// `top`.
    fn below(
        &self,
        directories: &BTreeSet<Vec<u8>>,
        pattern: &Pattern,
        top: &Top,
    ) -> Result<BTreeSet<Vec<u8>>, ClientError> {
        let mut found = BTreeSet::new();
        for directory in directories {
            let path = or_root(directory);
            let own = candidates(self.filespaces.iter().map(Vec::as_slice), path);
            let own = own.iter().map(Selection::of_subtree);
            let within = with_slash(path);
            let mounted = self.filespaces.iter().filter(|filespace| {
                let mount_point = mount_point(filespace);
                mount_point.starts_with(&within) && mount_point != path
            });
            let mounted = mounted.map(|filespace| Selection::of_filespace(filespace));
            for selection in own.chain(mounted) {
                let filespace = selection.filespace.clone();
                let mut listing = self.link.list(&selection.with_versions(self.which))?;
                while let Some(entries) = listing.next()? {
                    for entry in entries {
                        let path = absolute(&filespace, &entry.directory.join(&entry.object.name));
                        let is_meant = !self.for_directories || is_directory(&entry);
                        if is_meant && top.matches(pattern, &path) {
                            add(&mut found, path)?;
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns true if the server has what `places` stand for.
    fn is_stored(&self, places: &[Place]) -> Result<bool, ClientError> {
        if !self.for_directories {
            return self.has(places);
        }
        for place in places {
            let selection = Selection::of_subtree(place).with_versions(self.which);
            let mut listing = self.link.list(&selection)?;
            while let Some(entries) = listing.next()? {
                // A path that holds an object is a directory.
                let is_meant =
                    |entry: &Entry| is_directory(entry) || *entry.directory != place.directory;
                if entries.iter().any(is_meant) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if the server has the object at one of `places`, or an object in it.
    fn has(&self, places: &[Place]) -> Result<bool, ClientError> {
        for place in places {
            let selection = Selection::of_subtree(place).with_versions(self.which);
            if has_any(self.link, &selection)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The directory before the first wildcard of a pattern.
struct Top {
    /// Its path in the pattern.
    written: Vec<u8>,
    /// Paths under which it may be stored, because links lead to it.
    stored: Vec<Vec<u8>>,
}

impl Top {
    /// Puts the paths under which the only one of `found` may be stored in its place.
    fn take(found: &mut BTreeSet<Vec<u8>>) -> Self {
        assert_eq!(found.len(), 1, "there is one path before the first wildcard");
        let written = or_root(&found.pop_first().unwrap_or_default()).to_vec();
        let stored = directory_paths(&written);
        // The root is empty there.
        let names = stored.iter().map(|path| path.strip_suffix(b"/").unwrap_or(path).to_vec());
        found.extend(names);
        Self { written, stored }
    }

    /// Returns true if the stored `path` has a name that matches `pattern`.
    fn matches(&self, pattern: &Pattern, path: &[u8]) -> bool {
        let mut names =
            self.stored.iter().map(|stored| moved(path.to_vec(), stored, &self.written));
        names.any(|name| pattern.matches(&name))
    }
}

/// Returns the path of a directory that is empty for the root.
fn or_root(directory: &[u8]) -> &[u8] {
    if directory.is_empty() { b"/" } else { directory }
}

fn with_slash(directory: &[u8]) -> Vec<u8> {
    if directory == b"/" { directory.to_vec() } else { joined(directory, b"") }
}

/// Returns the path that `path` has if the directory `from` is called `to`.
fn moved(path: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    if path == from {
        return to.to_vec();
    }
    match path.strip_prefix(&with_slash(from)[..]) {
        Some(rest) => [&with_slash(to)[..], rest].concat(),
        None => path,
    }
}

fn is_directory(entry: &Entry) -> bool {
    entry.object.stat.kind == Kind::Directory
}

pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory, b"/", name].concat()
}

/// Adds a path to those that a pattern stands for. Fails if they are too many.
pub(crate) fn add(found: &mut BTreeSet<Vec<u8>>, path: Vec<u8>) -> Result<(), ClientError> {
    found.insert(path);
    if found.len() <= MATCHES_MAX {
        return Ok(());
    }
    let message = format!("the pattern matches more than {MATCHES_MAX} paths; name a directory");
    Err(ClientError::new(ErrorKind::Usage, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_found_in_components() {
        for (path, is_wild) in [
            (&b"/a/b"[..], false),
            (b"/a/*", true),
            (b"/a?/b", true),
            (b"/[ab]/c", true),
            (b"/.../c", true),
            (b"/a.../c", false),
            (b"/a\\*", true),
        ] {
            assert_eq!(has_wildcards(path), is_wild, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn a_path_keeps_the_directory_by_which_it_was_named() {
        for (path, from, to, expected) in [
            (&b"/real/a"[..], &b"/real"[..], &b"/link"[..], &b"/link/a"[..]),
            (b"/real", b"/real", b"/link", b"/link"),
            (b"/a", b"/", b"/link", b"/link/a"),
            (b"/real/a", b"/real", b"/", b"/a"),
            (b"/really", b"/real", b"/link", b"/really"),
            (b"/a/b", b"/a", b"/a", b"/a/b"),
        ] {
            assert_eq!(moved(path.to_vec(), from, to), expected);
        }
    }

    #[test]
    fn a_path_below_another_goes_with_it() {
        let paths = |paths: &[&str]| -> Vec<Vec<u8>> {
            paths.iter().map(|path| path.as_bytes().to_vec()).collect()
        };
        let found = paths(&["/a", "/a/b", "/a-b", "/ab/c", "/ab/c/d/e"]);
        assert_eq!(topmost(found), paths(&["/a", "/a-b", "/ab/c"]));
        assert_eq!(topmost(paths(&["/", "/a"])), paths(&["/"]));
    }
}
