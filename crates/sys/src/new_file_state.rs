//! State of a file that was just made, and the owner of an object.

use std::io;

use model::Stat;
use rustix::fs::Mode;

use crate::attributes::{FLAGS_RESTORED, Inode};

/// State of a file that was just made in a directory, before any attribute is set. It is the same
/// for all files that one process makes there, so the kernel is asked once.
#[derive(Debug)]
pub(crate) struct NewFileState {
    owner: Owner,
    /// Mode that the file was made with, unless the umask or the parent's default ACL has changed
    /// it.
    kept_mode: Option<Mode>,
    /// Names of the attributes that the parent's default ACL or a security module has set.
    pub(crate) xattr_names: Vec<Vec<u8>>,
    /// Inode flags within [`FLAGS_RESTORED`].
    pub(crate) flags: u32,
}

impl NewFileState {
    /// Reads the state of a new file, for which nothing except content has been written. The file
    /// was made with the mode `mode`.
    pub(crate) fn of(inode: &Inode<'_>, mode: Mode) -> io::Result<Self> {
        let stat = status(inode)?;
        let is_kept = Mode::from_raw_mode(stat.st_mode) == mode;
        Ok(Self {
            owner: Owner::in_status(&stat),
            kept_mode: is_kept.then_some(mode),
            xattr_names: inode.xattr_names()?,
            flags: inode.flags()?.bits() & FLAGS_RESTORED,
        })
    }

    pub(crate) fn has_owner_of(&self, stat: &Stat) -> bool {
        self.owner == Owner::named_by(stat)
    }

    /// Returns true if a file that is made with the mode `made` has the mode of `stat`.
    pub(crate) fn has_mode_of(&self, stat: &Stat, made: Mode) -> bool {
        self.kept_mode == Some(made) && made == Mode::from_raw_mode(stat.mode.into())
    }
}

fn status(inode: &Inode<'_>) -> io::Result<rustix::fs::Stat> {
    Ok(match inode {
        Inode::Open(fd) => rustix::fs::fstat(fd)?,
        Inode::Handle(path) => rustix::fs::stat(path)?,
    })
}

/// The user and the group that an object belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Asks for the owner of `inode`.
    pub(crate) fn of(inode: &Inode<'_>) -> io::Result<Self> {
        Ok(Self::in_status(&status(inode)?))
    }

    fn in_status(status: &rustix::fs::Stat) -> Self {
        Self { uid: status.st_uid, gid: status.st_gid }
    }

    pub(crate) fn named_by(stat: &Stat) -> Self {
        Self { uid: stat.uid, gid: stat.gid }
    }
}
