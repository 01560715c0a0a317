//! Wildcards in targets: the objects of this machine that a pattern stands for.
//!
//! 1. A pattern is expanded component by component, so that only the directories are read that can
//!    hold a match. The component `...` reads everything below, within one file system.
//! 2. Symbolic links before the first wildcard are followed, as in any path. None is followed after
//!    it: a person who can write to a directory must not lead the search elsewhere.
//! 3. A file system that the kernel makes up, such as that of processes, matches no wildcard: it
//!    would make each backup of `/*` fail.
//! 4. The object whose name is the pattern itself is among the matches.

use std::collections::BTreeSet;
use std::io;

use model::Kind;
use policy::Pattern;
use sys::{Dir, ObjectStatus};

use super::tally::Tally;
use crate::error::ClientError;
use crate::path::components;
use crate::progress::Progress;
use crate::report::Failure;
use crate::wildcards::{self, Component, add, has_wildcards, is_wild, joined};

/// Maximum number of directories, one in the other, in which `...` looks.
const DEPTH_MAX: usize = 256;

/// Returns `paths` with the matches in place of each path that has wildcards. A pattern that
/// matches nothing is a failure, and so is each directory that cannot be searched.
pub(super) fn expanded(paths: &[Vec<u8>], tally: &Tally) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for path in paths {
        if !has_wildcards(path) {
            all.push(path.clone());
            continue;
        }
        let is_there = sys::mount::filespace_root(path).is_ok();
        let failed = |error| Failure { path: path.clone(), error };
        let (mut found, failures) = match find(path, &tally.progress) {
            Ok(Matches { found, failures }) => (found, failures),
            // A name such as '[' is no pattern.
            Err(_) if is_there => (BTreeSet::new(), Vec::new()),
            Err(reason) => (BTreeSet::new(), vec![failed(reason)]),
        };
        if is_there {
            found.insert(path.clone());
        }
        if found.is_empty() && failures.is_empty() {
            tally.fail(failed("nothing matches this pattern".to_owned()));
        }
        failures.into_iter().for_each(|failure| tally.fail(failure));
        all.extend(found);
    }
    all
}

/// Result of the search for a pattern.
#[derive(Default)]
struct Matches {
    /// Absolute paths.
    found: BTreeSet<Vec<u8>>,
    /// Objects that could not be looked at.
    failures: Vec<Failure>,
}

/// Finds the objects that match `path`. Fails with the reason if it is no pattern, or matches too
/// much. A stop of `progress` ends the search early.
fn find(path: &[u8], progress: &Progress) -> Result<Matches, String> {
    let parts: Vec<&[u8]> = components(path).filter(|part| *part != b".").collect();
    let first_wild = parts.iter().position(|part| is_wild(part)).unwrap_or(parts.len());
    let (above, wild) = parts.split_at(first_wild);
    if wild.contains(&&b".."[..]) {
        return Err("'..' does not stand after a wildcard".to_owned());
    }
    let slash: &[u8] = if path.ends_with(b"/") { b"/" } else { b"" };
    let whole = [b"/", parts.join(&b'/').as_slice(), slash].concat();
    let pattern = Pattern::parse(&whole).map_err(|error| error.to_string())?;
    let wild = wild.iter().map(|part| wildcards::parse(part)).collect::<Result<Vec<_>, _>>();
    let wild = wild.map_err(|error| error.message)?;
    let top = above.iter().fold(Vec::new(), |path: Vec<u8>, part| joined(&path, part));
    let start: &[u8] = if top.is_empty() { b"/" } else { &top };
    let mut search = Search { pattern: &pattern, progress, matches: Matches::default() };
    match Dir::open(start) {
        Ok(directory) => {
            search.look(&directory, &top, &wild).map_err(|error| error.message)?;
        }
        Err(error) => search.fail(&top, &error),
    }
    Ok(search.matches)
}

struct Search<'a> {
    pattern: &'a Pattern,
    progress: &'a Progress,
    matches: Matches,
}

impl Search<'_> {
    /// Looks for objects that match `components` in `directory`, which is at `path`.
    fn look(
        &mut self,
        directory: &Dir,
        path: &[u8],
        components: &[Component],
    ) -> Result<(), ClientError> {
        let Some((first, rest)) = components.split_first() else { return Ok(()) };
        match first {
            Component::Name(name) => self.take(directory, path, name, rest),
            Component::Wild(pattern) => {
                let names = self.names(directory, path);
                let mut fitting = names.iter().filter(|name| pattern.matches(&joined(b"", name)));
                fitting.try_for_each(|name| self.take(directory, path, name, rest))
            }
            Component::Directories => match directory.stat_self() {
                Ok(status) => self.below(directory, path, status.device_id, 0),
                Err(error) => {
                    self.fail(path, &error);
                    Ok(())
                }
            },
        }
    }

    /// Adds the object `name` of `directory` if no component of the pattern is left, and otherwise
    /// looks in it for the `rest`.
    fn take(
        &mut self,
        directory: &Dir,
        path: &[u8],
        name: &[u8],
        rest: &[Component],
    ) -> Result<(), ClientError> {
        let path = joined(path, name);
        let Some(status) = self.status(directory, name, &path) else { return Ok(()) };
        let is_directory = status.stat.kind == Kind::Directory;
        if rest.is_empty() {
            let is_match = match is_directory {
                true => !is_pseudo(directory, name),
                false => !self.pattern.directories_only(),
            };
            return if is_match { add(&mut self.matches.found, path) } else { Ok(()) };
        }
        if !is_directory {
            return Ok(());
        }
        match directory.open_dir(name) {
            // Each file in there would be a match that no backup takes.
            Ok(inner) if inner.is_pseudo().unwrap_or(false) => Ok(()),
            Ok(inner) => self.look(&inner, &path, rest),
            Err(error) => {
                self.fail(&path, &error);
                Ok(())
            }
        }
    }

    /// Adds all objects below `directory` that match the whole pattern, without those on other
    /// devices than `device`. `depth` is the number of directories between.
    fn below(
        &mut self,
        directory: &Dir,
        path: &[u8],
        device: u64,
        depth: usize,
    ) -> Result<(), ClientError> {
        for name in self.names(directory, path) {
            let path = joined(path, &name);
            let Some(status) = self.status(directory, &name, &path) else { continue };
            let is_directory = status.stat.kind == Kind::Directory;
            let may_match = is_directory || !self.pattern.directories_only();
            let is_match = may_match && self.pattern.matches(&path);
            if is_match && !(is_directory && is_pseudo(directory, &name)) {
                // A directory comes with everything in it.
                add(&mut self.matches.found, path)?;
                continue;
            }
            if !is_directory || status.device_id != device {
                continue;
            }
            match directory.open_dir(&name) {
                Ok(inner) if depth < DEPTH_MAX => self.below(&inner, &path, device, depth + 1)?,
                Ok(_) => self.fail(&path, &"it is too deep for a pattern with '...'"),
                Err(error) => self.fail(&path, &error),
            }
        }
        Ok(())
    }

    /// Returns the names in a directory, sorted; none if it cannot be read, or after a stop.
    fn names(&mut self, directory: &Dir, path: &[u8]) -> Vec<Vec<u8>> {
        if self.progress.is_stopped() {
            return Vec::new();
        }
        match directory.names() {
            Ok(mut names) => {
                names.sort();
                names
            }
            Err(error) => {
                self.fail(path, &error);
                Vec::new()
            }
        }
    }

    /// Returns the status of an object; `None` if it has gone, is a socket, or cannot be looked at.
    fn status(&mut self, directory: &Dir, name: &[u8], path: &[u8]) -> Option<ObjectStatus> {
        match directory.stat(name) {
            Ok(status) => status,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.fail(path, &error);
                None
            }
        }
    }

    fn fail(&mut self, path: &[u8], error: &dyn std::fmt::Display) {
        let path = if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
        self.matches.failures.push(Failure { path, error: error.to_string() });
    }
}

/// Returns true for the root of a file system that the kernel makes up.
fn is_pseudo(directory: &Dir, name: &[u8]) -> bool {
    // A directory that cannot be opened is a failure of the backup.
    directory.open_dir(name).and_then(|inner| inner.is_pseudo()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    fn path_in(folder: &Path, path: &[u8]) -> Vec<u8> {
        [folder.as_os_str().as_bytes(), path].concat()
    }

    fn make(folder: &Path, files: &[&[u8]]) {
        for file in files {
            let file = path_in(folder, file);
            let file = Path::new(std::ffi::OsStr::from_bytes(&file));
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            fs::write(file, "").expect("written");
        }
    }

    /// Returns what `pattern` in `folder` stands for, and the first failure.
    fn find_in(folder: &Path, pattern: &[u8]) -> (Vec<String>, Option<String>) {
        let tally = Tally::new(Arc::new(Progress::default()));
        let found = expanded(&[path_in(folder, pattern)], &tally);
        let top = folder.as_os_str().as_bytes();
        let within = |path: &Vec<u8>| model::escaped(path.strip_prefix(top).expect("is within"));
        (found.iter().map(within).collect(), tally.first_failure().map(|first| first.error))
    }

    #[track_caller]
    fn check(folder: &Path, pattern: &[u8], expected: &[&str]) {
        let (found, failure) = find_in(folder, pattern);
        assert_eq!(found, expected, "{}", pattern.escape_ascii());
        assert_eq!(failure, None, "{}", pattern.escape_ascii());
    }

    #[test]
    fn a_pattern_stands_for_the_objects_that_match() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        make(top, &[b"/a.c", b"/b.c", b"/b.o", b"/.c", b"/x/mail/1", b"/y/mail/2", b"/y/news/c.c"]);
        make(top, &[b"/caf\xe9.c"]);
        check(top, b"/a.c", &["/a.c"]);
        check(top, b"/absent", &["/absent"]);
        check(top, b"/*.c", &["/.c", "/a.c", "/b.c", "/caf\\xe9.c"]);
        check(top, b"/caf?.c", &["/caf\\xe9.c"]);
        check(top, b"/[ab].?", &["/a.c", "/b.c", "/b.o"]);
        check(top, b"/*/", &["/x", "/y"]);
        check(top, b"/*/mail", &["/x/mail", "/y/mail"]);
        check(top, b"/?/./n*/*", &["/y/news/c.c"]);
        check(top, b"/.../[bc].c", &["/b.c", "/y/news/c.c"]);
        check(top, b"/.../mail/", &["/x/mail", "/y/mail"]);
        check(top, b"/.../mail/*", &["/x/mail/1", "/y/mail/2"]);
    }

    #[test]
    fn a_name_with_wildcards_is_reached() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        make(top, &[b"/a*", b"/ab", b"/[1]", b"/1", b"/[", b"/.../x"]);
        check(top, br"/a\*", &["/a*"]);
        check(top, b"/a*", &["/a*", "/ab"]);
        check(top, b"/[1]", &["/1", "/[1]"]);
        check(top, b"/[", &["/["]);
        check(top, b"/.../x", &["/.../x"]);
    }

    #[test]
    fn a_pattern_that_stands_for_nothing_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        make(top, &[b"/a"]);
        let nothing = |pattern: &[u8]| {
            let (found, failure) = find_in(top, pattern);
            assert_eq!(found, [""; 0]);
            failure.expect("is a failure")
        };
        assert_eq!(nothing(b"/*.c"), "nothing matches this pattern");
        assert_eq!(nothing(b"/a*/"), "nothing matches this pattern");
        assert!(nothing(b"/absent/*").contains("No such file"));
        assert!(nothing(b"/*/../a").contains("'..'"));
        assert!(nothing(b"/[").contains("a class"));
    }

    #[test]
    fn what_the_kernel_makes_up_matches_no_wildcard() {
        let (found, _) = find_in(Path::new(""), b"/*");
        assert!(!found.is_empty() && !found.contains(&"/proc".to_owned()), "{found:?}");
        let (found, _) = find_in(Path::new(""), b"/*/version");
        assert!(!found.contains(&"/proc/version".to_owned()), "{found:?}");
        check(Path::new(""), b"/proc", &["/proc"]);
    }

    /// A link in a home directory would lead a backup of `/home/*/mail` anywhere.
    #[test]
    fn links_are_followed_only_before_the_first_wildcard() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        make(top, &[b"/real/mail/1", b"/homes/ann/mail/2"]);
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(top.join(target), top.join(name)).expect("linked");
        };
        link("homes", "users");
        link("real", "homes/bob");
        link("real/mail", "homes/mail");
        check(top, b"/users/*/mail", &["/users/ann/mail"]);
        check(top, b"/users/*", &["/users/ann", "/users/bob", "/users/mail"]);
        assert_eq!(find_in(top, b"/users/.../1").0, [""; 0]);
    }
}
