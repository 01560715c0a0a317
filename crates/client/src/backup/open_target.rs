//! Targets of a backup. Each is opened from the root of its filespace, component by component.

use std::io;
use std::sync::Arc;

use model::{DirPath, Kind, Name};
use sys::{Dir, ObjectStatus};

use crate::path::components;

/// Opened target, with the chain of objects from the filespace's root to it.
pub(super) struct OpenTarget {
    pub(super) chain: Vec<Step>,
    /// Directory to walk; `None` if the target is not a directory.
    pub(super) start: Option<Start>,
}

/// One object of a chain.
pub(super) struct Step {
    pub(super) dir: Arc<Dir>,
    pub(super) path: DirPath,
    pub(super) name: Name,
    pub(super) found: ObjectStatus,
    pub(super) is_target: bool,
}

impl Step {
    /// Returns the status that is stored of the object. An archive marks the directories above its
    /// targets, because it does not have their whole content.
    pub(super) fn stored(&self, in_archive: bool) -> ObjectStatus {
        let is_directory = self.found.stat.kind == Kind::Directory;
        assert!(self.is_target || is_directory, "only a directory is above a target");
        let mut found = self.found;
        found.stat.linked |= in_archive && !self.is_target;
        found
    }
}

/// Directory at which a walk starts.
pub(super) struct Start {
    pub(super) dir: Arc<Dir>,
    pub(super) path: DirPath,
    /// Device of the filespace's root directory.
    pub(super) device_id: u64,
}

impl OpenTarget {
    /// Opens `target`, a path from the root of the filespace that lies at `root`.
    pub(super) fn open(root: &[u8], target: &[u8]) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let root = Arc::new(Dir::open(root)?);
        let found = root.stat_self()?;
        let parts: Vec<&[u8]> = components(target).collect();
        let mut chain = vec![Step {
            dir: Arc::clone(&root),
            path: DirPath::above_root(),
            name: Name::root(),
            found,
            is_target: parts.is_empty(),
        }];
        let path = DirPath::root();
        let mut start = Some(Start { dir: root, path, device_id: found.device_id });
        for (at, part) in parts.iter().enumerate() {
            let Start { dir: parent, path, device_id } = start.take().ok_or_else(gone)?;
            let name = Name::new(part).map_err(|_| gone())?;
            let is_socket = || io::Error::other("a socket is not backed up");
            let found = parent.stat(part)?.ok_or_else(is_socket)?;
            if found.stat.kind == Kind::Directory {
                let dir = Arc::new(parent.open_dir(part)?);
                start = Some(Start { dir, path: path.child(&name), device_id });
            }
            let is_target = at + 1 == parts.len();
            chain.push(Step { dir: parent, path, name, found, is_target });
        }
        assert!(chain.last().is_some_and(|step| step.is_target), "the chain ends at its target");
        Ok(Self { chain, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(root: &std::path::Path, target: &str, chain: &[&str], start: Option<&str>) {
        let root = root.as_os_str().as_encoded_bytes();
        let top = OpenTarget::open(root, target.as_bytes()).expect("the target exists");
        let shown: Vec<_> = top.chain.iter().map(|step| step.path.join(&step.name)).collect();
        assert_eq!(shown, chain.iter().map(|path| path.as_bytes()).collect::<Vec<_>>());
        let targets = top.chain.iter().filter(|step| step.is_target).count();
        assert_eq!(targets, 1);
        let path = top.start.as_ref().map(|start| start.path.as_bytes());
        assert_eq!(path, start.map(str::as_bytes));
    }

    #[test]
    fn a_target_is_reached_step_by_step() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("a/b")).expect("made");
        std::fs::write(folder.path().join("a/b/file"), b"x").expect("written");
        check(folder.path(), "/", &["/"], Some("/"));
        check(folder.path(), "/a", &["/", "/a"], Some("/a/"));
        check(folder.path(), "/a/b/file", &["/", "/a", "/a/b", "/a/b/file"], None);
    }

    #[test]
    fn an_archive_marks_the_directories_above_its_targets() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("a/b")).expect("made");
        let root = folder.path().as_os_str().as_encoded_bytes();
        let top = OpenTarget::open(root, b"/a/b").expect("the target exists");
        let marked = |in_archive| {
            let stats = top.chain.iter().map(|step| step.stored(in_archive).stat);
            stats.map(|stat| stat.is_above_archived()).collect::<Vec<_>>()
        };
        assert_eq!(marked(true), [true, true, false]);
        assert_eq!(marked(false), [false; 3]);
    }

    #[test]
    fn a_target_that_cannot_be_reached_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), b"x").expect("written");
        let root = folder.path().as_os_str().as_encoded_bytes();
        for (target, kind) in
            [(&b"/none"[..], io::ErrorKind::NotFound), (b"/file/below", io::ErrorKind::NotFound)]
        {
            let error = OpenTarget::open(root, target).err().expect("the target cannot be reached");
            assert_eq!(error.kind(), kind);
        }
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(socket).expect("a socket");
        let error = OpenTarget::open(root, b"/socket").err().expect("a socket");
        assert!(error.to_string().contains("socket"));
    }
}
