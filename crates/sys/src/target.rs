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
//! On a file system without nameless files, the file has a name `.holdfast-*` until it is
//! published. If the file is dropped, that name is removed; if the process is killed, the name
//! stays. Content is not synced.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use model::{Attributes, Kind, Stat};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use crate::apply::{
    self, ApplyOutcome, FLAGS_OF_EMPTY, FLAGS_SEALING, MODE_UNFINISHED, Part, UNFINISHED,
};
use crate::attributes::{FLAGS_RESTORED, Inode};
use crate::dir::{Dir, single};
use crate::entropy;
use crate::new_file_state::NewFileState;
use crate::source::{Segment, SourceFile};
use crate::status::ObjectStatus;

/// Mode of an object until its own mode is set: only its owner may use it.
const MODE_PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Mode bits that a file can have before it has its owner and its content.
const MODE_RIGHTS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// Start of the name of a file that is not complete.
const TEMPORARY_PREFIX: &str = ".holdfast-";

/// A file being restored.
///
/// Invariant: until [`NewFile::publish`] succeeds, `name` does not lead to the file; a file that is
/// dropped leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    dir: Arc<Dir>,
    name: Vec<u8>,
    /// Name of the file until it is published; the name is removed if the file is dropped.
    draft: Option<Vec<u8>>,
    /// Mode that the file was made with.
    mode: Mode,
    /// Flags that must wait until the file is published.
    sealing: u32,
    /// True if something besides content may have been set.
    is_prepared: bool,
}

impl NewFile {
    /// Makes an empty file that will be `name` in `dir`. Until then it has no name, if the file
    /// system supports such files.
    pub fn create(dir: &Arc<Dir>, name: &[u8]) -> io::Result<Self> {
        Self::make(dir, name, MODE_PRIVATE)
    }

    /// Makes a file as [`Self::create`] does. If it has no name, so that nobody else can open it,
    /// it usually has the mode `mode` from the start: then [`Self::apply`] need not set that mode.
    pub fn create_with_mode(dir: &Arc<Dir>, name: &[u8], mode: u16) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(mode.into());
        // Its owner must be able to set its attributes.
        let is_usable = MODE_RIGHTS.contains(mode) && mode.contains(MODE_PRIVATE);
        Self::make(dir, name, if is_usable { mode } else { MODE_PRIVATE })
    }

    /// Makes a file with the mode `mode`, or, if it needs a name, with [`MODE_PRIVATE`].
    fn make(dir: &Arc<Dir>, name: &[u8], mode: Mode) -> io::Result<Self> {
        let name = single(name)?.to_vec();
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(dir.as_fd(), c".", flags, mode) {
            Ok(fd) => {
                let mut new = Self::new(fd, dir, name, None);
                new.mode = mode;
                Ok(new)
            }
            // ISDIR is the error of a kernel or a file system that ignores the flag.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                let draft = entropy::name(TEMPORARY_PREFIX).into_bytes();
                let fd = create_exclusive(dir, &draft)?;
                Ok(Self::new(fd, dir, name, Some(draft)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn new(fd: OwnedFd, dir: &Arc<Dir>, name: Vec<u8>, draft: Option<Vec<u8>>) -> Self {
        let dir = Arc::clone(dir);
        let (mode, sealing, is_prepared) = (MODE_PRIVATE, 0, false);
        Self { file: fd.into(), dir, name, draft, mode, sealing, is_prepared }
    }

    /// Sets the attributes that a file takes only while it is empty: no copy on write, compression.
    /// The caller does this before the first write.
    pub fn prepare(&mut self, attributes: &Attributes) -> ApplyOutcome {
        let mut applied = ApplyOutcome::default();
        if attributes.flags & FLAGS_OF_EMPTY != 0 {
            self.is_prepared = true;
            let set = apply::set_flags(&self.inode(), attributes.flags, FLAGS_OF_EMPTY, None);
            applied.note(Part::Flags, set);
        }
        applied
    }

    /// Writes all of `bytes` at `offset`. A part that is never written is a hole.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Writes the content of `source`, which was `found`, into the file. Holes stay holes. `buffer`
    /// holds what is read at once.
    pub fn copy_from(
        &self,
        source: &SourceFile,
        found: &ObjectStatus,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let size = found.stat.size;
        let segments = match found.allocated_bytes < size {
            true => source.segments(size)?,
            false => vec![Segment::Data { offset: 0, bytes: size }],
        };
        for segment in segments {
            let Segment::Data { mut offset, bytes } = segment else { continue };
            let end = offset + bytes;
            while offset < end {
                let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
                let room = left.min(buffer.len());
                let count = source.read_at(&mut buffer[..room], offset)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.write_at(&buffer[..count], offset)?;
                offset += count as u64;
            }
        }
        self.set_len(size)
    }

    /// Sets one extended attribute.
    pub fn set_attribute(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        self.is_prepared = true;
        Ok(rustix::fs::fsetxattr(&self.file, name, value, XattrFlags::empty())?)
    }

    /// Sets the file's length to `bytes`, with a hole at its end if necessary.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    /// Gives the file the parts that `stat` and `attributes` describe, the owner only if `owner` is
    /// set. The caller does this after the last write, because a write changes the time and drops
    /// capabilities.
    ///
    /// The flags immutable and append-only wait until [`Self::publish`]: a file with these flags
    /// cannot get a name.
    pub fn apply(&mut self, stat: &Stat, attributes: &Attributes, owner: bool) -> ApplyOutcome {
        let inode = self.inode();
        let new_file = self.new_file_state(&inode);
        let has_mode = new_file.is_some_and(|new_file| new_file.has_mode_of(stat, self.mode));
        let mut applied = apply::apply(&inode, stat, attributes, owner, new_file, has_mode);
        let mask = FLAGS_RESTORED & !FLAGS_SEALING;
        let set = apply::set_flags(&inode, attributes.flags, mask, new_file);
        applied.note(Part::Flags, set);
        self.sealing = attributes.flags & FLAGS_SEALING;
        self.is_prepared = true;
        applied
    }

    /// Returns the state of a new file in this directory, if it can be read from this file.
    fn new_file_state(&self, inode: &Inode<'_>) -> Option<&NewFileState> {
        if self.is_prepared {
            return None;
        }
        if let Some(known) = self.dir.new_file.get() {
            return Some(known);
        }
        let found = NewFileState::of(inode, self.mode).ok()?;
        Some(self.dir.new_file.get_or_init(|| found))
    }

    /// Makes the name lead to the file, then sets the flags that had to wait.
    ///
    /// An existing object of that name is replaced atomically if `replace` is set and it is not a
    /// directory; otherwise the error is `AlreadyExists` or `IsADirectory` and the file is dropped.
    /// If the process is killed, the whole file may have its name without those flags.
    pub fn publish(mut self, replace: bool) -> io::Result<ApplyOutcome> {
        self.take_name(replace)?;
        self.draft = None;
        let mut applied = ApplyOutcome::default();
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
            // Before Linux 6.10 only root may link a file by its descriptor.
            Err(_) => {}
        }
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, path, self.dir.as_fd(), name, AtFlags::SYMLINK_FOLLOW)
    }

    fn inode(&self) -> Inode<'_> {
        Inode::of_open(self.file.as_fd())
    }
}

impl AsFd for NewFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // A failure cannot be reported any more; the name shows that the file is temporary.
            let _removed = rustix::fs::unlinkat(self.dir.as_fd(), &draft[..], AtFlags::empty());
        }
    }
}

impl Dir {
    /// Makes the directory `name`, which only its owner may use, or opens an existing directory.
    /// Anything else of that name, a symbolic link to a directory included, is `NotADirectory`.
    pub fn make_dir(&self, name: &[u8]) -> io::Result<Self> {
        let _is_new = self.add_dir(name, false)?;
        self.open_dir(name)
    }

    /// Makes or opens a directory like [`Self::make_dir`]. It gets its attributes later: until then
    /// [`Self::is_unfinished`] is true.
    pub fn make_unfinished_dir(&self, name: &[u8]) -> io::Result<Self> {
        let _is_new = self.add_dir(name, true)?;
        self.open_dir(name)
    }

    /// Makes a directory as [`Self::make_unfinished_dir`] does if `is_unfinished` is set, otherwise
    /// as [`Self::make_dir`] does, but does not open it. Returns false if any object, a socket too,
    /// has the name already.
    pub fn add_dir(&self, name: &[u8], is_unfinished: bool) -> io::Result<bool> {
        let mode = if is_unfinished { MODE_UNFINISHED } else { Mode::RWXU };
        match rustix::fs::mkdirat(self, single(name)?, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the symbolic link `name` to `target`. The name must be free.
    pub fn make_symlink(&self, name: &[u8], target: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, self, single(name)?)?)
    }

    /// Makes the FIFO or device `name`, which only its owner may use. The name must be free.
    /// `device` is as in [`model::Stat::device`]. Devices need privileges.
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

    /// Gives the object `name` a second name, `target_name` in `target`. A symbolic link is not
    /// followed. The new name must be free.
    pub fn link(&self, name: &[u8], target: &Self, target_name: &[u8]) -> io::Result<()> {
        let (name, target_name) = (single(name)?, single(target_name)?);
        Ok(rustix::fs::linkat(self, name, target, target_name, AtFlags::empty())?)
    }

    /// Gives the object `name` a further name, `target_name` in `target`, in place of another
    /// object. A link that is refused, or a directory with objects in it, leaves that as it is.
    pub fn link_over(&self, name: &[u8], target: &Self, target_name: &[u8]) -> io::Result<()> {
        let target_name = single(target_name)?;
        let draft = entropy::name(TEMPORARY_PREFIX).into_bytes();
        self.link(name, target, &draft)?;
        let renamed = match rename(target, &draft, target_name, true) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => target
                .remove(target_name, true)
                .and_then(|()| rename(target, &draft, target_name, true)),
            renamed => renamed,
        };
        // A rename to a name of the same object leaves both. The name shows that it is temporary.
        let _removed = target.remove(&draft, false);
        renamed
    }

    /// Moves the object `name` to the directory `target`. Its new name, `target_name`, must be
    /// free.
    pub fn move_to(&self, name: &[u8], target: &Self, target_name: &[u8]) -> io::Result<()> {
        let (name, target_name) = (single(name)?, single(target_name)?);
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(self, name, target, target_name, flags)?)
    }

    /// Opens another handle on the same directory.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.open_again()
    }

    /// Fails with the reason if nothing can be made in this directory.
    pub fn check_writable(&self) -> io::Result<()> {
        let access = rustix::fs::Access::WRITE_OK;
        Ok(rustix::fs::accessat(self, ".", access, AtFlags::EACCESS)?)
    }

    /// Marks a directory that is being made, so that a later run recognises it as unfinished, even
    /// if some attributes are set. [`Self::apply`] removes the mark in its last step. A file system
    /// without user attributes takes no mark.
    pub fn mark_unfinished(&self) {
        let flags = XattrFlags::empty();
        // A file system without attributes is no reason to fail: the mark only helps a rerun.
        let _unmarked = rustix::fs::fsetxattr(self, UNFINISHED, &[], flags);
    }

    /// Returns true if the attributes have not been applied since [`Self::make_unfinished_dir`] or
    /// [`Self::mark_unfinished`].
    pub fn is_unfinished(&self) -> bool {
        // The directory may have inherited the setgid bit from its parent.
        let is_new = |stat: rustix::fs::Stat| {
            Mode::from_raw_mode(stat.st_mode).difference(Mode::SGID) == MODE_UNFINISHED
        };
        rustix::fs::fgetxattr(self, UNFINISHED, &mut [0_u8; 1][..]).is_ok()
            || rustix::fs::fstat(self).is_ok_and(is_new)
    }

    /// Removes the object `name`. It must be an empty directory if `is_dir` is set, and no
    /// directory otherwise.
    pub fn remove(&self, name: &[u8], is_dir: bool) -> io::Result<()> {
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(self, single(name)?, flags)?)
    }
}

fn create_exclusive(dir: &Dir, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, MODE_PRIVATE)?)
}

fn rename(dir: &Dir, from: &[u8], to: &[u8], replace: bool) -> io::Result<()> {
    if replace {
        return Ok(rustix::fs::renameat(dir, from, dir, to)?);
    }
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // Not every file system knows the flag; making a link does not replace a file either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            Ok(rustix::fs::unlinkat(dir, from, AtFlags::empty())?)
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests;
