//! Layout: the folder of the target that each path goes into.
//!
//! Objects go into the folder of `--to` under their own names. If two paths have the same name, or
//! one of several paths is a whole filespace, all paths are kept below the deepest directory that
//! holds all of them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use model::{DirPath, mount_point};
use sys::Dir;

use crate::error::ClientError;
use crate::path::{Place, components};

/// Layout of the target of a restore.
pub(super) struct Layout {
    /// Folder of `--to`; `None` for the old places.
    to: Option<Vec<u8>>,
    /// Number of components at the beginning of each path that are left out, if the paths are kept
    /// in the target.
    left_out: Option<usize>,
}

impl Layout {
    /// Returns the layout for `paths`, which are plain. The content of a whole filespace has names
    /// that other paths may have, too.
    pub(super) fn new(to: Option<&[u8]>, paths: &[Vec<u8>], filespaces: &[Vec<u8>]) -> Self {
        let is_whole = |path: &[u8]| filespaces.iter().any(|one| mount_point(one) == path);
        let has_others = |path| paths.iter().any(|other| other != path);
        let has_whole = paths.iter().any(|path| is_whole(path) && has_others(path));
        let is_kept = to.is_some() && (has_whole || has_namesakes(paths));
        Self { to: to.map(<[u8]>::to_vec), left_out: is_kept.then(|| shared(paths)) }
    }

    /// Returns the base for `path`, which is stored at `place`.
    pub(super) fn base(&self, path: &[u8], place: &Place) -> Base {
        let Some(to) = &self.to else {
            return Base::at_old_place(&place.filespace, &above(place));
        };
        let below = self.left_out.map_or_else(Vec::new, |left_out| {
            // The content of a filespace goes into a folder that stands for its mount point.
            let own = usize::from(place.name.is_some());
            let kept = components(path).count().saturating_sub(own);
            let parts = components(path).take(kept).skip(left_out);
            parts.map(<[u8]>::to_vec).collect()
        });
        Base { folder: to.clone(), below }
    }
}

/// Returns the directory of the filespace that the base of `place` stands for.
pub(super) fn above(place: &Place) -> DirPath {
    match &place.name {
        Some(_) => place.directory.clone(),
        None => DirPath::root(),
    }
}

/// Returns true if two different paths have the same last component.
fn has_namesakes(paths: &[Vec<u8>]) -> bool {
    let mut names = BTreeMap::new();
    paths.iter().any(|path| {
        let name = components(path).last().unwrap_or_default();
        *names.entry(name).or_insert(path) != path
    })
}

/// Returns the number of components of the deepest directory that holds all `paths`.
fn shared(paths: &[Vec<u8>]) -> usize {
    let Some((first, others)) = paths.split_first() else { return 0 };
    let alike = |path: &Vec<u8>| {
        let both = components(first).zip(components(path));
        both.take_while(|(one, other)| one == other).count().min(directories(path))
    };
    others.iter().map(alike).fold(directories(first), usize::min)
}

/// Returns the number of components above the last one.
fn directories(path: &[u8]) -> usize {
    components(path).count().saturating_sub(1)
}

/// Folder of the target that stands for the directory of a path.
#[derive(Clone)]
pub(super) struct Base {
    /// Folder, which symbolic links may lead to.
    folder: Vec<u8>,
    /// Names of the folders below it, which are no symbolic links.
    below: Vec<Vec<u8>>,
}

impl Base {
    /// Returns the folder that `directory` of `filespace` was when it was backed up. Symbolic links
    /// may lead to the mount point, and not further.
    pub(super) fn at_old_place(filespace: &[u8], directory: &DirPath) -> Self {
        let below = components(directory.as_bytes()).map(<[u8]>::to_vec).collect();
        Self { folder: mount_point(filespace).to_vec(), below }
    }

    /// Opens the folder. Fails with `NotADirectory` if an object that is no directory has the name
    /// of one of the folders.
    pub(super) fn opened(&self) -> io::Result<Dir> {
        self.opened_at(self.below.len())
    }

    /// Opens the folder that the first `count` names below the target lead to.
    fn opened_at(&self, count: usize) -> io::Result<Dir> {
        Dir::open_below(&self.folder, self.below[..count].iter().map(Vec::as_slice))
    }

    /// Opens the folder; `None` if it does not exist.
    pub(super) fn open(&self) -> Result<Option<Dir>, ClientError> {
        match self.opened() {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(self.error("open", &error)),
        }
    }

    /// Returns true if an object that is no directory has the name of a folder below the target.
    pub(super) fn is_obstructed(&self) -> bool {
        let target = path_of(&self.folder);
        let is_folder = || std::fs::metadata(target).is_ok_and(|found| found.is_dir());
        self.opened().is_err_and(|error| error.kind() == io::ErrorKind::NotADirectory)
            && is_folder()
    }

    /// Opens the folder, and makes it if it does not exist. Fails if nothing can be made in it.
    pub(super) fn make(&self) -> Result<Dir, ClientError> {
        let made = match self.opened() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_missing().map_err(|error| self.error("make", &error))
            }
            opened => opened.map_err(|error| self.error("open", &error)),
        }?;
        made.check_writable().map_err(|error| self.error("write to", &error))?;
        Ok(made)
    }

    /// Opens the folder, or returns `None` if [`Self::make`] would make it. Fails if that would
    /// fail.
    pub(super) fn make_later(&self) -> Result<Option<Dir>, ClientError> {
        let folder = match self.opened() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let writable = self.innermost().and_then(|folder| folder.check_writable());
                return writable.map(|()| None).map_err(|error| self.error("make", &error));
            }
            opened => opened.map_err(|error| self.error("open", &error))?,
        };
        folder.check_writable().map_err(|error| self.error("write to", &error))?;
        Ok(Some(folder))
    }

    /// Opens the innermost folder that exists.
    fn innermost(&self) -> io::Result<Dir> {
        let below = (0..self.below.len()).rev().map(|count| self.opened_at(count));
        let above = path_of(&self.folder).ancestors().skip(1);
        let above = above.map(|path| Dir::open(path.as_os_str().as_encoded_bytes()));
        let is_missing = |opened: &io::Result<Dir>| {
            opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        below
            .chain(above)
            .find(|opened| !is_missing(opened))
            .unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
    }

    fn make_missing(&self) -> io::Result<Dir> {
        let target = match Dir::open(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path_of(&self.folder))
                    .and_then(|()| Dir::open(&self.folder))
            }
            opened => opened,
        }?;
        self.below.iter().try_fold(target, |folder, name| folder.make_dir(name))
    }

    fn error(&self, verb: &str, error: &io::Error) -> ClientError {
        let path = self.path(self.below.len());
        match self.obstacle().filter(|_| error.kind() == io::ErrorKind::NotADirectory) {
            Some(obstacle) => ClientError::file(verb, path_of(&path), &obstacle),
            None => ClientError::file(verb, path_of(&path), error),
        }
    }

    /// Returns the error that names the object in place of a folder; `None` if there is none.
    fn obstacle(&self) -> Option<io::Error> {
        let kind = io::ErrorKind::NotADirectory;
        let is_obstacle =
            |count: &usize| self.opened_at(*count).is_err_and(|error| error.kind() == kind);
        let count = (1..=self.below.len()).find(is_obstacle)?;
        let path = model::escaped(&self.path(count));
        Some(io::Error::new(kind, format!("{path} is no folder, and no link there is followed")))
    }

    /// Returns the path to which the first `count` names below the target lead.
    fn path(&self, count: usize) -> Vec<u8> {
        let target = self.folder.strip_suffix(b"/").unwrap_or(&self.folder);
        let names = self.below[..count].iter().map(Vec::as_slice);
        let path = std::iter::once(target).chain(names).collect::<Vec<_>>().join(&b'/');
        if path.is_empty() { b"/".to_vec() } else { path }
    }
}

fn path_of(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Returns true if there is no directory of the name.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::innermost;

    /// Checks the folders of `paths` in `/to`. `/home` is a filespace.
    #[track_caller]
    fn check(paths: &[&str], expected: &[&str]) {
        let filespaces: [&[u8]; 2] = [b"/", b"/home"];
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let layout = Layout::new(Some(b"/to"), &paths, &filespaces.map(<[u8]>::to_vec));
        let folders: Vec<String> = paths
            .iter()
            .map(|path| {
                let place = innermost(filespaces.into_iter(), path).expect("a place");
                let base = layout.base(path, &place);
                model::escaped(&[&[base.folder][..], &base.below[..]].concat().join(&b'/'))
            })
            .collect();
        assert_eq!(folders, expected);
    }

    #[test]
    fn paths_are_kept_if_two_have_the_same_name() {
        check(&["/a/x", "/b/y"], &["/to", "/to"]);
        check(&["/a/x", "/b/x"], &["/to/a", "/to/b"]);
        check(&["/s/a/x", "/s/b/x", "/s/y"], &["/to/a", "/to/b", "/to"]);
        check(&["/s/x", "/s/x/x"], &["/to", "/to/x"]);
        check(&["/s/b/c/x", "/s/x"], &["/to/b/c", "/to"]);
        check(&["/a/x", "/a/x"], &["/to", "/to"]);
    }

    #[test]
    fn filespaces_are_parts_of_paths() {
        check(&["/home/x", "/home/y/x", "/x"], &["/to/home", "/to/home/y", "/to"]);
        // The folder stands for the mount point.
        check(&["/home"], &["/to"]);
        check(&["/home", "/s/home"], &["/to/home", "/to/s"]);
        // Its content may have the names of other paths.
        check(&["/home", "/x"], &["/to/home", "/to"]);
        check(&["/s/x", "/home"], &["/to/s", "/to/home"]);
        check(&["/home", "/home"], &["/to", "/to"]);
        check(&["/"], &["/to"]);
    }

    #[test]
    fn old_places_are_never_other_ones() {
        let paths = [b"/a/x".to_vec(), b"/home/ann/x".to_vec()];
        let layout = Layout::new(None, &paths, &[]);
        let folder = |path: &[u8]| {
            let place = innermost([&b"/"[..], b"/home"].into_iter(), path).expect("a place");
            layout.base(path, &place)
        };
        assert_eq!(folder(&paths[0]).folder, b"/");
        assert_eq!(folder(&paths[0]).below, [b"a"]);
        assert_eq!(folder(&paths[1]).folder, b"/home");
        assert_eq!(folder(&paths[1]).below, [b"ann"]);
    }

    #[test]
    fn no_link_below_the_folder_is_followed() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().as_os_str().as_encoded_bytes().to_vec();
        std::fs::create_dir(scratch.path().join("outside")).expect("is made");
        std::os::unix::fs::symlink("outside", scratch.path().join("link")).expect("is made");
        let base = |names: &[&[u8]]| {
            let below = names.iter().map(|name| name.to_vec()).collect();
            Base { folder: folder.clone(), below }
        };
        let refused = base(&[b"link", b"new"]).make().expect_err("a link is no folder");
        for part in ["link/new: ", "/link is no folder"] {
            assert!(refused.message.contains(part), "{}", refused.message);
        }
        assert!(base(&[b"link"]).open().expect("looked").is_none());
        assert!(base(&[b"a", b"b"]).open().expect("looked").is_none());
        base(&[b"a", b"b"]).make().expect("made");
        assert!(base(&[b"a", b"b"]).open().expect("looked").is_some());
    }

    /// A file was restored through a link that stood in place of a folder above it.
    #[test]
    fn no_link_below_a_mount_point_is_followed() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(path("disk/a/b")).expect("is made");
        std::fs::create_dir_all(path("outside/b")).expect("is made");
        std::os::unix::fs::symlink("../outside", path("disk/link")).expect("is made");
        // The link above the mount point belongs to the machine.
        std::os::unix::fs::symlink("disk", path("mounted")).expect("is made");
        let filespace = path("mounted").into_os_string().into_encoded_bytes();
        let base = |directory: &[u8]| {
            Base::at_old_place(&filespace, &DirPath::new(directory).expect("a directory"))
        };
        for directory in [&b"/link/b/"[..], b"/link/new/"] {
            let refused = base(directory);
            assert!(refused.is_obstructed() && refused.make().is_err());
            assert!(refused.open().expect("looked").is_none());
        }
        assert!(!path("outside/new").is_dir());
        base(b"/a/b/").make().expect("is there");
        base(b"/").make().expect("is there");
        assert!(!base(b"/a/none/").is_obstructed());
    }

    #[test]
    fn a_plan_opens_what_exists_and_makes_nothing() {
        let scratch = tempfile::tempdir().expect("a folder");
        let to = scratch.path().join("a/b").into_os_string().into_encoded_bytes();
        let base = || Base { folder: to.clone(), below: vec![b"c".to_vec()] };
        assert!(base().make_later().expect("can be made").is_none());
        assert!(!scratch.path().join("a").is_dir());
        base().make().expect("is made");
        assert!(base().make_later().expect("is there").is_some());
        std::fs::remove_dir(scratch.path().join("a/b/c")).expect("is removed");
        std::fs::write(scratch.path().join("a/b/c"), "").expect("is written");
        assert!(base().make_later().is_err() && base().make().is_err());
    }
}
