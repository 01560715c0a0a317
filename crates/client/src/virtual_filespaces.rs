//! Virtual filespaces: directories that are filespaces of their own although no file system is
//! mounted there.
//!
//! 1. The filespace of an object is the deepest mount point or virtual filespace at or above it.
//!    [`VirtualFilespaces::locate`] decides this for all commands that read files of this machine.
//! 2. The filespace around a virtual filespace has the directory itself, as an empty directory.
//! 3. A directory that a symbolic link leads to is known by its path without links. A link, or a
//!    file, is an object of the filespace around it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use policy::local::{MountStanding, Reason, Standing as MountDecision};
use policy::settings::{directory_words, split_words};
use sys::mount::is_below;

use crate::error::{ClientError, ErrorKind};
use crate::node::standing::Standing;
use crate::path::absolute;

/// Setting that names the directories.
const SETTING: &str = "virtual-filespaces";
/// Word that stands in place of the type of a file system where file systems are listed.
const KIND: &str = "virtual filespace";

/// Directories that are filespaces of their own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualFilespaces(BTreeSet<Vec<u8>>);

impl VirtualFilespaces {
    /// Returns the directories that the node's settings name.
    pub fn of(standing: &Standing) -> Result<Self, ClientError> {
        let words = split_words(standing.value(SETTING).unwrap_or_default());
        let paths = directory_words(&words).map_err(|error| {
            ClientError::new(ErrorKind::Usage, format!("the setting {SETTING} must be {error}"))
        })?;
        Ok(Self(paths.into_iter().collect()))
    }

    /// Returns true if the directory is one of them. `path` returns its path on the node. It is
    /// called only if there are any.
    pub fn has(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        !self.0.is_empty() && self.0.contains(&path())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the root directory of a virtual filespace is at `path`.
    pub fn is_filespace(&self, path: &[u8]) -> bool {
        self.has(|| path.to_vec()) && obstacle(path).is_none() && is_directory(path)
    }

    /// Returns true if `filespace` is a directory with content that belongs to the filespace around
    /// it: no file system is mounted there, and no setting names it any more.
    pub fn is_abandoned(&self, filespace: &[u8]) -> bool {
        let is_part = || self.locate(filespace).is_ok_and(|(around, _)| around != filespace);
        let has_content = || {
            let mut entries = std::fs::read_dir(OsStr::from_bytes(filespace)).ok()?;
            entries.next()
        };
        filespace.starts_with(b"/") && is_part() && has_content().is_some()
    }

    /// Returns those below `directory`, in order.
    pub fn below<'a>(&'a self, directory: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().map(Vec::as_slice).filter(move |path| is_below(directory, path))
    }

    /// Returns the first one at or below `directory`.
    pub fn at_or_below<'a>(&'a self, directory: &'a [u8]) -> Option<&'a [u8]> {
        let own = self.0.get(directory).map(Vec::as_slice);
        own.or_else(|| self.below(directory).next())
    }

    /// Returns why the filespace `filespace` is not backed up: a virtual filespace is in one of the
    /// file systems that are `managed`, and this filespace is that file system, or a virtual
    /// filespace in it. Space management finds the backups and the copies of its files by the name
    /// of the whole file system.
    pub(crate) fn conflict(&self, filespace: &[u8], managed: &[Vec<u8>]) -> Option<String> {
        let is_virtual = self.has(|| filespace.to_vec());
        let is_part = |point: &&Vec<u8>| {
            filespace == point.as_slice() || (is_virtual && is_below(point, filespace))
        };
        let (point, path) = managed
            .iter()
            .filter(is_part)
            .find_map(|point| Some((point, self.at_or_below(point)?)))?;
        Some(format!(
            "{} is managed, and space management knows the backups and the copies of its files by \
             the name of the whole file system, so {} cannot be a virtual filespace; take it out \
             of the setting {SETTING}, or stop managing the file system",
            model::escaped(point),
            model::escaped(path)
        ))
    }

    /// Splits a path of the node into its filespace and the rest of the path, as
    /// [`sys::mount::filespace_root`] does for mount points.
    pub(crate) fn locate(&self, path: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let (root, within) = sys::mount::filespace_root(path)?;
        let path = absolute(&root, &within);
        let is_directory = self.0.contains(&path) && is_directory(&path);
        Ok(self.split(root, within, is_directory))
    }

    /// Does the same for a path without symbolic links that is split at its mount point.
    /// `is_directory` is true if the path leads to a directory.
    fn split(&self, root: Vec<u8>, within: Vec<u8>, is_directory: bool) -> (Vec<u8>, Vec<u8>) {
        let path = absolute(&root, &within);
        let holds = |one: &&Vec<u8>| {
            is_below(&root, one) && (is_below(one, &path) || (is_directory && path == **one))
        };
        let Some(deepest) = self.0.iter().filter(holds).max_by_key(|one| one.len()) else {
            return (root, within);
        };
        let target = match &path[deepest.len()..] {
            b"" => b"/".to_vec(),
            rest => rest.to_vec(),
        };
        assert!(target.starts_with(b"/"), "a path in a filespace begins at its root");
        (deepest.clone(), target)
    }

    /// Returns the type of the file system with the filespace `path`, as the kernel calls it;
    /// `None` if nothing is mounted there and `path` is no virtual filespace.
    pub fn filesystem_type(&self, path: &[u8]) -> Option<String> {
        let mounted = |path: &[u8]| sys::mount::filesystem_type(path).ok().flatten();
        let around = || {
            if !self.has(|| path.to_vec()) {
                return None;
            }
            let (root, _) = sys::mount::filespace_root(path).ok()?;
            mounted(&root)
        };
        mounted(path).or_else(around)
    }

    /// Returns what the user should know about paths that are no filespaces. A directory that does
    /// not exist is no mistake: an option set names the directories of many nodes.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let obstacles = self.0.iter().filter_map(|path| obstacle(path));
        obstacles.map(|obstacle| format!("{SETTING}: {obstacle}")).collect()
    }

    /// Returns the decisions of a backup of the whole machine about the virtual filespaces that
    /// exist. Each is backed up if the file system around it is a local one, even if the list of
    /// paths leaves that file system out. `mounts` has the decisions about all mounts.
    pub fn standings(&self, mounts: &[MountStanding], left_out: &[Vec<u8>]) -> Vec<MountStanding> {
        self.standings_of(mounts, left_out, |path| self.is_filespace(path))
    }

    fn standings_of(
        &self,
        mounts: &[MountStanding],
        left_out: &[Vec<u8>],
        is_there: impl Fn(&[u8]) -> bool,
    ) -> Vec<MountStanding> {
        let excluded = MountDecision::LeftOut(Reason::Excluded);
        let is_covered =
            |mount: &&MountStanding| mount.standing == MountDecision::LeftOut(Reason::Covered);
        let standing = |path: &Vec<u8>| {
            let is_around =
                |mount: &&MountStanding| mount.point == *path || is_below(&mount.point, path);
            let visible = mounts.iter().filter(|mount| !is_covered(mount));
            let around = visible.filter(is_around).max_by_key(|mount| mount.point.len())?;
            let is_local = around.standing == MountDecision::Local || around.standing == excluded;
            let is_own = around.point != *path && is_local && is_there(path);
            let standing = match left_out.contains(path) {
                true => excluded.clone(),
                false => MountDecision::Local,
            };
            is_own.then(|| MountStanding { point: path.clone(), kind: KIND.to_owned(), standing })
        };
        self.0.iter().filter_map(standing).collect()
    }
}

/// Returns true if a directory is there, and no link to one.
fn is_directory(path: &[u8]) -> bool {
    std::fs::symlink_metadata(OsStr::from_bytes(path)).is_ok_and(|found| found.is_dir())
}

/// Returns why the absolute `path` is no filespace of its own on this machine, although a setting
/// names it.
pub fn obstacle(path: &[u8]) -> Option<String> {
    let (root, within) = sys::mount::filespace_root(path).ok()?;
    let (shown, found) = (model::escaped(path), absolute(&root, &within));
    if found != path {
        let found = model::escaped(&found);
        return Some(format!(
            "a symbolic link leads to {shown}, so it is no filespace of its own; name it {found}"
        ));
    }
    (!is_directory(path))
        .then(|| format!("{shown} is not a directory, so it is no filespace of its own"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes the list of these directories.
    pub(crate) fn virtual_filespaces(paths: &[&str]) -> VirtualFilespaces {
        VirtualFilespaces(paths.iter().map(|path| path.as_bytes().to_vec()).collect())
    }

    /// Checks the filespace of a path on the file system that is mounted at `root`.
    #[track_caller]
    fn check(root: &str, within: &str, is_directory: bool, expected: (&str, &str)) {
        let list = virtual_filespaces(&["/data", "/srv/projects", "/srv/projects/a\u{e9}"]);
        let bytes = |text: &str| text.as_bytes().to_vec();
        let found = list.split(bytes(root), bytes(within), is_directory);
        assert_eq!(found, (bytes(expected.0), bytes(expected.1)), "{root} {within}");
    }

    #[test]
    fn the_deepest_filespace_has_the_object() {
        check("/", "/srv/projects/b/c", false, ("/srv/projects", "/b/c"));
        check("/srv", "/projects/b", true, ("/srv/projects", "/b"));
        check("/srv", "/projects", true, ("/srv/projects", "/"));
        check("/srv", "/projects/a\u{e9}/b", false, ("/srv/projects/a\u{e9}", "/b"));
        check("/srv", "/projects/a\u{e9}", true, ("/srv/projects/a\u{e9}", "/"));
        check("/srv/projects", "/x", false, ("/srv/projects", "/x"));
        check("/srv/projects", "/", true, ("/srv/projects", "/"));
        check("/data/mounted", "/x", false, ("/data/mounted", "/x"));
    }

    #[test]
    fn other_objects_stay_in_their_file_system() {
        check("/", "/", true, ("/", "/"));
        check("/", "/srv", true, ("/", "/srv"));
        check("/", "/srv/projects2/b", false, ("/", "/srv/projects2/b"));
        check("/srv", "/projects", false, ("/srv", "/projects"));
        check("/srv", "/projects/a\u{e9}", false, ("/srv/projects", "/a\u{e9}"));
    }

    #[test]
    fn a_link_is_an_object_of_the_filespace_around_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("a path");
        std::fs::create_dir(top.join("real")).expect("made");
        std::fs::write(top.join("real/file"), "").expect("written");
        std::os::unix::fs::symlink("real", top.join("link")).expect("made");
        let path = |name: &str| top.join(name).to_str().expect("a text").to_owned();
        let list = virtual_filespaces(&[&path("real"), &path("link"), &path("link/none")]);
        let filespace = |name: &str| {
            let (filespace, target) = list.locate(path(name).as_bytes()).expect("it exists");
            (filespace == path("real").as_bytes()).then_some(target)
        };
        assert_eq!(filespace("real"), Some(b"/".to_vec()));
        assert_eq!(filespace("real/file"), Some(b"/file".to_vec()));
        assert_eq!(filespace("link/file"), Some(b"/file".to_vec()));
        assert_eq!(filespace("link"), None);
        let warnings = list.warnings();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(warning.contains("link is not a directory"), "{warning}");
        let through = virtual_filespaces(&[&path("link/file")]).warnings();
        assert!(through[0].ends_with(&format!("name it {}", path("real/file"))), "{through:?}");
    }

    #[test]
    fn only_the_managed_file_system_around_a_virtual_filespace_is_left_out() {
        let list = virtual_filespaces(&["/data/own", "/srv/own"]);
        let managed = [b"/data".to_vec(), b"/home".to_vec()];
        let check = |filespace: &str, is_left_out: bool| {
            let reason = list.conflict(filespace.as_bytes(), &managed);
            assert_eq!(reason.is_some(), is_left_out, "{filespace}: {reason:?}");
        };
        for (filespace, is_left_out) in [
            ("/data", true),
            ("/data/own", true),
            ("/data/mounted", false),
            ("/data2", false),
            ("/home", false),
            ("/srv/own", false),
            ("/", false),
        ] {
            check(filespace, is_left_out);
        }
    }

    #[test]
    fn a_backup_of_the_machine_takes_those_on_local_disks() {
        let mount = |point: &str, standing| MountStanding {
            point: point.as_bytes().to_vec(),
            kind: "ext4".to_owned(),
            standing,
        };
        let (local, excluded) = (MountDecision::Local, MountDecision::LeftOut(Reason::Excluded));
        let mounts = [
            mount("/", MountDecision::Local),
            mount("/nfs", MountDecision::LeftOut(Reason::Network)),
            mount("/data", excluded.clone()),
            mount("/data", MountDecision::LeftOut(Reason::Covered)),
        ];
        let list =
            virtual_filespaces(&["/data", "/data/a", "/nfs/b", "/srv/c", "/srv/d", "/srv/none"]);
        let left_out = [b"/srv/d".to_vec()];
        let is_there = |path: &[u8]| path != b"/srv/none";
        let found = list.standings_of(&mounts, &left_out, is_there);
        let shown: Vec<_> = found.iter().map(|one| (&one.point[..], &one.standing)).collect();
        let expected: [(&[u8], _); 3] =
            [(b"/data/a", &local), (b"/srv/c", &local), (b"/srv/d", &excluded)];
        assert_eq!(shown, expected);
    }
}
