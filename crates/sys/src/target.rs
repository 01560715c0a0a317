//! Making objects at restore. Everything is made in an open [`Dir`], under one name, and never
//! through a symbolic link that somebody put there.
//!
//! A file is made nameless, filled, given its attributes, and then published under its name:
//!
//! ```text
//! create --> write_at, set_len --> apply --> publish       the name leads to the whole file
//!    \______________\________________\___ drop or kill     nothing is left
//! ```
//!
//! Where the file system has no nameless files, the file has a name `.holdfast-*` until then, which
//! a drop removes and a kill leaves behind. Content is not synced.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use model::{Attributes, Kind, Stat};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use crate::apply::{self, Applied, FLAGS_OF_EMPTY, FLAGS_SEALING, Newborn, Part};
use crate::attributes::{FLAGS_RESTORED, Inode};
use crate::dir::{Dir, single};
use crate::entropy;

/// What an object may before it has its own mode: its maker alone may use it.
const MODE_PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How the name of a file that is not whole starts.
const TEMPORARY_PREFIX: &str = ".holdfast-";

/// A file being restored.
///
/// Invariant: until [`NewFile::publish`] succeeds its name does not lead to it, unless it was made
/// by [`NewFile::create_named`]; a dropped file leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    dir: Arc<Dir>,
    name: Vec<u8>,
    /// The name it has meanwhile, to be removed if it is given up.
    draft: Option<Vec<u8>>,
    /// Flags that must wait until it is published.
    sealing: u32,
    /// Whether it may have been given something already but content.
    is_prepared: bool,
}

impl NewFile {
    /// Makes an empty file that will be `name` in `dir`, without a name where the file system can.
    pub fn create(dir: &Arc<Dir>, name: &[u8]) -> io::Result<Self> {
        let name = single(name)?.to_vec();
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(dir.as_fd(), c".", flags, MODE_PRIVATE) {
            Ok(fd) => Ok(Self::new(fd, dir, name, None)),
            // ISDIR: a kernel or a file system that ignores the flag.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                let draft = entropy::name(TEMPORARY_PREFIX).into_bytes();
                let fd = create_exclusive(dir, &draft)?;
                Ok(Self::new(fd, dir, name, Some(draft)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes an empty file under its very `name`, which must be free: cheaper for small files.
    ///
    /// A kill leaves a part of it there, with mode 0600 and without its modification time: a rerun
    /// that compares sizes and times restores it again.
    pub fn create_named(dir: &Arc<Dir>, name: &[u8]) -> io::Result<Self> {
        let name = single(name)?.to_vec();
        let fd = create_exclusive(dir, &name)?;
        let draft = Some(name.clone());
        Ok(Self::new(fd, dir, name, draft))
    }

    fn new(fd: OwnedFd, dir: &Arc<Dir>, name: Vec<u8>, draft: Option<Vec<u8>>) -> Self {
        let dir = Arc::clone(dir);
        Self { file: fd.into(), dir, name, draft, sealing: 0, is_prepared: false }
    }

    /// Gives the file those of `attributes` that it takes only while it is empty: no copy on write,
    /// compression. Comes before the first write, if at all.
    pub fn prepare(&mut self, attributes: &Attributes) -> Applied {
        let mut applied = Applied::default();
        if attributes.flags & FLAGS_OF_EMPTY != 0 {
            self.is_prepared = true;
            let set = apply::set_flags(&self.inode(), attributes.flags, FLAGS_OF_EMPTY, None);
            applied.note(Part::Flags, set);
        }
        applied
    }

    /// Writes all of `bytes` at `offset`. What is never written is a hole.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Sets one extended attribute.
    pub fn set_attribute(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        self.is_prepared = true;
        Ok(rustix::fs::fsetxattr(&self.file, name, value, XattrFlags::empty())?)
    }

    /// Makes the file `bytes` long, by a hole at its end if need be.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    /// Gives the file what `stat` and `attributes` say, the owner only if `owner` is set. Comes
    /// after the last write, which would change the time and drop capabilities.
    ///
    /// The flags immutable and append-only wait until [`Self::publish`]: a file that has them takes
    /// no name.
    pub fn apply(&mut self, stat: &Stat, attributes: &Attributes, owner: bool) -> Applied {
        let inode = self.inode();
        let newborn = self.newborn(&inode);
        let mut applied = apply::apply(&inode, stat, attributes, owner, newborn);
        let mask = FLAGS_RESTORED & !FLAGS_SEALING;
        let set = apply::set_flags(&inode, attributes.flags, mask, newborn);
        applied.note(Part::Flags, set);
        self.sealing = attributes.flags & FLAGS_SEALING;
        self.is_prepared = true;
        applied
    }

    /// What the file has by being new, if that can be told.
    fn newborn(&self, inode: &Inode<'_>) -> Option<&Newborn> {
        if self.is_prepared {
            return None;
        }
        if let Some(known) = self.dir.newborn.get() {
            return Some(known);
        }
        let found = Newborn::of(inode).ok()?;
        Some(self.dir.newborn.get_or_init(|| found))
    }

    /// Makes the name lead to the file, then sets the flags that had to wait.
    ///
    /// An existing object of that name is replaced atomically if `replace` is set and it is not a
    /// directory; else the error is `AlreadyExists` or `IsADirectory` and the file is given up. A
    /// kill can leave the whole file under its name without those flags.
    pub fn publish(mut self, replace: bool) -> io::Result<Applied> {
        if self.draft.as_deref() != Some(&self.name[..]) {
            self.take_name(replace)?;
        }
        self.draft = None;
        let mut applied = Applied::default();
        if self.sealing != 0 {
            let set = apply::set_flags(&self.inode(), self.sealing, FLAGS_SEALING, None);
            applied.note(Part::Flags, set);
        }
        Ok(applied)
    }

    fn take_name(&mut self, replace: bool) -> io::Result<()> {
        if self.draft.is_none() {
            match self.link(&self.name) {
                Err(Errno::EXIST) if replace => {
                    let draft = entropy::name(TEMPORARY_PREFIX).into_bytes();
                    self.link(&draft)?;
                    self.draft = Some(draft);
                }
                result => return Ok(result?),
            }
        }
        let draft = self.draft.as_deref().expect("set above");
        rename(&self.dir, draft, &self.name, replace)
    }

    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        let flags = AtFlags::EMPTY_PATH;
        match rustix::fs::linkat(&self.file, c"", self.dir.as_fd(), name, flags) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => return Err(Errno::EXIST),
            // The right to do so is root's before Linux 6.10.
            Err(_) => {}
        }
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, path, self.dir.as_fd(), name, AtFlags::SYMLINK_FOLLOW)
    }

    fn inode(&self) -> Inode<'_> {
        Inode::of_open(self.file.as_fd())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // Nobody is left to hear of a failure; the name says what the file is.
            let _removed = rustix::fs::unlinkat(self.dir.as_fd(), &draft[..], AtFlags::empty());
        }
    }
}

impl Dir {
    /// Makes the directory `name` for its maker alone, or opens the one that is there. Anything
    /// else of that name, a symbolic link to a directory included, is `NotADirectory`.
    pub fn make_dir(&self, name: &[u8]) -> io::Result<Self> {
        self.make_dir_of_mode(name, Mode::RWXU)
    }

    /// The same for a directory that gets its attributes later: until then [`Self::is_unfinished`].
    pub fn make_unfinished_dir(&self, name: &[u8]) -> io::Result<Self> {
        self.make_dir_of_mode(name, MODE_UNFINISHED)
    }

    fn make_dir_of_mode(&self, name: &[u8], mode: Mode) -> io::Result<Self> {
        match rustix::fs::mkdirat(self, single(name)?, mode) {
            Ok(()) | Err(Errno::EXIST) => self.open_dir(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the symbolic link `name`, which must be free, to `target`.
    pub fn make_symlink(&self, name: &[u8], target: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, self, single(name)?)?)
    }

    /// Makes the FIFO or device `name`, which must be free, for its maker alone. `device` is as in
    /// [`model::Stat::device`]. Devices need privileges.
    pub fn make_node(&self, name: &[u8], kind: Kind, device: u64) -> io::Result<()> {
        let file_type = match kind {
            Kind::Fifo => FileType::Fifo,
            Kind::CharDevice => FileType::CharacterDevice,
            Kind::BlockDevice => FileType::BlockDevice,
            Kind::File | Kind::Directory | Kind::Symlink => {
                panic!("{kind:?} objects are not made by mknod")
            }
        };
        Ok(rustix::fs::mknodat(self, single(name)?, file_type, MODE_PRIVATE, device)?)
    }

    /// Makes `target_name` in `target` lead to the object that is `name` here, which is not
    /// followed if it is a symbolic link. The new name must be free.
    pub fn link(&self, name: &[u8], target: &Self, target_name: &[u8]) -> io::Result<()> {
        let (name, target_name) = (single(name)?, single(target_name)?);
        Ok(rustix::fs::linkat(self, name, target, target_name, AtFlags::empty())?)
    }

    /// Moves the object `name` to `target`, where it is `target_name`, which must be free.
    pub fn move_to(&self, name: &[u8], target: &Self, target_name: &[u8]) -> io::Result<()> {
        let (name, target_name) = (single(name)?, single(target_name)?);
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(self, name, target, target_name, flags)?)
    }

    /// Another handle on the same directory.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.open_again()
    }

    /// Fails with the reason if nothing can be made in this directory.
    pub fn check_writable(&self) -> io::Result<()> {
        let access = rustix::fs::Access::WRITE_OK;
        Ok(rustix::fs::accessat(self, ".", access, AtFlags::EACCESS)?)
    }

    /// Marks a directory that is being made, so that a later run knows it for unfinished, also once
    /// it has some of its attributes. Applying them takes the mark off as its last step. Without
    /// effect where there are no user attributes.
    pub fn mark_unfinished(&self) {
        let flags = XattrFlags::empty();
        // A file system without attributes is no reason to fail: the mark only helps a rerun.
        let _unmarked = rustix::fs::fsetxattr(self, UNFINISHED, &[], flags);
    }

    /// Whether [`Self::make_unfinished_dir`] or [`Self::mark_unfinished`] was the last word on this
    /// directory.
    pub fn is_unfinished(&self) -> bool {
        // A parent may have given it its group.
        let is_new = |stat: rustix::fs::Stat| {
            Mode::from_raw_mode(stat.st_mode).difference(Mode::SGID) == MODE_UNFINISHED
        };
        rustix::fs::fgetxattr(self, UNFINISHED, &mut [0_u8; 1][..]).is_ok()
            || rustix::fs::fstat(self).is_ok_and(is_new)
    }

    /// Removes `name`: an empty directory if `is_dir` is set, else anything but a directory.
    pub fn remove(&self, name: &[u8], is_dir: bool) -> io::Result<()> {
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(self, single(name)?, flags)?)
    }
}

/// The attribute of a directory that is being made.
pub(crate) const UNFINISHED: &str = "user.holdfast.unfinished";
/// The mode of a directory that is being made, from its first moment on: hardly anybody else makes
/// one for its owner alone that is sticky.
pub(crate) const MODE_UNFINISHED: Mode = Mode::RWXU.union(Mode::SVTX);

fn create_exclusive(dir: &Dir, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, MODE_PRIVATE)?)
}

fn rename(dir: &Dir, from: &[u8], to: &[u8], replace: bool) -> io::Result<()> {
    if replace {
        return Ok(rustix::fs::renameat(dir, from, dir, to)?);
    }
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // Not every file system knows the flag; a link refuses to replace as well.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            Ok(rustix::fs::unlinkat(dir, from, AtFlags::empty())?)
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests;
